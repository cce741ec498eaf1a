"""Masks that say no more than where a loop over blocks ends.

    for j ...:  v = where(keys < end, load(v, j), 0.0)        the loop goes up to `end`, and so do its axes

What lies outside of an axis is nobody's: loads have zeros there, reductions skip it, products take it for no term. So
inside of the loop the condition holds of all that there is, and what it chooses is the tile itself. A load that is read
so is marked: memory behind its axis has numbers, and none of them may reach a product.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import operand_maps, tensor_type
from tesserac.ir.types import TensorType
from tesserac.schedule.forms.views import through_view
from tesserac.schedule.model.access import view_source
from tesserac.tile.dialect import ENDS
from tesserac.tile.programs.masked_blocks import Bound, bounds_of_mask
from tesserac.types.dims import Dim

if TYPE_CHECKING:
    from tesserac.tile.programs.build import Program


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
    operand, place = _masked_operand(op, holds), _kept_dim(op, program.kept)
    made = None if operand is None else program.value(operand)
    return None if made is None or place is None else _ending(made, place)


def masked_view(program: Program, view: Op) -> Value | None:
    """The same of such a mask with its dims in another order: read from memory in that order."""
    op = view.operands[0].defining_op
    holds = select_that_holds(op, program.kept) if op is not None and op.name == "form.map" else None
    operand = _masked_operand(op, holds) if op is not None and holds is not None else None
    places = through_view(view, tuple(range(tensor_type(view.result).rank)))
    if op is None or operand is None or places is None or not program.is_argument(view_source(operand)[0]):
        return None
    kept, given, dims = _kept_dim(op, program.kept), tensor_type(operand), tensor_type(view.result).dims
    place = None if kept is None else places[kept]
    if place is None or sorted(p for p in places if p is not None) != list(range(len(dims))):
        return None
    ty = TensorType(dims, given.dtype, given.policy)
    return _ending(program.value(Builder.before(view).value("form.view", (operand,), ty, view.attrs)), place)


def _masked_operand(op: Op, holds: Op) -> Value | None:
    """What a map gives with zeros where its condition does not hold, as it is."""
    then, otherwise = holds.operands[1], holds.operands[2].defining_op
    if then not in op.body.args or otherwise is None or otherwise.attrs.get("value") != 0:
        return None
    position = op.body.args.index(then)
    operand, places = op.operands[position], operand_maps(op)[position]
    same = tensor_type(operand) == tensor_type(op.result) and places == tuple(range(len(places)))
    return operand if same else None


def _ending(made: Value, place: int) -> Value | None:
    load = made.defining_op
    if load is None or load.name != "tile.load":
        return None
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
