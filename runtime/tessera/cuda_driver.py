"""The CUDA driver as a table of functions: the only place that knows `libcuda`.

Enters: a way from names to addresses, which for a real driver is `cuGetProcAddress` of `libcuda.so.1`. Leaves: a
`Driver`, whose methods raise `DriverError`. No package stands between: a driver and this runtime are all that a GPU
needs. See Note [Why the driver itself]. A context must be current for all that is not about devices: `devices.py` sees
to it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

LIBRARY = "libcuda.so.1"
CUDA_VERSION = 12000
"""The meaning of the functions that is asked for: that of CUDA 12.0, which later drivers keep."""
NOT_FOUND = 500
OUT_OF_MEMORY = 2
NOT_READY = 600

Resolve = Callable[[str], int]
"""The address of a function of the driver; 0 where it has none of that name."""


class LaunchConfig(ctypes.Structure):
    """`CUlaunchConfig`."""

    _fields_ = (
        ("grid_x", c_uint), ("grid_y", c_uint), ("grid_z", c_uint),
        ("block_x", c_uint), ("block_y", c_uint), ("block_z", c_uint),
        ("shared_bytes", c_uint), ("stream", c_void_p), ("attributes", c_void_p), ("attribute_count", c_uint),
    )  # fmt: skip


_OUT, _SIZE, _HANDLE = c_void_p, c_size_t, c_void_p
"""What a function writes to is passed by address."""

PROTOTYPES: dict[str, tuple[type, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (_OUT,),
    "cuGetErrorName": (c_int, _OUT),
    "cuGetErrorString": (c_int, _OUT),
    "cuDeviceGetCount": (_OUT,),
    "cuDeviceGet": (_OUT, c_int),
    "cuDeviceGetName": (_OUT, c_int, c_int),
    "cuDeviceGetAttribute": (_OUT, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (_OUT, c_int),
    "cuDevicePrimaryCtxReset": (c_int,),
    "cuCtxPushCurrent": (_HANDLE,),
    "cuCtxPopCurrent": (_OUT,),
    "cuCtxSynchronize": (),
    "cuMemGetInfo": (_OUT, _OUT),
    "cuMemAlloc": (_OUT, _SIZE),
    "cuMemFree": (c_uint64,),
    "cuMemHostAlloc": (_OUT, _SIZE, c_uint),
    "cuMemcpyHtoDAsync": (c_uint64, c_void_p, _SIZE, _HANDLE),
    "cuMemcpyDtoHAsync": (c_void_p, c_uint64, _SIZE, _HANDLE),
    "cuMemcpyDtoDAsync": (c_uint64, c_uint64, _SIZE, _HANDLE),
    "cuMemsetD8Async": (c_uint64, ctypes.c_ubyte, _SIZE, _HANDLE),
    "cuPointerGetAttribute": (_OUT, c_int, c_uint64),
    "cuModuleLoadDataEx": (_OUT, c_char_p, c_uint, c_void_p, c_void_p),
    "cuModuleGetFunction": (_OUT, _HANDLE, c_char_p),
    "cuFuncSetAttribute": (_HANDLE, c_int, c_int),
    "cuLaunchKernelEx": (c_void_p, _HANDLE, c_void_p, c_void_p),
    "cuStreamCreate": (_OUT, c_uint),
    "cuStreamDestroy": (_HANDLE,),
    "cuStreamSynchronize": (_HANDLE,),
    "cuStreamWaitEvent": (_HANDLE, _HANDLE, c_uint),
    "cuStreamBeginCapture": (_HANDLE, c_int),
    "cuStreamEndCapture": (_HANDLE, _OUT),
    "cuStreamIsCapturing": (_HANDLE, _OUT),
    "cuStreamGetCaptureInfo": (_HANDLE, _OUT, _OUT, _OUT, _OUT, _OUT),
    "cuThreadExchangeStreamCaptureMode": (_OUT,),
    "cuUserObjectCreate": (_OUT, c_void_p, c_void_p, c_uint, c_uint),
    "cuGraphRetainUserObject": (_HANDLE, _HANDLE, c_uint, c_uint),
    "cuGraphInstantiateWithFlags": (_OUT, _HANDLE, c_uint64),
    "cuGraphLaunch": (_HANDLE, _HANDLE),
    "cuGraphDestroy": (_HANDLE,),
    "cuGraphExecDestroy": (_HANDLE,),
    "cuEventCreate": (_OUT, c_uint),
    "cuEventQuery": (_HANDLE,),
    "cuEventRecord": (_HANDLE, _HANDLE),
    "cuEventSynchronize": (_HANDLE,),
    "cuEventElapsedTime": (_OUT, _HANDLE, _HANDLE),
    "cuEventDestroy": (_HANDLE,),
    "cuTensorMapEncodeTiled": (
        c_void_p, c_int, c_uint, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_int, c_int, c_int,
    ),
}  # fmt: skip
"""Every function that is used, with the types of its parameters. All return a status."""

PUSH, POP, LAUNCH, REPLAY = "cuCtxPushCurrent", "cuCtxPopCurrent", "cuLaunchKernelEx", "cuGraphLaunch"
READ, COPY, WAIT = "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuStreamSynchronize"
"""Functions that compiled code calls by itself."""

NEWER = frozenset({"cuTensorMapEncodeTiled"})
"""Functions that a driver may lack: only kernels for later GPUs need them."""

COMPUTE_MAJOR, COMPUTE_MINOR, MULTIPROCESSORS = 75, 76, 16
"""Attributes of a device: its compute capability, and how many blocks of threads it runs at once at least."""
_MAX_DYNAMIC_SHARED, _PORTABLE = 8, 1
_POINTER_DEVICE, _NON_BLOCKING, _NO_TIMING, _THREAD_LOCAL, _RELAXED, _NO_WAIT, _MOVE = 9, 1, 2, 1, 2, 1, 1
_JIT_LOG, _JIT_LOG_BYTES, _LOG_BYTES = 5, 6, 4096


class DriverError(Exception):
    """A function of the driver failed; `status` is its number, `name` the number's name."""

    def __init__(self, function: str, status: int, name: str, text: str) -> None:
        super().__init__(f"{text} ({name}, from {function})")
        self.status = status
        self.name = name


