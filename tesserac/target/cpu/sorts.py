"""A radix sort of one row: stable, and as long for a sorted row as for any other.

Keys are unsigned integers in the order of the elements. Pairs of key and place move between two arrays, from the lowest
digit of eight bits to the highest; a digit that is the same in all keys is skipped. While pairs move by one digit, the
values of the next one are counted. A short row is sorted by insertion. Keys that differ in their lower 32 bits alone
stand above their places in one word, unless there are more places than such a half counts:

    wide      | key, 64 bits      | place, 64 bits    |       the first digit begins at bit 0 of the key
    packed    | place   | key     |                           at bit 32 of the word
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.forms import indices
from tesserac.target.cpu.accesses import align_of
from tesserac.target.cpu.frame import Frame, Memory
from tesserac.target.cpu.registers import widen
from tesserac.target.flow import choose, do_while, for_loop, if_else, if_then
from tesserac.target.llvm_types import I1, I64, LType, Value, const_i64, const_int, undefined, vector, zero
from tesserac.target.sort_keys import sort_key
from tesserac.tile.cpu.dialect import sort_coordinates
from tesserac.tile.cpu.sorts import RADIX


@dataclass(frozen=True)
class _Form:
    """How a pair stands in memory, and where the first digit of its key begins."""

    type: LType
    first: int


PAIR = vector(I64, 2)
WIDE, PACKED = _Form(PAIR, 0), _Form(I64, 32)
DIGIT_BITS = (RADIX - 1).bit_length()
SHORT = 48
"""Rows up to this length are sorted by insertion: counting digits would take longer."""


def emit_sort(frame: Frame, op: Op) -> None:
    wide, packed = _Sort(frame, op, WIDE), _Sort(frame, op, PACKED)
    dtype, b = wide.source.dtype, frame.b
    if dtype.is_float and dtype.bits > PACKED.first:
        wide.emit()
        return
    fits = b.icmp("ult", wide.size, const_i64(1 << PACKED.first))
    if dtype.bits > PACKED.first:
        fits = b.binary("and", fits, b.icmp("ult", wide.differing_bits(), const_i64(1 << PACKED.first)))
    if_else(b, fits, packed.emit, wide.emit)


class _Sort:
    def __init__(self, frame: Frame, op: Op, form: _Form) -> None:
        self.frame, self.b, self.form, self.descending = frame, frame.b, form, op.attrs["descending"] is True
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

    def _for_each(self, body: Callable[[Value], object]) -> None:
        def step(i: Value, _: list[Value]) -> Sequence[Value]:
            body(i)
            return []

        for_loop(self.b, const_i64(0), self.size, const_i64(1), [], step)

    def _give_place(self, pairs: Value, i: Value) -> None:
        pair = self._load(pairs, i)
        below = const_i64((1 << PACKED.first) - 1)
        place = self.b.extract(pair, 1) if self.form is WIDE else self.b.binary("and", pair, below)
        self.b.store(place, self.b.gep(I64, self.places, self.b.mul(i, self.place_step)), 8)

    def _load(self, pairs: Value, i: Value) -> Value:
        return self.b.load(self.form.type, self.b.gep(self.form.type, pairs, i), _bytes(self.form))

    def _store(self, pair: Value, pairs: Value, i: Value) -> None:
        self.b.store(pair, self.b.gep(self.form.type, pairs, i), _bytes(self.form))

    def _key(self, pair: Value) -> Value:
        """What digits are taken of."""
        return self.b.extract(pair, 0) if self.form is WIDE else pair

    def _pair(self, i: Value) -> Value:
        """Key and place of element i of the row."""
        address = self.b.gep(self.source.element, self.row, self.b.mul(i, self.step))
        stored = self.b.load(self.source.element, address, align_of(self.source))
        dtype = self.source.dtype
        value = widen(self.b, stored, dtype) if dtype.is_float else stored
        key = sort_key(self.b, value, dtype, self.descending)
        if self.form is PACKED:
            return self.b.binary("or", self.b.binary("shl", key, const_i64(PACKED.first)), i)
        return self.b.insert(self.b.insert(undefined(PAIR), key, 0), i, 1)

    # --- short rows -----------------------------------------------------------------------------------------------

    def _by_insertion(self) -> list[Value]:
        """A pair of the lowest key before the first one ends every search."""
        self._store(zero(self.form.type), self.pairs, const_i64(-1))
        self._for_each(self._insert)
        return [self.pairs]

    def _insert(self, i: Value) -> None:
        b, pair = self.b, self._pair(i)
        key = self._key(pair)

        def search(held: list[Value]) -> tuple[Value, Sequence[Value]]:
            [place] = held
            before = b.sub(place, const_i64(1))
            other = self._load(self.pairs, before)
            larger = b.icmp("ugt", self._key(other), key)
            if_then(b, larger, lambda: self._store(other, self.pairs, place))
            return larger, [b.select(larger, before, place)]

        [place] = do_while(b, [i], search)
        self._store(pair, self.pairs, place)

    # --- long rows ------------------------------------------------------------------------------------------------

    def _by_digits(self) -> list[Value]:
        """From the lowest digit that differs between keys to the highest."""
        b, now, then = self.b, self.counts, self.b.gep(I64, self.counts, RADIX)
        differing = self._keep_pairs(now)

        def move_all() -> list[Value]:
            lowest = self._lowest_digit(differing)
            uncounted = b.icmp("ne", lowest, const_i64(self.form.first))
            if_then(b, uncounted, lambda: self._count_all(now, lowest))

            def one_digit(held: list[Value]) -> tuple[Value, Sequence[Value]]:
                pairs, spare, now, then, shift, left = held
                left = b.binary("and", left, b.binary("shl", const_i64(-RADIX), shift))
                following = self._lowest_digit(left)
                self._sum_counts(now)
                self._clear(then)
                self._for_each(lambda i: self._move(pairs, spare, i, (now, shift), (then, following)))
                return b.icmp("ne", left, const_i64(0)), [spare, pairs, then, now, following, left]

            return [do_while(b, [self.pairs, self.spare, now, then, lowest, differing], one_digit)[0]]

        return choose(b, b.icmp("ne", differing, const_i64(0)), move_all, lambda: [self.pairs])

    def differing_bits(self) -> Value:
        """Those in which keys differ: that some of them have and not all."""
        b, none, every = self.b, const_i64(0), const_i64(-1)

        def look(i: Value, held: list[Value]) -> Sequence[Value]:
            key = self._key(self._pair(i))
            return [b.binary("or", held[0], key), b.binary("and", held[1], key)]

        some, all_ = for_loop(b, const_i64(0), self.size, const_i64(1), [none, every], look)
        return b.binary("xor", some, all_)

    def _keep_pairs(self, counts: Value) -> Value:
        """Writes all pairs, and counts their lowest digit; the bits in which keys differ."""
        b = self.b
        self._clear(counts)
        first = self._key(self._pair(const_i64(0)))

        def keep(i: Value, held: list[Value]) -> Sequence[Value]:
            pair = self._pair(i)
            key = self._key(pair)
            self._store(pair, self.pairs, i)
            self._count(counts, key, const_i64(self.form.first))
            return [b.binary("or", held[0], b.binary("xor", key, first))]

        [differing] = for_loop(b, const_i64(0), self.size, const_i64(1), [const_i64(0)], keep)
        return b.binary("and", differing, const_i64(-1 << self.form.first))

    def _count_all(self, counts: Value, shift: Value) -> None:
        self._clear(counts)
        self._for_each(lambda i: self._count(counts, self._key(self._load(self.pairs, i)), shift))

    def _lowest_digit(self, bits: Value) -> Value:
        """Where the lowest digit begins in which there is a bit; where there is none, some digit."""
        b = self.b
        zeros = b.intrinsic("llvm.cttz", I64, [bits, const_int(I1, 0)], [I64])
        return b.binary("and", zeros, const_i64(64 - DIGIT_BITS))

    def _clear(self, counts: Value) -> None:
        def clear(i: Value, _: list[Value]) -> Sequence[Value]:
            self.b.store(const_i64(0), self.b.gep(I64, counts, i), 8)
            return []

        for_loop(self.b, const_i64(0), const_i64(RADIX), const_i64(1), [], clear)

    def _counter(self, counts: Value, key: Value, shift: Value) -> Value:
        """The count that belongs to a digit of a key."""
        value = self.b.binary("and", self.b.binary("lshr", key, shift), const_i64(RADIX - 1))
        return self.b.gep(I64, counts, value)

    def _count(self, counts: Value, key: Value, shift: Value) -> Value:
        """One more; how many there were."""
        word = self._counter(counts, key, shift)
        before = self.b.load(I64, word, 8)
        self.b.store(self.b.add(before, const_i64(1)), word, 8)
        return before

    def _sum_counts(self, counts: Value) -> None:
        """Counts become the place where the first pair with that digit goes."""

        def step(value: Value, held: list[Value]) -> Sequence[Value]:
            word = self.b.gep(I64, counts, value)
            count = self.b.load(I64, word, 8)
            self.b.store(held[0], word, 8)
            return [self.b.add(held[0], count)]

        for_loop(self.b, const_i64(0), const_i64(RADIX), const_i64(1), [const_i64(0)], step)

    def _move(self, pairs: Value, spare: Value, i: Value, *digits: tuple[Value, Value]) -> None:
        """Puts a pair in the order of one digit, and counts the one that is next."""
        pair = self._load(pairs, i)
        key = self._key(pair)
        place, _ = (self._count(counts, key, shift) for counts, shift in digits)
        self._store(pair, spare, place)


def _bytes(form: _Form) -> int:
    return form.type.bits * max(form.type.lanes, 1) // 8
