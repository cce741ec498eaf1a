"""What is known while one kernel is written as LLVM text: its threads, its memory and the values made so far.

A fragment is a list of LLVM values, one per register of its layout, in storage types. Everything is from the view of
one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.types import MemRefType
from tesserac.schedule.rows.row_lengths import row_blocks
from tesserac.target import llvm_types as lt
from tesserac.target.dims import emit_dim
from tesserac.target.emit import Function, Module
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I32, I64, LType, Value, const_i64, const_int
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.layout import REDUCE_LANES, Bit, Layout
from tesserac.tile.gpu.model.types import FragmentType, StagesType
from tesserac.tile.gpu.model.values import kernel_threads
from tesserac.types.dims import Dim
from tesserac.types.dtype import BF16, BOOL, F16, F32, F64, FP8_E4M3, FP8_E5M2, TF32, DType

GLOBAL, SHARED = 1, 3
_FLOATS = {F32: lt.F32, F64: lt.F64, TF32: lt.F32, BF16: lt.BF16, F16: lt.F16, FP8_E4M3: lt.I8, FP8_E5M2: lt.I8}


def register_type(dtype: DType) -> LType:
    """How an element is held in a register: a float of 8 bits or less as it is stored, an i4 in a byte with its sign
    extended."""
    if dtype in _FLOATS or dtype.is_stored:
        return _FLOATS.get(dtype, lt.I8)
    if dtype == BOOL:
        return lt.I1
    if dtype.is_integer:
        return lt.integer(max(dtype.bits, 8))
    raise LoweringError(f"elements of {dtype.name} on a GPU")


def memory_type(dtype: DType) -> LType:
    """How an element is held in memory."""
    return lt.I8 if dtype == BOOL else register_type(dtype)


FAR = 2**30
"""More places than a block has."""


@dataclass(frozen=True)
class Turn:
    """By how many places a row is turned, 0 or 1, and whether there are others before and behind it: see Note [Turned
    rows] of `tile/gpu/rows/words.py`."""

    by: Value
    between: Value


@dataclass(frozen=True)
class Axis:
    """Indices start .. min(start + block, stop). Blocks that are `whole` never reach beyond the end."""

    start: Value
    stop: Value
    block: int
    whole: bool = False
    turn: Turn | None = None


@dataclass(frozen=True)
class Memory:
    """A memref with its strides as values."""

    pointer: Value
    type: MemRefType
    strides: tuple[Value, ...]
    constant: bool
    """Nothing in this kernel writes it."""
    paired: bool = False
    """Its last dim has the two parts of numbers, each of which begins at a multiple of its size."""


@dataclass(frozen=True)
class Ring:
    """Stages in shared memory."""

    pointer: Value
    type: StagesType


class Beside:
    """Registers that a loop carries beside what its operation says."""

    def __init__(self, values: Sequence[Value]) -> None:
        self.values = list(values)


class Context:
    """One kernel under construction."""

    def __init__(self, module: Module, function: Function, kernel: Op, symbols: dict[str, Value]) -> None:
        self.module = module
        self.function = function
        self.kernel = kernel
        self.b: Builder = function.builder
        self.threads = kernel_threads(kernel)
        self.symbols = symbols
        self.indices: dict[IRValue, Value] = {}
        self.fragments: dict[IRValue, list[Value]] = {}
        self.axes: dict[IRValue, Axis] = {}
        self.memories: dict[IRValue, Memory] = {}
        self.rings: dict[IRValue, Ring] = {}
        self.barriers: dict[IRValue, Value] = {}
        self.turns: dict[IRValue, tuple[Value, Value]] = {}
        """Where a thread keeps the slot and the parity that are next of some barriers."""
        self.maps: dict[IRValue, Value] = {}
        self.flags: dict[IRValue, Value] = {}
        self.arriving: list[Callable[[], None]] = []
        """What makes fragments of what was asked for, when the first of them is read: until then more is asked for."""
        self.steps: dict[Value, tuple[Value, int]] = {}
        """Places that many registers have, as an i32 that is the same for all of these and how far on they are."""
        self.late: dict[Op, Beside] = {}
        """The factors of the last term of a product, which the next round of its loop multiplies."""
        self.shared: dict[IRValue, Value] = {}
        """Where each allocation of shared memory begins."""
        self._coordinates: dict[Layout, dict[int, Value]] = {}
        self._empty_metadata = ""
        self.program = const_i64(0)
        """The number of the program in the grid."""
        self.thread = self.sreg("tid.x")
        self.lane = self.b.binary("and", self.thread, const_int(I32, 31))
        self.beside: Value | None = None
        self.count = 1
        """Programs of a block of threads, and the number of this one where there are several."""
        self.group = const_int(I32, 0)
        """The number of the warp group, in the role of one."""
        self.groups = 1
        self.leader: Value | None = None
        """Whether this thread starts tensor copies, where all threads of a producer run its role."""
        for layout in dict.fromkeys(kernel_layouts(kernel)):
            self._coordinates[layout] = self._thread_coordinates(layout)

    def sreg(self, name: str) -> Value:
        return self.b.intrinsic(f"llvm.nvvm.read.ptx.sreg.{name}", I32, [])

    def dim(self, dim: Dim) -> Value:
        return emit_dim(self.b, dim, self.symbols)

    def coordinates(self, layout: Layout) -> dict[int, Value]:
        """This thread's position in a block: dim -> i64. Dims that no thread bit moves along are absent."""
        return self._coordinates[layout]

    def _thread_coordinates(self, layout: Layout) -> dict[int, Value]:
        found: dict[int, Value] = {}
        for dim, shift, width, step in bit_runs((*layout.lanes, *layout.warps)):
            field = self.b.binary("lshr", self.thread, const_int(I32, shift)) if shift else self.thread
            field = self.b.binary("and", field, const_int(I32, (1 << width) - 1))
            moved = self.b.mul(self.b.cast("zext", field, I64), const_i64(step))
            found[dim] = self.b.add(found[dim], moved) if dim in found else moved
        return found

    def room(self, axis: Axis, here: Value) -> Value:
        """How many places an axis has from one of a block on, 0 or less where there are none, as an i32: tests
        of places in blocks compare small numbers."""
        b = self.b
        left = b.maximum_int(b.minimum_int(b.sub(axis.stop, axis.start), const_i64(FAR)), const_i64(0))
        return b.sub(self.i32(left), self.i32(here))

    def rooms(self, axis: Axis, here: Value) -> tuple[Value, Value]:
        """The same for elements of a block whose places are whole multiples of 64 further, and for all others: they
        differ in the thread at the seam of a row that is turned."""
        if axis.turn is None:
            return (self.apart(self.room(axis, here)),) * 2
        b, by = self.b, self.i32(axis.turn.by)
        other = self.apart(b.add(self.room(axis, here), by))
        last = b.sub(self.room(axis, const_i64(0)), const_int(I32, REDUCE_LANES - 1))
        return b.select(self.seam(axis.turn, here), last, other), other

    def seam(self, turn: Turn, here: Value) -> Value:
        """Whether this thread has the first place of each 64 of a row that is turned."""
        turned = self.b.icmp("ne", turn.by, const_i64(0))
        return self.b.binary("and", turned, self.b.icmp("eq", here, const_i64(0)))

    def apart(self, room: Value) -> Value:
        """The same number as a value of its own. LLVM makes equal tests once and keeps their results, more of them than
        there are predicates; made again where it is needed, a test costs one instruction. It is for rows of which only
        a run knows the length, and for programs with roles, which hardly ever meet the end of anything."""
        if room.number is not None or (row_blocks(self.kernel) is None and not _has_roles(self.kernel)):
            return room
        return self.b.asm(I32, "mov.b32 $0, $1;", "=r,r", [room])

    def arrive(self) -> None:
        arriving, self.arriving = self.arriving, []
        for make in arriving:
            make()

    def invariant(self) -> str:
        """Marks a load from memory that no one writes during the kernel."""
        if not self._empty_metadata:
            self._empty_metadata = self.module.metadata("!{}")
        return f"!invariant.load {self._empty_metadata}"

    def i32(self, value: Value) -> Value:
        return const_int(I32, value.number) if value.number is not None else self.b.cast("trunc", value, I32)


def _has_roles(kernel: Op) -> bool:
    return any(op.name == "gpu.role" for op in kernel.body.ops)


def bit_runs(bits: Sequence[Bit]) -> Iterator[tuple[int, int, int, int]]:
    """Neighbouring thread bits that move along one dim in doubling steps: (dim, first bit, how many, first step)."""
    position = 0
    while position < len(bits):
        bit, width = bits[position], 1
        if bit is None:
            position += 1
            continue
        while position + width < len(bits) and bits[position + width] == (bit[0], bit[1] << width):
            width += 1
        yield bit[0], position, width, bit[1]
        position += width


def kernel_layouts(kernel: Op) -> Iterator[Layout]:
    for op in kernel.walk():
        values = [*op.results, *(a for region in op.regions for a in region.block.args)]
        for value in values:
            if isinstance(value.type, FragmentType):
                yield value.type.layout
                yield warps_only(value.type.layout)


def warps_only(layout: Layout) -> Layout:
    """Where a warp's part of a block begins."""
    return Layout((), (None,) * len(layout.lanes), layout.warps)
