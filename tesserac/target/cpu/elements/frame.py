"""What is known while the code of one kernel is written: the builder, and what became of each value of the CPU dialect.

Inside a vector loop a value is uniform (one LLVM value), or it varies and is held in parts, one vector each. An index
that runs with the loop is held as the place where each part begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Block, Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.types import MemRefType
from tesserac.target.cpu.elements.programs import Memo
from tesserac.target.cpu.elements.registers import memory_type
from tesserac.target.dims import emit_dim
from tesserac.target.emit import Module
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import LType, Value
from tesserac.tile.cpu.target import CpuTarget, held
from tesserac.types.dims import Dim
from tesserac.types.dtype import DType


@dataclass(frozen=True)
class Lanes:
    """A value that varies: one vector per part, or one scalar per part where a part has a single value."""

    parts: tuple[Value, ...]


@dataclass(frozen=True)
class Run:
    """An index that runs along the lanes: part p holds base + offsets[p] and the indices that follow."""

    base: Value
    offsets: tuple[int, ...]


Entry = Value | Lanes | Run


@dataclass(frozen=True)
class Memory:
    """Memory of a kernel: where it starts, its element type, its dims and strides as values."""

    start: Value
    dtype: DType
    element: LType
    dims: tuple[Value, ...]
    strides: tuple[Value, ...]


@dataclass(frozen=True)
class Mode:
    """How a body is written: `parts` vectors of `lanes` elements; one element at a time where `lanes` is 0."""

    lanes: int
    parts: int
    rest: bool = False
    """Whether it takes only what whole groups of a wider mode leave over: few elements, in code that is kept short."""

    @property
    def size(self) -> int:
        """Elements taken at a time."""
        return max(self.lanes, 1) * self.parts


SINGLE = Mode(0, 1)
REST = Mode(0, 1, rest=True)


class Frame:
    """One kernel under construction. `bases` are the parts of addresses that were computed before a loop."""

    def __init__(self, module: Module, b: Builder, target: CpuTarget, symbols: Mapping[str, Value]) -> None:
        self.module = module
        self.b = b
        self.target = target
        self.symbols = dict(symbols)
        self.entries: dict[IRValue, Entry] = {}
        self.memories: dict[IRValue, Memory] = {}
        self.mode = SINGLE
        self.memo: Memo = {}
        self.mask: Value | None = None
        """The lanes whose elements are there, where a vector has fewer of them than lanes."""
        self.ahead: dict[tuple[Block, Mode], Memo] = {}
        """Steps that stand before a loop for all its rounds, see `bodies.py`."""
        self.bases: dict[Op, Value] = {}
        self.lines: dict[Op, Value] = {}
        """Of those bases, what places in a line add, see `accesses.py`."""
        self.neighbours: dict[Op, tuple[Op, ...]] = {}
        """Accesses of the present body that stand side by side, see `neighbours.py`."""
        self.waiting: dict[Op, Entry] = {}
        """What one access of a group has left for the others."""
        self.shares = False
        """Whether parts of this kernel become functions of their own, see `shared.py`."""
        self.is_rare = False
        """Whether what is written now runs once for very many elements, or where there are none."""
        self._dims: dict[Dim, Value] = {}

    @contextmanager
    def rarely(self) -> Iterator[None]:
        """What is written meanwhile takes no part of a kernel's time."""
        saved, self.is_rare = self.is_rare, True
        yield
        self.is_rare = saved

    def within(self, b: Builder, dims: Mapping[Dim, Value]) -> Frame:
        """For a function that does a part of this kernel; of its sizes it knows what it is given."""
        inner = Frame(self.module, b, self.target, {})
        inner.is_rare = self.is_rare
        inner._dims.update(dims)
        return inner

    def dim(self, dim: Dim) -> Value:
        """The value of a size. All sizes of a kernel are made in its first block, by `prepare`."""
        if dim not in self._dims:
            self._dims[dim] = emit_dim(self.b, dim, self.symbols)
        return self._dims[dim]

    def prepare(self, kernel: Op) -> None:
        """Computes every size that the kernel mentions."""
        for op in kernel.walk():
            for name in ("dim", "offset"):
                dim = op.attrs.get(name)
                if isinstance(dim, Dim):
                    self.dim(dim)

    def add_memory(self, value: IRValue, start: Value) -> None:
        type_ = value.type
        assert isinstance(type_, MemRefType)
        dtype = stored_dtype(type_)
        dims, strides = (tuple(map(self.dim, sizes)) for sizes in (type_.dims, type_.strides))
        self.memories[value] = Memory(start, dtype, memory_type(dtype), dims, strides)

    def value(self, value: IRValue) -> Value:
        """What a uniform value became."""
        entry = self.entries[value]
        assert isinstance(entry, Value), "a varying value is used where one value is needed"
        return entry


def stored_dtype(memory: MemRefType) -> DType:
    """The dtype that stands in memory: panels hold what the product computes in."""
    if memory.layout == "panels":
        return held(memory.policy.accum or memory.dtype)
    return memory.dtype  # tiles of a matrix unit, too


def vectors(frame: Frame, entry: Entry) -> tuple[Value, ...]:
    """Every part as a vector of the mode's lanes."""
    assert not isinstance(entry, Run)
    lanes = frame.mode.lanes
    if isinstance(entry, Value):
        return (_splat(frame, entry, lanes),) * frame.mode.parts
    return tuple(v if v.type.lanes else _splat(frame, v, lanes) for v in entry.parts)


def _splat(frame: Frame, value: Value, lanes: int) -> Value:
    """A value in every lane, made once per body."""
    key = ("splat", str(value))
    if key not in frame.memo:
        frame.memo[key] = frame.b.splat(value, lanes)
    return frame.memo[key]


def per_part(frame: Frame, entry: Value | Lanes) -> tuple[Value, ...]:
    return entry.parts if isinstance(entry, Lanes) else (entry,) * frame.mode.parts
