"""Packing an operand that counts through several dims of memory with one index: windows of an image, batches of rows.

    tile.load {groups = [1, 3, 2]}     ==>    cpu.pack_groups

Where an element lies is the sum of a place by its row and one by its column. Both are listed once for a block, in
scratch; the packing reads them there, and sees in them where neighbours are neighbours in memory.
"""

from __future__ import annotations

from typing import Literal

from tesserac.ir.core import Value
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.tiles import Axis, Grouped, LoweringError
from tesserac.types.dtype import I64

PackStep = Literal["both", "list", "pack"]
"""Places of rows are listed once; what is packed part by part has them already."""


def group_tables(ctx: Context, shape: tuple[int, ...], width: int, *, transposed: bool) -> tuple[Value, Value]:
    """Scratch for the places of rows and columns, and for how many of them are no neighbours of the one before."""
    row, column = (1, 0) if transposed else (0, 1)
    return ctx.scratch((2, shape[row]), I64), ctx.scratch((2, -(-shape[column] // width) * width), I64)


def pack_groups(
    ctx: Context,
    tile: Grouped,
    panels: Value,
    tables: tuple[Value, Value],
    width: int,
    *,
    transposed: bool,
    does: PackStep = "both",
) -> None:
    """`transposed`: the tile is [column, row] of the panels, as a left operand is."""
    shape, (row, column) = tile.type.shape, (1, 0) if transposed else (0, 1)
    starts = [place.start if isinstance(place, Axis) else place for place in tile.at]
    extents = ctx.extents(tile.axes, shape)
    operands = (panels, *tables, tile.memory, *starts, extents[row], extents[column])
    attrs = {"width": width, "groups": tile.groups, "transposed": transposed, "does": does}
    if [isinstance(place, Axis) for place in tile.at[-2:]] != [True, True] or len(shape) != 2:
        raise LoweringError("an operand that is read in groups has rows and columns behind all else")
    ctx.builder.op("cpu.pack_groups", operands, attrs=attrs)
