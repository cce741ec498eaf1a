"""Masks that say no more than where a loop over blocks ends.

    for j ...:  v = where(keys < end, load(v, j), 0.0)        the loop goes up to `end`, and so do its axes

What lies outside of an axis is nobody's: loads have zeros there, reductions skip it, products take it for no term. So
inside of the loop the condition holds of all that there is, and what it chooses is the tile itself. A load that is read
so is marked: memory behind its axis has numbers, and none of them may reach a product.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tesserac.ir.core import Op, Value
from tesserac.ir.forms import operand_maps, tensor_type
from tesserac.tile.dialect import ENDS
from tesserac.tile.masked_blocks import Bound, bounds_of_mask
from tesserac.types.dims import Dim

if TYPE_CHECKING:
    from tesserac.tile.build_program import Program


def select_that_holds(op: Op, kept: Mapping[Dim, frozenset[Bound]]) -> Op | None:
    """The choice at the end of a map whose condition holds of every position that the axes have."""
    return None if _kept_dim(op, kept) is None else op.body.terminator.operands[0].defining_op


def _kept_dim(op: Op, kept: Mapping[Dim, frozenset[Bound]]) -> int | None:
    for place, dim in enumerate(tensor_type(op.result).dims):
        bounds = bounds_of_mask(op, dim) if kept.get(dim) else None
        if bounds is not None and kept[dim].issuperset(bounds):
            return place
    return None


def masked_load(program: Program, op: Op, holds: Op) -> Value | None:
    """The load that a mask of zeros is all about, with nothing behind its end; None where there is more to it."""
    then, otherwise = holds.operands[1:]
    if then not in op.body.args:
        return None
    position = op.body.args.index(then)
    operand, places = op.operands[position], operand_maps(op)[position]
    if tensor_type(operand) != tensor_type(op.result) or places != tuple(range(len(places))):
        return None
    made = program.value(operand)
    load, zero = made.defining_op, otherwise.defining_op
    if load is None or load.name != "tile.load" or zero is None or zero.attrs["value"] != 0:
        return None
    place = _kept_dim(op, program.kept)
    assert place is not None
    load.attrs[ENDS] = place
    return made


def arguments_used(op: Op, holds: Op | None) -> list[int]:
    """The operands that a map needs if a choice in it is known."""
    if holds is None:
        return list(range(len(op.operands)))
    needed, waiting = set[Value](), [holds.operands[1]]
    while waiting:
        value = waiting.pop()
        needed.add(value)
        waiting += value.defining_op.operands if value.defining_op is not None else ()
    return [i for i, arg in enumerate(op.body.args) if arg in needed]
