"""Values of a thread in memory of its own, in rows that are written and read by the widest accesses.

    a row of six f32    | 0 1 2 3 | 4 | 5 | . . |    one access of four, two of one, and padding up to the next row

Written element by element they would be the same instructions in the end, which LLVM takes a tenth of its time to find.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import LType, Value, array, const_i64, vector
from tesserac.tile.gpu.model.layout import VECTOR_BYTES

_WORDS = (32, 64)
"""Bits of numbers that are accessed several at once; flags and narrow numbers are rare here."""


class Room:
    """`rows` of `count` values of one type."""

    def __init__(self, b: Builder, ty: LType, count: int, rows: int = 1) -> None:
        self._b, self._type, self._count = b, ty, count
        lanes = 8 * VECTOR_BYTES // ty.bits
        self._lanes = lanes if ty.bits in _WORDS and count >= lanes else 1  # a short row needs no padding
        self._stride = -(-count // self._lanes) * self._lanes
        self._start = b.alloca(array(ty, rows * self._stride), VECTOR_BYTES)

    def at(self, place: Value) -> Value:
        """The address of a value of the first row."""
        return self._b.gep(self._type, self._start, place)

    def store(self, values: Sequence[Value], row: Value | None = None) -> None:
        b, start = self._b, self._row(row)
        for place, lanes in self._accesses():
            address, chosen = b.gep(self._type, start, place), values[place : place + lanes]
            if lanes == 1:
                b.store(chosen[0], address, self.alignment)
                continue
            together = Value(vector(self._type, lanes), "poison")
            for lane, value in enumerate(chosen):
                together = b.insert(together, value, lane)
            b.store(together, address, VECTOR_BYTES)

    def load(self, row: Value | None = None) -> list[Value]:
        b, start = self._b, self._row(row)
        values: list[Value] = []
        for place, lanes in self._accesses():
            address = b.gep(self._type, start, place)
            if lanes == 1:
                values.append(b.load(self._type, address, self.alignment))
                continue
            together = b.load(vector(self._type, lanes), address, VECTOR_BYTES)
            values += [b.extract(together, lane) for lane in range(lanes)]
        return values

    @property
    def alignment(self) -> int:
        """Bytes at which a value begins; a flag has one."""
        return max(1, self._type.bits // 8)

    def _row(self, row: Value | None) -> Value:
        return self._start if row is None else self.at(self._b.mul(row, const_i64(self._stride)))

    def _accesses(self) -> Iterator[tuple[int, int]]:
        """The first value and the number of values of each."""
        whole = self._count // self._lanes * self._lanes
        yield from ((place, self._lanes) for place in range(0, whole, self._lanes))
        yield from ((place, 1) for place in range(whole, self._count))
