"""Folds of elements into few places, in one pass over the elements.

Each place gathers elements in a buffer. A full buffer is a whole subtree: it is folded in registers, and the fold goes
to a log. In the end the log is put in the order of places, and each place folds what it has there, and behind it what
is left in its buffer: subtrees of one size and a shorter last one, which is the aligned tree.

    next                  where the next element of each place goes, in a short word: every element reads it
    counts                how many folds each place has in the log; then: where the next one goes
    buffers               a[0] a[1] ... a[15] | b[0] ...
    log                   (a, fold of a[0..15])  (b, fold of b[0..15])  (a, fold of a[16..31])  ...
    folds                 a[0..15]  a[16..31]  room  b[0..15]  ...  room for the fold of what is left
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.target.cpu.registers import register_type
from tesserac.target.cpu.run_folds import Rows, fold_elements, fold_full
from tesserac.target.flow import choose, for_loop, if_then
from tesserac.target.llvm_types import I32, I64, Value, const_i64
from tesserac.tile.cpu.place_folds import GATHERS

NEXT = I32
"""There are at most `MANY_PLACES` buffers, of `GATHERS` elements each."""
TakeRow = Callable[[Value, Value, list[Value]], Sequence[Value]]
"""Takes the number of a row's place, and where the row stands; and gives what is carried from row to row."""
EachRow = Callable[[Sequence[Value], TakeRow], list[Value]]
"""Takes all rows in their order, from what is carried in the beginning on."""


def emit_gathered(rows: Rows, each_row: EachRow, last: Value, *room: Value) -> None:
    """Folds elements whose places have a number into those below `last`. The room is for two words of each place, the
    log, and the folds of all places."""
    b, zero, one = rows.frame.b, const_i64(0), const_i64(1)
    counts, log, folds = room
    gathered = _Gathered(rows, b.gep(I64, counts, b.add(last, one)), counts, log, folds)
    for_loop(b, zero, b.add(last, one), one, [], gathered.begin)

    def take(number: Value, offset: Value, held: list[Value]) -> Sequence[Value]:
        return gathered.take(number, offset, held[0])

    [count] = each_row([zero], take)
    for_loop(b, zero, b.add(last, one), one, [zero], gathered.make_room)
    for_loop(b, zero, count, one, [], gathered.put)
    for_loop(b, zero, last, one, [zero], gathered.finish)


@dataclass(frozen=True)
class _Gathered:
    rows: Rows
    next: Value
    counts: Value
    log: Value
    folds: Value

    def _next(self, place: Value) -> Value:
        return self.rows.frame.b.gep(NEXT, self.next, place)

    def _count(self, place: Value) -> Value:
        return self.rows.frame.b.gep(I64, self.counts, place)

    def _record(self, number: Value) -> tuple[Value, Value]:
        """The words of a record of the log."""
        b = self.rows.frame.b
        first = b.gep(I64, self.log, b.mul(number, const_i64(2)))
        return first, b.gep(I64, first, 1)

    def _element(self, base: Value, place: Value) -> Value:
        return self.rows.frame.b.gep(register_type(self.rows.accum), base, place)

    def _goes_to(self, place: Value) -> Value:
        b = self.rows.frame.b
        return b.cast("zext", b.load(NEXT, self._next(place), 4), I64)

    def _let_next(self, place: Value, position: Value) -> None:
        b = self.rows.frame.b
        b.store(b.cast("trunc", position, NEXT), self._next(place), 4)

    def begin(self, place: Value, _: list[Value]) -> Sequence[Value]:
        b = self.rows.frame.b
        self._let_next(place, b.mul(place, const_i64(GATHERS)))
        b.store(const_i64(0), self._count(place), 8)
        return []

    def take(self, place: Value, offset: Value, logged: Value) -> Sequence[Value]:
        """Puts an element into the buffer of its place; how many folds the log has then."""
        b = self.rows.frame.b
        here, element = self._goes_to(place), self.rows.element(offset)
        behind = b.add(here, const_i64(1))
        full = b.icmp("eq", b.binary("and", behind, const_i64(GATHERS - 1)), const_i64(0))

        def fold() -> Sequence[Value]:
            start = b.sub(behind, const_i64(GATHERS))
            total = fold_full(self.rows, self._element(self.rows.slots, start), GATHERS, element)
            owner, value = self._record(logged)
            b.store(place, owner, 8)
            b.store(total, value, 8)
            self._let_next(place, start)
            count = self._count(place)
            b.store(b.add(b.load(I64, count, 8), const_i64(1)), count, 8)
            return [b.add(logged, const_i64(1))]

        def keep() -> Sequence[Value]:
            self.rows.keep(self.rows.slots, here, element)
            self._let_next(place, behind)
            return [logged]

        return choose(b, full, fold, keep, rare=True)

    def make_room(self, place: Value, held: list[Value]) -> Sequence[Value]:
        """Where the folds of a place go, and one more."""
        b, first = self.rows.frame.b, held[0]
        count = self._count(place)
        folds = b.load(I64, count, 8)
        b.store(first, count, 8)
        return [b.add(b.add(first, folds), const_i64(1))]

    def put(self, number: Value, _: list[Value]) -> Sequence[Value]:
        """Puts a fold of the log behind the others of its place."""
        b, type_ = self.rows.frame.b, register_type(self.rows.accum)
        owner, value = self._record(number)
        count = self._count(b.load(I64, owner, 8))
        place = b.load(I64, count, 8)
        b.store(b.add(place, const_i64(1)), count, 8)
        self.rows.keep(self.folds, place, b.load(type_, value, type_.bits // 8))
        return []

    def finish(self, place: Value, held: list[Value]) -> Sequence[Value]:
        """Folds what a place has, from `first` on; where those of the next one begin."""
        b, type_, first = self.rows.frame.b, register_type(self.rows.accum), held[0]
        end, start = b.load(I64, self._count(place), 8), b.mul(place, const_i64(GATHERS))
        left = b.sub(self._goes_to(place), start)
        buffer, align = self._element(self.rows.slots, start), type_.bits // 8
        fold_elements(self.rows, buffer, left)
        self.rows.keep(self.folds, end, b.load(type_, buffer, align))
        some = b.cast("zext", b.icmp("ne", left, const_i64(0)), I64)
        terms = b.sub(b.add(end, some), first)

        def join() -> None:
            total = self._element(self.folds, first)
            fold_elements(self.rows, total, terms)
            self.rows.join(self.rows.place(place), b.load(type_, total, align))

        if_then(b, b.icmp("ne", terms, const_i64(0)), join)
        return [b.add(end, const_i64(1))]
