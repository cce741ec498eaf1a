"""What is written where a block is packed: for panels (`products.py`) and for tiles (`matrix_products.py`)."""

from __future__ import annotations

from tesserac.ir.core import Block
from tesserac.ir.types import INDEX
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.elements import Evaluator
from tesserac.tile.cpu.shapes import best_dim
from tesserac.tile.cpu.tiles import Tile


def packed_elements(ctx: Context, tile: Tile, *, transposed: bool) -> tuple[Block, bool]:
    """A block that gives the element of a tile at a term and a column, and whether neighbours in memory are terms.
    `transposed`: the tile is [column, term], as a left operand is."""
    block = Block([INDEX, INDEX], ["k", "c"])
    k, c = block.args
    evaluator = Evaluator(ctx, ctx.depth)
    with ctx.inside(block):
        element = evaluator.element(tile, (c, k) if transposed else (k, c))
        ctx.builder.op("cpu.yield", (element,))
    return block, best_dim([tile], []) == (1 if transposed else 0)
