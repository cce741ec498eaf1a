"""Rows with the numbers of their places, which count the places of a tensor in row-major order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.forms import indices
from tesserac.target.cpu.elements.accesses import align_of, widened
from tesserac.target.cpu.elements.frame import Frame, Memory
from tesserac.target.cpu.elements.gathers import checked
from tesserac.target.cpu.indexed.run_folds import Rows
from tesserac.target.cpu.indexed.running_folds import TakeRow
from tesserac.target.flow import choose, for_loop
from tesserac.target.llvm_types import I64, Value, const_i64, vector
from tesserac.tile.dialect import FoldAt, memref_type
from tesserac.types import dtype as dt
from tesserac.types.policy import compute_dtype


def start_of(frame: Frame, values: Sequence[IRValue]) -> Value:
    """Where memory begins at its coordinates."""
    b, memory, place = frame.b, frame.memories[values[0]], const_i64(0)
    for value, stride in zip(values[1:], memory.strides, strict=False):
        place = b.add(place, b.mul(frame.value(value), stride))
    return b.gep(memory.element, memory.start, place)


def rows_of(
    frame: Frame, op: Op, found: FoldAt, count: Value, slots: Value, first: Value | None = None
) -> Rows:
    """The rows of a fold, `count` columns of them, for places from `first` on."""
    rows, target = frame.memories[found.rows[0]], frame.memories[found.target[0]]
    type_, computed, columns = memref_type(found.target[0]), len(found.places), indices(op, "columns")
    return Rows(
        frame, str(op.attrs["kind"]), compute_dtype(type_.dtype, type_.policy), type_.policy, rows,
        start_of(frame, found.rows), target, start_of(frame, found.target), target.dims[-computed:],
        target.strides[-computed:], (rows.strides[columns[0]], target.strides[columns[1]]) if columns else None,
        count, slots, const_i64(0) if first is None else first,
    )  # fmt: skip


def along_rows(frame: Frame, op: Op, found: FoldAt) -> tuple[Value, Value]:
    """How many rows there are, and how far apart neighbours are."""
    rows, dim = frame.memories[found.rows[0]], indices(op, "along")[0]
    return rows.dims[dim], rows.strides[dim]


def each_row(numbers: PlaceNumbers, size: Value, step: Value, begun: Sequence[Value], take: TakeRow) -> list[Value]:
    """Takes row after row; bad indices are told."""
    b = numbers.frame.b

    def one(i: Value, held: list[Value]) -> Sequence[Value]:
        return take(numbers.number(i, tell=True), b.mul(i, step), held)

    return for_loop(b, const_i64(0), size, const_i64(1), begun, one)


@dataclass(frozen=True)
class PlaceNumbers:
    """Indices of rows, one memory for each dim of `sizes`: where it begins, and how far apart neighbours are; `count`
    places in all. A bad one goes to its word, if there are words; `wraps`: negative ones count from the end."""

    frame: Frame
    memories: Sequence[Memory]
    starts: Sequence[Value]
    steps: Sequence[Value]
    sizes: Sequence[Value]
    count: Value
    words: Value | None
    wraps: bool

    @staticmethod
    def of(frame: Frame, op: Op, found: FoldAt, status: Sequence[IRValue]) -> PlaceNumbers:
        memories = [frame.memories[place[0]] for place in found.places]
        pairs = zip(memories, indices(op, "along")[1:], strict=True)
        words = frame.memories[status[0]].start if status else None
        sizes = frame.memories[found.target[0]].dims[-len(memories) :]
        return PlaceNumbers(
            frame, memories, [start_of(frame, place) for place in found.places],
            [memory.strides[dim] for memory, dim in pairs], sizes, reduce(frame.b.mul, sizes), words,
            op.attrs["bounds"] == "wrap",
        )  # fmt: skip

    def number(self, i: Value, tell: bool) -> Value:
        """The number of row i's place; that behind the last where an index is bad, which is told if wanted. An index
        that counts from the end is as rare as a bad one: both are looked at apart from the others."""
        b, found = self.frame.b, self._indices(i, 0)
        if self.words is None:
            return self._row_major(found)
        odd = reduce(partial(b.binary, "or"), map(partial(b.icmp, "uge"), found, self.sizes))
        return choose(
            b, odd, lambda: [self._looked_at(found, tell)], lambda: [self._row_major(found)], rare=True
        )[0]

    def _looked_at(self, found: Sequence[Value], tell: bool) -> Value:
        b = self.frame.b
        number, good = self._numbers(found, tell=False)
        assert good is not None
        if not tell:
            return b.select(good, number, self.count)
        return choose(b, good, lambda: [number], lambda: self._told(found))[0]

    def numbers(self, i: Value, lanes: int) -> tuple[Value, Value | None]:
        """Those of so many rows from i on, and which of them are good; bad ones are told."""
        return self._numbers(self._indices(i, lanes), tell=True)

    @property
    def are_neighbours(self) -> bool:
        """Whether the indices of neighbouring rows are neighbours in memory."""
        return all(step.number == 1 for step in self.steps)

    def _numbers(self, found: Sequence[Value], tell: bool) -> tuple[Value, Value | None]:
        b, good = self.frame.b, None
        if self.words is None:
            return self._row_major(found), None
        known, lanes = [], found[0].type.lanes
        for position, (index, dim) in enumerate(zip(found, self.sizes, strict=True)):
            word = b.gep(I64, self.words, position) if tell else None
            index, fits = checked(self.frame, self.wraps, index, b.splat(dim, lanes), word)
            good = fits if good is None else b.binary("and", good, fits)
            known.append(index)
        return self._row_major(known), good

    def _row_major(self, known: Sequence[Value]) -> Value:
        b, lanes = self.frame.b, known[0].type.lanes
        number = b.splat(const_i64(0), lanes)
        for index, dim in zip(known, self.sizes, strict=True):
            number = b.add(b.mul(number, b.splat(dim, lanes)), index)
        return number

    def _indices(self, i: Value, lanes: int) -> list[Value]:
        b, read = self.frame.b, []
        for memory, start, step in zip(self.memories, self.starts, self.steps, strict=True):
            address = b.gep(memory.element, start, b.mul(i, step))
            type_ = vector(memory.element, lanes) if lanes else memory.element
            read.append(widened(self.frame, b.load(type_, address, align_of(memory)), memory, dt.I64))
        return read

    def _told(self, found: Sequence[Value]) -> Sequence[Value]:
        """Puts the bad ones of indices into their words."""
        self._numbers(found, tell=True)
        return [self.count]
