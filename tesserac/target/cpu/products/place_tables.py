"""Places of a block whose indices count through several dims of memory, listed once for it.

    place of element (k, c)  =  rows[k] + columns[c]

    columns   0  1  2  3 | 58 59 60 61 ...     an image of 56 columns in a frame of 58
    breaks    0  0  0  0 |  1  1  1  1 ...     how many places so far do not follow the one before
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.target.cpu.elements.frame import Memory
from tesserac.target.dims import ceil_div
from tesserac.target.flow import do_while, for_loop, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I64, Value, const_i64, const_int, vector
from tesserac.types.dims import Dim

LISTED = 8
"""Places that are listed at once."""
Digits = Sequence[tuple[Value, Value]]
"""Size and stride of each dim that an index counts through."""


@dataclass(frozen=True)
class Side:
    """Rows or columns of a block: the dims that they count through, the first of them, and how far apart neighbours
    lie, where that is known."""

    digits: Digits
    first: Value
    step: int | None


def sides_of(
    b: Builder, memory: Memory, starts: Sequence[Value], groups: Sequence[int], strides: Sequence[Dim]
) -> tuple[Value, Side, Side]:
    """Where a block begins in memory of which each coordinate counts through a group of dims, and its last two."""
    digits = list(zip(memory.dims, memory.strides, strict=True))
    ends = [sum(groups[: i + 1]) for i in range(len(groups))]
    parts = [digits[end - count : end] for end, count in zip(ends, groups, strict=True)]
    outer = [b.mul(start, part[0][1]) for part, start in zip(parts[:-2], starts[:-2], strict=True)]
    rows, columns = (Side(parts[i], starts[i], strides[ends[i] - 1].constant) for i in (-2, -1))
    return sum_of(b, [const_i64(0), *outer]), rows, columns


class PlaceTable:
    """Places along one side of a block, and the breaks before them."""

    def __init__(self, b: Builder, memory: Memory) -> None:
        self.b, self.start, self.count = b, memory.start, memory.dims[1]

    def place(self, i: Value) -> Value:
        return self.b.load(I64, self.b.gep(I64, self.start, i), 8)

    def places(self, i: Value, lanes: int) -> Value:
        return self.b.load(vector(I64, lanes), self.b.gep(I64, self.start, i), 8)

    def all_breaks(self, i: Value, lanes: int) -> Value:
        """Before each of some elements, counted from the first of the block."""
        b = self.b
        return b.load(vector(I64, lanes), b.gep(I64, self.start, b.add(self.count, i)), 8)

    def breaks(self, first: Value, last: Value) -> Value:
        """Between two elements."""
        b = self.b
        counts = (b.load(I64, b.gep(I64, self.start, b.add(self.count, i)), 8) for i in (last, first))
        return b.sub(*counts)

    def _write(self, i: Value, place: Value, breaks: Value) -> None:
        b = self.b
        b.store(place, b.gep(I64, self.start, i), 8)
        b.store(breaks, b.gep(I64, self.start, b.add(self.count, i)), 8)

    def _write_run(self, first: Value, count: Value, *sides: tuple[Value, Value]) -> None:
        """Places, and the breaks before them: each from one value on, in steps."""
        b, done = self.b, const_i64(0)
        for lanes in (LISTED, 1):
            whole = b.binary("and", count, const_i64(-lanes))
            counted = counted_up(lanes) if lanes > 1 else const_i64(0)
            ahead = [b.binary("mul", counted, b.splat(step, lanes if lanes > 1 else 0)) for _, step in sides]

            def put(i: Value, _: list[Value], lanes: int = lanes, ahead: Sequence[Value] = ahead) -> Sequence[Value]:
                for (start, step), base, offsets in zip(sides, (const_i64(0), self.count), ahead, strict=True):
                    value = b.splat(b.add(start, b.mul(i, step)), lanes if lanes > 1 else 0)
                    place = b.gep(I64, self.start, sum_of(b, [base, first, i]))
                    b.store(b.binary("add", value, offsets), place, 8)
                return []

            for_loop(b, done, whole, const_i64(lanes), [], put)
            done = whole

    def fill(self, digits: Digits, start: Value, count: Value, width: int, apart: int) -> None:
        """Lists `count` places from index `start`, and the last one again up to whole blocks of `width`. Places follow
        each other where they are so far `apart`."""
        b = self.b

        def body() -> None:
            begun = digits_of(b, digits, start)
            place = place_of(b, digits, begun)

            def run(state: list[Value]) -> tuple[Value, Sequence[Value]]:
                i, place, breaks, _, *held = state
                size, stride = digits[-1]
                left = b.sub(count, i)
                length = left if len(digits) == 1 else b.minimum_int(b.sub(size, held[-1]), left)
                broken = b.cast("zext", b.icmp("ne", stride, const_i64(apart)), I64)
                self._write_run(i, length, (place, stride), (breaks, broken))
                rest = b.sub(length, const_i64(1))
                last = b.add(place, b.mul(rest, stride))
                after, held = following(b, digits, last, [*held[:-1], b.add(held[-1], rest)])
                ends = b.cast("zext", b.icmp("ne", b.sub(after, last), const_i64(apart)), I64)
                behind = b.add(i, length)
                breaks = sum_of(b, [breaks, b.mul(rest, broken), ends])
                return b.icmp("slt", behind, count), [behind, after, breaks, last, *held]

            _, _, breaks, last, *_ = do_while(b, [const_i64(0), place, const_i64(0), place, *begun], run)

            def again(i: Value, state: list[Value]) -> Sequence[Value]:
                self._write(i, last, state[0])
                return [b.add(state[0], const_i64(1))]

            whole = b.mul(ceil_div(b, count, const_i64(width)), const_i64(width))
            for_loop(b, count, whole, const_i64(1), [b.add(breaks, const_i64(1))], again)

        if_then(b, b.icmp("sgt", count, const_i64(0)), body)


def digits_of(b: Builder, digits: Digits, index: Value) -> list[Value]:
    found: list[Value] = []
    for size, _ in reversed(digits[1:]):
        found.insert(0, b.binary("urem", index, size))
        index = b.binary("udiv", index, size)
    return [index, *found]


def place_of(b: Builder, digits: Digits, held: Sequence[Value]) -> Value:
    return sum_of(b, [b.mul(digit, stride) for digit, (_, stride) in zip(held, digits, strict=True)])


def following(b: Builder, digits: Digits, place: Value, held: Sequence[Value]) -> tuple[Value, list[Value]]:
    """The place of the next index and its digits: each that is full starts over, and the one before it goes on."""
    carried, found = const_int(I1, 1), list[Value]()
    for (size, stride), digit in zip(reversed(digits), reversed(held), strict=True):
        moved = b.add(digit, b.cast("zext", carried, I64))
        place = b.add(place, b.select(carried, stride, const_i64(0)))
        if len(found) + 1 < len(digits):
            full = b.icmp("eq", moved, size)
            place = b.sub(place, b.select(full, b.mul(size, stride), const_i64(0)))
            moved, carried = b.select(full, const_i64(0), moved), full
        found.insert(0, moved)
    return place, found


def sum_of(b: Builder, values: Sequence[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = b.add(total, value)
    return total


def counted_up(lanes: int) -> Value:
    """The vector 0, 1, 2, ..."""
    return Value(vector(I64, lanes), "<" + ", ".join(f"i64 {i}" for i in range(lanes)) + ">")
