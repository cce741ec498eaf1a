"""Folds of elements into a range of few places, in one pass over all elements.

A program whose range has all places takes element after element (`running_folds.py`). Others first list, of a few
thousand rows at a time, those with a place of theirs, in their order:

    places      5  3  9  5  4 ...        range 4 .. 7     rows     0  3  4
                                                          numbers  1  1  0

So every thread reads all indices, which are little beside the work on an element, and no two write one place. What a
place folds, and in which order, does not depend on the range that it is in.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op
from tesserac.target.cpu.elements.frame import Frame, Memory
from tesserac.target.cpu.indexed.place_numbers import PlaceNumbers, along_rows, each_row, rows_of
from tesserac.target.cpu.indexed.running_folds import EachRow, TakeRow, emit_running
from tesserac.target.flow import choose, for_loop
from tesserac.target.llvm_types import I64, Value, const_i64, const_vector, integer, undefined
from tesserac.tile.cpu.place_folds import LISTED
from tesserac.tile.dialect import fold_operands


def emit_fold_few(frame: Frame, op: Op) -> None:
    b, found = frame.b, fold_operands(op)
    first, behind = (frame.value(value) for value in (found.first, found.behind))
    counts, log, folds, entries, own, *status = found.rest
    numbers = PlaceNumbers.of(frame, op, found, status)
    size, step = along_rows(frame, op, found)
    room = [frame.memories[value].start for value in (counts, log, folds)]
    rows = rows_of(frame, op, found, const_i64(1), frame.memories[entries].start, first)
    span = b.sub(behind, first)
    emit_running(rows, rows_of_range(numbers, first, span, (size, step), frame.memories[own]), span, *room)


def rows_of_range(
    numbers: PlaceNumbers, first: Value, span: Value, along: tuple[Value, Value], own: Memory
) -> EachRow:
    """Takes the rows of `span` places from `first` on, in their order; `own` has room for a list of them."""
    b = numbers.frame.b
    listed = _Listed(numbers, first, span, *along, own.start, b.gep(I64, own.start, own.strides[0]))

    def rows_in_order(begun: Sequence[Value], take: TakeRow) -> list[Value]:
        whole = b.icmp("eq", span, numbers.count)
        return choose(
            b, whole, lambda: each_row(numbers, *along, begun, take), lambda: listed.each_row(begun, take)
        )

    return rows_in_order


@dataclass(frozen=True)
class _Listed:
    """Rows of which those for `span` places from `first` on are listed: where they stand, and the numbers of their
    places, counted from the first."""

    places: PlaceNumbers
    first: Value
    span: Value
    size: Value
    step: Value
    rows: Value
    numbers: Value

    def each_row(self, begun: Sequence[Value], take: TakeRow) -> list[Value]:
        b = self.places.frame.b

        def block(low: Value, held: list[Value]) -> Sequence[Value]:
            high = b.minimum_int(b.add(low, const_i64(LISTED)), self.size)
            count = self._list(low, high)

            def one(j: Value, held: list[Value]) -> Sequence[Value]:
                offset, number = (b.load(I64, b.gep(I64, words, j), 8) for words in (self.rows, self.numbers))
                return take(number, offset, held)

            return for_loop(b, const_i64(0), count, const_i64(1), held, one)

        return for_loop(b, const_i64(0), self.size, const_i64(LISTED), begun, block)

    def _list(self, low: Value, high: Value) -> Value:
        """Lists rows from one to before another; how many there are."""
        b, target = self.places.frame.b, self.places.frame.target
        count, lanes = const_i64(0), target.lanes(I64.bits)
        if target.has_masks and self.places.are_neighbours:
            whole = b.add(low, b.binary("and", b.sub(high, low), const_i64(-lanes)))
            [count] = for_loop(b, low, whole, const_i64(lanes), [count], self._list_vector)
            low = whole
        return for_loop(b, low, high, const_i64(1), [count], self._list_one)[0]

    def _list_one(self, i: Value, held: list[Value]) -> Sequence[Value]:
        """Every row is written; the next one goes over it unless it is meant."""
        b, [count] = self.places.frame.b, held
        number = b.sub(self.places.number(i, tell=True), self.first)
        self._write(count, b.mul(i, self.step), number)
        return [b.add(count, b.cast("zext", b.icmp("ult", number, self.span), I64))]

    def _list_vector(self, i: Value, held: list[Value]) -> Sequence[Value]:
        """Those of a vector that are meant are put side by side, and it is written whole."""
        b, [count] = self.places.frame.b, held
        lanes = self.places.frame.target.lanes(I64.bits)
        found, good = self.places.numbers(i, lanes)
        number = b.sub(found, b.splat(self.first, lanes))
        meant = b.icmp("ult", number, b.splat(self.span, lanes))
        meant = meant if good is None else b.binary("and", meant, good)
        ascending = const_vector([const_i64(lane) for lane in range(lanes)])
        offset = b.mul(b.add(b.splat(i, lanes), ascending), b.splat(self.step, lanes))
        whole = number.type
        packed = (
            b.intrinsic("llvm.experimental.vector.compress", whole, [value, meant, undefined(whole)], [whole])
            for value in (offset, number)
        )
        self._write(count, *packed)
        bits = b.cast("bitcast", meant, integer(lanes))
        return [b.add(count, b.cast("zext", b.intrinsic("llvm.ctpop", bits.type, [bits], [bits.type]), I64))]

    def _write(self, count: Value, offset: Value, number: Value) -> None:
        b = self.places.frame.b
        for value, words in ((offset, self.rows), (number, self.numbers)):
            b.store(value, b.gep(I64, words, count), 8)
