"""Values of a thread in memory of its own, in rows that are written and read by the widest accesses.

    a row of six f32    | 0 1 2 3 | 4 | 5 | . . |    one access of four, two of one, and padding up to the next row

Written element by element they would be the same instructions in the end, which LLVM takes a tenth of its time to find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from tesserac.base.dataclass import dataclass
from tesserac.target import flow
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I8, LType, Value, array, const_i64, vector
from tesserac.tile.gpu.model.layout import VECTOR_BYTES

Access = tuple[int, int]
"""The first value, and how many there are."""
Address = Callable[[int, int], Value]

_WORDS = (32, 64)
"""Bits of numbers that are accessed several at once; flags and narrow numbers are rare here."""


@dataclass(frozen=True)
class Near:
    """Shared memory with room for some accesses of 16 bytes of each thread, which begin so many bytes apart."""

    pointer: Callable[[], Value]
    stride: int
    accesses: int


class Room:
    """`rows` of `count` values of one type; what has room `near` of the first row lies there."""

    def __init__(self, b: Builder, ty: LType, count: int, rows: int = 1, near: Near | None = None) -> None:
        self._b, self._type, self._count, self._near = b, ty, count, near
        lanes = 8 * VECTOR_BYTES // ty.bits
        self._lanes = lanes if ty.bits in _WORDS and count >= lanes else 1  # a short row needs no padding
        self._stride = -(-count // self._lanes) * self._lanes
        self._start = b.alloca(array(ty, rows * self._stride), VECTOR_BYTES)

    def at(self, place: Value) -> Value:
        """The address of a value of the first row."""
        return self._b.gep(self._type, self._start, place)

    def store(self, values: Sequence[Value], row: Value | None = None) -> None:
        b, start = self._b, self._row(row)
        far = lambda place, lanes: b.gep(self._type, start, place)  # noqa: E731
        apart = self._apart()
        if apart and row is not None:
            first = b.icmp("eq", row, const_i64(0))
            near = partial(self._write, values, apart, self._near_address)
            flow.if_else(b, first, near, partial(self._write, values, apart, far))
        self._write(values, [each for each in self._accesses() if each not in apart], far)

    def load(self, row: Value | None = None) -> list[Value]:
        b, start, values = self._b, self._row(row), list[Value]()
        far = lambda place, lanes: b.gep(self._type, start, place)  # noqa: E731
        apart = self._apart()
        if apart and row is not None:
            first = b.icmp("eq", row, const_i64(0))
            near = partial(self._read, apart, self._near_address)
            values = flow.choose(b, first, near, partial(self._read, apart, far))
        return values + self._read([each for each in self._accesses() if each not in apart], far)

    def _write(self, values: Sequence[Value], accesses: Iterable[Access], address: Address) -> None:
        b = self._b
        for place, lanes in accesses:
            chosen = values[place : place + lanes]
            if lanes == 1:
                b.store(chosen[0], address(place, lanes), self.alignment)
                continue
            together = Value(vector(self._type, lanes), "poison")
            for lane, value in enumerate(chosen):
                together = b.insert(together, value, lane)
            b.store(together, address(place, lanes), VECTOR_BYTES)

    def _read(self, accesses: Iterable[Access], address: Address) -> list[Value]:
        b, values = self._b, list[Value]()
        for place, lanes in accesses:
            if lanes == 1:
                values.append(b.load(self._type, address(place, lanes), self.alignment))
                continue
            together = b.load(vector(self._type, lanes), address(place, lanes), VECTOR_BYTES)
            values += [b.extract(together, lane) for lane in range(lanes)]
        return values

    def _apart(self) -> list[Access]:
        """The accesses of the first row that have room near."""
        whole = [access for access in self._accesses() if access[1] > 1]
        return whole[: self._near.accesses] if self._near is not None else []

    def _near_address(self, place: int, lanes: int) -> Value:
        assert self._near is not None
        return self._b.gep(I8, self._near.pointer(), place // lanes * self._near.stride)

    @property
    def alignment(self) -> int:
        """Bytes at which a value begins; a flag has one."""
        return max(1, self._type.bits // 8)

    def _row(self, row: Value | None) -> Value:
        return self._start if row is None else self.at(self._b.mul(row, const_i64(self._stride)))

    def _accesses(self) -> Iterator[Access]:
        """The first value and the number of values of each."""
        whole = self._count // self._lanes * self._lanes
        yield from ((place, self._lanes) for place in range(0, whole, self._lanes))
        yield from ((place, 1) for place in range(whole, self._count))
