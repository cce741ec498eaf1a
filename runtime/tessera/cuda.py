"""Runs GPU programs on an NVIDIA device: the only place that talks to the driver.

Enters: a `GpuProgram` and NumPy arrays. Leaves: NumPy arrays, or a `TesseraError`. The device's primary context is
shared with other libraries of the process; it is taken on the first call and given back when the process ends.
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tessera.call import bind_symbols
from tessera.dtypes import numpy_dtype
from tessera.errors import GUARD_FAILED, OUT_OF_MEMORY, failure
from tessera.gpu_program import (
    Argument,
    Buffer,
    Check,
    Condition,
    GpuProgram,
    Kernel,
    Launch,
    Select,
    Step,
    TensorMap,
    Workspace,
)

if TYPE_CHECKING:
    from tessera.arguments import Array

NO_GPU = "E0930"
WRONG_GPU = "E0931"
GPU_FAILED = "E0932"

SMALLEST_ALLOCATION = 16
"""Bytes; an empty array gets them too, so that every pointer is one."""
STATIC_SHARED_LIMIT = 48 * 1024
"""A kernel with more shared memory must say so before it is launched."""
MOST_PROGRAMS = 2**31 - 1


# --- the device ---------------------------------------------------------------------------------------------------


@cache
def driver() -> Any:
    """pycuda's driver module with the first device's primary context current."""
    try:
        import pycuda.driver as cuda
    except ImportError as error:
        notes = ("install the extra `gpu`: pip install 'tessera-lang[gpu]'",)
        raise failure(NO_GPU, f"GPU programs need pycuda, which cannot be imported: {error}", notes) from None
    try:
        cuda.init()
        context = cuda.Device(0).retain_primary_context()
    except cuda.Error as error:
        raise failure(NO_GPU, f"no NVIDIA GPU can be used: {error}") from None
    context.push()
    atexit.register(context.pop)
    return cuda


@cache
def device_arch() -> str:
    """The architecture of the device, such as `sm_90a`."""
    major, minor = driver().Device(0).compute_capability()
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


def check_arch(program: GpuProgram) -> None:
    """Code for an architecture with suffix `a` runs on that one only, other code also on later ones."""
    have, need = device_arch(), program.arch
    newer = not need.endswith("a") and int(have.strip("sma_")) >= int(need.strip("sma_"))
    if have != need and not newer:
        raise failure(WRONG_GPU, f"`{program.signature.name}` was built for {need}, but the GPU is {have}")


@cache
def _function(kernel: Kernel) -> Any:
    """The kernel, loaded; the driver assembles PTX on first use and keeps the result on disk."""
    cuda = driver()
    function = cuda.module_from_buffer(kernel.code.encode() + b"\0").get_function(kernel.name)
    function.prepare("P" * len(kernel.parameters) + "q" * len(kernel.symbols))
    return function


# --- one call -----------------------------------------------------------------------------------------------------


def run(program: GpuProgram, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Calls the function: copies the inputs to the device, runs every step, copies the results back."""
    call = GpuCall(program, arrays)
    call.execute()
    return call.results()


