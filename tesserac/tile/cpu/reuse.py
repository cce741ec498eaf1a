"""Costly tiles that would be computed again and again are computed once, into scratch.

%e = exp(%row)                    %e is computed for every element of %y, unless it is kept:
%y = %x * %e, along dim 0   ==>   a tile that lacks an outer dim of its user is walked again for each index of it
"""

from __future__ import annotations

from tesserac.ir.core import Op
from tesserac.ir.forms import operand_maps
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.nests import Copy, lower_sinks
from tesserac.tile.cpu.shapes import LIGHT_BODY, operation_cost
from tesserac.tile.cpu.tiles import Converted, Gathered, Mapped, Stored, Tile

GATHER_COST = 4
"""Operations that one computed coordinate stands for: its check and its share of the address."""


def in_scratch(ctx: Context, tile: Tile) -> Stored:
    """The tile's own scratch, or a copy of it in new scratch."""
    if isinstance(tile, Stored):
        return tile
    stored = ctx.stored(tile)
    lower_sinks(ctx, [Copy(tile, stored)])
    return stored


def kept_operands(ctx: Context, op: Op) -> tuple[Tile, ...]:
    """The operands of a map, costly ones that it would walk repeatedly in scratch."""
    operands = []
    for value, places in zip(op.operands, operand_maps(op), strict=True):
        tile = ctx.tile(value)
        followed = [p for p in places if p is not None]
        repeated = bool(followed) and any(d not in followed for d in range(max(followed)))
        if repeated and tile_cost(tile) > LIGHT_BODY:
            tile = ctx.tiles[value] = in_scratch(ctx, tile)
        operands.append(tile)
    return tuple(operands)


def tile_cost(tile: Tile) -> int:
    """Operations that one element of a tile takes."""
    match tile:
        case Mapped():
            return sum(map(operation_cost, tile.op.body.ops)) + sum(map(tile_cost, tile.operands))
        case Gathered():
            return sum(GATHER_COST + tile_cost(index) for index, _ in tile.indices)
        case Converted():
            return 1 + tile_cost(tile.source)
        case _:
            return 0
