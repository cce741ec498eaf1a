"""The order of a row: `tile.sort` with the scratch that it needs.

Enters: a `tile.sort`. Leaves: a `cpu.sort`, with twice the row as pairs of key and place, or as elements, and the
counts of two digits.
"""

from __future__ import annotations

from tesserac.ir.core import Attr, Op, Value
from tesserac.ir.forms import indices
from tesserac.ir.indexed import gives_elements
from tesserac.tile.cpu.context import Context
from tesserac.tile.dialect import memref_type, sort_operands
from tesserac.types.dtype import I64

RADIX = 256
"""The values that a digit of eight bits has."""


def lower_sort(ctx: Context, op: Op) -> None:
    mem, at, out, to = sort_operands(op)
    ty = memref_type(mem)
    size = ty.dims[indices(op, "dims")[0]] + 1  # one entry stands before the first
    here, spare = (
        ctx.scratch((size,), ty.dtype) if gives_elements(op) else ctx.scratch((size, 2), I64) for _ in range(2)
    )
    operands = [*map(ctx.value, (mem, *at, out, *to)), here, spare, _counts(ctx)]
    attrs: dict[str, Attr] = {key: op.attrs[key] for key in ("dims", "descending", "elements") if key in op.attrs}
    ctx.builder.op("cpu.sort", operands, (), attrs)
    ctx.written(ctx.value(out))


def _counts(ctx: Context) -> Value:
    return ctx.scratch((2, RADIX), I64)
