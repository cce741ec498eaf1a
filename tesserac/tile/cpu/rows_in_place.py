"""Left operands that a register block reads as they lie in memory, a number of elements between rows that is known.

On x86 a left element is spread over a vector while it is loaded, from wherever it lies: nothing has to be packed. Rows
that do not fill a register block are packed still, since there may be no memory behind them.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Value
from tesserac.ir.types import MemRefType, TileType
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.target import Micro
from tesserac.tile.cpu.tiles import Axis, Loaded, Tile
from tesserac.tile.dialect import compute_scalar, memref_type
from tesserac.types.dims import ONE, Dim


@dataclass(frozen=True)
class Rows:
    """Memory of rows by terms, how many blocks of rows are whole, and the other rows: how many, and a tile of them."""

    memory: Value
    blocks: Value
    count: Value
    rest: Loaded


def rows_in_place(ctx: Context, tile: Tile, micro: Micro) -> Rows | None:
    """A tile of terms by rows as a left operand that is not packed, if it can be one."""
    if not isinstance(tile, Loaded) or not _lies_in_rows(tile) or not spreads_elements(micro):
        return None
    if tile.version or ctx.versions.get(tile.memory, 0):
        return None
    terms, rows = (place for place in tile.at if isinstance(place, Axis))
    starts = [place.start if isinstance(place, Axis) else place for place in tile.at]
    blocks = ctx.index("floor_div", rows.extent, micro.rows)
    done = ctx.index("mul", blocks, micro.rows)
    left = Axis(ctx.index("add", rows.start, done), ctx.index("sub", rows.extent, done), micro.rows)
    at = tuple(left if place is rows else place for place in tile.at)
    type_ = TileType((tile.type.shape[0], micro.rows), tile.type.dtype, tile.type.policy)
    memory = ctx.builder.value("cpu.part", (tile.memory, *starts), _rows_by_terms(tile))
    return Rows(memory, blocks, left.extent, Loaded(type_, tile.memory, at, (terms, left), tile.version))


def spreads_elements(micro: Micro) -> bool:
    """Whether left elements are loaded one by one: rows of a register block are no whole vectors."""
    return micro.rows % micro.lanes != 0


def _axes(tile: Loaded) -> list[int]:
    return [dim for dim, place in enumerate(tile.at) if isinstance(place, Axis)]


def _lies_in_rows(tile: Loaded) -> bool:
    """Whether terms are neighbours, and what is between rows is known."""
    memory, axes = memref_type(tile.memory), _axes(tile)
    if memory.layout != "strided" or len(axes) != 2 or memory.dtype != compute_scalar(tile.type).dtype:
        return False
    return memory.strides[axes[0]] == ONE and memory.strides[axes[1]].constant is not None


def _rows_by_terms(tile: Loaded) -> MemRefType:
    memory, (terms, rows) = memref_type(tile.memory), _axes(tile)
    dims = tuple(Dim.const(size) for size in reversed(tile.type.shape))
    return MemRefType(dims, memory.dtype, strides=(memory.strides[rows], memory.strides[terms]), space=memory.space)
