"""The loops around a product of tiles, which all ways to multiply them have in common: pairs of tiles of columns, and
for each of them pairs of tiles of rows.

    b: | tile of columns 0 .. 15 | 16 .. 31 | ...    a: | tile of rows 0 .. 15 | 16 .. 31 | ...
       each a column of tiles, terms ascending, `pitch` bytes; a tile is 16 rows of 64 bytes (`tile_panels.py`)
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.schedule.machine import AMX
from tesserac.target.emit import Function, Module
from tesserac.target.flow import for_loop
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import F32, I8, I32, I64, PTR, VOID, Value, const_i64
from tesserac.types.dtype import DType

TILE = AMX.rows * AMX.row_bytes
ROW = AMX.row_bytes
SIDE = AMX.rows


class Blocks:
    """`(a, b, c, pitches of a and b, stride of c, pairs of tiles of rows, of columns, tiles of terms, done, rows)`"""

    def __init__(self, module: Module, name: str, dtype: DType) -> None:
        parameters = [PTR, PTR, PTR, I64, I64, I64, I64, I64, I64, I64, I64]
        attributes = ("nounwind", "noinline")
        self.sum = F32 if dtype.is_float else I32
        self.function = module.function(name, VOID, parameters, attributes=attributes, linkage="internal")
        self.function.is_common = True
        self.b: Builder = self.function.builder
        self.left, self.right, self.c, self.left_pitch, self.right_pitch, self.stride, *sizes = self.function.args
        self.row_pairs, self.column_pairs, self.chunks, self.done, self.rows = sizes

    def build(self) -> Function:
        b = self.b
        self._begin()

        def columns(j: Value, _: list[Value]) -> Sequence[Value]:
            right = b.gep(I8, self.right, b.mul(b.mul(j, const_i64(2)), self.right_pitch))
            self._begin_columns(right)

            def rows(i: Value, _: list[Value]) -> Sequence[Value]:
                left = b.gep(I8, self.left, b.mul(b.mul(i, const_i64(2)), self.left_pitch))
                place = b.add(b.mul(b.mul(i, const_i64(2 * SIDE)), self.stride), b.mul(j, const_i64(2 * SIDE)))
                left_over = b.sub(self.rows, b.mul(i, const_i64(2 * SIDE)))
                self._block(left, right, b.gep(self.sum, self.c, place), left_over)
                return []

            for_loop(b, const_i64(0), self.row_pairs, const_i64(1), [], rows)
            return []

        for_loop(b, const_i64(0), self.column_pairs, const_i64(1), [], columns)
        self._end()
        b.ret()
        return self.function

    def _begin(self) -> None: ...

    def _end(self) -> None: ...

    def _begin_columns(self, right: Value) -> None:
        """Before all rows of a pair of tiles of columns."""

    def _block(self, left: Value, right: Value, c: Value, rows: Value) -> None:
        """Two by two tiles of sums, of which so many rows are wanted; others may be left as they are."""
        raise NotImplementedError
