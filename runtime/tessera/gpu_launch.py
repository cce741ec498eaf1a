"""What a launch needs that lies on a device: the code of its kernel, and tensor maps.

Enters: a `Kernel` of a GPU program, or what a tensor map is of. Leaves: the driver's handle of the loaded function, or
the memory of the map. Both are made once for all functions of the process.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from tessera.cuda_driver import DriverError
from tessera.devices import Gpu
from tessera.dtypes import numpy_dtype
from tessera.gpu_memory import Block
from tessera.gpu_program import GpuProgram, Kernel, Launch, TensorMap

REFUSALS = ("CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_INVALID_IMAGE")
"""What a driver says of machine code that it does not take."""
STATIC_SHARED_LIMIT = 48 * 1024
"""A kernel with more shared memory must say so before it is launched."""


def variant(program: GpuProgram, step: Launch, symbols: Mapping[str, int]) -> Kernel:
    """The variant that these sizes choose."""
    kernels = (program.kernels[i] for i in step.kernels)
    return next(k for k in kernels if all(c.holds(symbols) for c in k.conditions))


_functions: dict[tuple[int, Callable[[], str]], tuple[int, int]] = {}
"""By device and code: the function, and the shared memory that it was allowed."""


def is_loaded(gpu: Gpu, kernel: Kernel) -> bool:
    return (id(gpu), kernel.code) in _functions


def load_function(gpu: Gpu, kernel: Kernel) -> tuple[int, int]:
    """The function, and how much shared memory it may use without asking. Needs the context of the device."""
    module = _assembled(gpu, kernel) or gpu.driver.load(kernel.code().encode())
    function = gpu.driver.function(module, kernel.name)
    return _functions.setdefault((id(gpu), kernel.code), (function, STATIC_SHARED_LIMIT))


def _assembled(gpu: Gpu, kernel: Kernel) -> int | None:
    """The module of the machine code that a bundle has; none where the driver does not take it, because it is older
    than the assembler was, or for another architecture than that of the device."""
    if not kernel.machine_code:
        return None
    try:
        return gpu.driver.load(kernel.machine_code)
    except DriverError as refused:
        if refused.name not in REFUSALS:
            raise
        return None


def loaded_function(gpu: Gpu, kernel: Kernel, shared: int) -> tuple[int, int]:
    """The function, and how much shared memory it may use: at least so much."""
    key = (id(gpu), kernel.code)
    function, allowed = _functions.get(key) or load_function(gpu, kernel)
    if shared > allowed:
        gpu.driver.allow_shared(function, shared)
        _functions[key] = (function, shared)
    return _functions[key]


_DATA_TYPES = {"int8": 0, "float16": 6, "bfloat16": 9, "float8_e4m3fn": 0, "float8_e5m2": 0}
"""The driver's numbers of dtypes in tensor maps; bytes are bytes."""
MOST_MAPS = 1024


class TensorMaps:
    """Tensor maps in the memory of a device, made once for each address and form."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._known: OrderedDict[tuple[object, ...], Block] = OrderedDict()

    def of(self, mapped: TensorMap, address: int, sizes: Sequence[int], stream: int) -> Block:
        """`sizes` are the values of its dims, then of its strides."""
        key = (address, mapped.dtype, mapped.box, *sizes)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._made(mapped, address, sizes, stream)
            if len(self._known) > MOST_MAPS:
                self._known.popitem(last=False)
        if not self._gpu.recordings.is_recorded(stream):  # else the graph keeps it
            found.used_on(stream)
        return found

    def _made(self, mapped: TensorMap, address: int, sizes: Sequence[int], stream: int) -> Block:
        element = _DATA_TYPES[mapped.dtype], numpy_dtype(mapped.dtype).itemsize
        rank = len(mapped.dims)
        encoded = self._gpu.driver.tensor_map(address, sizes[:rank], sizes[rank:], element, mapped.box)
        block = self._gpu.memory.allocate(len(encoded), stream, "a tensor map")
        room = ctypes.create_string_buffer(encoded, len(encoded))
        beside = stream if block.stream == stream else self._gpu.recording
        self._gpu.driver.copy_in(block.address, ctypes.addressof(room), len(encoded), beside)
        self._gpu.driver.wait(beside)
        return block


_maps: dict[int, TensorMaps] = {}


def tensor_maps(gpu: Gpu) -> TensorMaps:
    return _maps.setdefault(id(gpu), TensorMaps(gpu))
