"""Steps of a loop that leave everything as it was for all rows of a program: the program passes over them.

    for e in range(E):                           %any = tile.index(tile.reduce(%inside))
        acc = ...                                tile.for(0, %any, %y) { %acc = ...
        y = where(inside[:, None], acc, y)           tile.yield(where(%inside, %acc, %y)) }

The rows of a group lie side by side, so that a program has rows of one or two groups and computes no product of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import operand_maps, tensor_type
from tesserac.ir.types import INDEX, ScalarType, TensorType, TileType
from tesserac.tile.programs.joins import below_unit_views
from tesserac.types.dtype import I64

if TYPE_CHECKING:
    from tesserac.tile.programs.build import Program


def rows_that_count(loop: Op) -> Value | None:
    """The one condition on which a step changes anything that its loop carries; None where there is no such."""
    pairs = zip(loop.body.args[1:], loop.body.terminator.operands, strict=True)
    conditions = {_condition(arg, value) for arg, value in pairs if value is not arg}
    return conditions.pop() if len(conditions) == 1 else None


def _condition(carried: Value, value: Value) -> Value | None:
    """What says of each element whether it is another one than before."""
    op = value.defining_op
    chosen = op.body.terminator.operands[0].defining_op if op is not None and op.name == "form.map" else None
    if op is None or chosen is None or chosen.name != "scalar.select" or value.type != carried.type:
        return None
    inside = dict(zip(op.body.args, zip(op.operands, operand_maps(op), strict=True), strict=True))
    test, _, otherwise = chosen.operands
    stays = inside.get(otherwise) == (carried, tuple(range(tensor_type(value).rank)))
    return below_unit_views(inside[test][0]) if stays and test in inside else None


def count_of_rounds(program: Program, condition: Value) -> Value:
    """1 where a condition holds anywhere, else 0, or less where there is nothing that it could hold of."""
    dims, number = tensor_type(condition).dims, ScalarType(I64)
    places = tuple(range(len(dims)))

    def fill(builder: Builder, args: list[Value]) -> Value:
        one, none = (builder.value("scalar.constant", (), number, {"value": count}) for count in (1, 0))
        return builder.value("scalar.select", (args[0], one, none), number)

    flags = program.mapped([program.value(condition)], [places], TensorType(dims, I64), fill)
    if dims:
        operands = (flags, *map(program.axis, dims))
        flags = program.builder.value("tile.reduce", operands, TileType((), I64), {"kind": "max", "axes": places})
    return program.builder.value("tile.index", (flags,), INDEX)
