"""Products whose right operand counts through several dims of memory, as windows of an image: panel by panel.

    %c = tile.dot(%a, %b, %acc)     ==>    for panel j of %b: cpu.pack_groups it
                                                for panel i of %a: cpu.micro_kernel

A panel is packed when it is multiplied, and stays in the first cache for all rows. The left operand, weights or a
gradient as a rule, is read as it lies where it can be: each program of many would pack all rows for a few columns.

    misfit = 0      the register blocks read memory, rows by terms, `pitch` elements apart
    misfit > 0      it is packed before, and they read panels; see `rows_in_place.py` for when that is
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.ir.core import Op, Value
from tesserac.ir.types import TileType
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.products.group_panels import PackStep, group_tables, pack_groups
from tesserac.tile.cpu.products.panels import Panels, pack, register_block_edge
from tesserac.tile.cpu.products.rows_in_place import lying
from tesserac.tile.cpu.target import Micro
from tesserac.tile.cpu.tiles import Accumulator, Axis, Grouped, LoweringError, Tile
from tesserac.tile.dialect import compute_scalar, tile_type


def panel_by_panel(
    ctx: Context, dot: Op, micro: Micro, right: Grouped, target: Accumulator, pack_left: Callable[[], Panels]
) -> None:
    """All register blocks of a product; `pack_left` gives the left operand in panels, if it is no block of memory."""
    a, one = ctx.tile(dot.operands[0]), ctx.dim(1)
    (rows, depth), columns = ctx.extents(a.axes, a.type.shape), ctx.extents(target.axes, target.type.shape)[1]
    found = lying(ctx, a, micro)
    if found is None:
        left = pack_left()
    else:
        with ctx.when(found.misfit, "ge", one):
            left = packed(ctx, a, transposed=True, width=micro.rows)
    memory, pack_panel = _panel(ctx, micro, right)

    def blocks(operand: Value, column: Value) -> None:
        with ctx.loop(zero, ctx.index("ceil_div", rows, micro.rows), hint="i") as i:
            row = ctx.index("mul", i, micro.rows)
            read = (operand, i, memory, zero, zero, target.memory)
            extents = (row, column, depth, target.done, rows, *register_block_edge(micro, columns))
            attrs = {"micro": micro, "accum": tile_type(dot.result).dtype}
            ctx.builder.op("cpu.micro_kernel", (*read, *extents), attrs=attrs)

    zero = ctx.dim(0)
    pack_panel(zero, zero, "list")
    with ctx.loop(zero, ctx.index("ceil_div", columns, micro.columns), hint="j") as j:
        column = ctx.index("mul", j, micro.columns)
        pack_panel(column, ctx.index("min", ctx.index("sub", columns, column), micro.columns), "pack")
        if found is None:
            blocks(left.memory, column)
            return
        with ctx.when(found.misfit, "lt", one):
            blocks(found.memory, column)
        with ctx.when(found.misfit, "ge", one):
            blocks(left.memory, column)


def _panel(ctx: Context, micro: Micro, right: Grouped) -> tuple[Value, Callable[[Value, Value, PackStep], None]]:
    """Scratch for a panel, and what packs so many columns, from one on, into it."""
    whole = right.at[-1]
    if not isinstance(whole, Axis):
        raise LoweringError("an operand that is read in groups has its columns behind all else")
    start, type_ = whole.start, TileType((right.type.shape[0], micro.columns), right.type.dtype, right.type.policy)
    memory = ctx.scratch(type_.shape, compute_scalar(type_).dtype, "panels")
    tables = group_tables(ctx, type_.shape, micro.columns, transposed=False)

    def pack_panel(column: Value, count: Value, does: PackStep) -> None:
        axis = Axis(ctx.index("add", start, column), count, micro.columns)
        part = Grouped(type_, right.memory, (*right.at[:-1], axis), right.groups, (right.axes[0], axis))
        pack_groups(ctx, part, memory, tables, micro.columns, transposed=False, does=does)

    return memory, pack_panel


def packed(ctx: Context, tile: Tile, *, transposed: bool, width: int) -> Panels:
    """A block in panels of scratch, laid out here."""
    shape, extents = tile.type.shape, ctx.extents(tile.axes, tile.type.shape)
    row, column = (1, 0) if transposed else (0, 1)
    whole = -(-shape[column] // width) * width
    memory = ctx.scratch((shape[row], whole), compute_scalar(tile.type).dtype, "panels")
    zero = ctx.dim(0)
    if isinstance(tile, Grouped):
        tables = group_tables(ctx, shape, width, transposed=transposed)
        pack_groups(ctx, tile, memory, tables, width, transposed=transposed)
    else:
        pack(ctx, tile, memory, (zero, zero), (extents[row], extents[column]), extents[column], width, transposed)
    return Panels(memory, zero, zero, None)
