"""What a loop over blocks of a tile program carries, and how it takes a block in.

    acc = ldexp(acc, a) + ldexp(p @ v, b)       a product, whose chain goes on from block to block
    s = s + sum(x)                              a sum of blocks; `s` may have dims of size 1 that a sum has not
    m = maximum(m, mc)                          an extreme

What is carried may begin with anything. Chains and sums that do not begin with 0 are made of all blocks first, and then
join what was there before, as one block that spans the dim would: see `begins_late`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import indices, operand_maps, tensor_type
from tesserac.ir.kernels import Cut
from tesserac.ir.types import TensorType
from tesserac.schedule.model.access import is_view, view_source
from tesserac.tile.bodies import identity_of
from tesserac.tile.dialect import tile_type
from tesserac.tile.no_tiles import NoTiles
from tesserac.types.dims import ONE

if TYPE_CHECKING:
    from tesserac.tile.programs.build import Program

EXTREMES = {"scalar.max": "max", "scalar.min": "min"}


@dataclass(frozen=True)
class Joined:
    """How a carried value takes a block in: `part` is what the block gives. Of a chain `product` makes that, and
    `before` is the carried value as the chain goes on from it; `scale` is the exponent of two, per row, by which the
    block's terms are multiplied. Of a sum `total` makes it, and its `lanes` may be what a loop carries. What is neither
    is an `extreme`."""

    part: Value
    product: Op | None = None
    before: Value | None = None
    scale: Value | None = None
    total: Op | None = None
    lanes: bool = False
    extreme: str = ""


def joined(program: Program, loop: Op, cut: Cut, position: int) -> Joined:
    carried, yielded = loop.body.args[1 + position], loop.body.terminator.operands[position]
    join = _only_step(yielded)
    if join is None:
        raise NoTiles(f"what the loop makes of %{carried.name}")
    op, name = join
    if name in EXTREMES and carried in op.operands:
        part = op.operands[1 - op.operands.index(carried)]
        return Joined(part, extreme=EXTREMES[name])
    if name != "scalar.add":
        raise NoTiles(f"what the loop adds to %{carried.name}")
    for before, part in (op.operands, op.operands[::-1]):
        if _unscaled(before)[0] is not carried:
            continue
        product, scale = _unscaled(part)
        made = below_unit_views(product).defining_op
        if made is not None and made.name == "form.contract" and program.summed(made) == cut.block:
            return Joined(product, made, before, scale)
        if before is carried and scale is None and made is not None and _sums_block(made, cut):
            return Joined(part, total=made)
    raise NoTiles(f"what the loop adds to %{carried.name}")


def _sums_block(made: Op, cut: Cut) -> bool:
    """Whether this is the sum of a block over the dim that its loop goes over, not rounded yet."""
    if made.name != "form.reduce" or made.attrs["kind"] != "sum":
        return False
    dims, is_wide = tensor_type(made.operands[0]).dims, tensor_type(made.result).dtype == made.attrs["accum"]
    return is_wide and [dims[axis] for axis in indices(made, "axes")] == [cut.block]


def _only_step(value: Value) -> tuple[Op, str] | None:
    """The map that makes a value by one scalar operation of two operands, place by place, dims of size 1 aside; its
    operation."""
    op = value.defining_op
    if op is None or op.name != "form.map" or len(op.operands) != 2 or len(op.body.ops) != 2:
        return None
    step = op.body.ops[0]
    in_order = step.operands == tuple(op.body.args) and op.body.terminator.operands == (step.result,)
    left, right = operand_maps(op)
    if not in_order or not _is_in_place(value, left):
        return None
    is_scale = step.name == "scalar.ldexp" and all(p in (0, None) for p in right)
    return (op, step.name) if is_scale or _is_in_place(value, right) else None


def _is_in_place(value: Value, places: tuple[int | None, ...]) -> bool:
    """Whether an operand of a map has an element for each of the value's, in their order."""
    dims = tensor_type(value).dims
    told = [place for place in places if place is not None and dims[place] != ONE]
    return told == [place for place, dim in enumerate(dims) if dim != ONE]


def _unscaled(value: Value) -> tuple[Value, Value | None]:
    """A value and the exponent, per row, that it is multiplied by two to the power of."""
    step = _only_step(value)
    if step is None or step[1] != "scalar.ldexp":
        return value, None
    return step[0].operands[0], step[0].operands[1]


def below_unit_views(value: Value) -> Value:
    """What a value is with other dims of size 1."""
    while (op := value.defining_op) is not None and is_view(op):
        kept = [[d for d in tensor_type(v).dims if d != ONE] for v in (op.operands[0], op.result)]
        if kept[0] != kept[1]:
            break
        value = op.operands[0]
    return value


def begins_late(loop: Op, joins: Sequence[Joined]) -> bool:
    """Whether a chain or a sum begins with something else than 0."""
    return any(not join.extreme and not _is_zero(init) for join, init in zip(joins, loop.operands[2:], strict=True))


def neutral(program: Program, join: Joined, init: Value) -> Value:
    """What a block joins without a change."""
    ty = tile_type(init)
    value = identity_of(join.extreme or "sum", ty.dtype)
    return program.builder.value("tile.full", (), ty, {"value": value})


def joined_late(program: Program, loop: Op, joins: Sequence[Joined], totals: Sequence[Value]) -> list[Value]:
    """What a loop gives whose blocks came to `totals`, once they join what it began with."""
    inits = [program.value(value) for value in loop.operands[2:]]
    with program.anew():
        for arg, init, join, total in zip(loop.body.args[1:], inits, joins, totals, strict=True):
            program.remember(arg, init)
            remember_part(program, join, arg, total)
        return [program.value(value) for value in loop.body.terminator.operands]


def remember_part(program: Program, join: Joined, arg: Value, total: Value) -> None:
    """Has several blocks that came to `total` stand for one, with the dims of size 1 that what it gives has."""
    program.remember(join.part, shaped(program, total, tensor_type(arg), tensor_type(join.part)))


def _is_zero(value: Value) -> bool:
    op = view_source(value)[0].defining_op
    made = op.body.terminator.operands[0].defining_op if op is not None and op.name == "form.map" else None
    return made is not None and made.name == "scalar.constant" and str(made.attrs["value"]) in ("0", "0.0")


def shaped(program: Program, tile: Value, has: TensorType, wanted: TensorType) -> Value:
    """A tile with other dims of size 1."""
    if has.dims == wanted.dims:
        return tile
    real = [place for place, dim in enumerate(wanted.dims) if dim != ONE]
    places = tuple(None if dim == ONE else real.pop(0) for dim in has.dims)
    ty = TensorType(wanted.dims, tile_type(tile).dtype, tile_type(tile).policy)
    return program.mapped([tile], [places], ty, lambda builder, args: args[0])
