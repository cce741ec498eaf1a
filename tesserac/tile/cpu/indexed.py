"""Reads and writes at computed places.

Enters: `tile.gather` and `tile.scatter`. Leaves: a tile that is read where it is used, and a loop nest that writes.
"""

from __future__ import annotations

from tesserac.ir.core import Op, Value
from tesserac.ir.forms import operand_maps
from tesserac.ir.types import AxisType, TileType
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.elements import Evaluator
from tesserac.tile.cpu.nests import Scatter, lower_sinks
from tesserac.tile.cpu.tiles import Axis, Gathered, Tile
from tesserac.tile.dialect import gather_operands, scatter_operands, tile_type


def coordinates(ctx: Context, at: tuple[Value, ...]) -> tuple[Value | Axis, ...]:
    """What became of indices and axes."""
    return tuple(ctx.axes[v] if isinstance(v.type, AxisType) else ctx.value(v) for v in at)


def gathered(ctx: Context, op: Op) -> Gathered:
    """The tile that a gather reads, where it is used."""
    memory, type_ = ctx.value(op.operands[0]), tile_type(op.result)
    places, status = gather_operands(op)
    at = tuple(ctx.tile(v) if isinstance(v.type, TileType) else coordinates(ctx, (v,))[0] for v in places)
    axes: list[Axis | None] = [None] * len(type_.shape)
    for place, dims in zip(at, operand_maps(op), strict=True):
        found = place.axes if isinstance(place, Tile) else (place,) if isinstance(place, Axis) else ()
        for axis, dim in zip(found, dims, strict=True):
            if dim is not None and axes[dim] is None:
                axes[dim] = axis
    told = None if status is None else ctx.value(status)
    version = ctx.versions.get(memory, 0)
    wraps = op.attrs["bounds"] == "wrap"
    return Gathered(type_, memory, at, operand_maps(op), told, wraps, tuple(axes), version)


def has_rows(tile: Gathered) -> bool:
    """Whether integers say rows of a matrix, which lie in memory as they are."""
    rank = len(tile.type.shape)
    return rank == 2 and isinstance(tile.at[-1], Axis) and all(rank - 1 not in dims for _, dims in tile.indices)


def is_read_again(gather: Op) -> bool:
    """Whether more than one operation reads what is gathered, or one that goes over it more than once, or across."""
    return len(gather.result.uses) > 1 or _is_gone_over(gather.result)


def _is_gone_over(value: Value) -> bool:
    """Whether a product or a fold reads a tile, or what is computed of it element by element."""
    users = [user for user, _ in value.uses]
    if any(user.name in ("tile.dot", "tile.reduce") for user in users):
        return True
    return any(user.name in ("tile.map", "tile.cast") and _is_gone_over(user.result) for user in users)


def lower_scatter(ctx: Context, op: Op) -> None:
    """Writes a block where one integer per computed coordinate says."""
    tile, memory = ctx.tile(op.operands[0]), ctx.value(op.operands[1])
    places, there, status = scatter_operands(op)
    assert there is None, "what is sorted is written at once, for which a CPU has no need"
    evaluator = Evaluator(ctx, ctx.depth)
    at = tuple(
        evaluator.position_of(evaluator.element(ctx.tile(v), ()))
        if isinstance(v.type, TileType)
        else coordinates(ctx, (v,))[0]
        for v in places
    )
    axes = tuple(p for p in at if isinstance(p, Axis))
    told = None if status is None else ctx.value(status)
    wraps, kind = op.attrs["bounds"] == "wrap", str(op.attrs["kind"])
    lower_sinks(ctx, [Scatter(tile, memory, at, axes, told, wraps, kind)])
