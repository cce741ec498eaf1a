"""Folds of rows into places that integers say: each place folds its rows in their order (`numerics/order.py`).

Rows of several columns, and elements for places most of which have none:

    1. every row gets the number of its place; one without a place gets the number behind the last
    2. rows are put in the order of these numbers, stable: by counting the rows of each place, or, where most places
       have none, by the digits of the numbers, lowest first
    3. the rows of a place, now a run, are folded (`run_folds.py`) and joined with what stands there

          rows                 v0 v1 v2 v3 v4            counts    3: 2   5: 3
          places                5  3  5  5  3            runs     (3, 0) (5, 2) (6, 5)
          data                 v1 v4 v0 v2 v3            v1 + v4 goes to 3, (v0 + v2) + v3 to 5

A run is the number of its place and where it begins in the data; one more tells where the last run ends. Where a row is
one element, the data are elements in the accumulation type, else they say where the row stands. Other elements are not
put in order, see `running_folds.py`; they may be those of a range of the places alone (`few_places.py`, which has them
all where it is known that the places are few).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tesserac.ir.core import Op
from tesserac.target.cpu.elements.frame import Frame
from tesserac.target.cpu.indexed.few_places import rows_of_range
from tesserac.target.cpu.indexed.place_numbers import PlaceNumbers, along_rows, each_row, rows_of
from tesserac.target.cpu.indexed.run_folds import emit_runs
from tesserac.target.cpu.indexed.running_folds import EachRow, emit_running
from tesserac.target.flow import choose, do_while, for_loop, if_else
from tesserac.target.llvm_types import I64, Value, const_i64, undefined, vector
from tesserac.tile.cpu.place_folds import DIGITS, SPARSE
from tesserac.tile.dialect import fold_operands

PAIR = vector(I64, 2)
"""The number of a place, and where its row stands or its run begins."""
DIGIT_BITS = (DIGITS - 1).bit_length()


def emit_fold_at(frame: Frame, op: Op) -> None:
    _Folds(frame, op).emit()


class _Folds:
    def __init__(self, frame: Frame, op: Op) -> None:
        self.frame, self.b = frame, frame.b
        found = fold_operands(op)
        count, pairs, spare, counts, slots, own, *status = found.rest
        self.own = frame.memories[own]
        self.first, behind = (frame.value(value) for value in (found.first, found.behind))
        self.span = self.b.sub(behind, self.first)
        self.pairs, self.spare, self.counts = (frame.memories[v].start for v in (pairs, spare, counts))
        self.numbers = PlaceNumbers.of(frame, op, found, status)
        self.last = self.numbers.count
        self.rows = rows_of(frame, op, found, frame.value(count), frame.memories[slots].start, self.first)
        self.size, self.step = along_rows(frame, op, found)

    def emit(self) -> None:
        b = self.b
        dense = b.icmp("ule", self.last, b.mul(self.size, const_i64(SPARSE)))

        def running() -> None:
            emit_running(self.rows, self._each_row(), self.span, self.counts, self.pairs, self.spare)

        def by_digits() -> None:
            emit_runs(self.rows, *self._by_digits())

        if self.rows.columns is not None:
            emit_runs(self.rows, *choose(b, dense, self._by_counts, self._by_digits))
            return
        part = b.icmp("ult", self.span, self.last)
        if_else(b, b.binary("or", part, dense), running, by_digits)

    def _each_row(self) -> EachRow:
        if self.first.number == 0:
            return partial(each_row, self.numbers, self.size, self.step)
        return rows_of_range(self.numbers, self.first, self.span, (self.size, self.step), self.own)

    def _for_each(self, count: Value, body: Callable[[Value], None]) -> None:
        def step(i: Value, _: list[Value]) -> Sequence[Value]:
            body(i)
            return []

        for_loop(self.b, const_i64(0), count, const_i64(1), [], step)

    def _word(self, base: Value, i: Value) -> Value:
        return self.b.gep(I64, base, i)

    def _take(self, counter: Value) -> Value:
        """The next place that a counter gives out."""
        place = self.b.load(I64, counter, 8)
        self.b.store(self.b.add(place, const_i64(1)), counter, 8)
        return place

    def _pair(self, first: Value, second: Value) -> Value:
        return self.b.insert(self.b.insert(undefined(PAIR), first, 0), second, 1)

    def _store_pair(self, pairs: Value, i: Value, first: Value, second: Value) -> None:
        self.b.store(self._pair(first, second), self.b.gep(PAIR, pairs, i), 16)

    def _clear(self, count: Value) -> None:
        self._for_each(count, lambda i: self.b.store(const_i64(0), self._word(self.counts, i), 8))

    def _sum_counts(self, count: Value) -> None:
        """Counts become the place where the first row goes."""
        b = self.b

        def step(i: Value, held: list[Value]) -> Sequence[Value]:
            word = self._word(self.counts, i)
            here = b.load(I64, word, 8)
            b.store(held[0], word, 8)
            return [b.add(held[0], here)]

        for_loop(b, const_i64(0), count, const_i64(1), [const_i64(0)], step)

    # --- rows for few places --------------------------------------------------------------------------------------

    def _by_counts(self) -> list[Value]:
        b, bins = self.b, self.b.add(self.last, const_i64(1))
        self._clear(bins)
        self._for_each(self.size, lambda i: self._count(self._word(self.counts, self.numbers.number(i, tell=True))))
        self._sum_counts(bins)
        self._for_each(self.size, self._put)

        def add_run(t: Value, held: list[Value]) -> Sequence[Value]:
            """After all rows are put, a count is where the run of its place ends."""
            runs, begin = held
            end = b.load(I64, self._word(self.counts, t), 8)
            self._store_pair(self.pairs, runs, t, begin)
            return [b.add(runs, b.cast("zext", b.icmp("ne", begin, end), I64)), end]

        zero = const_i64(0)
        runs, end = for_loop(b, zero, self.last, const_i64(1), [zero, zero], add_run)
        self._store_pair(self.pairs, runs, self.last, end)
        return [self.pairs, runs, self.spare, const_i64(1)]

    def _count(self, counter: Value) -> None:
        self._take(counter)

    def _put(self, i: Value) -> None:
        place = self._take(self._word(self.counts, self.numbers.number(i, tell=False)))
        self.b.store(self.b.mul(i, self.step), self._word(self.spare, place), 8)

    # --- many places ----------------------------------------------------------------------------------------------

    def _by_digits(self) -> list[Value]:
        b = self.b
        self._for_each(
            self.size, lambda i: self._store_pair(self.pairs, i, self.numbers.number(i, tell=True), b.mul(i, self.step))
        )

        def one_digit(held: list[Value]) -> tuple[Value, Sequence[Value]]:
            pairs, spare, shift = held
            self._move(pairs, spare, shift)
            above = b.add(shift, const_i64(DIGIT_BITS))
            left = b.binary("lshr", self.last, b.minimum_int(above, const_i64(63)))
            return b.icmp("ne", left, const_i64(0)), [spare, pairs, above]

        pairs, spare, _ = do_while(b, [self.pairs, self.spare, const_i64(0)], one_digit)
        runs = self._find_runs(pairs, spare)
        if self.rows.columns is None:  # an element is no longer than the pair that it goes over
            self._for_each(self.size, lambda i: self.rows.keep(pairs, i, self.rows.element(self._second(pairs, i))))
            return [spare, runs, pairs, const_i64(1)]
        return [spare, runs, b.gep(I64, pairs, 1), const_i64(2)]

    def _first(self, pairs: Value, i: Value) -> Value:
        return self.b.load(I64, self.b.gep(PAIR, pairs, i), 8)

    def _second(self, pairs: Value, i: Value) -> Value:
        return self.b.load(I64, self.b.gep(I64, self.b.gep(PAIR, pairs, i), 1), 8)

    def _move(self, pairs: Value, spare: Value, shift: Value) -> None:
        """Puts pairs in the order of one digit."""
        b, values = self.b, const_i64(DIGITS)

        def counter(number: Value) -> Value:
            digit = b.binary("and", b.binary("lshr", number, shift), const_i64(DIGITS - 1))
            return self._word(self.counts, digit)

        def move(i: Value) -> None:
            number = self._first(pairs, i)
            self._store_pair(spare, self._take(counter(number)), number, self._second(pairs, i))

        self._clear(values)
        self._for_each(self.size, lambda i: self._count(counter(self._first(pairs, i))))
        self._sum_counts(values)
        self._for_each(self.size, move)

    def _find_runs(self, pairs: Value, runs: Value) -> Value:
        """A run begins where the number is another than before; rows without a place are behind all others."""
        b, minus = self.b, const_i64(-1)

        def look(i: Value, held: list[Value]) -> Sequence[Value]:
            count, before, end = held
            number = self._first(pairs, i)
            known = b.icmp("ne", number, self.last)
            begins = b.binary("and", known, b.icmp("ne", number, before))
            self._store_pair(runs, count, number, i)
            end = b.select(known, b.add(i, const_i64(1)), end)
            return [b.add(count, b.cast("zext", begins, I64)), number, end]

        zero = const_i64(0)
        count, _, end = for_loop(b, zero, self.size, const_i64(1), [zero, minus, zero], look)
        self._store_pair(runs, count, self.last, end)
        return count
