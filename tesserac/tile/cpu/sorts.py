"""The order of a row: `tile.sort` with the scratch that it needs.

Enters: a `tile.sort`. Leaves: a `cpu.sort`, with twice the row as pairs of key and place, and the counts of
two digits.
"""

from __future__ import annotations

from tesserac.ir.core import Op
from tesserac.ir.forms import indices
from tesserac.tile.cpu.context import Context
from tesserac.tile.dialect import memref_type, sort_operands
from tesserac.types.dtype import I64

RADIX = 256
"""The values that a digit of eight bits has."""


def lower_sort(ctx: Context, op: Op) -> None:
    mem, at, out, to = sort_operands(op)
    size = memref_type(mem).dims[indices(op, "dims")[0]]
    pairs, spare = (ctx.scratch((size + 1, 2), I64) for _ in range(2))  # one pair stands before the first
    counts = ctx.scratch((2, RADIX), I64)
    row, places = [ctx.value(v) for v in (mem, *at)], [ctx.value(v) for v in (out, *to)]
    attrs = {"dims": op.attrs["dims"], "descending": op.attrs["descending"]}
    ctx.builder.op("cpu.sort", (*row, *places, pairs, spare, counts), (), attrs)
    ctx.written(ctx.value(out))
