"""Costly tiles that would be computed again and again are computed once, into scratch.

%e = exp(%row)                    %e is computed for every element of %y, unless it is kept:
%y = %x * %e, along dim 0   ==>   a tile that lacks an outer dim of its user is walked again for each index of it

%e = exp(%x); %s = sum(%e)        %e is computed in the loop over its elements that sums them, and in a later one,
%y = %e / %s                ==>   unless the first keeps it
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tesserac.ir.core import Op
from tesserac.ir.forms import operand_maps
from tesserac.schedule.rows.row_lanes import LONGEST
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.nests import Copy, Sink, lower_sinks
from tesserac.tile.cpu.shapes import LIGHT_BODY, operation_cost
from tesserac.tile.cpu.tiles import Converted, Gathered, Mapped, Stored, Tile, memories
from tesserac.tile.dialect import tile_type

GATHER_COST = 4
"""Operations that one computed coordinate stands for: its check and its share of the address."""
SEVERAL_ROWS = 8
"""Rows that fill a vector."""


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
        of_rows = _is_of_rows(ctx, op, tile, followed) or _is_of_short_rows(op, followed)
        if (repeated or of_rows) and is_costly(tile):
            tile = ctx.tiles[value] = in_scratch(ctx, tile)
        operands.append(tile)
    return tuple(operands)


def _is_of_rows(ctx: Context, op: Op, tile: Tile, followed: Sequence[int]) -> bool:
    """Whether a tile has a number for each row of another, whose folds stand in scratch: in vectors of rows it takes a
    fraction of what it takes row by row."""
    is_same = len(set(followed)) == len(tile_type(op.result).shape)
    return not is_same and not ctx.folded_rows.isdisjoint(memories(tile, {}))


def _is_of_short_rows(op: Op, followed: Sequence[int]) -> bool:
    """Whether a tile has a number for each of several rows that are short, as `schedule/rows/row_lanes.py` takes them:
    for one of them it takes as long as many of its elements."""
    shape = tile_type(op.result).shape
    rows = prod(shape[dim] for dim in set(followed))
    return rows >= SEVERAL_ROWS and prod(shape) <= LONGEST * rows and len(set(followed)) < len(shape)


def note_costly(ctx: Context, op: Op) -> None:
    """Remembers a tile that several readers would compute, each for itself."""
    tile = ctx.tile(op.result)
    if len(op.result.uses) > 1 and tile.type.shape and is_costly(tile):
        ctx.costly[tile] = op.result


def copies_beside(ctx: Context, sinks: Sequence[Sink]) -> list[Copy]:
    """The costly tiles that loops compute and that others read later, who find them in scratch then."""
    made: list[Copy] = []
    for tile in _parts([sink.tile for sink in sinks]):
        value = ctx.costly.get(tile)
        if value is None or (tile.axes, tile.type.shape) != (sinks[0].axes, sinks[0].tile.type.shape):
            continue
        if any(user not in ctx.lowered for user, _ in value.uses):
            made.append(Copy(tile, ctx.stored(tile)))
            ctx.tiles[value] = made[-1].to
            del ctx.costly[tile]
    return made


def _parts(tiles: Sequence[Tile]) -> list[Tile]:
    """Tiles, and those that they are computed from: each with its own before the next."""
    found: dict[Tile, None] = {}
    for tile in tiles:
        waiting = [tile] if tile not in found else []
        found.update(dict.fromkeys(waiting))
        for part in waiting:
            more = [operand for operand in dict.fromkeys(_operands(part)) if operand not in found]
            waiting += more
            found.update(dict.fromkeys(more))
    return list(found)


def _operands(tile: Tile) -> Sequence[Tile]:
    match tile:
        case Mapped():
            return tile.operands
        case Converted():
            return (tile.source,)
        case _:
            return ()


def is_costly(tile: Tile) -> bool:
    """Whether an element of a tile takes more operations than a light body has. The count stops there: tiles share
    what they are computed from, so that a whole one may be as long as all ways through a kernel."""
    cost, waiting = 0, [tile]
    while waiting and cost <= LIGHT_BODY:
        part = waiting.pop()
        match part:
            case Mapped():
                cost += sum(map(operation_cost, part.op.body.ops))
            case Gathered():
                cost += GATHER_COST * len(part.indices)
                waiting += [index for index, _ in part.indices]
            case Converted():
                cost += 1
        waiting += _operands(part)
    return cost > LIGHT_BODY
