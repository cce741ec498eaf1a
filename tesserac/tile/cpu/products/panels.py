"""Operands of products in panels, and how a tile is written into them."""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Value
from tesserac.ir.index import constant_index
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.products.packed_elements import packed_elements
from tesserac.tile.cpu.target import Micro
from tesserac.tile.cpu.tiles import Tile
from tesserac.types.dtype import TF32


@dataclass(frozen=True)
class Panels:
    """An operand in panels: its rows start at `row`, its columns in `panel`, `offset` behind the edge of that one."""

    memory: Value
    row: Value
    panel: Value
    offset: Value | None


def pack(
    ctx: Context,
    tile: Tile,
    memory: Value,
    start: tuple[Value, Value],
    extents: tuple[Value, Value],
    total: Value,
    width: int,
    transposed: bool,
) -> None:
    """Writes a tile into panels, from (row, column) `start` on."""
    block, across = packed_elements(ctx, tile, transposed=transposed)
    attrs = {"width": width, "across": across, "shorten": tile.type.dtype == TF32}
    ctx.builder.op("cpu.pack", (memory, *start, *extents, total), attrs=attrs, blocks=[block])


def register_block_edge(micro: Micro, columns: Value) -> tuple[Value, ...]:
    """The columns that are wanted, where the last panel may have no more than one vector of them."""
    known = constant_index(columns)
    rest = 1 if known is None else known % micro.columns
    return (columns,) if 0 < rest <= micro.lanes < micro.columns else ()
