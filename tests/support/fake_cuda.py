"""A CUDA driver over the memory of the host: C functions in the driver's table, so that all above it runs as it is.

What runs on a stream runs at once; what is captured is kept and runs when the graph is launched. Kernels are Python
functions by name; one that has none does nothing, unless kernels are emulated: then they run thread by thread. What
is not allowed (memory that was freed, work without a context) fails, as it would. While a stream is captured what an
H200 of 2026-11-18 refused fails, and ends the capture: waiting for the stream or the device, launching another graph,
events of other streams; and for a thread that is not relaxed allocations, waits and questions about anything.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tessera import devices
from tessera.cuda_driver import PROTOTYPES, Driver, LaunchConfig
from tesserac.target.nvptx import plan
from tests.support.gpu_emulator import Compiled

Kernel = Callable[[list[int], int, int], None]
"""(parameters, programs, threads of each)"""

INVALID, NO_CONTEXT, NO_MEMORY, NOT_IN_CAPTURE, BROKEN_CAPTURE, OTHER_CAPTURE = 1, 201, 2, 900, 901, 905
RELAXED, NO_BINARY = 2, 209
MACHINE_CODE = b"\x7fELF"
NAMES = {INVALID: b"CUDA_ERROR_INVALID_VALUE", NO_CONTEXT: b"CUDA_ERROR_INVALID_CONTEXT",
         NO_MEMORY: b"CUDA_ERROR_OUT_OF_MEMORY", NOT_IN_CAPTURE: b"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
         BROKEN_CAPTURE: b"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
         OTHER_CAPTURE: b"CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
         700: b"CUDA_ERROR_ILLEGAL_ADDRESS", NO_BINARY: b"CUDA_ERROR_NO_BINARY_FOR_GPU"}  # fmt: skip
FREE = (
    "cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuDevice", "cuCtxPushCurrent",
    "cuStreamIsCapturing",
)  # fmt: skip
"""Functions, by how they begin, that need no context."""
MULTIPROCESSORS = 4


class FakeCuda:
    """`calls` counts the functions that were called, `launched` lists the kernels that ran, `launched_on` where,
    `launched_early` how many programs, and whether they may begin before what runs has ended."""

    def __init__(self, *, devices: int = 1, capability: tuple[int, int] = (9, 0), bytes_: int = 1 << 30) -> None:
        self.devices, self.capability, self.total = devices, capability, bytes_
        self.kernels: dict[str, Kernel] = {}
        self.failing: dict[str, int] = {}
        self.calls: Counter[str] = Counter()
        self.launched: list[str] = []
        self.launched_on: list[int | None] = []
        self.launched_early: list[tuple[int, bool]] = []
        self.contexts: list[int] = []
        self.memory: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self.pinned: list[ctypes.Array[ctypes.c_char]] = []
        self._made = 1000
        self._modules: dict[int, str] = {}
        self._functions: dict[int, tuple[str, int, int]] = {}
        self._capturing: dict[int | None, list[Callable[[], None]]] = {}
        self._captures: dict[int | None, int] = {}
        """The graph, which is also its number, that a stream is captured for."""
        self._events: dict[int, int | None] = {}
        """What of a capture an event stands for."""
        self._relaxed: dict[int, int] = {}
        self.is_broken = False
        """Whether the capture under way has seen what it forbids."""
        self.takes_machine_code = True
        self._objects: dict[int, tuple[int, int]] = {}
        self._retained: dict[int, list[int]] = {}
        self._graphs: dict[int, list[Callable[[], None]]] = {}
        self._kept: list[object] = []
        """Tables that kernels were given: a driver copies them."""
        self._texts = {status: ctypes.create_string_buffer(name) for status, name in NAMES.items()}
        self._table = {name: self._function(name) for name in PROTOTYPES}

    def driver(self) -> Driver:
        def resolve(name: str) -> int:
            return ctypes.cast(self._table[name], ctypes.c_void_p).value or 0

        return Driver(resolve)

    @property
    def held(self) -> int:
        return sum(map(len, self.memory.values()))

    def _function(self, name: str) -> ctypes._FuncPointer:
        action = getattr(self, name, None)

        def call(*arguments: int) -> int:
            self.calls[name] += 1
            if name in self.failing:
                return self.failing[name]
            if not self.contexts and not name.startswith(FREE):
                return NO_CONTEXT
            return 0 if action is None else action(*arguments) or 0

        return ctypes.CFUNCTYPE(ctypes.c_int, *PROTOTYPES[name])(call)

    def _new(self) -> int:
        self._made += 1
        return self._made

    def _on(self, stream: int | None, action: Callable[[], None]) -> None:
        if stream in self._capturing:
            self._capturing[stream].append(action)
        else:
            action()

    def _forbidden(self, always: bool = False) -> int:
        """The status of what a capture forbids, to threads that are not relaxed or always."""
        if self._captures and (always or self._relaxed.get(threading.get_ident()) != RELAXED):
            self.is_broken = True
            return NOT_IN_CAPTURE
        return 0

    @contextmanager
    def recorded(self, stream: int) -> Iterator[list[int]]:
        """What is started on a stream inside becomes a graph, as another library would have it; then in the list."""
        made, word = list[int](), ctypes.c_uint64()
        self.is_broken = False
        assert self.cuStreamBeginCapture(stream, 0) is None
        yield made
        assert self.cuStreamEndCapture(stream, ctypes.addressof(word)) == 0, "a call has broken the recording"
        graph = word.value
        assert self.cuGraphInstantiateWithFlags(ctypes.addressof(word), graph, 0) == 0
        self.cuGraphDestroy(graph)
        made.append(word.value)

    def _inside(self, address: int, size: int) -> bool:
        return any(start <= address and address + size <= start + len(room) for start, room in self.memory.items())

    # --- the driver's functions -------------------------------------------------------------------------------------

    def cuGetErrorName(self, status: int, out: int) -> None:
        _write(out, ctypes.addressof(self._texts.get(status, self._texts[INVALID])))

    cuGetErrorString = cuGetErrorName

    def cuDeviceGetCount(self, out: int) -> None:
        _write(out, self.devices, ctypes.c_int)

    def cuDeviceGetAttribute(self, out: int, which: int, device: int) -> None:
        _write(out, MULTIPROCESSORS if which == 16 else self.capability[which - 75], ctypes.c_int)

    def cuDevicePrimaryCtxRetain(self, out: int, device: int) -> None:
        _write(out, 1 + device)

    def cuCtxPushCurrent(self, context: int) -> None:
        self.contexts.append(context)

    def cuCtxPopCurrent(self, out: int) -> None:
        _write(out, self.contexts.pop())

    def cuMemGetInfo(self, free: int, total: int) -> None:
        _write(free, self.total - self.held)
        _write(total, self.total)

    def cuMemAlloc(self, out: int, size: int) -> int:
        if self._forbidden():
            return NOT_IN_CAPTURE
        if self.held + size > self.total or not size:
            return NO_MEMORY if size else INVALID
        room = ctypes.create_string_buffer(b"\xff" * size, size)
        self.memory[ctypes.addressof(room)] = room
        _write(out, ctypes.addressof(room))
        return 0

    def cuMemHostAlloc(self, out: int, size: int, flags: int) -> None:
        self.pinned.append(ctypes.create_string_buffer(size))
        _write(out, ctypes.addressof(self.pinned[-1]))

    def cuMemFree(self, address: int) -> int:
        return 0 if self.memory.pop(address, None) is not None else INVALID

    def cuMemcpyHtoDAsync(self, target: int, source: int, size: int, stream: int | None) -> int:
        if not self._inside(target, size) or stream in self._capturing:
            return INVALID
        ctypes.memmove(target, source, size)
        return 0

    def cuMemcpyDtoHAsync(self, target: int, source: int, size: int, stream: int | None) -> int:
        is_pinned = any(target in range(at := ctypes.addressof(room), at + len(room)) for room in self.pinned)
        if not self._inside(source, size) or (stream in self._capturing and not is_pinned):
            return INVALID
        self._on(stream, lambda: ctypes.memmove(target, source, size) and None)
        return 0

    def cuMemcpyDtoDAsync(self, target: int, source: int, size: int, stream: int | None) -> int:
        if size and not (self._inside(source, size) and self._inside(target, size)):
            return INVALID
        self._on(stream, lambda: ctypes.memmove(target, source, size) and None)
        return 0

    def cuPointerGetAttribute(self, out: int, which: int, address: int) -> None:
        _write(out, 0, ctypes.c_int)

    def cuModuleLoadDataEx(self, out: int, code: bytes, *_: object) -> int:
        if code.startswith(MACHINE_CODE) and not self.takes_machine_code:
            return NO_BINARY
        made = self._new()
        self._modules[made] = code.removeprefix(MACHINE_CODE).decode()
        _write(out, made)
        return 0

    def cuModuleGetFunction(self, out: int, module: int, name: bytes) -> int:
        text, shown = self._modules[module], re.escape(name.decode())
        found = re.search(rf"\.entry {shown}\s*\((.*?)\)", text, re.DOTALL) or re.search(rf"@{shown}\((.*)\)", text)
        if found is None:
            return INVALID
        made = self._new()
        table = re.search(r"byval\(\[(\d+) x i64\]\)", found[1])
        self._functions[made] = (
            name.decode(), len(re.findall(r"\.param|%\w+", found[1])), 8 * int(table[1]) if table else 0
        )  # fmt: skip
        if "define" in text:
            emulated = Compiled(name.decode(), text)
            self.kernels[name.decode()] = lambda values, programs, threads: emulated.run(threads, programs, values)
        _write(out, made)
        return 0

    def cuLaunchKernelEx(self, config: int, function: int, parameters: int, _: object) -> int:
        name, count, table = self._functions[function]
        launch = LaunchConfig.from_address(config)
        places = (ctypes.c_void_p * count).from_address(parameters) if count else ()
        values = [ctypes.c_int64.from_address(place or 0).value for place in places]
        held = ctypes.create_string_buffer(ctypes.string_at(places[0], table), table) if table else None
        values = values if held is None else [ctypes.addressof(held)]
        self._kept.append(held)
        programs, threads, launch_stream = launch.grid_x, launch.block_x, launch.stream
        said = (ctypes.c_int32 * 3).from_address(launch.attributes)[:] if launch.attributes else []
        early = launch.attribute_count == 1 and said == [6, 0, 1]

        def run() -> None:
            self.launched.append(name)
            self.launched_on.append(launch_stream)
            self.launched_early.append((programs, early))
            if name in self.kernels:
                self.kernels[name](values, programs, threads)

        self._on(launch.stream, run)
        return 0

    def cuStreamCreate(self, out: int, flags: int) -> None:
        _write(out, self._new())

    cuEventCreate = cuStreamCreate

    def cuEventQuery(self, event: int) -> int:
        return self._forbidden()

    cuEventSynchronize = cuEventQuery

    def cuEventRecord(self, event: int, stream: int | None) -> None:
        self._events[event] = self._captures.get(stream)

    def cuStreamWaitEvent(self, stream: int | None, event: int, flags: int) -> int:
        if self._events.get(event) == self._captures.get(stream):
            return 0
        self.is_broken = True
        return OTHER_CAPTURE

    def cuCtxSynchronize(self) -> int:
        return self._forbidden(always=True)

    def cuStreamSynchronize(self, stream: int | None) -> int:
        return self._forbidden(always=stream in self._capturing)

    def cuStreamBeginCapture(self, stream: int | None, mode: int) -> None:
        self._capturing[stream], self._captures[stream] = [], self._new()

    def cuStreamEndCapture(self, stream: int | None, out: int) -> int:
        made = self._captures.pop(stream)
        self._graphs[made] = self._capturing.pop(stream)
        if self.is_broken:
            self.is_broken = False
            return BROKEN_CAPTURE
        _write(out, made)
        return 0

    def cuStreamIsCapturing(self, stream: int | None, out: int) -> None:
        _write(out, stream in self._captures, ctypes.c_int)

    def cuStreamGetCaptureInfo(self, stream: int | None, status: int, number: int, graph: int, *_: object) -> None:
        self.cuStreamIsCapturing(stream, status)
        _write(number, self._captures.get(stream, 0))
        _write(graph, self._captures.get(stream, 0))

    def cuThreadExchangeStreamCaptureMode(self, mode: int) -> None:
        before = self._relaxed.get(threading.get_ident(), 0)
        self._relaxed[threading.get_ident()] = ctypes.c_int.from_address(mode).value
        _write(mode, before, ctypes.c_int)

    def cuUserObjectCreate(self, out: int, value: int, destroy: int, count: int, flags: int) -> None:
        made = self._new()
        self._objects[made] = (destroy, value)
        _write(out, made)

    def cuGraphRetainUserObject(self, graph: int, held: int, count: int, flags: int) -> None:
        self._retained.setdefault(graph, []).append(held)

    def cuGraphInstantiateWithFlags(self, out: int, graph: int, flags: int) -> int:
        if self._forbidden():
            return NOT_IN_CAPTURE
        made = self._new()
        self._graphs[made], self._retained[made] = self._graphs[graph], list(self._retained.get(graph, ()))
        _write(out, made)
        return 0

    def cuGraphLaunch(self, executable: int, stream: int | None) -> int:
        if stream in self._capturing:
            return self._forbidden(always=True)
        for action in self._graphs[executable]:
            action()
        return 0

    def cuGraphDestroy(self, graph: int) -> None:
        del self._graphs[graph]
        for held in self._retained.pop(graph, ()):
            if not any(held in others for others in self._retained.values()):
                destroy, value = self._objects.pop(held)
                ctypes.CFUNCTYPE(None, ctypes.c_void_p)(destroy)(value)

    cuGraphExecDestroy = cuGraphDestroy


def _write(address: int, value: int, kind: type[ctypes.c_int | ctypes.c_uint64] = ctypes.c_uint64) -> None:
    kind.from_address(address).value = value


@contextmanager
def fake_cuda(**options: object) -> Iterator[FakeCuda]:
    """Inside, this is the driver of the machine."""
    fake = FakeCuda(**options)  # type: ignore[arg-type]
    devices.use_driver(fake.driver())
    try:
        yield fake
    finally:
        devices.use_driver(None)


class _AsWritten(NamedTuple):
    """LLVM text in the place of PTX."""

    text: str

    def ptx(self) -> str:
        return self.text


@contextmanager
def emulated_cuda(folder: Path, **options: object) -> Iterator[FakeCuda]:
    """The same with kernels that compute. `folder` keeps their code, which is no PTX, apart from other code."""
    with pytest.MonkeyPatch.context() as patched, fake_cuda(**options) as fake:
        patched.setenv("TESSERA_CACHE_DIR", str(folder))
        patched.setattr(plan, "alike", lambda text, arch: _AsWritten(text))
        yield fake
