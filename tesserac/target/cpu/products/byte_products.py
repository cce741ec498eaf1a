"""Products of tiles of bytes that are summed in i32: by VNNI, or written out. Sums are exact, so they have no order.

`vpdpbusd` multiplies four bytes without a sign by four with one, and adds the products to a word. The left bytes have
128 added (`tile_panels.py`), and what that adds to a column is the same for all rows:

    sum of (a + 128) * b  =  sum of a * b  +  128 * sum of b

which is summed once for a pair of tiles of columns, by the same instruction, and taken away from every row. Sums wrap
around, as those of the language do, so that it does not matter that they are larger on the way.

    8 rows x 2 vectors of sums      b0 | b1           a row of a right tile is a vector: 16 columns of 4 terms
                               a0 | c00  c01          a word of a left tile, in all lanes
                               .. | ...
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.target.cpu.products.tile_blocks import ROW, SIDE, TILE, Blocks
from tesserac.target.flow import LoopBody, choose, for_loop
from tesserac.target.llvm_types import I8, I32, Value, const_i64, const_int, vector, zero

HEIGHT = 8
"""Rows at a time: as many sums as the instruction takes cycles, times those that start in a cycle."""
WORDS = ROW // 4
_SUMS = vector(I32, SIDE)
_BYTES = vector(I8, 4 * SIDE)


class VectorsOfBytes(Blocks):
    """By instructions of VNNI."""

    added: list[Value]
    """What the 128 of the left bytes add to each of two vectors of columns."""

    def _begin_columns(self, right: Value) -> None:
        b = self.b
        ones = const_int(_SUMS, -0x7F7F7F80)  # 0x80 in each byte

        def step(q: Value, sums: list[Value]) -> Sequence[Value]:
            for word in range(WORDS):
                sums = [self._add(s, ones, row) for s, row in zip(sums, self._rows(right, q, word), strict=True)]
            return sums

        self.added = for_loop(b, const_i64(0), self.chunks, const_i64(1), [zero(_SUMS)] * 2, step)

    def _block(self, left: Value, right: Value, c: Value, rows: Value) -> None:
        b = self.b
        wanted = b.minimum_int(rows, const_i64(2 * SIDE))

        def group(row: Value, _: list[Value]) -> Sequence[Value]:
            tile, inside = b.binary("udiv", row, const_i64(SIDE)), b.binary("urem", row, const_i64(SIDE))
            place = b.add(b.mul(tile, self.left_pitch), b.mul(inside, const_i64(ROW)))
            start = b.gep(self.sum, c, b.mul(row, self.stride))
            self._group(b.gep(I8, left, place), right, start)
            return []

        for_loop(b, const_i64(0), wanted, const_i64(HEIGHT), [], group)

    def _group(self, left: Value, right: Value, c: Value) -> None:
        """The sums of a few rows, through all tiles of terms."""
        b = self.b
        rows = [b.gep(self.sum, c, b.mul(self.stride, const_i64(row))) for row in range(HEIGHT)]
        places = [b.gep(self.sum, row, beside) for row in rows for beside in (0, SIDE)]
        fresh = b.icmp("eq", self.done, const_i64(0))

        def begun() -> list[Value]:
            return [b.load(_SUMS, place, 4) for place in places]

        sums = choose(b, fresh, lambda: [zero(_SUMS)] * len(places), begun)
        sums = for_loop(b, const_i64(0), self.chunks, const_i64(1), sums, self._tile(left, right))
        for number, (total, place) in enumerate(zip(sums, places, strict=True)):
            b.store(b.sub(total, self.added[number % 2]), place, 4)

    def _tile(self, left: Value, right: Value) -> LoopBody:
        b = self.b

        def body(q: Value, sums: list[Value]) -> Sequence[Value]:
            start = b.gep(I8, left, b.mul(q, const_i64(TILE)))
            for word in range(WORDS):
                columns = self._rows(right, q, word)
                words = [b.load(I32, b.gep(I8, start, row * ROW + 4 * word), 4) for row in range(HEIGHT)]
                spread = [b.splat(value, SIDE) for value in words]
                sums = [self._add(total, spread[n // 2], columns[n % 2]) for n, total in enumerate(sums)]
            return sums

        return body

    def _rows(self, right: Value, q: Value, word: int) -> list[Value]:
        """A row of two tiles side by side."""
        b = self.b
        start = b.gep(I8, right, b.mul(q, const_i64(TILE)))
        tiles = (start, b.gep(I8, start, self.right_pitch))
        return [b.load(_SUMS, b.gep(I8, tile, word * ROW), 4) for tile in tiles]

    def _add(self, total: Value, unsigned: Value, signed: Value) -> Value:
        bytes_ = [self.b.cast("bitcast", value, _BYTES) for value in (unsigned, signed)]
        return self.b.intrinsic("llvm.x86.avx512.vpdpbusd.512", _SUMS, [total, *bytes_])


class BytesWrittenOut(Blocks):
    """By multiplications, for tests of kernels on processors without such instructions."""

    def _block(self, left: Value, right: Value, c: Value, rows: Value) -> None:
        b = self.b
        wanted = b.minimum_int(rows, const_i64(2 * SIDE))

        def row(r: Value, _: list[Value]) -> Sequence[Value]:
            tile, inside = b.binary("udiv", r, const_i64(SIDE)), b.binary("urem", r, const_i64(SIDE))
            start = b.gep(I8, left, b.add(b.mul(tile, self.left_pitch), b.mul(inside, const_i64(ROW))))
            for beside in range(2):
                place = b.gep(self.sum, c, b.add(b.mul(r, self.stride), const_i64(beside * SIDE)))
                fresh = b.icmp("eq", self.done, const_i64(0))
                begun = b.select(fresh, zero(_SUMS), b.load(_SUMS, place, 4))
                columns = b.gep(I8, right, b.mul(self.right_pitch, const_i64(beside)))
                words = b.mul(self.chunks, const_i64(WORDS))
                (total,) = for_loop(b, const_i64(0), words, const_i64(1), [begun], self._word(start, columns))
                b.store(total, place, 4)
            return []

        for_loop(b, const_i64(0), wanted, const_i64(1), [], row)

    def _word(self, left: Value, right: Value) -> LoopBody:
        b = self.b

        def body(w: Value, sums: list[Value]) -> Sequence[Value]:
            tile, inside = b.binary("udiv", w, const_i64(WORDS)), b.binary("urem", w, const_i64(WORDS))
            place = b.add(b.mul(tile, const_i64(TILE)), b.mul(inside, const_i64(4)))
            x = b.splat(b.load(I32, b.gep(I8, left, place), 4), SIDE)
            y = b.load(_SUMS, b.gep(I8, right, b.mul(w, const_i64(ROW))), 4)
            total = sums[0]
            for byte in range(4):
                up = const_int(_SUMS, 24 - 8 * byte)
                factors = [b.binary("ashr", b.binary("shl", v, up), const_int(_SUMS, 24)) for v in (x, y)]
                total = b.add(total, b.mul(*factors))
            return [total]

        return body
