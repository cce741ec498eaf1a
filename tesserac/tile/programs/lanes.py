"""Sums beside products in a loop over blocks of a tile program: the lanes of a reduction, block by block.

    for j ...:  a += dot(t, w);  s += sum(t)        t is [rows, 64]

A chain of products goes over thousands of terms, a block of a reduction over 512. The aligned tree over these is loops
in one another, which the chains walk through:

    for 2048: for 1024: for 512: { for 64: { a += ..., lanes += t }; s_512 += fold(lanes) }; s_1024 += s_512; ...

A CPU takes blocks of 512 and folds them as they are. Registers of a GPU do not hold that many columns beside operands
of products: there blocks are as wide as the reduction has lanes, and what the innermost loop carries of a sum is the
lanes themselves: each adds its element of every block, as its order says, and after 512 elements they fold.

A sum begins anew in each of them, from +0, which changes nothing but the sign of a zero; and a sum ends with `+ (+0)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import indices, tensor_type
from tesserac.ir.index import index_op
from tesserac.ir.types import AxisType, ScalarType, TensorType, TileType
from tesserac.numerics.order import REDUCTION
from tesserac.tile.bodies import finished
from tesserac.tile.dialect import tile_type
from tesserac.tile.no_tiles import NoTiles
from tesserac.types.dims import Dim
from tesserac.types.dtype import BOOL, I64, DType

if TYPE_CHECKING:
    from tesserac.tile.programs.build import Program


def has_lanes(program: Program, block: Dim) -> bool:
    """Whether blocks are as wide as the order of sums has lanes, or are one that is narrower."""
    over, size = program.over[block].constant, program.sizes[block]
    return size == REDUCTION.lanes or (over is not None and over <= size <= REDUCTION.lanes)


def require_floats(sums: Sequence[Op]) -> None:
    for total in sums:
        accum = total.attrs["accum"]
        assert isinstance(accum, DType)
        if not accum.is_float or total.attrs.get("order", REDUCTION) != REDUCTION:
            raise NoTiles("a sum beside a product that is not one of floats in the order of every sum")


def empty_lanes(program: Program, total: Op) -> Value:
    accum = total.attrs["accum"]
    assert isinstance(accum, DType)
    return program.zero(TileType(program.shape(tensor_type(total.operands[0]).dims), accum))


def next_lanes(program: Program, total: Op, lanes: Value, block: Dim) -> Value:
    """The lanes with the elements of one more block; those behind its end are no elements."""
    source = total.operands[0]
    dims, places = tensor_type(source).dims, tuple(range(tensor_type(source).rank))
    (axis,) = indices(total, "axes")
    position, end = _indices(program, block)

    def fill(builder: Builder, args: list[Value]) -> Value:
        held, term, place, stop = args
        inside = builder.value("scalar.lt", (place, stop), ScalarType(BOOL))
        more = builder.value("scalar.add", (held, term), held.type)
        return builder.value("scalar.select", (inside, more, held), held.type)

    tiles, result = [lanes, program.value(source), position, end], TensorType(dims, tile_type(lanes).dtype)
    return program.mapped(tiles, [places, places, (axis,), (None,)], result, fill)


def folded_lanes(program: Program, total: Op, lanes: Value) -> Value:
    """The sum of a block of the order, as what makes it would give it."""
    (axis,) = indices(total, "axes")
    width = tile_type(lanes).shape[axis]
    whole = program.builder.value("tile.axis", (program.size(0), program.size(width)), AxisType(width))
    kept = tuple(size for place, size in enumerate(tile_type(lanes).shape) if place != axis)
    attrs = {"kind": "sum", "axes": (axis,), "order": REDUCTION}
    made = program.builder.value("tile.reduce", (lanes, whole), TileType(kept, tile_type(lanes).dtype), attrs)
    return finished(program.builder, "sum", made, tensor_type(total.result))


def _indices(program: Program, block: Dim) -> tuple[Value, Value]:
    """The indices of a block, and the one at which its axis ends."""
    axis = program.axis(block)
    assert isinstance(axis.type, AxisType) and axis.defining_op is not None
    stop = axis.defining_op.operands[1]
    behind = index_op(program.builder, "add", stop, program.size(1))
    end = program.builder.value("tile.axis", (stop, behind), AxisType(1))
    iota = program.builder.value("tile.iota", (axis,), TileType((axis.type.block,), I64))
    return iota, program.builder.value("tile.iota", (end,), TileType((1,), I64))