class GpuCall:
    """A call with its memory on the device. `execute` may be repeated: it leaves the inputs as they are."""

    def __init__(self, program: GpuProgram, arrays: Sequence[Array]) -> None:
        self.cuda = driver()
        check_arch(program)
        self.program = program
        self.symbols = bind_symbols(program.signature, [array.shape for array in arrays])
        self.memory: list[Any] = []
        self._slots: dict[int, Any] = {}
        self._maps: dict[tuple[int, ...], Any] = {}
        self._temporary: list[Any] = []
        for buffer in program.buffers:
            self.memory.append(self._place(buffer, arrays))

    def _place(self, buffer: Buffer, arrays: Sequence[Array]) -> Any:
        if buffer.role == "input":
            source = arrays[buffer.slot]
            room = self._allocate(source.nbytes)
            if source.nbytes:
                self.cuda.memcpy_htod(room, _bytes_of(source))
            return room
        size = self._bytes(buffer)
        if buffer.role == "output":
            return self._allocate(size)
        if buffer.slot not in self._slots:
            sharing = [b for b in self.program.buffers if (b.role, b.slot) == (buffer.role, buffer.slot)]
            self._slots[buffer.slot] = self._allocate(max(map(self._bytes, sharing)))
        return self._slots[buffer.slot]

    def _shape(self, buffer: Buffer) -> tuple[int, ...]:
        return tuple(size.evaluate(self.symbols) for size in buffer.sizes)

    def _bytes(self, buffer: Buffer) -> int:
        total = numpy_dtype(buffer.dtype).itemsize
        for size in self._shape(buffer):
            total *= size
        return total

    def _allocate(self, size: int) -> Any:
        try:
            return self.cuda.mem_alloc(max(size, SMALLEST_ALLOCATION))
        except self.cuda.MemoryError:
            name = self.program.signature.name
            raise failure(OUT_OF_MEMORY, f"`{name}` needs {size} bytes that the GPU does not have") from None

    def execute(self) -> None:
        """Starts every step in order. Faults of the device show at the next synchronisation."""
        self._run(self.program.steps)

    def _run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Check):
                self._check(step.condition)
            elif isinstance(step, Launch):
                self._launch(step)
            else:
                self._select(step)

    def _check(self, condition: Condition) -> None:
        if not condition.holds(self.symbols):
            sizes = tuple(f"`{name}` = {value}" for name, value in self.symbols.items())
            raise failure(GUARD_FAILED, f"`{self.program.signature.name}` needs {condition.text}", sizes)

    def _select(self, step: Select) -> None:
        for predicate, arm in zip(step.predicates, step.arms, strict=False):
            if predicate.holds(self.symbols):
                return self._run(arm)
        return self._run(step.arms[-1])

    def variant(self, step: Launch) -> Kernel:
        """The variant that these sizes choose."""
        for position in step.kernels:
            kernel = self.program.kernels[position]
            if all(condition.holds(self.symbols) for condition in kernel.conditions):
                return kernel
        raise AssertionError("the last variant of a kernel has no conditions")

    def _launch(self, step: Launch) -> None:
        kernel = self.variant(step)
        programs = kernel.programs.evaluate(self.symbols)
        if not programs:
            return
        if programs > MOST_PROGRAMS:
            raise failure(GPU_FAILED, f"kernel `{kernel.name}` would need {programs} blocks of threads")
        function = _function(kernel)
        shared = kernel.shared.evaluate(self.symbols)
        if shared > STATIC_SHARED_LIMIT:
            attribute = self.cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            function.set_attribute(attribute, shared)
        operands = [self.memory[i] for i in step.operands]
        pointers = [self._parameter(parameter, operands) for parameter in kernel.parameters]
        values = [self.symbols[name] for name in kernel.symbols]
        block = (kernel.threads, 1, 1)
        function.prepared_call((programs, 1), block, *pointers, *values, shared_size=shared)

    def _parameter(self, parameter: Argument | Workspace | TensorMap, operands: list[Any]) -> int:
        if isinstance(parameter, Argument):
            return int(operands[parameter.operand])
        if isinstance(parameter, Workspace):
            room = self._allocate(parameter.bytes.evaluate(self.symbols))
            self._temporary.append(room)
            return int(room)
        return self._tensor_map(parameter, int(operands[parameter.operand]))

    def _tensor_map(self, parameter: TensorMap, address: int) -> int:
        rows, columns = parameter.rows.evaluate(self.symbols), parameter.columns.evaluate(self.symbols)
        key = (address, rows, columns, *parameter.box)
        if key not in self._maps:
            encoded = encode_tensor_map(address, rows, columns, parameter.dtype, parameter.box)
            room = self._allocate(len(encoded))
            self.cuda.memcpy_htod(room, encoded)
            self._maps[key] = room
        return int(self._maps[key])

    def synchronize(self) -> None:
        try:
            self.cuda.Context.synchronize()
        except self.cuda.Error as error:
            raise failure(GPU_FAILED, f"`{self.program.signature.name}` failed on the GPU: {error}") from None
        self._temporary.clear()

    def results(self) -> tuple[Array, ...]:
        """Waits for the device and copies the outputs."""
        import numpy as np

        self.synchronize()
        found: dict[int, Array] = {}
        for buffer, room in zip(self.program.buffers, self.memory, strict=True):
            if buffer.role == "output":
                array = np.empty(self._shape(buffer), numpy_dtype(buffer.dtype))
                if array.nbytes:
                    self.cuda.memcpy_dtoh(_bytes_of(array), room)
                found[buffer.slot] = array
        return tuple(found[slot] for slot in sorted(found))

    def fill_outputs(self, byte: int) -> None:
        """Sets every byte of the outputs: a test sees what a kernel did not write."""
        for buffer, room in zip(self.program.buffers, self.memory, strict=True):
            if buffer.role == "output" and self._bytes(buffer):
                self.cuda.memset_d8(room, byte, self._bytes(buffer))

    def time(self, repeat: int) -> float:
        """Milliseconds of one execution on the device, the mean over `repeat` of them."""
        start, end = self.cuda.Event(), self.cuda.Event()
        start.record()
        for _ in range(repeat):
            self.execute()
        end.record()
        end.synchronize()
        self._temporary.clear()
        return float(start.time_till(end)) / repeat


def _bytes_of(array: Array) -> Array:
    """The memory of a contiguous array: Python's buffers know nothing of the narrow dtypes."""
    import numpy as np

    return array.reshape(-1).view(np.uint8)


# --- tensor maps --------------------------------------------------------------------------------------------------

TENSOR_MAP_BYTES = 128
_DATA_TYPES = {"float16": 6, "bfloat16": 9}
_SWIZZLE_128B = 3
_PROMOTE_256B = 3


@cache
def _encoder() -> Callable[..., int]:
    encode: Callable[..., int] = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
    return encode


def encode_tensor_map(address: int, rows: int, columns: int, dtype: str, box: tuple[int, int]) -> bytes:
    """A row-major matrix read in boxes of rows x columns, swizzled by 128 bytes, zeros outside."""
    room = ctypes.create_string_buffer(TENSOR_MAP_BYTES + 64)
    start = -ctypes.addressof(room) % 64
    size = numpy_dtype(dtype).itemsize
    sizes = (ctypes.c_uint64 * 2)(columns, rows)
    strides = (ctypes.c_uint64 * 1)(columns * size)
    boxes = (ctypes.c_uint32 * 2)(box[1], box[0])
    steps = (ctypes.c_uint32 * 2)(1, 1)
    status = _encoder()(
        ctypes.c_void_p(ctypes.addressof(room) + start), _DATA_TYPES[dtype], 2, ctypes.c_void_p(address),
        sizes, strides, boxes, steps, 0, _SWIZZLE_128B, _PROMOTE_256B, 0,
    )  # fmt: skip
    if status:
        raise failure(GPU_FAILED, f"the driver refuses a tensor map of {rows} x {columns} {dtype}: status {status}")
    return room.raw[start : start + TENSOR_MAP_BYTES]
