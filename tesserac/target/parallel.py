"""Several modules of one program become objects at once, each in a thread of its own, beside what writes the next.

    main thread    kernels' text | host's text               | link
    threads                      | part 0 | part 3           |
                                 | part 1 | part 2 | host    |

LLVM takes half of the time of a compilation, and modules in contexts of their own have nothing in common. llvmlite lets
one thread in at a time, whatever the context; hence the one call that takes long is made past its lock. How a program
is cut does not depend on the number of cores, so that neither do its bytes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from threading import Lock, Thread

from llvmlite.binding import create_context, ffi

from tessera.processor import available_cores
from tesserac.target.compile import Machine, new_target_machine, parse, passes

Work = tuple[str, Machine]


class Objects:
    """Objects in the making, in the order in which their texts were given."""

    def __init__(self) -> None:
        self._work: list[Work] = []
        self._made: dict[int, bytes] = {}
        self._failed: list[BaseException] = []
        self._waiting: Iterator[tuple[int, Work]] = iter(())
        self._turn = Lock()
        self._threads: list[Thread] = []

    def start(self, work: Sequence[Work]) -> None:
        """Begins with more texts, on cores that are free."""
        with self._turn:
            first = len(self._work)
            self._work += work
            self._waiting = iter([*self._waiting, *enumerate(work, first)])
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        for _ in range(min(len(work), available_cores() - len(self._threads))):
            self._threads.append(Thread(target=self._run, name="tessera-llvm", daemon=True))
            self._threads[-1].start()

    def wait(self) -> list[bytes]:
        """All objects. This thread does what no other has begun. Raises what making one of them raised."""
        self._run()
        for thread in self._threads:
            thread.join()
        if self._failed:
            raise self._failed[0]
        return [self._made[place] for place in range(len(self._work))]

    def _next(self) -> tuple[int, Work] | None:
        with self._turn:
            return next(self._waiting, None)

    def _run(self) -> None:
        while (found := self._next()) is not None:
            place, (text, machine) = found
            try:
                self._made[place] = emit_apart(text, machine)
            except BaseException as problem:  # for the thread that waits
                self._failed.append(problem)


def emit_apart(text: str, machine: Machine) -> bytes:
    """As `emit_object`, sharing nothing with what other threads do."""
    target, module = new_target_machine(machine), parse(text, create_context())
    with passes(scheduled=False), ffi.OutputString() as problem:
        buffer = _emit()(target, module, 1, problem)
        if not buffer:
            raise RuntimeError(str(problem))
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


@cache
def _emit() -> Callable[..., ctypes.c_void_p]:
    """llvmlite's function, from a handle of its own of the same library."""
    found = ctypes.CDLL(ffi.lib._name).LLVMPY_TargetMachineEmitToMemory
    locked = ffi.lib.LLVMPY_TargetMachineEmitToMemory
    found.argtypes, found.restype = locked.argtypes, locked.restype
    return found
