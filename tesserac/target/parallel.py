"""Several modules of one program become objects at once, each in a thread of its own, beside what writes the next.

    main thread    host's text | kernels' text ----------| part 0 | link
    threads                    | host -------------------|
                                     | begun | begun ----| part 1
                                                         | part 2 |

LLVM takes half of the time of a compilation, and modules in contexts of their own have nothing in common. llvmlite lets
one thread in at a time, whatever the context; hence the calls that take long are made past its lock. How a program is
cut does not depend on the number of cores, so that neither do its bytes.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from functools import cache
from threading import Event, Lock, Thread, local, main_thread
from typing import Any, cast

from llvmlite.binding import ModuleRef, create_context, create_pass_builder, create_pipeline_tuning_options, ffi

from tessera.processor import available_cores
from tesserac.target.compile import CodegenError, Machine, check_intrinsics, new_target_machine, passes

Keep = Callable[[bytes], object]


class Effort(Enum):
    """What LLVM does beside selecting instructions and sharing out registers."""

    AS_WRITTEN = auto()
    """Nothing: kernels are written in the order in which they shall run."""
    SCHEDULED = auto()
    """It orders the instructions: of what is made once for many programs."""
    OPTIMISED = auto()
    """All that it can: of loops around the code of small kernels, which it joins."""


class Job:
    """One text that becomes an object: by the first thread that comes to it, or by who needs it before that."""

    def __init__(
        self, text: str, machine: Machine, effort: Effort = Effort.AS_WRITTEN, *, keep: Keep | None = None
    ) -> None:
        self.text, self.machine, self.effort = text, machine, effort
        self._keep = keep
        self._claimed, self._done = Lock(), Event()
        self._made: bytes | BaseException = b""

    def run(self) -> None:
        if not self._claimed.acquire(blocking=False):
            return
        try:
            self._made = emit_apart(self.text, self.machine, self.effort)
            if self._keep is not None:
                self._keep(self._made)
        except BaseException as problem:  # for the thread that waits
            self._made = problem
        self._done.set()

    def object(self) -> bytes:
        """Raises what making it raised."""
        self.run()
        self._done.wait()
        if isinstance(self._made, BaseException):
            raise self._made
        return self._made


class Workers:
    """Threads that take up jobs, as many at a time as there are cores beside the one that writes. The process ends when
    they have: LLVM cannot run on while what it has set for the whole process is destroyed."""

    def __init__(self) -> None:
        self._waiting: deque[Job] = deque()
        self._threads: list[Thread] = []

    def start(self, job: Job) -> Job:
        self._waiting.append(job)
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) < available_cores() - 1:
            self._threads.append(Thread(target=self._run, name="tessera-llvm"))
            self._threads[-1].start()
        return job

    def _run(self) -> None:
        while self._waiting and main_thread().is_alive():  # nobody waits for more once that is over
            with suppress(IndexError):  # where another thread was sooner
                self._waiting.popleft().run()


def emit_apart(text: str, machine: Machine, effort: Effort = Effort.AS_WRITTEN) -> bytes:
    """As `emit_object`, sharing nothing with what other threads do."""
    target, module, optimised = _own_target_machine(machine), _parsed(text), effort is Effort.OPTIMISED
    if optimised and machine.level:
        _optimise(module, target)
    with passes(scheduled=effort is not Effort.AS_WRITTEN, reduced=optimised), ffi.OutputString() as problem:
        buffer = _past_lock("LLVMPY_TargetMachineEmitToMemory")(target, module, 1, problem)
        if not buffer:
            raise RuntimeError(str(problem))
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


class _Own(local):
    """Of each thread: what LLVM works out of a processor's description takes it longer than small modules do."""

    def __init__(self) -> None:
        self.machines: dict[Machine, Any] = {}


_OWN = _Own()


def _own_target_machine(machine: Machine) -> Any:
    if machine not in _OWN.machines:
        _OWN.machines[machine] = new_target_machine(machine)
    return _OWN.machines[machine]


def _parsed(text: str) -> ModuleRef:
    """As `parse`, in a context of its own: of sixteen parts the last would wait for all others to be read."""
    check_intrinsics(text)
    context = create_context()
    with ffi.OutputString() as problem:
        read = _past_lock("LLVMPY_ParseAssembly")(context, ctypes.c_char_p(text.encode()), problem)
        module = ModuleRef(read, context)
        if problem:
            module.close()
            raise CodegenError(str(problem))
    with ffi.OutputString() as problem:
        if _past_lock("LLVMPY_VerifyModule")(module, problem):
            raise CodegenError(str(problem))
    return module


def _optimise(module: ModuleRef, target: Any) -> None:
    builder = create_pass_builder(target, create_pipeline_tuning_options(speed_level=2))
    _past_lock("LLVMPY_RunNewModulePassManager")(builder.getModulePassManager(), module, builder)


@cache
def _past_lock(name: str) -> Callable[..., ctypes.c_void_p]:
    """A function of llvmlite, from a handle of its own of the same library."""
    found, locked = getattr(ctypes.CDLL(ffi.lib._name), name), getattr(ffi.lib, name)
    found.argtypes, found.restype = locked.argtypes, locked.restype
    return cast("Callable[..., ctypes.c_void_p]", found)
