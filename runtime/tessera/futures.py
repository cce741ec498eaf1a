"""Calls that return at once: `f.call_async(x)` gives a future.

Enters: a function of a module and its arguments. Leaves: a `CallFuture`, which is Python's own kind: `result()` waits
and raises what the call would have raised, `done()` asks, `asyncio.wrap_future` awaits it. Calls of one device are
started one after another, in the order in which they were asked for, on the stream that was current then; each may take
the futures of earlier ones in place of their results. One thread starts, another waits for the device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tessera.devices import Gpu


class CallFuture(Future[object]):
    """`started` has the result as soon as the work is started: what comes next on the stream may use it."""

    def __init__(self) -> None:
        super().__init__()
        self.started: Future[object] = Future()


class _Desk:
    """The two threads of a device."""

    def __init__(self, name: str) -> None:
        self._starting = ThreadPoolExecutor(1, f"tessera-start-{name}")
        self._waiting = ThreadPoolExecutor(1, f"tessera-wait-{name}")

    def submit(self, run: Callable[[], object], finish: Callable[[object], Callable[[], None]]) -> CallFuture:
        """`finish`, called with the result when the work is started, gives what waits for it."""
        future = CallFuture()

        def start() -> None:
            if not future.set_running_or_notify_cancel():
                future.started.cancel()
                return
            try:
                result = run()
                wait = finish(result)
            except BaseException as error:
                future.started.set_exception(error)
                future.set_exception(error)
                return
            future.started.set_result(result)
            self._waiting.submit(_complete, future, result, wait)

        self._starting.submit(start)
        return future


def _complete(future: CallFuture, result: object, wait: Callable[[], None]) -> None:
    try:
        wait()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


_desks: dict[str, _Desk] = {}
_lock = threading.Lock()


def call_async(
    function: Callable[..., object], gpu: Gpu | None, args: Sequence[object], kwargs: Mapping[str, object]
) -> CallFuture:
    """Has a call made, on a GPU or on the CPU, and returns before it is. Its arguments are not to be changed until
    then."""
    name = "cpu" if gpu is None else gpu.name
    with _lock:
        desk = _desks.setdefault(name, _Desk(name))
    chosen = _chosen(gpu)

    def run() -> object:
        with chosen():
            return function(*map(_started, args), **{key: _started(value) for key, value in kwargs.items()})

    def finish(result: object) -> Callable[[], None]:
        if gpu is None:
            return lambda: None
        from tessera.device_array import checks_of
        from tessera.streams import Event

        event = Event(gpu)
        with chosen():
            event.record()

        checks = {check.number: check for check in checks_of(result)}

        def wait() -> None:
            event.pass_by()
            with gpu.lock:
                for check in checks.values():
                    gpu.checks.settle(check)

        return wait

    return desk.submit(run, finish)


def _started(value: object) -> object:
    return value.started.result() if isinstance(value, CallFuture) else value


def _chosen(gpu: Gpu | None) -> Callable[[], AbstractContextManager[None]]:
    """Chooses the stream that is current here on another thread."""
    if gpu is None:
        return nullcontext
    from tessera import cuda_streams

    stream = cuda_streams.current(gpu)
    return lambda: cuda_streams.choose(gpu, stream)
