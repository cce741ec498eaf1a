"""The order of a row: `tile.sort` with the scratch that it needs.

Enters: a `tile.sort`. Leaves: a `cpu.sort`, with twice the row as pairs of key and place, or as elements, and the
counts of two digits. Parts of a row have memory of their own for entries: what sorts one needs the counts alone, what
merges a range of them room for four places in each.
"""

from __future__ import annotations

from tesserac.ir.core import Attr, Op, Value, attr
from tesserac.ir.forms import indices
from tesserac.ir.indexed import gives_elements
from tesserac.schedule.rows.sorts import UNIT
from tesserac.tile.cpu.context import Context
from tesserac.tile.dialect import memory_operands, memref_type, sort_operands
from tesserac.types.dtype import I64

RADIX = 256
"""The values that a digit of eight bits has."""
RUN_ATTRS = ("dim", "sorts", "descending", "elements")
BOUNDS = 4
"""Places in each run: where a range begins and ends, and between which others these are looked for."""


def lower_sort(ctx: Context, op: Op) -> None:
    """A sort of a row, of a part of one, or what merges parts."""
    if op.name == "tile.sort":
        _lower_row(ctx, op)
    else:
        _lower_runs(ctx, op)


def _lower_row(ctx: Context, op: Op) -> None:
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


def _lower_runs(ctx: Context, op: Op) -> None:
    memories, _ = memory_operands(op)
    merges = op.name == "tile.merge_runs"
    runs = memref_type(memories[0][0]).dims[attr(op, "dim", int)].ceil_div(UNIT)
    room = ctx.scratch((BOUNDS, runs), I64) if merges else _counts(ctx)
    attrs: dict[str, Attr] = {key: op.attrs[key] for key in RUN_ATTRS if key in op.attrs}
    ctx.builder.op(op.name.replace("tile.", "cpu."), [*map(ctx.value, op.operands), room], (), attrs)
    for memory, *_ in memories if merges else memories[1:]:
        ctx.written(ctx.value(memory))


def _counts(ctx: Context) -> Value:
    return ctx.scratch((2, RADIX), I64)
