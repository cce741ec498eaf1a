"""Tensors that are assembled of assembled ones: their parts go where they belong at once.

    %m = form.assemble(%left, %x) along axis 1;  %y = form.assemble(%top, %m) along axis 0      becomes
    %y = form.assemble(%top, %left, %x)
"""

from __future__ import annotations

from tesserac.ir.core import Op
from tesserac.ir.forms import Slice
from tesserac.ir.indexed import assembled_boxes, covers_all


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
