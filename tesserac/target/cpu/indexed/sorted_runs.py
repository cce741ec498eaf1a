"""Rows that several threads sort: each a part of it, then each a range of what all of them sorted.

    row    | 5 2 9 1 | 7 3 8 6 |        parts become runs       | 1 2 5 9 | 3 6 7 8 |
                                        ranges of their merge    1 2 3 5   6 7 8 9

A range begins at a rank. Its key is found bit by bit, from the highest: the largest of which no more than `rank` keys
are smaller. The places in each run between which it must be draw together on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, attr
from tesserac.ir.core import Value as IRValue
from tesserac.ir.indexed import gives_elements
from tesserac.target.cpu.elements.frame import Frame
from tesserac.target.cpu.indexed.radix import (
    HALF,
    Elements,
    Form,
    Keys,
    Line,
    Packed,
    Radix,
    Wide,
    array,
    for_each,
    line_of,
)
from tesserac.target.dims import ceil_div
from tesserac.target.flow import choose, do_while, for_loop, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I64, Value, const_i64
from tesserac.tile.dialect import memory_operands
from tesserac.types.dtype import DType


def emit_sort_run(frame: Frame, op: Op) -> None:
    (row, *entries), (first, behind, *_) = memory_operands(op)
    b, low, high = frame.b, frame.value(first), frame.value(behind)
    source = frame.memories[row[0]]
    form, size = _form(op, source.dtype), b.sub(high, low)
    line = line_of(source, _address(frame, row), source.strides[attr(op, "dim", int)]).behind(b, low)
    here, spare = (array(form, _address(frame, place)).behind(b, low) for place in entries)
    radix = Radix(b, form, here.start, spare.start, _scratch(frame, op))

    def keep(i: Value, held: list[Value]) -> Sequence[Value]:
        return radix.keep(form.entry(b, line.load(b, i), b.add(low, i)), i, held)

    done = array(form, radix.finish(size, for_loop(b, const_i64(0), size, const_i64(1), radix.no_bits(), keep)))
    elsewhere = b.icmp("ne", done.start, here.start)
    if_then(b, elsewhere, lambda: for_each(b, size, lambda i: here.store(b, done.load(b, i), i)))


def emit_merge_runs(frame: Frame, op: Op) -> None:
    (out, *entries), (first, behind, length, *_) = memory_operands(op)
    b, dim, target = frame.b, attr(op, "dim", int), frame.memories[out[0]]
    low, high, span = map(frame.value, (first, behind, length))
    form, size = _form(op, attr(op, "sorts", DType)), target.dims[dim]
    all_runs, room, spare = (array(form, _address(frame, place)) for place in entries)
    runs = _Runs(b, form, all_runs, span, size, ceil_div(b, size, span), _scratch(frame, op))
    result = line_of(target, _address(frame, out), target.strides[dim]).behind(b, low)

    def merged() -> list[Value]:
        runs.find(low, 0)
        runs.find(high, 1)
        return [runs.merge(room.behind(b, low), spare.behind(b, low))]

    alone = b.icmp("eq", runs.count, const_i64(1))
    done = array(form, choose(b, alone, lambda: [all_runs.start], merged)[0])
    for_each(b, b.sub(high, low), lambda i: result.store(b, form.given(b, done.load(b, i)), i))


def _form(op: Op, dtype: DType) -> Form:
    """How entries stand in the memory of `run_types`."""
    keys = Keys(dtype, op.attrs["descending"] is True)
    if gives_elements(op):
        return Elements(keys)
    return Packed(keys) if dtype.bits <= HALF else Wide(keys)


def _address(frame: Frame, place: Sequence[IRValue]) -> Value:
    b, memory = frame.b, frame.memories[place[0]]
    offset = const_i64(0)
    for value, stride in zip(place[1:], memory.strides, strict=True):
        offset = b.add(offset, b.mul(frame.value(value), stride))
    return b.gep(memory.element, memory.start, offset)


def _scratch(frame: Frame, op: Op) -> Value:
    """Counts of digits, or places in runs."""
    return frame.memories[op.operands[-1]].start


@dataclass(frozen=True)
class _Runs:
    """`count` runs of `span` entries of one row, which has `size`; the last may be shorter. Of the rows of `bounds`
    two are where ranges begin and end in each run, the others between which places the search is."""

    b: Builder
    form: Form
    entries: Line
    span: Value
    size: Value
    count: Value
    bounds: Value

    def find(self, rank: Value, row: int) -> None:
        """Puts into a row how many entries of each run are among the first `rank` of all."""
        b, lows, highs, mids = self.b, self._bounds(row), self._bounds(2), self._bounds(3)

        def begin(run: Value) -> None:
            lows.store(b, const_i64(0), run)
            highs.store(b, b.minimum_int(self.span, b.sub(self.size, b.mul(run, self.span))), run)

        def one_bit(bit: Value, held: list[Value]) -> Sequence[Value]:
            [key] = held
            tried = b.binary("or", key, b.binary("lshr", const_i64(1 << (self.form.bits - 1)), bit))
            below = self._sum(lambda run: self._search(tried, run, lows, highs, mids))
            taken = b.icmp("ule", below, rank)
            for_each(b, self.count, lambda run: self._narrow(taken, run, lows, highs, mids))
            return [b.select(taken, tried, key)]

        for_each(b, self.count, begin)
        for_loop(b, const_i64(0), const_i64(self.form.bits), const_i64(1), [const_i64(0)], one_bit)
        self._take_equal(rank, lows, highs)

    def _bounds(self, row: int) -> Line:
        return Line(self.b.gep(I64, self.bounds, self.b.mul(self.count, const_i64(row))), const_i64(1), I64)

    def _sum(self, term: Callable[[Value], Value]) -> Value:
        return for_loop(
            self.b, const_i64(0), self.count, const_i64(1), [const_i64(0)], lambda i, s: [self.b.add(s[0], term(i))]
        )[0]

    def _search(self, key: Value, run: Value, lows: Line, highs: Line, mids: Line) -> Value:
        """How many entries of a run have smaller keys, which is between two known places."""
        b, entries = self.b, self.entries.behind(self.b, self.b.mul(run, self.span))
        begun = [lows.load(b, run), highs.load(b, run)]

        def halve(held: list[Value]) -> tuple[Value, Sequence[Value]]:
            low, high = held
            middle = b.binary("lshr", b.add(low, high), const_i64(1))
            smaller = b.icmp("ult", self.form.key(b, entries.load(b, middle)), key)
            low = b.select(smaller, b.add(middle, const_i64(1)), low)
            high = b.select(smaller, high, middle)
            return b.icmp("ult", low, high), [low, high]

        found = choose(b, b.icmp("ult", *begun), lambda: do_while(b, begun, halve)[:1], lambda: begun[:1])[0]
        mids.store(b, found, run)
        return found

    def _narrow(self, taken: Value, run: Value, lows: Line, highs: Line, mids: Line) -> None:
        b, found = self.b, mids.load(self.b, run)
        lows.store(b, b.select(taken, found, lows.load(b, run)), run)
        highs.store(b, b.select(taken, highs.load(b, run), found), run)

    def _take_equal(self, rank: Value, lows: Line, highs: Line) -> None:
        """Of entries with the key that was found, which stand between two places of each run, those of earlier runs
        come first."""
        b, below = self.b, self._sum(lambda run: lows.load(self.b, run))

        def take(run: Value, held: list[Value]) -> Sequence[Value]:
            low = lows.load(b, run)
            taken = b.minimum_int(held[0], b.sub(highs.load(b, run), low))
            lows.store(b, b.add(low, taken), run)
            return [b.sub(held[0], taken)]

        for_loop(b, const_i64(0), self.count, const_i64(1), [b.sub(rank, below)], take)

    def merge(self, room: Line, spare: Line) -> Value:
        """Merges what is in the range of two runs each, then of two of these, in the order of the runs; where all of it
        is then, one of two lines."""
        b, starts, ends = self.b, self._bounds(0), self._bounds(1)

        def name_places(run: Value) -> None:
            first = b.mul(run, self.span)
            for places in (starts, ends):
                places.store(b, b.add(places.load(b, run), first), run)

        def one_level(held: list[Value]) -> tuple[Value, Sequence[Value]]:
            source, target, other, count = held
            pairs = b.binary("lshr", b.add(count, const_i64(1)), const_i64(1))

            def one(number: Value, held: list[Value]) -> Sequence[Value]:
                return [self._pair(number, count, held[0], array(self.form, source), array(self.form, target))]

            for_loop(b, const_i64(0), pairs, const_i64(1), [const_i64(0)], one)
            return b.icmp("ugt", pairs, const_i64(1)), [target, other, target, pairs]

        for_each(b, self.count, name_places)
        return do_while(b, [self.entries.start, room.start, spare.start, self.count], one_level)[0]

    def _pair(self, number: Value, count: Value, at: Value, source: Line, target: Line) -> Value:
        """Merges two neighbours to a place, or takes the last one, which has none; the place behind."""
        b, starts, ends = self.b, self._bounds(0), self._bounds(1)
        left = b.binary("shl", number, const_i64(1))
        right = b.minimum_int(b.add(left, const_i64(1)), b.sub(count, const_i64(1)))
        low, middle = starts.load(b, left), ends.load(b, left)
        high = ends.load(b, right)
        other = b.select(b.icmp("eq", left, right), high, starts.load(b, right))
        behind = _merge(b, self.form, source, (low, middle), (other, high), target, at)
        starts.store(b, at, number)
        ends.store(b, behind, number)
        return behind


def _merge(
    b: Builder, form: Form, source: Line, left: tuple[Value, Value], right: tuple[Value, Value], target: Line, at: Value
) -> Value:
    """Two ranges of a line, each in order, as one in order; of equal entries those of the left one come first. No
    branch depends on keys."""

    def smaller(held: list[Value]) -> tuple[Value, Sequence[Value]]:
        i, j, place = held
        one, other = source.load(b, i), source.load(b, j)
        later = b.icmp("ult", form.key(b, other), form.key(b, one))
        target.store(b, b.select(later, other, one), place)
        step = b.cast("zext", later, I64)
        i, j = b.add(i, b.sub(const_i64(1), step)), b.add(j, step)
        return both(i, j), [i, j, b.add(place, const_i64(1))]

    def both(i: Value, j: Value) -> Value:
        return b.binary("and", b.icmp("ult", i, left[1]), b.icmp("ult", j, right[1]))

    def copied(i: Value, held: list[Value]) -> Sequence[Value]:
        target.store(b, source.load(b, i), held[0])
        return [b.add(held[0], const_i64(1))]

    begun = [left[0], right[0], at]
    i, j, at = choose(b, both(left[0], right[0]), lambda: do_while(b, begun, smaller), lambda: begun)
    for low, high in ((i, left[1]), (j, right[1])):
        [at] = for_loop(b, low, high, const_i64(1), [at], copied)
    return at
