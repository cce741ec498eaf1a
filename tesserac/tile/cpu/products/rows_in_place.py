"""Left operands that a register block reads as they lie in memory.

On x86 a left element is spread over a vector while it is loaded, from wherever it lies: nothing has to be packed. Where
it is known how far apart rows are, those that do not fill a register block are packed still, since there may be no
memory behind them. Where only a run knows, it also says whether the operand is packed after all: `Lying.misfit`.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Value
from tesserac.ir.types import MemRefType, TileType
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.target import Micro
from tesserac.tile.cpu.tiles import Axis, Grouped, Loaded, Tile
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


SET_BYTES = 4096
"""How far apart lines are that meet in one set of a first cache, which has room for fewer than a register block has
rows: with 32 KiB it has eight."""


@dataclass(frozen=True)
class Lying:
    """Memory of rows by terms, and what is more than 0 where it had better be packed: rows that end within a register
    block, rows that meet in one set of a cache, terms that are no neighbours."""

    memory: Value
    misfit: Value


def lying(ctx: Context, tile: Tile, micro: Micro) -> Lying | None:
    """A tile of rows by terms as a left operand that is not packed, if it can be one."""
    if not isinstance(tile, (Loaded, Grouped)) or not spreads_elements(micro) or micro.rows % ctx.target.rest_rows:
        return None
    memory, axes = memref_type(tile.memory), _axes(tile)
    groups = tile.groups if isinstance(tile, Grouped) else (1,) * len(memory.dims)
    if axes != [len(groups) - 2, len(groups) - 1] or groups[-2] != 1 or not _has_terms_in_order(tile):
        return None
    if ctx.versions.get(tile.memory, 0):
        return None
    row_axis, term_axis = tile.axes
    assert row_axis is not None and term_axis is not None
    pitch, terms = memory.strides[-1 - groups[-1]], memory.dims[-groups[-1] :]
    starts = [place.start if isinstance(place, Axis) else place for place in tile.at]
    starts[-1:] = _counted(ctx, term_axis.start, terms)
    type_ = MemRefType(tuple(map(Dim.const, tile.type.shape)), memory.dtype, strides=(pitch, ONE), space=memory.space)
    part = ctx.builder.value("cpu.part", (tile.memory, *starts), type_)
    low = ctx.index("rem", row_axis.extent, ctx.target.rest_rows)
    meeting = ctx.index("rem", ctx.dim(pitch), SET_BYTES // memory.dtype.bytes)
    misfit = ctx.index("max", low, ctx.index("sub", ctx.dim(1), ctx.index("min", meeting, 1)))
    if len(terms) > 1:
        misfit = ctx.index("max", misfit, _breaks(ctx, term_axis, terms[-1]))
    return Lying(part, misfit)


def _has_terms_in_order(tile: Loaded | Grouped) -> bool:
    """Whether neighbours in the last dim are neighbours in memory, numbers that are computed with as they are."""
    memory = memref_type(tile.memory)
    in_order = memory.layout == "strided" and memory.strides[-1] == ONE
    return in_order and tile.type.dtype == memory.dtype == compute_scalar(tile.type).dtype


def _counted(ctx: Context, index: Value, dims: tuple[Dim, ...]) -> list[Value]:
    """One index as one for each of the dims that it counts through."""
    found: list[Value] = []
    for dim in reversed(dims[1:]):
        found.append(ctx.index("rem", index, ctx.dim(dim)))
        index = ctx.index("floor_div", index, ctx.dim(dim))
    return [index, *reversed(found)]


def _breaks(ctx: Context, terms: Axis, run: Dim) -> Value:
    """How many ends of runs of so many terms are within a block of them."""
    last = ctx.index("sub", ctx.index("add", terms.start, terms.extent), 1)
    first, behind = (ctx.index("floor_div", place, ctx.dim(run)) for place in (terms.start, last))
    return ctx.index("sub", behind, first)


def spreads_elements(micro: Micro) -> bool:
    """Whether left elements are loaded one by one: rows of a register block are no whole vectors."""
    return micro.rows % micro.lanes != 0


def _axes(tile: Loaded | Grouped) -> list[int]:
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
