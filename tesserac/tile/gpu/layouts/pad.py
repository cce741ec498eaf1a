"""Pass `pad`: blocks of any size become powers of two, which layouts are made of.

    %i = tile.axis(%start, %stop) : axis<96>
    %x = tile.load(%mem, %i) : tile<[96], f32>
  becomes
    %end = index.min(%stop, %start + 96)
    %i = tile.axis(%start, %end) : axis<128>
    %x = tile.load(%mem, %i) : tile<[128], f32>

What lies behind the end of an axis is read as zero, skipped by reductions and not written; `operands.py` sees to it
that it is no term of a product. Blocks of matrices are at least as large as a warp's part of a product. Where groups of
warps multiply whatever the sizes, blocks in whole panels stay as they are.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.index import dim_value, index_op
from tesserac.ir.types import AxisType, TileType, Type
from tesserac.schedule.machine import Machine
from tesserac.tile.dialect import tile_type
from tesserac.tile.gpu.layouts.asynchronous import is_narrow, sums_rows
from tesserac.tile.gpu.layouts.variants import variants, works_by_rows
from tesserac.tile.gpu.model.matrix import WGMMA
from tesserac.tile.gpu.model.values import constant_index

LEAST, FEW_ROWS = 32, 16
"""Terms, rows and columns of a block that a matrix unit takes, and rows of one that takes narrow numbers, or whose sums
nothing goes over row by row."""
WHOLE = 8
"""Columns of which an instruction of a group of warps takes any number."""


def pad_blocks(kernel: Op, machine: Machine) -> None:
    """Changes the kernel in place."""
    if _has_whole_panels(kernel, machine):
        return
    least = _least(kernel) if works_by_rows(kernel) or _has_small_products(kernel) else 1
    for op in list(kernel.walk()):
        if op.name == "tile.axis":
            _cut(op, least)
        for value in (*op.results, *(a for region in op.regions for a in region.block.args)):
            value.type = _padded_type(value.type, least)


def _has_whole_panels(kernel: Op, machine: Machine) -> bool:
    """Whether all is blocks of a product by groups of warps, whichever variant runs."""
    sizes = {n for op in kernel.walk() for v in op.results if isinstance(v.type, TileType) for n in v.type.shape}
    if works_by_rows(kernel) or any(n > 1 and n % WHOLE for n in sizes):
        return False
    return {variant.unit for variant in variants(kernel, machine)} == {WGMMA}


def _least(kernel: Op) -> int:
    """Half as much where only rows are few: of narrow numbers a warp takes 16 of them, of others fewer."""
    dots = [op for op in kernel.walk() if op.name == "tile.dot"]
    factors = [tile_type(dot.operands[1]).shape for dot in dots if not sums_rows(dot)]
    few = all(map(is_narrow, dots)) or not works_by_rows(kernel)
    return FEW_ROWS if few and min(map(min, factors)) >= LEAST else LEAST


def _has_small_products(kernel: Op) -> bool:
    return any(min(tile_type(op.result).shape) < LEAST for op in kernel.walk() if op.name == "tile.dot")


def padded(size: int, least: int) -> int:
    """A dim of size 1 stays one: it stretches."""
    return size if size == 1 else max(least, 1 << (size - 1).bit_length())


def _padded_type(ty: Type, least: int) -> Type:
    match ty:
        case TileType():
            return replace(ty, shape=tuple(padded(n, least) for n in ty.shape))
        case AxisType():
            return replace(ty, block=padded(ty.block, least))
    return ty


def _cut(axis: Op, least: int) -> None:
    """Ends an axis where its block ended, if that grows and does not go to the end of its dim anyway."""
    ty = axis.result.type
    assert isinstance(ty, AxisType)
    if padded(ty.block, least) != ty.block and not _spans(axis.operands, ty.block):
        b = Builder.before(axis)
        end = index_op(b, "add", axis.operands[0], dim_value(b, ty.block))
        axis.set_operand(1, index_op(b, "min", axis.operands[1], end))


def _spans(ends: tuple[Value, ...], block: int) -> bool:
    """Whether an axis goes from 0 to no more than its block."""
    low, high = (constant_index(v) for v in ends)
    return low == 0 and high is not None and high <= block
