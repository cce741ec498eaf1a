"""Forms that put elements at given places, or read them at computed ones.

form.assemble(part...) {boxes}
    The result is made of boxes: part i stands at `boxes[i]`, later parts over earlier ones. Together they cover
    the result; steps are positive.
"""

from __future__ import annotations

from tesserac.ir.core import Op, define_op
from tesserac.ir.forms import Slice, tensor_type
from tesserac.ir.types import TensorType
from tesserac.ir.verify import require


def assembled_boxes(op: Op) -> tuple[Slice, ...]:
    """Where each part of a form.assemble stands."""
    boxes = op.attrs["boxes"]
    assert isinstance(boxes, tuple)
    return tuple(box for box in boxes if isinstance(box, Slice))


def _same_element(op: Op, left: TensorType, right: TensorType) -> None:
    same = left.dtype == right.dtype and left.policy == right.policy
    require(same, "changes the element type or policy", op)


def _verify_assemble(op: Op) -> None:
    values = (*op.operands, *op.results)
    require(all(isinstance(v.type, TensorType) for v in values), "works on tensors", op)
    result, boxes = tensor_type(op.result), assembled_boxes(op)
    require(bool(boxes) and len(boxes) == len(op.operands), "needs one box per part", op)
    for value, box in zip(op.operands, boxes, strict=True):
        part = tensor_type(value)
        _same_element(op, part, result)
        require(part.rank == len(box.starts) == len(box.steps) == result.rank, "a part has another rank", op)
        require(all(step > 0 for step in box.steps), "steps are positive", op)


define_op("form.assemble", pure=True, verify=_verify_assemble)
