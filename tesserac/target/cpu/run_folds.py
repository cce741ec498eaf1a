"""Folds of runs of rows through the aligned tree, each joined with what stands at its place.

Elements in a row: neighbours are folded, level by level, in place, vectors of them at a time.

    a b c d e     ->     ab cd e     ->     abcd e     ->     abcde

Rows of several columns: four at a time become one subtree, for as many columns as registers hold; subtrees are counted
in binary, and one whose neighbour waits in a slot is folded with it:

    slots after 1 .. 4 subtrees      level 0    s1   -   s3   -
                                     level 1     -  s12 s12   -
                                     level 2     -   -   -  s1234
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.forms import COMBINE
from tesserac.target.cpu.accesses import align_of, rounded, widened
from tesserac.target.cpu.frame import Frame, Memory
from tesserac.target.cpu.registers import register_type
from tesserac.target.cpu.scalars import emit_scalar
from tesserac.target.flow import do_while, for_loop, if_then
from tesserac.target.llvm_types import I1, I64, Value, const_i64, const_int, vector
from tesserac.tile.cpu.place_folds import SLOT_WORDS
from tesserac.types.dtype import DType
from tesserac.types.policy import Policy

WIDE = 4
"""Vectors of columns that are folded at once."""
LEAF_BITS = 2
"""A subtree is folded in registers from 2 ** LEAF_BITS rows."""


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
    fold_elements(rows, data, terms)
    type_ = register_type(rows.accum)
    rows.join(address, rows.frame.b.load(type_, data, type_.bits // 8))


def fold_elements(rows: Rows, data: Value, terms: Value) -> None:
    """The fold of neighbours, put where the first of them stands."""
    b, type_ = rows.frame.b, register_type(rows.accum)
    align = type_.bits // 8
    one = const_i64(1)

    def level(held: list[Value]) -> tuple[Value, Sequence[Value]]:
        [left] = held
        half = b.binary("lshr", left, one)
        _fold_neighbours(rows, data, half)
        last = b.load(type_, b.gep(type_, data, b.sub(left, one)), align)
        odd = b.icmp("ne", b.binary("and", left, one), const_i64(0))
        if_then(b, odd, lambda: b.store(last, b.gep(type_, data, half), align))
        rest = b.sub(left, half)
        return b.icmp("ugt", rest, one), [rest]

    def all_levels() -> None:
        do_while(b, [terms], level)

    if_then(b, b.icmp("ugt", terms, one), all_levels)


def fold_full(rows: Rows, data: Value, terms: int, last: Value) -> Value:
    """The fold of a power of two of neighbours, in registers. The last one is given: read so soon after it was written
    it would hold the others up."""
    b, type_ = rows.frame.b, register_type(rows.accum)
    lanes = min(terms, rows.frame.target.lanes(type_.bits))
    places = (b.gep(type_, data, i) for i in range(0, terms, lanes))
    held = [b.load(vector(type_, lanes), place, type_.bits // 8) for place in places]
    held[-1] = b.insert(held[-1], last, lanes - 1)
    while len(held) > 1:
        held = [_neighbours(rows, first, second) for first, second in zip(held[::2], held[1::2], strict=True)]
    [whole] = held
    while whole.type.lanes > 2:
        even, odd = (b.shuffle(whole, whole, range(k, whole.type.lanes, 2)) for k in (0, 1))
        whole = rows.combine(even, odd)
    return rows.combine(b.extract(whole, 0), b.extract(whole, 1))


def _neighbours(rows: Rows, first: Value, second: Value) -> Value:
    """Folds of neighbours in two vectors, as one."""
    even, odd = (range(k, 2 * first.type.lanes, 2) for k in (0, 1))
    b = rows.frame.b
    return rows.combine(b.shuffle(first, second, even), b.shuffle(first, second, odd))


def _fold_neighbours(rows: Rows, data: Value, pairs: Value) -> None:
    """data[i] = data[2 * i] + data[2 * i + 1]: what is written was read before."""
    b, type_ = rows.frame.b, register_type(rows.accum)
    lanes = rows.frame.target.lanes(type_.bits)
    vectors = b.binary("and", pairs, const_i64(-lanes))

    def pair(width: int) -> Callable[[Value, list[Value]], Sequence[Value]]:
        held = vector(type_, width) if width > 1 else type_

        def body(i: Value, _: list[Value]) -> Sequence[Value]:
            source = b.gep(type_, data, b.add(i, i))
            first, second = (b.load(held, b.gep(type_, source, k * width), type_.bits // 8) for k in (0, 1))
            folded = _neighbours(rows, first, second) if width > 1 else rows.combine(first, second)
            b.store(folded, b.gep(type_, data, i), type_.bits // 8)
            return []

        return body

    for_loop(b, const_i64(0), vectors, const_i64(lanes), [], pair(lanes))
    for_loop(b, vectors, pairs, const_i64(1), [], pair(1))


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
        leaves = b.binary("lshr", self.terms, const_i64(LEAF_BITS))

        def leaf(number: Value, _: list[Value]) -> Sequence[Value]:
            first = b.binary("shl", number, const_i64(LEAF_BITS))
            a, c, d, e = (self._row(b.add(first, const_i64(i)), column) for i in range(1 << LEAF_BITS))
            self._push(number, self._both(self._both(a, c), self._both(d, e)))
            return []

        for_loop(b, const_i64(0), leaves, const_i64(1), [], leaf)
        total = self._total(leaves, column)
        for part, value in enumerate(total):
            at = b.add(column, const_i64(part * self.lanes))
            rows.join(b.gep(rows.target.element, self.address, b.mul(at, rows.columns[1])), value)
        return []

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

    def _total(self, leaves: Value, column: Value) -> list[Value]:
        """The rows behind the last whole subtree, then the subtrees that wait, the shortest first."""
        b = self.rows.frame.b
        first, last = b.binary("shl", leaves, const_i64(LEAF_BITS)), b.sub(self.terms, const_i64(1))
        left = b.sub(self.terms, first)
        rest = [self._row(b.minimum_int(b.add(first, const_i64(i)), last), column) for i in range(3)]
        two = self._both(rest[0], rest[1])
        tail = [
            b.select(b.icmp("ult", left, const_i64(2)), one, b.select(b.icmp("ult", left, const_i64(3)), pair, all_))
            for one, pair, all_ in zip(rest[0], two, self._both(two, rest[2]), strict=True)
        ]
        some = b.cast("zext", b.icmp("ne", left, const_i64(0)), I64)
        above = b.sub(const_i64(64), b.intrinsic("llvm.ctlz", I64, [leaves, const_int(I1, 0)], [I64]))

        def fold(level: Value, held: list[Value]) -> Sequence[Value]:
            known, *total = held
            bit = b.binary("and", b.binary("lshr", leaves, level), const_i64(1))
            waits, has = (b.icmp("ne", flag, const_i64(0)) for flag in (bit, known))
            slots = self._held(level)
            joined = [b.select(has, both, slot) for both, slot in zip(self._both(slots, total), slots, strict=True)]
            return [b.binary("or", known, bit), *(b.select(waits, x, y) for x, y in zip(joined, total, strict=True))]

        return for_loop(b, const_i64(0), above, const_i64(1), [some, *tail], fold)[1:]
