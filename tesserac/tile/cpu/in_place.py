"""Operands that a register block reads as they lie in memory: it is known how many elements are between their rows.

    left, rows of terms       on x86 an element is spread over a vector while it is loaded, from wherever it lies
    right, terms of columns   its vectors are columns anyway; the next columns are asked for while these are multiplied,
                              where packing would wait for memory first and multiply then

What does not fill a register block is packed still, since there may be no memory behind it.
"""

from __future__ import annotations

from math import gcd

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Value
from tesserac.ir.index import constant_index
from tesserac.ir.types import MemRefType, TileType
from tesserac.tile.cpu.context import LINE_BYTES, Context
from tesserac.tile.cpu.target import Micro
from tesserac.tile.cpu.tiles import Axis, Loaded, Tile
from tesserac.tile.dialect import compute_scalar, memref_type
from tesserac.types.dims import Dim

MOST_TERMS = 64
"""Of columns that are not packed: each term lies in a page of its own, of which a core knows about so many at once."""
SETS, WAYS = 64, 6
"""Of a first cache, half of its ways at most: the terms of a register block must stay while all rows are computed."""


@dataclass(frozen=True)
class InPlace:
    """Memory that is read as it lies, whole blocks of its rows or columns, and what is left: how many, and a tile."""

    memory: Value
    blocks: Value
    count: Value
    rest: Loaded


def rows_in_place(ctx: Context, tile: Tile, micro: Micro) -> InPlace | None:
    """A tile of terms by rows as a left operand that is not packed, if it can be one."""
    if not isinstance(tile, Loaded) or not spreads_elements(micro) or _apart(tile, 1) is None or _apart(tile, 0) != 1:
        return None
    return _in_place(ctx, tile, micro.rows, (1, 0))


def columns_in_place(ctx: Context, tile: Tile, micro: Micro) -> InPlace | None:
    """A tile of terms by columns as a right operand that is not packed, if it can be one."""
    if not isinstance(tile, Loaded) or _apart(tile, 1) != 1 or not _stays_near(tile, micro):
        return None
    return _in_place(ctx, tile, micro.columns, (0, 1))


def spreads_elements(micro: Micro) -> bool:
    """Whether left elements are loaded one by one: rows of a register block are no whole vectors."""
    return micro.rows % micro.lanes != 0


def _stays_near(tile: Loaded, micro: Micro) -> bool:
    """Whether the columns of a register block have room in the first cache as they lie."""
    apart, terms = _apart(tile, 0), tile.axes[0]
    count = None if terms is None else constant_index(terms.extent)
    if apart is None or count is None or count > MOST_TERMS:
        return False
    size = compute_scalar(tile.type).dtype.bytes
    lines = -(-micro.columns * size // LINE_BYTES)
    sets = SETS // gcd(SETS, max(apart * size // LINE_BYTES, 1)) * lines
    return count * lines <= WAYS * min(sets, SETS)


def _in_place(ctx: Context, tile: Loaded, width: int, order: tuple[int, int]) -> InPlace | None:
    """Blocks of `width` along dim 1 of a tile, in memory that has its dims in this order."""
    if tile.version or ctx.versions.get(tile.memory, 0):
        return None
    terms, along = (place for place in tile.at if isinstance(place, Axis))
    starts = [place.start if isinstance(place, Axis) else place for place in tile.at]
    blocks = ctx.index("floor_div", along.extent, width)
    done = ctx.index("mul", blocks, width)
    left = Axis(ctx.index("add", along.start, done), ctx.index("sub", along.extent, done), width)
    at = tuple(left if place is along else place for place in tile.at)
    type_ = TileType((tile.type.shape[0], width), tile.type.dtype, tile.type.policy)
    memory, axes = memref_type(tile.memory), _axes(tile)
    dims, strides = (
        tuple(of[dim] for dim in order)
        for of in ([Dim.const(size) for size in tile.type.shape], [memory.strides[axis] for axis in axes])
    )
    part = MemRefType(dims, memory.dtype, strides=strides, space=memory.space)
    from_here = ctx.builder.value("cpu.part", (tile.memory, *starts), part)
    return InPlace(from_here, blocks, left.extent, Loaded(type_, tile.memory, at, (terms, left), tile.version))


def _axes(tile: Loaded) -> list[int]:
    return [dim for dim, place in enumerate(tile.at) if isinstance(place, Axis)]


def _apart(tile: Loaded, dim: int) -> int | None:
    """How many elements are between neighbours along a dim of a tile of two, if it is known, and if they stand in
    memory as registers hold them."""
    memory, axes = memref_type(tile.memory), _axes(tile)
    plain = memory.layout == "strided" and memory.dtype == compute_scalar(tile.type).dtype
    return memory.strides[axes[dim]].constant if plain and len(axes) == len(tile.type.shape) == 2 else None
