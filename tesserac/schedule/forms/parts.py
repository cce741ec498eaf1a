"""Tensors that are assembled of assembled ones: their parts go where they belong at once.

    %m = form.assemble(%left, %x) along axis 1;  %y = form.assemble(%top, %m) along axis 0      becomes
    %y = form.assemble(%top, %left, %x)

Parts that merge dims which lie apart in memory are put side by side before they are merged, by one copy, not two:

    %p = form.view(%x : [S, H, D]) {reshape} : [S, H*D];  %y = form.assemble(%p, ...) : [S, 3*H*D]      becomes
    %y = form.view(form.assemble(%x, ...) : [S, 3*H, D]) {reshape} : [S, 3*H*D]
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import Reshape, Slice, tensor_type
from tesserac.ir.indexed import assembled_boxes, covers_all
from tesserac.types.dims import ZERO, Dim, product


def put_part_by_part(op: Op) -> None:
    """Takes over the parts of what is assembled for this tensor alone. Those before it in a block are done."""
    for position in reversed(range(len(op.operands))):
        if _is_for_this_alone(op, position):
            _take_parts(op, position)


def _is_for_this_alone(op: Op, position: int) -> bool:
    """Whether a part is assembled of others, side by side, in this block, and nobody else reads it."""
    value = op.operands[position]
    made = value.defining_op
    if made is None or made.name != "form.assemble" or made.parent is not op.parent or len(value.uses) > 1:
        return False
    return not covers_all(made) and not (position == 0 and covers_all(op))


def _take_parts(op: Op, position: int) -> None:
    """The parts of an assembled part in its place."""
    inner = op.operands[position].defining_op
    assert inner is not None
    operands, boxes = list(op.operands), list(assembled_boxes(op))
    operands[position : position + 1] = inner.operands
    boxes[position : position + 1] = [_inside(boxes[position], box) for box in assembled_boxes(inner)]
    op.set_operands(operands)
    op.attrs["boxes"] = tuple(boxes)
    inner.erase()


def _inside(outer: Slice, inner: Slice) -> Slice:
    starts = tuple(o + i * s for o, i, s in zip(outer.starts, inner.starts, outer.steps, strict=True))
    return Slice(starts, tuple(a * b for a, b in zip(outer.steps, inner.steps, strict=True)))


def merge_behind(op: Op) -> None:
    """Puts parts together before their dims are merged, where all of them merge the same inner ones. What is returned
    has its dims."""
    axis = _axis_of_parts(op) if not any(user.opdef.terminator for user, _ in op.result.uses) else None
    sources = [source for value in op.operands if (source := _before_merging(value)) is not None]
    if axis is None or len(sources) < len(op.operands) or not any(map(_lies_apart, sources)):
        return
    inner = {_merged(value, source, axis) for value, source in zip(op.operands, sources, strict=True)}
    found = inner.pop()
    if inner or not found:
        return
    ty, size = tensor_type(op.result), product(found)
    starts = [_quotient(box.starts[axis], size) for box in assembled_boxes(op)]
    whole = _quotient(ty.dims[axis], size)
    if whole is None or None in starts:
        return
    boxes = [_split_box(box, axis, start, len(found)) for box, start in zip(assembled_boxes(op), starts, strict=True)]
    b = Builder.before(op)
    split = replace(ty, dims=(*ty.dims[:axis], whole, *found, *ty.dims[axis + 1 :]))
    made = b.value("form.assemble", sources, split, op.attrs | {"boxes": tuple(boxes)}, hint=op.result.name)
    op.result.replace_all_uses(b.value("form.view", (made,), ty, {"view": Reshape()}, hint=op.result.name))
    op.erase()


def _axis_of_parts(op: Op) -> int | None:
    """The one axis along which parts lie side by side, each of them without gaps."""
    boxes, dims = assembled_boxes(op), tensor_type(op.result).dims
    moved = {i for box in boxes for i, start in enumerate(box.starts) if start != ZERO}
    narrow = {i for v in op.operands for i, dim in enumerate(tensor_type(v).dims) if dim != dims[i]}
    plain = all(step == 1 for box in boxes for step in box.steps)
    return moved.pop() if plain and len(moved) == 1 and moved >= narrow and not covers_all(op) else None


def _before_merging(value: Value) -> Value | None:
    made = value.defining_op
    merges = made is not None and made.name == "form.view" and isinstance(made.attrs["view"], Reshape)
    return made.operands[0] if made is not None and merges else None


def _lies_apart(value: Value) -> bool:
    made = value.defining_op
    return made is not None and made.name == "form.view" and not isinstance(made.attrs["view"], Reshape)


def _merged(value: Value, source: Value, axis: int) -> tuple[Dim, ...]:
    """The inner ones of the dims that a part merges to its dim of `axis`; none where it merges others."""
    dims, given = tensor_type(value).dims, tensor_type(source).dims
    count = len(given) - len(dims) + 1
    same = given[:axis] == dims[:axis] and given[axis + count :] == dims[axis + 1 :]
    inner = given[axis + 1 : axis + count]
    return inner if same and all(dim.constant for dim in inner) else ()


def _quotient(dim: Dim, size: Dim) -> Dim | None:
    if dim.constant is None or size.constant is None or dim.constant % size.constant:
        return None
    return Dim.const(dim.constant // size.constant)


def _split_box(box: Slice, axis: int, start: Dim | None, inner: int) -> Slice:
    assert start is not None
    starts = (*box.starts[:axis], start, *(ZERO,) * inner, *box.starts[axis + 1 :])
    return Slice(starts, (1,) * len(starts))