class Unavailable(Exception):
    """There is no driver to use; the message says why."""


class Driver:
    """The functions of one driver."""

    def __init__(self, resolve: Resolve) -> None:
        self._functions: dict[str, Callable[..., int]] = {}
        self._addresses: dict[str, int] = {}
        for name, parameters in PROTOTYPES.items():
            address = resolve(name)
            if address:
                self._addresses[name] = address
                self._functions[name] = ctypes.CFUNCTYPE(c_int, *parameters)(address)
            elif name not in NEWER:
                raise Unavailable(f"the driver has no `{name}`: it is older than CUDA 12.0")
        self._push, self._pop = self._functions[PUSH], self._functions[POP]
        self._is_capturing = self._functions["cuStreamIsCapturing"]
        self._popped, self._capturing = c_uint64(), c_int()
        self._popped_at, self._capturing_at = ctypes.addressof(self._popped), ctypes.addressof(self._capturing)

    def address(self, name: str) -> int:
        """Where a function begins, for compiled code that calls it."""
        return self._addresses[name]

    def call(self, name: str, *arguments: object) -> None:
        """Raises DriverError where the function fails."""
        function = self._functions.get(name)
        if function is None:
            raise DriverError(name, NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "the driver is too old to have it")
        status = function(*arguments)
        if status:
            raise self.error(name, status)

    def error(self, function: str, status: int) -> DriverError:
        name, text = (self._text(ask, status) for ask in ("cuGetErrorName", "cuGetErrorString"))
        return DriverError(function, status, name or f"status {status}", text or "the driver failed")

    def _text(self, function: str, status: int) -> str:
        found = c_char_p()
        self._functions[function](status, ctypes.addressof(found))
        return (found.value or b"").decode("utf-8", "replace")

    def _handle(self, name: str, *arguments: object) -> int:
        """What a function makes, which it writes to its first parameter."""
        made = c_uint64()
        self.call(name, ctypes.addressof(made), *arguments)
        return made.value

    def _number(self, name: str, *arguments: object) -> int:
        found = c_int()
        self.call(name, ctypes.addressof(found), *arguments)
        return found.value

    # -- devices and contexts

    def start(self) -> None:
        self.call("cuInit", 0)

    def version(self) -> int:
        return self._number("cuDriverGetVersion")

    def device_count(self) -> int:
        return self._number("cuDeviceGetCount")

    def device_name(self, device: int) -> str:
        room = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", ctypes.addressof(room), len(room), device)
        return room.value.decode("utf-8", "replace")

    def attribute(self, device: int, which: int) -> int:
        return self._number("cuDeviceGetAttribute", which, device)

    def retain_context(self, device: int) -> int:
        """The primary context, which all libraries of the process share."""
        return self._handle("cuDevicePrimaryCtxRetain", device)

    def reset_context(self, device: int) -> None:
        self.call("cuDevicePrimaryCtxReset", device)

    def push(self, context: int) -> None:
        if status := self._push(context):
            raise self.error("cuCtxPushCurrent", status)

    def pop(self) -> None:
        if status := self._pop(self._popped_at):
            raise self.error("cuCtxPopCurrent", status)

    def synchronize(self) -> None:
        self.call("cuCtxSynchronize")

    # -- memory

    def memory_info(self) -> tuple[int, int]:
        """Bytes that are free, and all bytes."""
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo", ctypes.addressof(free), ctypes.addressof(total))
        return free.value, total.value

    def allocate(self, size: int) -> int:
        return self._handle("cuMemAlloc", size)

    def allocate_pinned(self, size: int) -> int:
        """Memory of the host that devices copy by themselves, there until the process ends."""
        return self._handle("cuMemHostAlloc", size, _PORTABLE)

    def free(self, address: int) -> None:
        self.call("cuMemFree", address)

    def copy_in(self, target: int, source: int, size: int, stream: int) -> None:
        """From memory of the host, which may change again once this returns."""
        self.call("cuMemcpyHtoDAsync", target, source, size, stream)

    def copy_out(self, target: int, source: int, size: int, stream: int) -> None:
        """To memory of the host, which holds it once the stream is synchronised."""
        self.call("cuMemcpyDtoHAsync", target, source, size, stream)

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        self.call("cuMemcpyDtoDAsync", target, source, size, stream)

    def fill(self, target: int, byte: int, size: int, stream: int) -> None:
        self.call("cuMemsetD8Async", target, byte, size, stream)

    def device_of(self, address: int) -> int:
        """The number of the device that an address belongs to."""
        return self._number("cuPointerGetAttribute", _POINTER_DEVICE, address)

    # -- code

    def load(self, code: bytes) -> int:
        """A module from PTX or machine code. The driver assembles PTX once and keeps the result on disk."""
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (c_int * 2)(_JIT_LOG, _JIT_LOG_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        made = c_uint64()
        arguments = (code + b"\0", 2, ctypes.addressof(options), ctypes.addressof(values))
        status = self._functions["cuModuleLoadDataEx"](ctypes.addressof(made), *arguments)
        if status:
            failed = self.error("cuModuleLoadDataEx", status)
            said = log.value.decode("utf-8", "replace").strip()
            raise DriverError("cuModuleLoadDataEx", status, failed.name, said or str(failed))
        return made.value

    def function(self, module: int, name: str) -> int:
        return self._handle("cuModuleGetFunction", module, name.encode())

    def allow_shared(self, function: int, size: int) -> None:
        self.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, size)

    # -- streams, events, graphs

    def make_stream(self) -> int:
        return self._handle("cuStreamCreate", _NON_BLOCKING)

    def wait(self, stream: int) -> None:
        """Until all that was started on a stream is done."""
        self.call("cuStreamSynchronize", stream)

    def order(self, earlier: int, later: int) -> None:
        """What is started on the stream `later` from now on waits for all that was started on `earlier`."""
        event = self.recorded(earlier)
        try:
            self.wait_for(later, event)
        finally:
            self.call("cuEventDestroy", event)  # the driver keeps it until it has passed

    def make_event(self) -> int:
        return self._handle("cuEventCreate", _NO_TIMING)

    def record(self, event: int, stream: int) -> None:
        """The event is now behind all that was started on a stream."""
        self.call("cuEventRecord", event, stream)

    def recorded(self, stream: int) -> int:
        """A new event behind all that was started on a stream."""
        event = self.make_event()
        self.record(event, stream)
        return event

    def wait_for(self, stream: int, event: int) -> None:
        """What is started on a stream from now on comes after the event."""
        self.call("cuStreamWaitEvent", stream, event, 0)

    def has_passed(self, event: int) -> bool:
        status = self._functions["cuEventQuery"](event)
        if status not in (0, NOT_READY):
            raise self.error("cuEventQuery", status)
        return status == 0

    def finish(self, event: int) -> None:
        """Waits for an event."""
        self.call("cuEventSynchronize", event)

    def forget_event(self, event: int) -> None:
        self.call("cuEventDestroy", event)

    @contextmanager
    def captured(self, stream: int) -> Iterator[list[int]]:
        """Inside, what is started on the stream does not run but becomes a graph; the list then holds an executable."""
        made: list[int] = []
        self.call("cuStreamBeginCapture", stream, _THREAD_LOCAL)
        try:
            yield made
        except BaseException:
            self._functions["cuStreamEndCapture"](stream, ctypes.addressof(c_uint64()))
            raise
        graph = self._handle_after("cuStreamEndCapture", stream)
        try:
            made.append(self._handle("cuGraphInstantiateWithFlags", graph, 0))
        finally:
            self.call("cuGraphDestroy", graph)

    def _handle_after(self, name: str, *arguments: object) -> int:
        made = c_uint64()
        self.call(name, *arguments, ctypes.addressof(made))
        return made.value

    def is_recorded(self, stream: int) -> bool:
        """Whether what is started on a stream becomes a graph."""
        return self._handle_after("cuStreamIsCapturing", stream) != 0

    def is_known_recorded(self, stream: int) -> bool | None:
        """The same where any context may be current, or none; None where the driver does not tell it so. Needs the lock
        of the device: every call on a stream of its own asks."""
        return None if self._is_capturing(stream, self._capturing_at) else self._capturing.value != 0

    def recording(self, stream: int) -> tuple[int, int]:
        """The number and the graph of the recording that a stream is part of."""
        found = (c_uint64 * 3)()
        first = ctypes.addressof(found)
        self.call("cuStreamGetCaptureInfo", stream, first, first + 8, first + 16, None, None)
        return found[1], found[2]

    @contextmanager
    def relaxed(self) -> Iterator[None]:
        """Inside, on this thread, a recording does not forbid what is not recorded: allocations, copies beside it."""
        mode = c_int(_RELAXED)
        self.call("cuThreadExchangeStreamCaptureMode", ctypes.addressof(mode))
        try:
            yield
        finally:
            self.call("cuThreadExchangeStreamCaptureMode", ctypes.addressof(mode))

    def call_at_end(self, graph: int, function: int, argument: int) -> None:
        """A function of C is called once a graph, and all that was made of it, is there no more and runs no more."""
        made = self._handle("cuUserObjectCreate", argument, function, 1, _NO_WAIT)
        self.call("cuGraphRetainUserObject", graph, made, 1, _MOVE)

    def forget_graph(self, executable: int) -> None:
        self.call("cuGraphExecDestroy", executable)

    def milliseconds(self, stream: int, run: Callable[[], object]) -> float:
        """How long the device takes for what `run` starts on a stream."""
        start, end = (self._handle("cuEventCreate", 0) for _ in range(2))
        self.call("cuEventRecord", start, stream)
        run()
        self.call("cuEventRecord", end, stream)
        self.call("cuEventSynchronize", end)
        took = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.addressof(took), start, end)
        for event in (start, end):
            self.call("cuEventDestroy", event)
        return took.value

    # -- tensor maps

    def tensor_map(
        self,
        address: int,
        dims: Sequence[int],
        strides: Sequence[int],
        element: tuple[int, int],
        box: tuple[int, int],
    ) -> bytes:
        """A tensor read in boxes of rows x columns, its last two dims, swizzled by the bytes of a row, zeros outside.
        `strides` are of all dims but the last; `element` are the driver's number of the dtype, and its bytes."""
        kind, size = element
        rank, swizzle = len(dims), _SWIZZLES[box[1] * size]
        room = ctypes.create_string_buffer(TENSOR_MAP_BYTES + _TENSOR_MAP_ALIGNMENT)
        start = -ctypes.addressof(room) % _TENSOR_MAP_ALIGNMENT
        sizes = (c_uint64 * rank)(*reversed(dims))
        distances = (c_uint64 * (rank - 1))(*(n * size for n in reversed(strides)))
        boxes, steps = (c_uint * rank)(*reversed(box), *[1] * (rank - 2)), (c_uint * rank)(*[1] * rank)
        self.call(
            "cuTensorMapEncodeTiled", ctypes.addressof(room) + start, kind, rank, address,
            *(ctypes.addressof(part) for part in (sizes, distances, boxes, steps)), 0, swizzle, _PROMOTE_256B, 0,
        )  # fmt: skip
        return room.raw[start : start + TENSOR_MAP_BYTES]


