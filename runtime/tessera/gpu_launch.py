"""Kernels ready to launch: loaded, parameters packed, so that a launch only writes addresses and calls the driver.

Enters: a `Launch` of a GPU program, and the sizes it runs with. Leaves: a `ReadyLaunch`, or nothing where these sizes
need no program at all. What is launched again and again in one order is recorded as a graph (`gpu_graph.py`).
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_int64, c_void_p
from typing import NamedTuple

from tessera.cuda_driver import LaunchConfig
from tessera.devices import Gpu
from tessera.dtypes import numpy_dtype
from tessera.errors import GPU_FAILED, failure
from tessera.gpu_memory import Block
from tessera.gpu_program import Argument, CheckIndices, GpuProgram, Kernel, Launch, TensorMap, Workspace

STATIC_SHARED_LIMIT = 48 * 1024
"""A kernel with more shared memory must say so before it is launched."""
MOST_PROGRAMS = 2**31 - 1
ALIGNMENT = 256
"""Bytes, of what lies beside other things in a workspace."""


class State:
    """A call while it runs: the addresses of its buffers, which change hands at a swap, the counts of its loops, and
    what is still to be looked at. `scratch` is memory that each launch has for itself while it runs; `held` is other
    memory that launches read."""

    __slots__ = ("addresses", "counts", "gpu", "held", "is_last", "room", "scratch", "stream", "told", "what")

    def __init__(self, gpu: Gpu, addresses: list[int], stream: int, what: str) -> None:
        self.gpu = gpu
        self.addresses = addresses
        self.counts: dict[str, int] = {}
        self.held: list[Block] = []
        self.is_last = False
        self.room: Block | None = None
        self.scratch = 0
        self.stream = stream
        self.told: list[tuple[CheckIndices, tuple[int, ...]]] = []
        self.what = what

    def need(self, size: int) -> None:
        """Sees to it that there is as much scratch; what is launched already has had the old one by then."""
        if self.room is None or self.room.size < size:
            self.room = self.gpu.memory.allocate(size, self.stream, self.what)
            self.scratch = self.room.address


class _Mapped(NamedTuple):
    """A parameter that is a tensor map of a buffer."""

    position: int
    buffer: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    box: tuple[int, int]


class ReadyLaunch:
    """One launch. The driver reads the parameters while it is called, so that the next call may change them."""

    __slots__ = (
        "_config", "_counted", "_function", "_gpu", "_keep", "_launch", "_mapped", "_name", "_parameters", "_pointers",
        "_reference", "_scratch", "_spaces", "_values",
    )  # fmt: skip

    def __init__(self, gpu: Gpu, kernel: Kernel, programs: int, shared: int, packed: _Packed) -> None:
        self._gpu, self._name = gpu, kernel.name
        self._function = loaded_function(gpu, kernel, shared)
        self._config = LaunchConfig(programs, 1, 1, kernel.threads, 1, 1, shared, None, None, 0)
        self._reference = ctypes.addressof(self._config)
        count = len(packed.values)
        self._values = (c_int64 * count)(*packed.values)
        start = ctypes.addressof(self._values)
        self._keep = (c_void_p * count)(*(start + 8 * place for place in range(count)))
        self._parameters = ctypes.addressof(self._keep)
        self._pointers, self._mapped = packed.pointers, packed.mapped
        self._spaces, self._counted = packed.spaces, packed.counted
        self._scratch = packed.scratch
        self._launch = gpu.driver.launch_kernel

    def run(self, state: State) -> None:
        values, addresses = self._values, state.addresses
        for position, buffer in self._pointers:
            values[position] = addresses[buffer]
        if self._scratch:
            state.need(self._scratch)
            for position, offset in self._spaces:
                values[position] = state.scratch + offset
        for position, counter in self._counted:
            values[position] = state.counts[counter]
        for mapped in self._mapped:
            values[mapped.position] = tensor_maps(self._gpu).address(mapped, addresses[mapped.buffer], state)
        self._config.stream = state.stream
        status = self._launch(self._reference, self._function, self._parameters, None)
        if status:
            raise self._gpu.driver.error(f"the launch of `{self._name}`", status)


class _Packed(NamedTuple):
    """Parameters of a launch: those that are known, and where the others go."""

    values: list[int]
    pointers: list[tuple[int, int]]
    spaces: list[tuple[int, int]]
    counted: list[tuple[int, str]]
    mapped: list[_Mapped]
    scratch: int


def variant(program: GpuProgram, step: Launch, symbols: Mapping[str, int]) -> Kernel:
    """The variant that these sizes choose."""
    kernels = (program.kernels[i] for i in step.kernels)
    return next(k for k in kernels if all(c.holds(symbols) for c in k.conditions))


def ready_launch(
    gpu: Gpu, program: GpuProgram, step: Launch, symbols: Mapping[str, int], counters: frozenset[str]
) -> ReadyLaunch | None:
    """`counters` are symbols whose value each iteration gives anew."""
    kernel = variant(program, step, symbols)
    programs = kernel.programs.evaluate(symbols)
    if programs <= 0:
        return None
    if programs > MOST_PROGRAMS:
        raise failure(GPU_FAILED, f"kernel `{kernel.name}` would need {programs} blocks of threads")
    packed = _packed(kernel, step.operands, symbols, counters)
    if kernel.persistent:
        programs = min(programs, gpu.multiprocessors)
    return ReadyLaunch(gpu, kernel, programs, kernel.shared.evaluate(symbols), packed)


def _packed(
    kernel: Kernel, operands: Sequence[int], symbols: Mapping[str, int], counters: frozenset[str]
) -> _Packed:
    values, pointers, spaces, counted, mapped = [0] * len(kernel.parameters), [], [], [], []
    scratch = 0
    for position, parameter in enumerate(kernel.parameters):
        match parameter:
            case Argument(operand):
                pointers.append((position, operands[operand]))
            case Workspace(size):
                spaces.append((position, scratch))
                scratch += aligned(size.evaluate(symbols))
            case TensorMap(operand, dims, strides, dtype, box):
                sizes, steps = (tuple(n.evaluate(symbols) for n in kind) for kind in (dims, strides))
                mapped.append(_Mapped(position, operands[operand], sizes, steps, dtype, box))
    for name in kernel.symbols:
        if name in counters:
            counted.append((len(values), name))
        values.append(symbols[name])
    return _Packed(values, pointers, spaces, counted, mapped, scratch)


def aligned(size: int) -> int:
    """As much, and at least something, so that what follows begins where vectors may."""
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT


# --- code and maps on a device ----------------------------------------------------------------------------------------

_functions: dict[tuple[int, Callable[[], str]], tuple[int, int]] = {}
"""By device and code: the function, and the shared memory that it was allowed."""


def loaded_function(gpu: Gpu, kernel: Kernel, shared: int) -> int:
    key = (id(gpu), kernel.code)
    function, allowed = _functions.get(key, (0, STATIC_SHARED_LIMIT))
    if not function:
        function = gpu.driver.function(gpu.driver.load(kernel.code().encode()), kernel.name)
    if shared > allowed:
        gpu.driver.allow_shared(function, shared)
    _functions[key] = (function, max(shared, allowed))
    return function


_DATA_TYPES = {"float16": 6, "bfloat16": 9}
"""The driver's numbers of dtypes in tensor maps."""
MOST_MAPS = 1024


class TensorMaps:
    """Tensor maps in the memory of a device, made once for each address and form."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._known: OrderedDict[tuple[object, ...], Block] = OrderedDict()

    def address(self, mapped: _Mapped, address: int, state: State) -> int:
        stream = state.stream
        key = (address, *mapped[2:])
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._made(mapped, address, stream)
            if len(self._known) > MOST_MAPS:
                self._known.popitem(last=False)
        found.used_on(stream)
        state.held.append(found)
        return found.address

    def _made(self, mapped: _Mapped, address: int, stream: int) -> Block:
        element = _DATA_TYPES[mapped.dtype], numpy_dtype(mapped.dtype).itemsize
        encoded = self._gpu.driver.tensor_map(address, mapped.dims, mapped.strides, element, mapped.box)
        block = self._gpu.memory.allocate(len(encoded), stream, "a tensor map")
        room = ctypes.create_string_buffer(encoded, len(encoded))
        self._gpu.driver.copy_in(block.address, ctypes.addressof(room), len(encoded), stream)
        self._gpu.driver.wait(stream)
        return block


_maps: dict[int, TensorMaps] = {}


def tensor_maps(gpu: Gpu) -> TensorMaps:
    return _maps.setdefault(id(gpu), TensorMaps(gpu))
