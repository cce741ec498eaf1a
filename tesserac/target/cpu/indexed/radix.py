"""Entries of a row in the order of their keys, digit by digit: what every sort on a CPU does.

A key is an unsigned integer in the order of the elements (`sort_keys.py`). What moves, an entry, has one of three
forms:

    element   | element           |                           its bits in the order of the elements, every NaN the last
    packed    | place   | key     |                           one word, digits from bit 32 on
    wide      | key, 64 bits      | place, 64 bits    |

Entries move between two arrays, from the lowest digit of eight bits to the highest; a digit that is the same in all
keys is skipped. While entries move by one digit, the values of the next one are counted. That is stable, and takes as
long for a row in order as for any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tesserac.base.dataclass import dataclass
from tesserac.target.cpu.elements.frame import Memory
from tesserac.target.cpu.elements.registers import memory_type, widen
from tesserac.target.flow import choose, do_while, for_loop, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I64, LType, Value, const_i64, const_int, integer, undefined, vector
from tesserac.target.sort_keys import sort_key
from tesserac.tile.cpu.sorts import RADIX
from tesserac.types.dtype import BOOL, DType

DIGIT_BITS = (RADIX - 1).bit_length()
HALF = 32
"""The bits of a word that a place has, and a key."""


@dataclass(frozen=True)
class Keys:
    """How elements of a type are compared."""

    dtype: DType
    descending: bool

    @property
    def bits(self) -> int:
        """Of a key, from the lowest one on: a narrow float is compared as f32, and false and true as bytes."""
        return max(self.dtype.bits, HALF if self.dtype.is_float else 8)

    def of(self, b: Builder, stored: Value) -> Value:
        value = widen(b, stored, self.dtype) if self.dtype.is_float else stored
        return sort_key(b, value, self.dtype, self.descending)


class Form(Protocol):
    """How an entry stands in memory, and where the first digit of its key begins."""

    @property
    def type(self) -> LType: ...

    @property
    def first(self) -> int: ...

    @property
    def bits(self) -> int:
        """How many of a key are not zero in all entries."""

    def entry(self, b: Builder, stored: Value, place: Value) -> Value:
        """That of an element of the row."""

    def key(self, b: Builder, entry: Value) -> Value:
        """What digits are taken of."""

    def given(self, b: Builder, entry: Value) -> Value:
        """What the sort gives of an entry: its place, or the element."""


@dataclass(frozen=True)
class Elements:
    keys: Keys
    first: int = 0

    @property
    def type(self) -> LType:
        return integer(memory_type(self.keys.dtype).bits)

    @property
    def bits(self) -> int:
        return self.type.bits

    def entry(self, b: Builder, stored: Value, place: Value) -> Value:
        if not self.keys.dtype.is_float:
            return b.binary("xor", stored, self._turned)
        number = widen(b, stored, self.keys.dtype)
        turned = b.binary("xor", self._flipped(b, self._as(b, stored, self.type), 0), self._turned)
        return b.select(b.fcmp("uno", number, number), const_int(self.type, -1), turned)

    def key(self, b: Builder, entry: Value) -> Value:
        """Of the two zeros, which are neighbours, the upper one."""
        if self.keys.dtype.is_float:
            lower = b.icmp("eq", entry, const_int(self.type, (1 << (self.bits - 1)) - 1))
            entry = b.add(entry, b.cast("zext", lower, self.type))
        return b.cast("zext", entry, I64) if self.bits < I64.bits else entry

    def given(self, b: Builder, entry: Value) -> Value:
        stored = b.binary("xor", entry, self._turned)
        if not self.keys.dtype.is_float:
            return stored
        return self._as(b, self._flipped(b, stored, -1), memory_type(self.keys.dtype))

    @property
    def _turned(self) -> Value:
        """The bits in which an integer, or a float whose bits are in order, differs from what is compared."""
        dtype = self.keys.dtype
        turned = (1 if dtype == BOOL else -1) if self.keys.descending else 0
        return const_int(self.type, turned ^ (1 << (self.bits - 1) if dtype.kind == "i" else 0))

    def _flipped(self, b: Builder, bits: Value, ordered: int) -> Value:
        """Sign and magnitude as one integer, all bits of a negative number turned; with -1, back from there."""
        negative = b.binary("ashr", bits, const_int(self.type, self.bits - 1))
        every = b.binary("xor", negative, const_int(self.type, ordered))
        return b.binary("xor", bits, b.binary("or", every, const_int(self.type, 1 << (self.bits - 1))))

    def _as(self, b: Builder, value: Value, type_: LType) -> Value:
        return value if value.type == type_ else b.cast("bitcast", value, type_)


@dataclass(frozen=True)
class Packed:
    keys: Keys
    type: LType = I64
    first: int = HALF

    @property
    def bits(self) -> int:
        return self.keys.bits + HALF

    def entry(self, b: Builder, stored: Value, place: Value) -> Value:
        return b.binary("or", b.binary("shl", self.keys.of(b, stored), const_i64(HALF)), place)

    def key(self, b: Builder, entry: Value) -> Value:
        return entry

    def given(self, b: Builder, entry: Value) -> Value:
        return b.binary("and", entry, const_i64((1 << HALF) - 1))


@dataclass(frozen=True)
class Wide:
    keys: Keys
    type: LType = vector(I64, 2)
    first: int = 0

    @property
    def bits(self) -> int:
        return self.keys.bits

    def entry(self, b: Builder, stored: Value, place: Value) -> Value:
        return b.insert(b.insert(undefined(self.type), self.keys.of(b, stored), 0), place, 1)

    def key(self, b: Builder, entry: Value) -> Value:
        return b.extract(entry, 0)

    def given(self, b: Builder, entry: Value) -> Value:
        return b.extract(entry, 1)


@dataclass(frozen=True)
class Line:
    """Elements `step` apart, from an address on."""

    start: Value
    step: Value
    type: LType

    def load(self, b: Builder, i: Value) -> Value:
        return b.load(self.type, self._address(b, i), _bytes(self.type))

    def store(self, b: Builder, value: Value, i: Value) -> None:
        b.store(value, self._address(b, i), _bytes(self.type))

    def _address(self, b: Builder, i: Value) -> Value:
        return b.gep(self.type, self.start, b.mul(i, self.step))

    def behind(self, b: Builder, count: Value) -> Line:
        return Line(self._address(b, count), self.step, self.type)


def line_of(memory: Memory, start: Value, step: Value) -> Line:
    return Line(start, step, memory.element)


def array(form: Form, start: Value) -> Line:
    """Entries side by side."""
    return Line(start, const_i64(1), form.type)


def for_each(b: Builder, size: Value, body: Callable[[Value], object]) -> None:
    def step(i: Value, _: list[Value]) -> Sequence[Value]:
        body(i)
        return []

    for_loop(b, const_i64(0), size, const_i64(1), [], step)


class Radix:
    """A sort of entries that are kept in `here` one after the other, as it has begun: `keep` takes each of them."""

    def __init__(self, b: Builder, form: Form, here: Value, spare: Value, counts: Value) -> None:
        self.b, self.form, self._here, self._spare = b, form, here, spare
        self._now, self._then = counts, b.gep(I64, counts, RADIX)
        self._clear(self._now)

    def keep(self, entry: Value, i: Value, held: list[Value]) -> Sequence[Value]:
        """Entry i, in a loop that holds bits that some keys have and that all have; counts its lowest digit."""
        b, key = self.b, self.form.key(self.b, entry)
        array(self.form, self._here).store(b, entry, i)
        self._count(self._now, key, const_i64(self.form.first))
        return [b.binary("or", held[0], key), b.binary("and", held[1], key)]

    def no_bits(self) -> list[Value]:
        """What that loop holds before the first entry."""
        return [const_i64(0), const_i64(-1)]

    def finish(self, size: Value, held: Sequence[Value]) -> Value:
        """Puts all `size` entries in order, from the lowest digit that differs between keys to the highest; where they
        are then."""
        b, form = self.b, self.form
        differing = b.binary("and", b.binary("xor", *held), const_i64(-1 << form.first))

        def move_all() -> list[Value]:
            lowest = self._lowest_digit(differing)
            uncounted = b.icmp("ne", lowest, const_i64(form.first))
            if_then(b, uncounted, lambda: self._count_all(size, lowest))

            def one_digit(held: list[Value]) -> tuple[Value, Sequence[Value]]:
                here, spare, now, then, shift, left = held
                left = b.binary("and", left, b.binary("shl", const_i64(-RADIX), shift))
                following = self._lowest_digit(left)
                self._sum_counts(now)
                self._clear(then)
                for_each(b, size, lambda i: self._move(here, spare, i, (now, shift), (then, following)))
                return b.icmp("ne", left, const_i64(0)), [spare, here, then, now, following, left]

            begun = [self._here, self._spare, self._now, self._then, lowest, differing]
            return [do_while(b, begun, one_digit)[0]]

        return choose(b, b.icmp("ne", differing, const_i64(0)), move_all, lambda: [self._here])[0]

    def _count_all(self, size: Value, shift: Value) -> None:
        self._clear(self._now)
        here = array(self.form, self._here)
        for_each(self.b, size, lambda i: self._count(self._now, self.form.key(self.b, here.load(self.b, i)), shift))

    def _lowest_digit(self, bits: Value) -> Value:
        """Where the lowest digit begins in which there is a bit; where there is none, some digit."""
        b = self.b
        zeros = b.intrinsic("llvm.cttz", I64, [bits, const_int(I1, 0)], [I64])
        return b.binary("and", zeros, const_i64(64 - DIGIT_BITS))

    def _clear(self, counts: Value) -> None:
        for_each(self.b, const_i64(RADIX), lambda i: self.b.store(const_i64(0), self.b.gep(I64, counts, i), 8))

    def _count(self, counts: Value, key: Value, shift: Value) -> Value:
        """One more of a digit of a key; how many there were."""
        b = self.b
        word = b.gep(I64, counts, b.binary("and", b.binary("lshr", key, shift), const_i64(RADIX - 1)))
        before = b.load(I64, word, 8)
        b.store(b.add(before, const_i64(1)), word, 8)
        return before

    def _sum_counts(self, counts: Value) -> None:
        """Counts become the place where the first entry with that digit goes."""

        def step(value: Value, held: list[Value]) -> Sequence[Value]:
            word = self.b.gep(I64, counts, value)
            count = self.b.load(I64, word, 8)
            self.b.store(held[0], word, 8)
            return [self.b.add(held[0], count)]

        for_loop(self.b, const_i64(0), const_i64(RADIX), const_i64(1), [const_i64(0)], step)

    def _move(self, here: Value, spare: Value, i: Value, *digits: tuple[Value, Value]) -> None:
        """Puts an entry in the order of one digit, and counts the one that is next."""
        entry = array(self.form, here).load(self.b, i)
        key = self.form.key(self.b, entry)
        place, _ = (self._count(counts, key, shift) for counts, shift in digits)
        array(self.form, spare).store(self.b, entry, place)


def _bytes(type_: LType) -> int:
    return type_.bits * max(type_.lanes, 1) // 8
