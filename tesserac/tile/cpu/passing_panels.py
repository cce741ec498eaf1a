"""Products of which a panel of the left operand stays in the first cache, while panels of the right one pass.

    %c = tile.dot(%a, %b, %acc)     ==>    for panel i of %a: cpu.pack it, then for panel j of %b: a register block

A panel of a few rows is packed just before it is multiplied, so it is written once and never leaves the first cache. It
is lower than one of the right operand is wide, so in the same cache it has more terms: sums pass fewer times between
registers and memory. Sums that are the result go to its memory and come from there (`finished_products.py`).
"""

from __future__ import annotations

from tesserac.ir.core import Attr, Op, Value, attr
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.finished_products import Finished
from tesserac.tile.cpu.panels import Panels, pack, register_block_edge
from tesserac.tile.cpu.target import Micro
from tesserac.tile.cpu.tiles import Accumulator, Axis, Loaded, LoweringError
from tesserac.tile.dialect import Stage, compute_scalar, memref_type, tile_type


def left_stays(dot: Op) -> bool:
    """Whether the left operand is packed one panel after the other."""
    load = dot.operands[0].defining_op
    return load is not None and "stage" in load.attrs and attr(load, "stage", Stage).layout == "panel"


def passing_blocks(ctx: Context, dot: Op, micro: Micro, right: Panels, target: Accumulator) -> None:
    """All register blocks of a product, row by row of them."""
    attrs: dict[str, Attr] = {"micro": micro, "accum": tile_type(dot.result).dtype, "passes": True}
    a, zero = _rows_of(ctx, dot), ctx.dim(0)
    (rows, depth), columns = ctx.extents(a.axes, a.type.shape), ctx.extents(target.axes, target.type.shape)[1]
    memory = ctx.scratch((a.type.shape[1], micro.rows), compute_scalar(a.type).dtype, "panels")
    whole = columns if right.offset is None else ctx.index("add", columns, right.offset)
    finished = ctx.finished.get(dot)
    with ctx.loop(zero, ctx.index("ceil_div", rows, micro.rows), hint="i") as i:
        row = ctx.index("mul", i, micro.rows)
        below = ctx.index("sub", rows, row)
        _pack_rows(ctx, a, row, ctx.index("min", below, micro.rows), memory)
        with ctx.loop(zero, ctx.index("ceil_div", whole, micro.columns), hint="j") as j:
            panel, column = ctx.index("add", j, right.panel), ctx.index("mul", j, micro.columns)
            operands = (memory, zero, right.memory, panel, right.row, target.memory, row, column, depth, target.done)
            if finished is None:
                edge = register_block_edge(micro, whole)
                ctx.builder.op("cpu.micro_kernel", (*operands, rows, *edge), attrs=attrs)
            else:
                behind, place = ctx.index("sub", columns, column), _place(ctx, finished, row, column)
                rest = (below, behind, finished.elsewhere, finished.to.memory, *place)
                ctx.builder.op("cpu.finished_block", (*operands, *rest), attrs=attrs)


def _rows_of(ctx: Context, dot: Op) -> Loaded:
    tile = ctx.tile(dot.operands[0])
    if not isinstance(tile, Loaded) or None in tile.axes:
        raise LoweringError("an operand that is packed panel by panel is a block of memory", dot)
    return tile


def _pack_rows(ctx: Context, a: Loaded, row: Value, count: Value, memory: Value) -> None:
    """So many rows of a block, from `row` on, as the one panel of `memory`."""
    rows, terms = a.axes
    assert rows is not None and terms is not None
    part = Axis(ctx.index("add", rows.start, row), count, rows.block)
    at = tuple(part if place is rows else place for place in a.at)
    block, zero = Loaded(a.type, a.memory, at, (part, terms), a.version), ctx.dim(0)
    width = memref_type(memory).dims[1].constant
    assert width is not None
    pack(ctx, block, memory, (zero, zero), (terms.extent, count), count, width, transposed=True)


def _place(ctx: Context, finished: Finished, row: Value, column: Value) -> tuple[Value, ...]:
    to = finished.to
    return (*to.outer, ctx.index("add", to.rows.start, row), ctx.index("add", to.columns.start, column))
