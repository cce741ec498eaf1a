"""Updates of a part that is then put back where it was: they change the whole tensor.

    %c = form.map(%old[:, 3]) {copy};  %s = form.scatter(%c, %v, %i);  %p = form.map(%s) {copy}
    %y = form.assemble(%old, %p) {the box [:, 3]}
becomes
    %s = form.scatter(%old[:, 3], %v, %i), in %old's memory;  %y = form.assemble(%old, %s), which does nothing

Enters: an update that works in place, and one of its parts. Leaves: the update of that part, if its elements lie where
they are put back to. So `out[idx[t], 3] = v` touches one element of `out`.
"""

from __future__ import annotations

from collections.abc import Container

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import Reshape, operand_maps, tensor_type
from tesserac.ir.indexed import assembled_boxes, covers_all
from tesserac.schedule.forms.normal import WRITTEN
from tesserac.schedule.forms.views import is_copy
from tesserac.schedule.model.access import Access, Dims, access_through, view_source
from tesserac.types.dims import ONE


@dataclass(frozen=True)
class Nested:
    """An update of a part, which is the second operand of `whole`: the copy that it begins with, the one that puts it
    back, and where the part lies."""

    op: Op
    whole: Op
    taken: Op
    put: Op
    place: Access


def nested_updates(update: Op, old: Value, place: Access, overwritten: Container[Value]) -> list[Nested]:
    """The updates that make the part of `update`, the innermost first. The elements of `update` lie at `place` in the
    memory of `old`. What stands in memory that is overwritten by now cannot be read by the time of `update`."""
    found = _nested_update(update, old, place) if update.name == "form.assemble" and len(update.operands) == 2 else None
    if found is None or any(view_source(v)[0] in overwritten for v in found.op.operands[1:]):
        return []
    return [*nested_updates(found.op, old, found.place, overwritten), found]


def work_on_part(nested: Nested) -> None:
    """Takes both copies out."""
    taken, put, op, whole = nested.taken, nested.put, nested.op, nested.whole
    op.set_operand(0, _renamed_view(Builder.before(op), taken.operands[0], op.result))
    taken.erase()
    shown = whole.operands[1]
    whole.set_operand(1, _renamed_view(Builder.before(whole), op.result, shown))
    for view in reversed(view_source(shown)[1]):
        view.erase()
    put.erase()


def _renamed_view(builder: Builder, value: Value, like: Value) -> Value:
    """The same elements with the unit dims that another value has."""
    if tensor_type(value).dims == tensor_type(like).dims:
        return value
    return builder.value("form.view", (value,), like.type, {"view": Reshape()}, hint=value.name)


def _nested_update(update: Op, old: Value, place: Access) -> Nested | None:
    put = _copy(view_source(update.operands[1])[0])
    made = None if put is None else put.operands[0].defining_op
    if put is None or made is None or made.name not in WRITTEN or made.parent is not update.parent:
        return None
    taken = _copy(made.operands[0]) if len(made.result.uses) == 1 else None
    if taken is None or (made.name == "form.assemble" and not covers_all(made)):
        return None
    source, views = view_source(taken.operands[0])
    access = access_through(views, source) if source is old else None
    if access is None:
        return None
    there = _renamed(access, taken)
    back = _put_back(update, place, put)
    same = there is not None and back is not None and _is_same(there, back, tensor_type(made.result).dims)
    return Nested(made, update, taken, put, there) if same and there is not None else None


def _copy(value: Value) -> Op | None:
    """The map that copies to a value which is read once."""
    made = value.defining_op
    plain = made is not None and made.name == "form.map" and is_copy(made) and len(value.uses) == 1
    return made if plain else None


def _renamed(access: Access, copy: Op) -> Access | None:
    """Where the elements that a copy gives lie, by those that it reads; None where it repeats or turns them."""
    (dim_map,) = operand_maps(copy)
    dims = tensor_type(copy.result).dims
    followed = [place for place in dim_map if place is not None]
    strides = {place: stride for place, stride in zip(dim_map, access.strides, strict=True) if place is not None}
    if followed != sorted(followed) or any(dim != ONE and place not in strides for place, dim in enumerate(dims)):
        return None
    return Access(access.offset, tuple(strides.get(place, ONE) for place in range(len(dims))))


def _put_back(update: Op, place: Access, put: Op) -> Access | None:
    """Where a part goes, by the dims of what is copied there."""
    box, dims = assembled_boxes(update)[1], tensor_type(update.operands[1]).dims
    offset = sum((start * along for start, along in zip(box.starts, place.strides, strict=True)), place.offset)
    strides = [along * step for along, step, dim in zip(place.strides, box.steps, dims, strict=True) if dim != ONE]
    (dim_map,) = operand_maps(put)
    written = iter(strides)
    by_place = {p: next(written) for p, dim in enumerate(tensor_type(put.result).dims) if dim != ONE}
    followed = [p for p in dim_map if p is not None]
    if followed != sorted(followed) or set(by_place) - set(followed):
        return None
    return Access(offset, tuple(by_place.get(p, ONE) if p is not None else ONE for p in dim_map))


def _is_same(one: Access, other: Access, dims: Dims) -> bool:
    pairs = zip(one.strides, other.strides, dims, strict=True)
    return one.offset == other.offset and all(a == b for a, b, dim in pairs if dim != ONE)
