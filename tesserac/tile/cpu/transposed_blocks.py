"""Blocks of memory that lie across the vectors of a nest are transposed into scratch before it.

    %x = tile.load(%m) : memory is contiguous along dim 0    cpu.transpose(%s, rows, columns) { ... cpu.load(%m, r, c) }
    loop nest with vectors along dim 1                  ==>  loop nest that reads %s along dim 1

Read where it is used, each element of such a block would be a line of memory of its own, and lines that are a power of
two apart push each other out of the nearest cache before their other elements are used.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.core import Block
from tesserac.ir.types import INDEX
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.elements import Evaluator
from tesserac.tile.cpu.tiles import Loaded, Places, Stored, Tile, contiguous_dim, identity, leaves
from tesserac.tile.dialect import compute_scalar

SMALLEST_SIDE = 8
"""Of a block: a smaller one has few elements in each line that it reads."""


def transposed_blocks(ctx: Context, tiles: Sequence[Tile], dim: int) -> dict[Tile, Stored]:
    """Copies of the blocks that nests along `dim` would read across, made here."""
    found: dict[Tile, Stored] = {}
    seen = set[tuple[Tile, Places]]()  # by all tiles: a step of a transform has a hundred, which share all they read
    for tile in tiles:
        for block, at in leaves(tile, identity(tile), seen):
            if isinstance(block, Loaded) and block not in found and _lies_across(block, at, dim):
                found[block] = _transposed(ctx, block)
    return found


def _lies_across(block: Loaded, at: Places, dim: int) -> bool:
    """Whether vectors run along its last dim and memory along the other. Elements that are not whole words stay."""
    sides = block.type.shape
    if len(sides) != 2 or min(sides) < SMALLEST_SIDE or contiguous_dim(block) != 0:
        return False
    dtype = compute_scalar(block.type).dtype
    return at[1] == dim and at[0] not in (None, dim) and dtype.kind != "b" and dtype.bits in (32, 64)


def _transposed(ctx: Context, block: Loaded) -> Stored:
    stored = ctx.stored(block)
    body = Block([INDEX, INDEX], ["r", "c"])
    with ctx.inside(body):
        ctx.builder.op("cpu.yield", (Evaluator(ctx, ctx.depth).element(block, tuple(body.args)),))
    extents = ctx.extents(block.axes, block.type.shape)
    ctx.builder.op("cpu.transpose", (stored.memory, *extents), blocks=[body])
    return stored
