"""Running folds in a tile program, along a dim that it takes whole.

    form.scan(%x) {axis = 1, kind = "sum"}        ==>   tile.scan(%x, %columns) {dim = 1, kind = "sum"}

A fold ascends within a block of its order, so that a dim of one block is one chain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tesserac.ir.core import Op, Value, attr
from tesserac.ir.forms import tensor_type
from tesserac.ir.types import TileType
from tesserac.numerics.order import REDUCTION, Blocks
from tesserac.tile.dialect import tile_type
from tesserac.tile.no_tiles import NoTiles
from tesserac.tile.programs.reductions import in_type
from tesserac.types.dtype import DType

if TYPE_CHECKING:
    from tesserac.tile.programs.build import Program


def build_scan(program: Program, op: Op, value: Value) -> Value:
    source, axis, order = op.operands[0], attr(op, "axis", int), op.attrs["order"]
    dim, accum, result = tensor_type(source).dims[axis], attr(op, "accum", DType), tensor_type(value)
    limit = order.block if isinstance(order, Blocks) else REDUCTION.block
    if dim in program.sizes and dim not in program.meant:
        raise NoTiles("a running fold over a block")
    if program.extent(dim) > limit:
        raise NoTiles(f"a running fold over more than {limit} elements")
    tile = in_type(program, program.value(source), accum)
    shape = tile_type(tile).shape
    types = (TileType(shape, accum), TileType((*shape[:axis], *shape[axis + 1 :]), accum))
    attrs = {"kind": op.attrs["kind"], "dim": axis}
    steps = program.builder.op("tile.scan", (tile, program.axis(dim)), types, attrs).results[0]
    wanted = TileType(shape, result.dtype, result.policy)
    return steps if wanted == steps.type else program.builder.value("tile.cast", (steps,), wanted, hint=value.name)
