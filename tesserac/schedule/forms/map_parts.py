"""Maps of which parts are read, and maps of what is put together of parts: every part is computed by itself.

    %w = form.map(%x);  ... slice(%w) ... slice(%w)       becomes   ... form.map(slice(%x)) ... form.map(slice(%x))
    %y = form.map(form.assemble(%a, %b))                  becomes   %y = form.assemble(form.map(%a), form.map(%b))

Enters: a block of forms. Leaves: the same block, in place, without tensors that are written only for their parts to be
read, as those of a rotary embedding are: the halves of its argument are read where they lie, and what is computed of
them is written where it belongs, by one launch instead of three.
"""

from __future__ import annotations

from itertools import combinations

from tesserac.ir.boxes import Box, never_meet
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, attr, clone_region
from tesserac.ir.forms import Slice, operand_maps, tensor_type
from tesserac.ir.indexed import assembled_boxes, covers_all
from tesserac.ir.types import TensorType
from tesserac.schedule.costs.cost import body_work, element_bytes
from tesserac.schedule.forms.views import sliced_map, uses_position
from tesserac.schedule.model.access import view_source
from tesserac.types.dims import ZERO


def compute_by_parts(block: Block) -> None:
    for op in [op for op in block.ops if op.name == "form.map"]:
        _move_into_parts(op)
    for op in reversed([op for op in block.ops if op.name == "form.map"]):  # what one cuts, those before it see
        _cut_into_parts(op)


# --- a map whose result is read in slices -----------------------------------------------------------------------------


def _cut_into_parts(producer: Op) -> None:
    """Only of what lies in memory: what a product gives is finished by a map as a whole, before it is written."""
    views = list(dict.fromkeys(user for user, _ in producer.result.uses))
    if not views or uses_position(producer) or not all(_is_read_by_maps(view, producer.parent) for view in views):
        return
    if not all(map(_is_of_memory, producer.operands)) or not (body_work(producer) == 0 or _lie_apart(views)):
        return
    for view in views:
        part = sliced_map(view, producer, attr(view, "view", Slice))
        assert part is not None, "it asks nowhere for its place"
        view.result.replace_all_uses(part.result)
        view.erase()
    producer.erase()


def _is_read_by_maps(view: Op, block: Block | None) -> bool:
    is_slice = view.name == "form.view" and isinstance(view.attrs["view"], Slice) and view.parent is block
    readers = [user for user, _ in view.result.uses] if is_slice else []
    return bool(readers) and all(user.name == "form.map" and user.parent is block for user in readers)


def _is_of_memory(value: Value) -> bool:
    """Whether maps compute a value of nothing but what lies in memory."""
    seen, waiting = set[Value](), [value]
    while waiting:  # each value once: chains of maps that read one value twice have many ways through them
        base = view_source(waiting.pop())[0]
        made = base.defining_op
        if base in seen or made is None:
            continue
        if made.name != "form.map":
            return False
        seen.add(base)
        waiting += made.operands
    return True


def _lie_apart(views: list[Op]) -> bool:
    """Whether no element is in two of them, and would be computed twice."""
    whole = tensor_type(views[0].operands[0]).dims
    boxes = [Box(attr(view, "view", Slice), tensor_type(view.result).dims) for view in views]
    return all(never_meet(first, second, whole) for first, second in combinations(boxes, 2))


# --- a map of what is put together ------------------------------------------------------------------------------------


def _move_into_parts(op: Op) -> None:
    """The parts must be no wider for it, and what else the map reads the same for all of them."""
    place = next((i for i, value in enumerate(op.operands) if _is_put_together_for(op, value)), None)
    if place is None or uses_position(op):
        return
    maps, ty = operand_maps(op), tensor_type(op.result)
    if maps[place] != tuple(range(ty.rank)):
        return
    made, narrow = op.operands[place].defining_op, element_bytes(tensor_type(op.operands[place]).dtype)
    assert made is not None
    boxes = zip(assembled_boxes(made), made.operands, strict=True)
    axes = {axis for box, part in boxes for axis in _cut(box, part, ty)}
    others = [axis for i, dims in enumerate(maps) if i != place for axis in dims]
    if not axes.isdisjoint(others) or element_bytes(ty.dtype) > narrow:
        return
    builder, parts = Builder.before(op), list[Value]()
    for part in made.operands:
        operands = [*op.operands[:place], part, *op.operands[place + 1 :]]
        type_ = TensorType(tensor_type(part).dims, ty.dtype, ty.policy)
        parts.append(_same_map(builder, op, operands, type_))
    whole = builder.value("form.assemble", parts, ty, made.attrs, hint=op.result.name)
    op.result.replace_all_uses(whole)
    op.erase()
    made.erase()


def _is_put_together_for(op: Op, value: Value) -> bool:
    """Whether a value is parts side by side that nobody else reads."""
    made = value.defining_op
    if made is None or made.name != "form.assemble" or made.parent is not op.parent or len(value.uses) > 1:
        return False
    return not covers_all(made)


def _cut(box: Slice, part: Value, whole: TensorType) -> list[int]:
    """The axes along which a part is not the whole."""
    dims = tensor_type(part).dims
    return [axis for axis, dim in enumerate(whole.dims) if dims[axis] != dim or box.starts[axis] != ZERO]


def _same_map(builder: Builder, op: Op, operands: list[Value], type_: TensorType) -> Value:
    region = clone_region(op.regions[0], {})
    attrs = {"maps": operand_maps(op)}
    return builder.op("form.map", operands, (type_,), attrs, (region.block,), (op.result.name,)).result
