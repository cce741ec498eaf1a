"""A radix sort of one row: stable, and as long for a sorted row as for any other.

Keys are unsigned integers in the order of the elements. Pairs of key and place move between two arrays, from the lowest
digit of eight bits to the highest; a digit that is the same in all keys is skipped. A short row is sorted by insertion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.forms import indices
from tesserac.target.cpu.accesses import align_of
from tesserac.target.cpu.frame import Frame, Memory
from tesserac.target.cpu.registers import widen
from tesserac.target.flow import choose, do_while, for_loop, if_then
from tesserac.target.llvm_types import I64, Value, const_i64, undefined, vector, zero
from tesserac.target.sort_keys import sort_key
from tesserac.tile.cpu.dialect import sort_coordinates
from tesserac.tile.cpu.sorts import RADIX
from tesserac.types.dtype import DType

PAIR = vector(I64, 2)
SHORT = 48
"""Rows up to this length are sorted by insertion: counting digits would take longer."""


def emit_sort(frame: Frame, op: Op) -> None:
    _Sort(frame, op).emit()


def key_digits(dtype: DType) -> int:
    """Digits of eight bits that a key has: a narrow float has that of an f32."""
    return max(dtype.bits, 32) // 8 if dtype.is_float else max(dtype.bits, 8) // 8


class _Sort:
    def __init__(self, frame: Frame, op: Op) -> None:
        self.frame, self.b, self.descending = frame, frame.b, op.attrs["descending"] is True
        mem, at, out, to = sort_coordinates(op)
        from_dim, to_dim = indices(op, "dims")
        self.source, self.target = frame.memories[mem], frame.memories[out]
        self.row, self.places = self._address(self.source, at), self._address(self.target, to)
        self.step, self.place_step = self.source.strides[from_dim], self.target.strides[to_dim]
        self.size = self.source.dims[from_dim]
        first, second, counts = (frame.memories[v].start for v in op.operands[-3:])
        self.pairs, self.spare, self.counts = self.b.gep(PAIR, first, 1), self.b.gep(PAIR, second, 1), counts

    def _address(self, memory: Memory, at: Sequence[IRValue]) -> Value:
        place = const_i64(0)
        for value, stride in zip(at, memory.strides, strict=True):
            place = self.b.add(place, self.b.mul(self.frame.value(value), stride))
        return self.b.gep(memory.element, memory.start, place)

    def emit(self) -> None:
        short = self.b.icmp("slt", self.size, const_i64(SHORT + 1))
        [done] = choose(self.b, short, self._by_insertion, self._by_digits)
        self._for_each(lambda i: self._give_place(done, i))

    def _for_each(self, body: Callable[[Value], None]) -> None:
        def step(i: Value, _: list[Value]) -> Sequence[Value]:
            body(i)
            return []

        for_loop(self.b, const_i64(0), self.size, const_i64(1), [], step)

    def _give_place(self, pairs: Value, i: Value) -> None:
        place = self.b.extract(self._load(pairs, i), 1)
        self.b.store(place, self.b.gep(I64, self.places, self.b.mul(i, self.place_step)), 8)

    def _load(self, pairs: Value, i: Value) -> Value:
        return self.b.load(PAIR, self.b.gep(PAIR, pairs, i), 16)

    def _store(self, pair: Value, pairs: Value, i: Value) -> None:
        self.b.store(pair, self.b.gep(PAIR, pairs, i), 16)

    def _pair(self, i: Value) -> Value:
        """Key and place of element i of the row."""
        address = self.b.gep(self.source.element, self.row, self.b.mul(i, self.step))
        stored = self.b.load(self.source.element, address, align_of(self.source))
        dtype = self.source.dtype
        value = widen(self.b, stored, dtype) if dtype.is_float else stored
        key = sort_key(self.b, value, dtype, self.descending)
        return self.b.insert(self.b.insert(undefined(PAIR), key, 0), i, 1)

    # --- short rows -----------------------------------------------------------------------------------------------

    def _by_insertion(self) -> list[Value]:
        """A pair of the lowest key before the first one ends every search."""
        self._store(zero(PAIR), self.pairs, const_i64(-1))
        self._for_each(self._insert)
        return [self.pairs]

    def _insert(self, i: Value) -> None:
        b, pair = self.b, self._pair(i)
        key = b.extract(pair, 0)

        def search(held: list[Value]) -> tuple[Value, Sequence[Value]]:
            [place] = held
            before = b.sub(place, const_i64(1))
            other = self._load(self.pairs, before)
            larger = b.icmp("ugt", b.extract(other, 0), key)
            if_then(b, larger, lambda: self._store(other, self.pairs, place))
            return larger, [b.select(larger, before, place)]

        [place] = do_while(b, [i], search)
        self._store(pair, self.pairs, place)

    # --- long rows ------------------------------------------------------------------------------------------------

    def _by_digits(self) -> list[Value]:
        digits = key_digits(self.source.dtype)
        words = const_i64(digits * RADIX)

        def clear(i: Value, _: list[Value]) -> Sequence[Value]:
            self.b.store(const_i64(0), self.b.gep(I64, self.counts, i), 8)
            return []

        for_loop(self.b, const_i64(0), words, const_i64(1), [], clear)
        self._for_each(lambda i: self._count(i, digits))
        pairs, spare = self.pairs, self.spare
        for digit in range(digits):
            pairs, spare = self._move_if_needed(digit, pairs, spare)
        return [pairs]

    def _count(self, i: Value, digits: int) -> None:
        pair = self._pair(i)
        self._store(pair, self.pairs, i)
        for digit in range(digits):
            word = self._counter(self.b.extract(pair, 0), digit)
            self.b.store(self.b.add(self.b.load(I64, word, 8), const_i64(1)), word, 8)

    def _counter(self, key: Value, digit: int) -> Value:
        """The count that belongs to a digit of a key."""
        shifted = self.b.binary("lshr", key, const_i64(8 * digit))
        value = self.b.binary("and", shifted, const_i64(RADIX - 1))
        return self.b.gep(I64, self.counts, self.b.add(value, const_i64(digit * RADIX)))

    def _move_if_needed(self, digit: int, pairs: Value, spare: Value) -> list[Value]:
        first = self.b.extract(self._load(pairs, const_i64(0)), 0)
        same = self.b.load(I64, self._counter(first, digit), 8)
        differs = self.b.icmp("ne", same, self.size)

        def move() -> list[Value]:
            self._sum_counts(digit)
            self._for_each(lambda i: self._move(pairs, spare, i, digit))
            return [spare, pairs]

        return choose(self.b, differs, move, lambda: [pairs, spare])

    def _sum_counts(self, digit: int) -> None:
        """Counts become the place where the first pair with that digit goes."""

        def step(value: Value, held: list[Value]) -> Sequence[Value]:
            word = self.b.gep(I64, self.counts, self.b.add(value, const_i64(digit * RADIX)))
            count = self.b.load(I64, word, 8)
            self.b.store(held[0], word, 8)
            return [self.b.add(held[0], count)]

        for_loop(self.b, const_i64(0), const_i64(RADIX), const_i64(1), [const_i64(0)], step)

    def _move(self, pairs: Value, spare: Value, i: Value, digit: int) -> None:
        pair = self._load(pairs, i)
        word = self._counter(self.b.extract(pair, 0), digit)
        place = self.b.load(I64, word, 8)
        self.b.store(self.b.add(place, const_i64(1)), word, 8)
        self._store(pair, spare, place)
