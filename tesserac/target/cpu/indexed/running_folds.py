"""Folds of elements into places, in one pass over the elements.

Each place has the chain of a segment that is under way, and how many elements it still takes. One that takes no more
goes to a log. In the end the segments of the log are put in the order of places, behind them those under way, and each
place folds its own through the tree. Where no place has a whole segment, the log is empty: what is under way is all.

    entries               (chain, elements to come) of a | of b ...
    log                   (a, a[0..511])  (b, b[0..511])  (a, a[512..1023])  ...     then (b, b[512..])  ...
    counts                how many segments each place has in the log; then: behind the last of them in `folds`
    folds                 a[0..511]  a[512..1023]  b[0..511]  b[512..]  ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.numerics.order import RUN_SEGMENT
from tesserac.target.cpu.elements.registers import register_type
from tesserac.target.cpu.indexed.run_folds import Rows, fold_segments
from tesserac.target.flow import choose, for_loop, if_else, if_then
from tesserac.target.llvm_types import I64, Value, const_i64, const_int, integer

TakeRow = Callable[[Value, Value, list[Value]], Sequence[Value]]
"""Takes the number of a row's place, and where the row stands; and gives what is carried from row to row."""
EachRow = Callable[[Sequence[Value], TakeRow], list[Value]]
"""Takes all rows in their order, from what is carried in the beginning on."""


def emit_running(rows: Rows, each_row: EachRow, last: Value, counts: Value, log: Value, folds: Value) -> None:
    """Folds elements whose places have a number into those below `last`. The room is for a word of each place, and
    for two segments of a place for each that is whole."""
    b, zero, one = rows.frame.b, const_i64(0), const_i64(1)
    running = _Running(rows, counts, log, folds)
    for_loop(b, zero, b.add(last, one), one, [], running.begin)

    def take(number: Value, offset: Value, held: list[Value]) -> Sequence[Value]:
        return running.take(number, offset, held[0])

    def put_in_order() -> None:
        [count] = for_loop(b, zero, last, one, [whole], running.log_rest)
        for_loop(b, zero, last, one, [zero], running.make_room)
        for_loop(b, zero, count, one, [], running.put)

    [whole] = each_row([zero], take)
    if_then(b, b.icmp("ne", whole, zero), put_in_order)
    for_loop(b, zero, last, one, [zero], running.finish)


@dataclass(frozen=True)
class _Running:
    rows: Rows
    counts: Value
    log: Value
    folds: Value

    def _count(self, place: Value) -> Value:
        return self.rows.frame.b.gep(I64, self.counts, place)

    def _record(self, number: Value) -> tuple[Value, Value]:
        """The words of a record of the log."""
        b = self.rows.frame.b
        first = b.gep(I64, self.log, b.mul(number, const_i64(2)))
        return first, b.gep(I64, first, 1)

    def _entry(self, place: Value) -> tuple[Value, Value]:
        """The chain of a place, and beside it the number of elements to come."""
        b, type_ = self.rows.frame.b, register_type(self.rows.accum)
        chain = b.gep(type_, self.rows.slots, b.mul(place, const_i64(2)))
        return chain, b.gep(type_, chain, 1)

    def _load(self, address: Value) -> Value:
        type_ = register_type(self.rows.accum)
        return self.rows.frame.b.load(type_, address, type_.bits // 8)

    def _store(self, value: Value, address: Value) -> None:
        self.rows.frame.b.store(value, address, value.type.bits // 8)

    def _start(self, place: Value) -> None:
        """A segment in which nothing is."""
        bits = register_type(self.rows.accum).bits
        chain, left = self._entry(place)
        self._store(self.rows.empty(0), chain)
        self._store(const_int(integer(bits), RUN_SEGMENT), left)

    def _add_record(self, number: Value, place: Value, segment: Value) -> Value:
        """Writes a record of the log; the number of the next."""
        b = self.rows.frame.b
        owner, value = self._record(number)
        b.store(place, owner, 8)
        self._store(segment, value)
        count = self._count(place)
        b.store(b.add(b.load(I64, count, 8), const_i64(1)), count, 8)
        return b.add(number, const_i64(1))

    def begin(self, place: Value, _: list[Value]) -> Sequence[Value]:
        self._start(place)
        self.rows.frame.b.store(const_i64(0), self._count(place), 8)
        return []

    def take(self, place: Value, offset: Value, logged: Value) -> Sequence[Value]:
        """Folds an element into the chain of its place; how many segments the log has then."""
        b = self.rows.frame.b
        chain, left = self._entry(place)
        whole = integer(register_type(self.rows.accum).bits)
        folded = self.rows.combine(self._load(chain), self.rows.element(offset))
        to_come = b.sub(b.load(whole, left, whole.bits // 8), const_int(whole, 1))
        self._store(folded, chain)
        self._store(to_come, left)

        def log() -> Sequence[Value]:
            following = self._add_record(logged, place, folded)
            self._start(place)
            return [following]

        return choose(b, b.icmp("eq", to_come, const_int(whole, 0)), log, lambda: [logged], rare=True)

    def log_rest(self, place: Value, held: list[Value]) -> Sequence[Value]:
        """What is under way of a place that has segments in the log, if only its empty beginning, goes behind them."""
        b, [logged] = self.rows.frame.b, held
        some = b.icmp("ne", b.load(I64, self._count(place), 8), const_i64(0))
        return choose(
            b, some, lambda: [self._add_record(logged, place, self._load(self._entry(place)[0]))], lambda: [logged]
        )

    def make_room(self, place: Value, held: list[Value]) -> Sequence[Value]:
        """Where the segments of a place go."""
        b, [first] = self.rows.frame.b, held
        count = self._count(place)
        segments = b.load(I64, count, 8)
        b.store(first, count, 8)
        return [b.add(first, segments)]

    def put(self, number: Value, _: list[Value]) -> Sequence[Value]:
        """Puts a segment of the log behind the others of its place."""
        b = self.rows.frame.b
        owner, value = self._record(number)
        count = self._count(b.load(I64, owner, 8))
        place = b.load(I64, count, 8)
        b.store(b.add(place, const_i64(1)), count, 8)
        self.rows.keep(self.folds, place, self._load(value))
        return []

    def finish(self, place: Value, held: list[Value]) -> Sequence[Value]:
        """Folds what a place has, from `first` on; where those of the next one begin. What nothing was folded into
        is joined with an empty fold, which changes nothing."""
        b, type_, [first] = self.rows.frame.b, register_type(self.rows.accum), held
        end, address = b.load(I64, self._count(place), 8), self.rows.place(place)

        def through_tree() -> None:
            total = b.gep(type_, self.folds, first)
            fold_segments(self.rows, total, b.sub(end, first))
            self.rows.join(address, self._load(total))

        def alone() -> None:
            self.rows.join(address, self._load(self._entry(place)[0]))

        if_else(b, b.icmp("ne", end, first), through_tree, alone)
        return [end]
