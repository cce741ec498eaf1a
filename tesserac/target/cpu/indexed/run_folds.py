"""Folds of runs of rows, each joined with what stands at its place: chains of a segment's rows, then the tree.

    a[0] ... a[511]   a[512] ... a[1023]   a[1024] ... a[1029]     ->     (s0 + s1) + s2

Rows of several columns go as many columns at a time as registers hold; segments are counted in binary, and one whose
neighbour waits in a slot is folded with it:

    slots after 1 .. 4 segments      level 0    s1   -   s3   -
                                     level 1     -  s12 s12   -
                                     level 2     -   -   -  s1234
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.forms import COMBINE
from tesserac.numerics.order import RUN_SEGMENT
from tesserac.target.cpu.elements.accesses import align_of, rounded, widened
from tesserac.target.cpu.elements.frame import Frame, Memory
from tesserac.target.cpu.elements.registers import register_type
from tesserac.target.cpu.elements.scalars import emit_scalar
from tesserac.target.flow import do_while, for_loop, if_then
from tesserac.target.llvm_types import I1, I64, Value, const_float, const_i64, const_int, vector
from tesserac.tile.bodies import identity_of
from tesserac.tile.cpu.place_folds import SLOT_WORDS
from tesserac.types.dtype import DType
from tesserac.types.policy import Policy

WIDE = 4
"""Vectors of columns that are folded at once."""
SEGMENT_BITS = RUN_SEGMENT.bit_length() - 1


@dataclass(frozen=True)
class Rows:
    """What is folded, and into what: `start` of the first row and `target_start` of the first place. `columns` are the
    strides of neighbouring columns in both, if a row has several: `count` of them. Places are numbered from `first` on.
    """

    frame: Frame
    kind: str
    accum: DType
    policy: Policy
    memory: Memory
    start: Value
    target: Memory
    target_start: Value
    sizes: Sequence[Value]
    strides: Sequence[Value]
    columns: tuple[Value, Value] | None
    count: Value
    slots: Value
    first: Value

    def combine(self, left: Value, right: Value) -> Value:
        return emit_scalar(self.frame.b, COMBINE[self.kind].removeprefix("scalar."), self.accum, [left, right])

    def empty(self, lanes: int) -> Value:
        """What a chain starts from: folded with a row it is that row, to the sign of its zero."""
        type_ = register_type(self.accum)
        start = -0.0 if self.kind == "sum" else float(identity_of(self.kind, self.accum))
        return const_float(vector(type_, lanes) if lanes else type_, start)

    def load(self, memory: Memory, address: Value, lanes: int) -> Value:
        """An element, or a vector of neighbours, in the accumulation type."""
        type_ = vector(memory.element, lanes) if lanes else memory.element
        return widened(self.frame, self.frame.b.load(type_, address, align_of(memory)), memory, self.accum)

    def element(self, offset: Value) -> Value:
        """The element that stands `offset` behind the first one."""
        return self.load(self.memory, self.frame.b.gep(self.memory.element, self.start, offset), 0)

    def keep(self, data: Value, place: Value, element: Value) -> None:
        """Writes an element to the data."""
        b, type_ = self.frame.b, register_type(self.accum)
        b.store(element, b.gep(type_, data, place), type_.bits // 8)

    def place(self, number: Value) -> Value:
        """Where the place of a number stands."""
        b, offset = self.frame.b, const_i64(0)
        number = b.add(number, self.first)
        for size, stride in zip(reversed(self.sizes[1:]), reversed(self.strides[1:]), strict=True):
            offset = b.add(offset, b.mul(b.binary("urem", number, size), stride))
            number = b.binary("udiv", number, size)
        offset = b.add(offset, b.mul(number, self.strides[0]))
        return b.gep(self.target.element, self.target_start, offset)

    def join(self, address: Value, total: Value) -> None:
        """Folds what stands there with the total."""
        joined = self.combine(self.load(self.target, address, total.type.lanes), total)
        stored = rounded(self.frame, joined, self.target, self.policy, self.accum)
        self.frame.b.store(stored, address, align_of(self.target))


def emit_runs(rows: Rows, runs: Value, count: Value, data: Value, step: Value) -> None:
    """Folds `count` runs; the data of neighbouring rows are `step` apart."""
    b = rows.frame.b

    def one(number: Value, _: list[Value]) -> Sequence[Value]:
        run = b.gep(I64, runs, b.mul(number, const_i64(2)))
        place, begin, end = (b.load(I64, b.gep(I64, run, word), 8) for word in (0, 1, 3))
        address, terms = rows.place(place), b.sub(end, begin)
        if rows.columns is None:
            _elements(rows, b.gep(register_type(rows.accum), data, begin), terms, address)
        else:
            _columns(rows, b.gep(I64, data, b.mul(begin, step)), step, terms, address)
        return []

    for_loop(b, const_i64(0), count, const_i64(1), [], one)


# --- elements in a row ------------------------------------------------------------------------------------------------


def _elements(rows: Rows, data: Value, terms: Value, address: Value) -> None:
    """Segments take the room of elements that were folded."""
    b, type_ = rows.frame.b, register_type(rows.accum)
    length = const_i64(RUN_SEGMENT)

    def load(i: Value) -> list[Value]:
        return [b.load(type_, b.gep(type_, data, i), type_.bits // 8)]

    def segment(begin: Value, held: list[Value]) -> Sequence[Value]:
        end = b.minimum_int(b.add(begin, length), terms)
        rows.keep(data, held[0], chain(rows, begin, end, load, 0)[0])
        return [b.add(held[0], const_i64(1))]

    [segments] = for_loop(b, const_i64(0), terms, length, [const_i64(0)], segment)
    fold_segments(rows, data, segments)
    rows.join(address, b.load(type_, data, type_.bits // 8))


def chain(
    rows: Rows, begin: Value, end: Value, load: Callable[[Value], list[Value]], lanes: int, parts: int = 1
) -> list[Value]:
    """The fold of rows one after the other."""

    def step(i: Value, held: list[Value]) -> Sequence[Value]:
        return [rows.combine(so_far, row) for so_far, row in zip(held, load(i), strict=True)]

    return for_loop(rows.frame.b, begin, end, const_i64(1), [rows.empty(lanes)] * parts, step)


def fold_segments(rows: Rows, data: Value, terms: Value) -> None:
    """The tree over neighbours, put where the first of them stands: data[i] = data[2 * i] + data[2 * i + 1]."""
    b, type_, one = rows.frame.b, register_type(rows.accum), const_i64(1)

    def load(i: Value) -> Value:
        return b.load(type_, b.gep(type_, data, i), type_.bits // 8)

    def pair(i: Value, _: list[Value]) -> Sequence[Value]:
        twice = b.add(i, i)
        rows.keep(data, i, rows.combine(load(twice), load(b.add(twice, one))))
        return []

    def level(held: list[Value]) -> tuple[Value, Sequence[Value]]:
        [left] = held
        half = b.binary("lshr", left, one)
        for_loop(b, const_i64(0), half, one, [], pair)
        odd = b.icmp("ne", b.binary("and", left, one), const_i64(0))
        if_then(b, odd, lambda: rows.keep(data, half, load(b.sub(left, one))))
        rest = b.sub(left, half)
        return b.icmp("ugt", rest, one), [rest]

    def all_levels() -> None:
        do_while(b, [terms], level)

    if_then(b, b.icmp("ugt", terms, one), all_levels)


# --- rows of several columns ------------------------------------------------------------------------------------------


def _columns(rows: Rows, data: Value, step: Value, terms: Value, address: Value) -> None:
    """Vectors of columns where neighbours are neighbours in memory, then the columns that are left."""
    b = rows.frame.b
    assert rows.columns is not None
    lanes = rows.frame.target.lanes(register_type(rows.accum).bits)
    contiguous = all(stride.number == 1 for stride in rows.columns)
    done = const_i64(0)
    for width in (WIDE * lanes, lanes, 1) if contiguous else (1,):
        end = b.sub(rows.count, b.binary("urem", rows.count, const_i64(width)))
        parts = _Columns(rows, data, step, terms, address, 0 if width == 1 else lanes, max(1, width // lanes))
        for_loop(b, done, end, const_i64(width), [], parts.emit)
        done = end


@dataclass(frozen=True)
class _Columns:
    """`parts` vectors of `lanes` columns of a run; one column where `lanes` is 0."""

    rows: Rows
    data: Value
    step: Value
    terms: Value
    address: Value
    lanes: int
    parts: int

    def emit(self, column: Value, _: list[Value]) -> Sequence[Value]:
        rows, b = self.rows, self.rows.frame.b
        assert rows.columns is not None
        segments = b.binary("lshr", self.terms, const_i64(SEGMENT_BITS))

        def segment(number: Value, _: list[Value]) -> Sequence[Value]:
            first = b.binary("shl", number, const_i64(SEGMENT_BITS))
            self._push(number, self._chain(first, b.add(first, const_i64(RUN_SEGMENT)), column))
            return []

        for_loop(b, const_i64(0), segments, const_i64(1), [], segment)
        total = self._total(segments, column)
        for part, value in enumerate(total):
            at = b.add(column, const_i64(part * self.lanes))
            rows.join(b.gep(rows.target.element, self.address, b.mul(at, rows.columns[1])), value)
        return []

    def _chain(self, begin: Value, end: Value, column: Value) -> list[Value]:
        return chain(self.rows, begin, end, lambda i: self._row(i, column), self.lanes, self.parts)

    def _row(self, number: Value, column: Value) -> list[Value]:
        """The columns of one row."""
        rows, b = self.rows, self.rows.frame.b
        assert rows.columns is not None
        offset = b.load(I64, b.gep(I64, self.data, b.mul(number, self.step)), 8)
        row = b.gep(rows.memory.element, b.gep(rows.memory.element, rows.start, offset), b.mul(column, rows.columns[0]))
        places = (b.gep(rows.memory.element, row, part * self.lanes) for part in range(self.parts))
        return [rows.load(rows.memory, place, self.lanes) for place in places]

    def _both(self, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        return [self.rows.combine(x, y) for x, y in zip(left, right, strict=True)]

    def _slot(self, level: Value, part: int) -> Value:
        b = self.rows.frame.b
        slot = b.gep(I64, self.rows.slots, b.mul(level, const_i64(SLOT_WORDS)))
        return b.gep(register_type(self.rows.accum), slot, part * self.lanes)

    def _held(self, level: Value) -> list[Value]:
        b, type_ = self.rows.frame.b, register_type(self.rows.accum)
        held = vector(type_, self.lanes) if self.lanes else type_
        return [b.load(held, self._slot(level, part), type_.bits // 8) for part in range(self.parts)]

    def _push(self, number: Value, subtree: list[Value]) -> None:
        """Subtree `number` is folded with all whose neighbour it completes."""
        b = self.rows.frame.b
        full = b.intrinsic("llvm.cttz", I64, [b.binary("xor", number, const_i64(-1)), const_int(I1, 0)], [I64])
        folded = for_loop(
            b, const_i64(0), full, const_i64(1), subtree, lambda level, held: self._both(self._held(level), held)
        )
        for part, value in enumerate(folded):
            b.store(value, self._slot(full, part), register_type(self.rows.accum).bits // 8)

    def _total(self, segments: Value, column: Value) -> list[Value]:
        """The rows behind the last whole segment, then the subtrees that wait, the shortest first."""
        b = self.rows.frame.b
        rest = self._chain(b.binary("shl", segments, const_i64(SEGMENT_BITS)), self.terms, column)
        above = b.sub(const_i64(64), b.intrinsic("llvm.ctlz", I64, [segments, const_int(I1, 0)], [I64]))

        def fold(level: Value, total: list[Value]) -> Sequence[Value]:
            bit = b.binary("and", b.binary("lshr", segments, level), const_i64(1))
            waits, slots = b.icmp("ne", bit, const_i64(0)), self._held(level)
            return [b.select(waits, x, y) for x, y in zip(self._both(slots, total), total, strict=True)]

        return for_loop(b, const_i64(0), above, const_i64(1), rest, fold)
