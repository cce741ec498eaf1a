"""Products in the matrix unit of a core: operands in tiles, one operation for all register blocks of a program.

    tile.dot(%a, %b, %acc)     ==>    cpu.pack_tiles the rows of %a, and the columns of %b unless they stand in tiles
                                      cpu.tile_product

Enters: a product whose operands are staged as `tiles`. A tile has 16 rows of the left operand, or 16 columns of the
right one, and as many terms as 64 bytes hold; what is missing of the terms is zero. A column of tiles stands whole,
terms ascending. The accumulator has whole pairs of tiles.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, Value
from tesserac.ir.types import MemRefType
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.products.packed_elements import packed_elements
from tesserac.tile.cpu.tiles import Accumulator, Axis, Loaded, LoweringError, Tile
from tesserac.tile.dialect import Stage, memref_type
from tesserac.types.dims import Dim


@dataclass(frozen=True)
class Tiles:
    """An operand in tiles: its terms start at `term`, its columns at `column`."""

    memory: Value
    term: Value
    column: Value


def uses_tiles(dot: Op) -> bool:
    """Whether the schedule gives a product to the matrix unit."""
    load = dot.operands[0].defining_op
    stage = load.attrs.get("stage") if load is not None and load.name == "tile.load" else None
    return isinstance(stage, Stage) and stage.layout == "tiles"


def lower_tile_product(ctx: Context, dot: Op, target: Accumulator) -> None:
    left = ctx.tile(dot.operands[0])
    rows, depth = ctx.extents(left.axes, left.type.shape)
    a = _packed(ctx, left, is_left=True)
    b = _right(ctx, dot)
    columns = ctx.extents(target.axes, target.type.shape)[1]
    operands = (a.memory, b.memory, b.term, b.column, target.memory, rows, columns, depth, target.done)
    ctx.builder.op("cpu.tile_product", operands, attrs={"dtype": left.type.dtype})


def _right(ctx: Context, dot: Op) -> Tiles:
    tile = ctx.tile(dot.operands[1])
    if not isinstance(tile, Loaded) or memref_type(tile.memory).layout != "tiles":
        return _packed(ctx, tile, is_left=False)
    match tile.at:
        case (Axis() as terms, Axis() as columns):
            return Tiles(tile.memory, terms.start, columns.start)
    raise LoweringError("tiles are read by two axes", dot)


def _packed(ctx: Context, tile: Tile, *, is_left: bool) -> Tiles:
    """A block in tiles of scratch."""
    extents, zero = ctx.extents(tile.axes, tile.type.shape), ctx.dim(0)
    term, column = (1, 0) if is_left else (0, 1)
    dims = (Dim.const(tile.type.shape[term]), Dim.const(tile.type.shape[column]))
    memory = ctx.scratch_like(MemRefType(dims, tile.type.dtype, space="local", layout="tiles"))
    pack_tiles(ctx, tile, memory, (zero, zero), (extents[term], extents[column]), is_left=is_left)
    return Tiles(memory, zero, zero)


def pack_tiles(
    ctx: Context, tile: Tile, memory: Value, start: tuple[Value, Value], extents: tuple[Value, Value], *, is_left: bool
) -> None:
    """Writes a block into tiles, from (term, column) `start` on, which is the corner of a tile."""
    block, across = packed_elements(ctx, tile, transposed=is_left)
    attrs = {"left": is_left, "across": across}
    ctx.builder.op("cpu.pack_tiles", (memory, *start, *extents), attrs=attrs, blocks=[block])


def store_tiles(ctx: Context, tile: Tile, memory: Value, at: tuple[Value | Axis, ...]) -> None:
    """A block of the right operand of a later product, into the tiles that its kernel reads."""
    match at:
        case (Axis() as terms, Axis() as columns):
            start, extents = (terms.start, columns.start), (terms.extent, columns.extent)
            pack_tiles(ctx, tile, memory, start, extents, is_left=False)
        case _:
            raise LoweringError("tiles are written by two axes")
