"""Runs GPU programs on an NVIDIA device: the only place that talks to the driver.

Enters: a `GpuProgram`, contiguous NumPy arrays that fit its signature, and the values of its symbols. Leaves: results
in NumPy arrays, or a `TesseraError`. The host program is interpreted here: launches follow each other on one stream,
and only a flag that decides what comes next is waited for. The device's primary context is shared with other libraries
of the process; it is taken on the first call and given back when the process ends.
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tessera.dtypes import numpy_dtype
from tessera.errors import GPU_FAILED, NO_GPU, OUT_OF_MEMORY, WRONG_GPU, TesseraError, failure
from tessera.gpu_effects import NO_BAD_INDEX, check_words, print_values
from tessera.gpu_function import failed, require
from tessera.gpu_program import (
    Argument,
    Assert,
    Box,
    Buffer,
    CheckIndices,
    Cond,
    GpuProgram,
    Kernel,
    Last,
    Launch,
    Loop,
    Parameter,
    Print,
    Require,
    Select,
    Steps,
    Swap,
    TensorMap,
    While,
    Workspace,
)
from tessera.signature import STATUS_ASSERT
from tessera.sizes import SizeError

if TYPE_CHECKING:
    from tessera.arguments import Array

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
    function = cuda.module_from_buffer(kernel.code().encode() + b"\0").get_function(kernel.name)
    function.prepare("P" * len(kernel.parameters) + "q" * len(kernel.symbols))
    return function


@cache
def _table(data: bytes) -> Any:
    """A table of constants on the device, there until the process ends."""
    cuda = driver()
    room = cuda.mem_alloc(max(len(data), SMALLEST_ALLOCATION))
    if data:
        cuda.memcpy_htod(room, data)
    return room


# --- one call -----------------------------------------------------------------------------------------------------


class GpuCall:
    """A call with its memory on the device. `execute` may be repeated: it leaves the inputs as they are."""

    def __init__(self, program: GpuProgram, arrays: Sequence[Array], symbols: Mapping[str, int]) -> None:
        self.cuda = driver()
        check_arch(program)
        self.program = program
        self.symbols = dict(symbols)
        self.memory: list[Any] = []
        self._slots: dict[int, Any] = {}
        self._maps: dict[tuple[int, ...], Any] = {}
        self._told: list[tuple[CheckIndices, tuple[int, ...]]] = []
        self._last = False
        self._workspaces: dict[tuple[str, int], tuple[int, Any]] = {}
        for buffer in program.buffers:
            self.memory.append(self._place(buffer, arrays))

    # -- memory

    def _place(self, buffer: Buffer, arrays: Sequence[Array]) -> Any:
        if buffer.role == "input":
            source = arrays[buffer.slot]
            room = self._allocate(source.nbytes)
            if source.nbytes:
                self.cuda.memcpy_htod(room, _bytes_of(source))
            return room
        if buffer.role == "output":
            return self._allocate(self._bytes(buffer))
        if buffer.role == "constant":
            return _table(self.program.tables[buffer.slot])
        if buffer.role == "box":
            return 0  # until its step has run
        if buffer.role == "status":
            return self._allocate(self._bytes(buffer))
        if buffer.slot not in self._slots:
            sharing = [b for b in self.program.buffers if (b.role, b.slot) == (buffer.role, buffer.slot)]
            self._slots[buffer.slot] = self._allocate(max(map(self._bytes, sharing)))
        return self._slots[buffer.slot]

    def _bytes(self, buffer: Buffer) -> int:
        """Those of a buffer; none where a size has no value, so that no call with these sizes comes to its use."""
        total = numpy_dtype(buffer.dtype).itemsize
        try:
            for size in buffer.sizes:
                total *= max(0, size.evaluate(self.symbols))
        except SizeError:
            return 0
        return total

    def _allocate(self, size: int) -> Any:
        try:
            return self.cuda.mem_alloc(max(size, SMALLEST_ALLOCATION))
        except (self.cuda.MemoryError, OverflowError):
            name = self.program.signature.name
            raise failure(OUT_OF_MEMORY, f"`{name}` needs {size} bytes that the GPU does not have") from None

    def _failed(self, error: Exception) -> TesseraError:
        return failure(GPU_FAILED, f"`{self.program.signature.name}` failed on the GPU: {error}")

    # -- steps

    def execute(self) -> None:
        """Starts every step in order. Faults of the device show at the next synchronisation."""
        try:
            self._clear_status()
            self._run(self.program.steps)
        except self.cuda.Error as error:
            raise self._failed(error) from None

    def _run(self, steps: Steps) -> None:
        for step in steps:
            match step:
                case Launch():
                    self._launch(step)
                case Select():
                    self._select(step)
                case Loop():
                    self._loop(step)
                case While():
                    self._while(step)
                case Cond(flag, yes, no):
                    self._run(yes if self._flag(flag) else no)
                case Assert() | Print():
                    self._effect(step)
                case Require():
                    self._require(step)
                case Swap() | Box() | Last() | CheckIndices():
                    self._note(step)

    def _require(self, step: Require) -> None:
        if not step.condition.holds(self.symbols):
            self._check_told()  # what comes first is told first
        require(self.program.signature, step, self.symbols)

    def _note(self, step: Swap | Box | Last | CheckIndices) -> None:
        """What only changes the state of the host."""
        match step:
            case Swap(left, right):
                self.memory[left], self.memory[right] = self.memory[right], self.memory[left]
            case Box(target, source, offset):
                self.memory[target] = int(self.memory[source]) + offset.evaluate(self.symbols)
            case Last():
                self._last = True
            case CheckIndices(_, sizes, _):
                self._told.append((step, tuple(size.evaluate(self.symbols) for size in sizes)))

    def _select(self, step: Select) -> None:
        chosen = (arm for p, arm in zip(step.predicates, step.arms, strict=False) if p.holds(self.symbols))
        self._run(next(chosen, step.arms[-1]))

    def _loop(self, step: Loop) -> None:
        low, high = step.low.evaluate(self.symbols), step.high.evaluate(self.symbols)
        for count in range(low, high):
            self.symbols[step.counter] = count
            self._run(step.body)
            if self._last:
                self._last = False
                break
        self.symbols.pop(step.counter, None)

    def _while(self, step: While) -> None:
        self._run(step.test)
        while self._flag(step.flag):
            self._run(step.body)
            self._run(step.test)

    def _flag(self, buffer: int) -> bool:
        """Waits for what was launched and reads one bool."""
        self._check_told()
        return self._read(buffer, 1) != b"\0"

    # -- what the host tells of

    def _read(self, buffer: int, size: int) -> bytearray:
        held = bytearray(size)
        if size:
            self.cuda.memcpy_dtoh(held, self.memory[buffer])
        return held

    def _clear_status(self) -> None:
        for buffer, room in zip(self.program.buffers, self.memory, strict=True):
            if buffer.role == "status":
                words = self._bytes(buffer) // 8
                self.cuda.memcpy_htod(room, NO_BAD_INDEX.to_bytes(8, "little", signed=True) * words)

    def _check_told(self) -> None:
        """Ends the call at the first place, in the order of the program, whose kernels have told of a bad index. Until
        then they have read zeros in its place."""
        waiting, self._told = self._told, []
        for step, sizes in waiting:
            check_words(self.program.signature, step, self._read(step.words, 8 * len(sizes)), sizes, self.symbols)

    def _effect(self, step: Assert | Print) -> None:
        signature = self.program.signature
        self._check_told()
        if isinstance(step, Print):
            data = [self._read(number, self._bytes(self.program.buffers[number])) for number in step.shown]
            print_values(signature.sites[step.site], data, [size.evaluate(self.symbols) for size in step.sizes])
        elif not self._flag(step.flag):
            raise failed(signature, STATUS_ASSERT, step.site, (), self.symbols)

    def variant(self, step: Launch) -> Kernel:
        """The variant that these sizes choose."""
        kernels = (self.program.kernels[i] for i in step.kernels)
        return next(k for k in kernels if all(c.holds(self.symbols) for c in k.conditions))

    def _launch(self, step: Launch) -> None:
        kernel = self.variant(step)
        programs = kernel.programs.evaluate(self.symbols)
        if programs <= 0:
            return
        if programs > MOST_PROGRAMS:
            raise failure(GPU_FAILED, f"kernel `{kernel.name}` would need {programs} blocks of threads")
        function = _function(kernel)
        shared = kernel.shared.evaluate(self.symbols)
        if shared > STATIC_SHARED_LIMIT:
            attribute = self.cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            function.set_attribute(attribute, shared)
        operands = [self.memory[i] for i in step.operands]
        pointers = [self._parameter(kernel, position, operands) for position in range(len(kernel.parameters))]
        values = [self.symbols[name] for name in kernel.symbols]
        block = (kernel.threads, 1, 1)
        function.prepared_call((programs, 1), block, *pointers, *values, shared_size=shared)

    def _parameter(self, kernel: Kernel, position: int, operands: list[Any]) -> int:
        parameter: Parameter = kernel.parameters[position]
        match parameter:
            case Argument(operand):
                return int(operands[operand])
            case Workspace(size):
                return int(self._workspace((kernel.name, position), size.evaluate(self.symbols)))
            case TensorMap():
                return self._tensor_map(parameter, int(operands[parameter.operand]))

    def _workspace(self, key: tuple[str, int], size: int) -> Any:
        """Launches follow each other, so one room serves all launches of a kernel; it grows when one needs more."""
        if key not in self._workspaces or self._workspaces[key][0] < size:
            self._workspaces[key] = (size, self._allocate(size))
        return self._workspaces[key][1]

    def _tensor_map(self, parameter: TensorMap, address: int) -> int:
        rows, columns = parameter.rows.evaluate(self.symbols), parameter.columns.evaluate(self.symbols)
        key = (address, rows, columns, *parameter.box)
        if key not in self._maps:
            encoded = encode_tensor_map(address, rows, columns, parameter.dtype, parameter.box)
            room = self._allocate(len(encoded))
            self.cuda.memcpy_htod(room, encoded)
            self._maps[key] = room
        return int(self._maps[key])

    # -- results

    def read_results(self, outputs: Sequence[Array]) -> None:
        """Waits for the device and copies the results into `outputs`."""
        try:
            self.cuda.Context.synchronize()
            self._check_told()
            for buffer, room in zip(self.program.buffers, self.memory, strict=True):
                if buffer.role == "output" and outputs[buffer.slot].nbytes:
                    self.cuda.memcpy_dtoh(_bytes_of(outputs[buffer.slot]), room)
        except self.cuda.Error as error:
            raise self._failed(error) from None

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
