"""Reductions in a tile program: of dims that a program takes whole, and the extremes of a block.

Enters: a reduction over blocks. Leaves: a `tile.reduce`, which skips what lies outside the axes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tesserac.ir.core import Attr, Op, Value
from tesserac.ir.forms import ORDERED_KINDS, indices, operand_maps, tensor_type
from tesserac.ir.types import TileType
from tesserac.numerics.order import REDUCTION, Blocks
from tesserac.tile.bodies import finished, is_plus_zero
from tesserac.tile.dialect import tile_type
from tesserac.tile.no_tiles import NoTiles
from tesserac.types.dtype import DType
from tesserac.types.policy import compute_dtype

if TYPE_CHECKING:
    from tesserac.tile.programs.build import Program


EXTREMES = ("max", "min")


def build_reduce(program: Program, op: Op, value: Value) -> Value:
    source, kind = op.operands[0], op.attrs["kind"]
    assert isinstance(kind, str)
    dims, axes = tensor_type(source).dims, indices(op, "axes")
    order = op.attrs.get("order")
    if kind in ORDERED_KINDS:
        limit = order.block if isinstance(order, Blocks) else REDUCTION.block
        cut = any(dims[axis] in program.sizes and dims[axis] not in program.meant for axis in axes)
        if cut and op not in program.sums:
            raise NoTiles("a sum over a block")
        if len(axes) > 1 and any(dims[axis].constant is None for axis in axes):
            raise NoTiles("a sum over several dims that may not be full")
        if prod(program.extent(dims[axis]) for axis in axes) > limit:
            raise NoTiles(f"a sum over more than {limit} elements")
    accum = op.attrs["accum"]
    assert isinstance(accum, DType)
    kept = tuple(dim for axis, dim in enumerate(dims) if axis not in axes)
    attrs: dict[str, Attr] = {"kind": kind, "axes": axes}
    if kind in ORDERED_KINDS:
        attrs["order"] = order if isinstance(order, Blocks) else REDUCTION
    tile, ends_sum = _before_plus_zero(program.value(source)) if kind in EXTREMES else (program.value(source), False)
    operands = (in_type(program, tile, accum), *(program.axis(dims[axis]) for axis in axes))
    total = program.builder.value("tile.reduce", operands, TileType(program.shape(kept), accum), attrs, hint=value.name)
    return finished(program.builder, "sum" if ends_sum else kind, total, tensor_type(value))


def in_type(program: Program, tile: Value, accum: DType) -> Value:
    """A tile as a reduction folds it: integers and bools may be summed in a wider type than they have."""
    ty = tile_type(tile)
    if compute_dtype(ty.dtype, ty.policy) == accum:
        return tile
    return program.builder.value("tile.cast", (tile,), TileType(ty.shape, accum))


def _before_plus_zero(tile: Value) -> tuple[Value, bool]:
    """What a sum is before `+ (+0)` ends it, and whether that is so: adding it changes no order, so that the extreme of
    many sums takes it once."""
    made = tile.defining_op
    if made is None or made.name != "tile.map" or len(made.operands) != 1 or len(made.body.ops) != 3:
        return tile, False
    step, source = made.body.ops[1], made.operands[0]
    in_place = operand_maps(made)[0] == tuple(range(len(tile_type(tile).shape))) and source.type == tile.type
    is_end = step.name == "scalar.add" and step.operands[0] is made.body.args[0] and is_plus_zero(step.operands[1])
    return (source, True) if in_place and is_end else (tile, False)