TENSOR_MAP_BYTES, _TENSOR_MAP_ALIGNMENT = 128, 64
_SWIZZLES, _PROMOTE_256B = {64: 2, 128: 3}, 3


def installed_driver() -> Driver:
    """The driver of this machine. Raises Unavailable."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise Unavailable(f"NVIDIA's driver is not installed: {error}") from None
    driver = Driver(_resolver(library))
    try:
        driver.start()
    except DriverError as error:
        raise Unavailable(str(error)) from None
    return driver


def _resolver(library: ctypes.CDLL) -> Resolve:
    """Asks the driver for its functions in the meaning of one version: `cuMemAlloc` by itself is that of 2007."""
    try:
        find = library.cuGetProcAddress_v2
    except AttributeError:
        raise Unavailable("the driver is older than CUDA 12.0") from None
    find.argtypes = (c_char_p, POINTER(c_void_p), c_int, c_uint64, POINTER(c_int))

    def resolve(name: str) -> int:
        found, how = c_void_p(), c_int()
        status = find(name.encode(), byref(found), CUDA_VERSION, 0, byref(how))
        return 0 if status else found.value or 0

    return resolve


# Note [Why the driver itself]
# pycuda has no functions for tensor maps, launch attributes or graphs, hands out no handles, and is compiled on
# installation where there is no wheel; cuda-bindings are wrappers of the forty functions above and a thousand others.
# Both call the same `libcuda.so.1`, which comes with the driver that a GPU needs anyway. One table over it serves
# everything, has the same faults everywhere, and a test puts a table of its own in its place. Other libraries are met
# through the primary context, DLPack and the array interface: torch, CuPy, JAX, Numba and pycuda go on beside it.
