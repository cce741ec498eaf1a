"""Streams and events: what runs in which order on a GPU.

    s = tessera.Stream()
    with tessera.stream(s):
        y = m.f(x)                    started on s: order is kept within a stream
    done = s.record()                 an event: all that was started on s so far
    done.wait()                       what the current stream is given from now on comes after it
    done.synchronize()                the host waits

Arrays carry the stream they were written on, so that a call which reads one waits for it by itself; events are for all
else. `barrier` orders all streams of a device.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tessera import cuda_streams
from tessera.cuda_driver import Driver
from tessera.devices import CPU, Gpu, find_device
from tessera.errors import NO_STREAM, NO_SUCH_DEVICE, WRONG_DEVICE, failure, kind_of


class Stream:
    """A queue of a device: what is started on it runs in this order, and beside what other streams do."""

    def __init__(self, device: object = "cuda") -> None:
        self._gpu = _gpu(device)
        with self._gpu.lock:
            self.handle = self._gpu.take_stream()
        """The driver's, for other libraries."""

    @property
    def device(self) -> str:
        return self._gpu.name

    @property
    def gpu(self) -> Gpu:
        return self._gpu

    def __cuda_stream__(self) -> tuple[int, int]:
        """As NVIDIA's libraries ask for it."""
        return 0, self.handle

    def record(self) -> Event:
        """An event behind all that was started so far."""
        event = Event(self._gpu)
        event.record(self)
        return event

    def wait(self, event: Event) -> None:
        """What is started here from now on comes after the event."""
        event.wait(self)

    def synchronize(self) -> None:
        """Waits until all that was started is done."""
        self.record().synchronize()

    def __del__(self) -> None:
        gpu = getattr(self, "_gpu", None)
        if gpu is not None:
            gpu.idle_streams.append(self.handle)  # arrays may still name it, so that it is used again, not destroyed

    def __repr__(self) -> str:
        return f"<stream {self.handle:#x} of {self.device}>"


class Event:
    """A point in the work of a stream; before it is recorded, nothing has to be waited for."""

    def __init__(self, device: object = "cuda") -> None:
        self._gpu = _gpu(device)
        with self._gpu.lock:
            self._event = self._gpu.idle_events.popleft() if self._gpu.idle_events else self._made()

    def _made(self) -> int:
        with self._gpu.entered() as driver:
            return driver.make_event()

    @property
    def device(self) -> str:
        return self._gpu.name

    def record(self, on: object = None) -> None:
        """The point is now behind all that was started on a stream, or on the current one, so far."""
        with self._gpu.lock, self._gpu.entered() as driver:
            self.record_on(driver, stream_handle(self._gpu, on))

    def wait(self, on: object = None) -> None:
        """What is started on a stream, or on the current one, from now on comes after the point."""
        with self._gpu.lock, self._gpu.entered() as driver:
            self.wait_on(driver, stream_handle(self._gpu, on))

    def record_on(self, driver: Driver, stream: int) -> None:
        """As `record`, on a stream by its handle. Needs lock and context, as `wait_on` does."""
        driver.record(self._event, stream)

    def wait_on(self, driver: Driver, stream: int) -> None:
        driver.wait_for(stream, self._event)

    def synchronize(self) -> None:
        """Waits until the device has passed the point. Other threads go on. Raises what calls have failed with by then,
        if nobody was told."""
        self.pass_by()
        with self._gpu.lock:
            self._gpu.checks.look()

    def pass_by(self) -> None:
        """Only waits."""
        with self._gpu.entered() as driver:
            driver.finish(self._event)

    def done(self) -> bool:
        with self._gpu.entered() as driver:
            return driver.has_passed(self._event)

    def __del__(self) -> None:
        gpu = getattr(self, "_gpu", None)
        if gpu is not None and hasattr(self, "_event"):
            gpu.idle_events.append(self._event)


@contextmanager
def stream(on: object) -> Iterator[None]:
    """Inside, calls of this thread run on a stream: a `Stream`, or one of torch or CuPy."""
    gpu = getattr(on, "gpu", None)
    if not isinstance(gpu, Gpu):
        number = getattr(getattr(on, "device", None), "index", None)
        gpu = _gpu(f"cuda:{number if isinstance(number, int) else 0}")
    with cuda_streams.choose(gpu, stream_handle(gpu, on)):
        yield


def barrier(device: object = "cuda") -> None:
    """What any stream of a device is given from now on comes after all that was started on any of them. The host does
    not wait."""
    gpu = _gpu(device)
    with gpu.lock, gpu.entered() as driver:
        others = {*gpu.streams, cuda_streams.current(gpu)} - {cuda_streams.DEFAULT}
        for other in others:
            driver.order(other, cuda_streams.DEFAULT)
        for other in others:
            driver.order(cuda_streams.DEFAULT, other)


def stream_handle(gpu: Gpu, on: object) -> int:
    """The driver's handle of a stream of ours, of torch's or of CuPy's; of the current one for None."""
    if on is None:
        return cuda_streams.current(gpu)
    if isinstance(on, Stream):
        if on.gpu is not gpu:
            raise failure(WRONG_DEVICE, f"a stream of {on.device} where one of {gpu.name} is meant")
        return on.handle
    told = getattr(on, "__cuda_stream__", None)
    if told is not None:
        return int(told()[1])
    for name in ("cuda_stream", "ptr"):
        handle = getattr(on, name, None)
        if isinstance(handle, int):
            return handle
    note = "`tessera.Stream()`, `torch.cuda.Stream()` and `cupy.cuda.Stream()` are streams"
    raise failure(NO_STREAM, f"{kind_of(on)} is not a stream of a GPU", (note,))


def _gpu(device: object) -> Gpu:
    found = find_device(device)
    if found is None:
        note = "a call on a CPU returns when it is done; `f.call_async` runs it beside"
        raise failure(NO_SUCH_DEVICE, f"`{CPU}` has no streams and events", (note,))
    return found
