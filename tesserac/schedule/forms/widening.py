"""Operands that are read in a wider type than they have: integers that are summed in more bits.

form.contract(%a, %b) {accum = i32}      ==>     form.contract(%w, %v)    %w = form.map(%a) { cast to i32 }
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, attr
from tesserac.ir.forms import compute_type, tensor_type
from tesserac.ir.types import ScalarType, TensorType
from tesserac.schedule.forms.views import fold_views
from tesserac.types.dtype import DType


def widen_integers(op: Op) -> None:
    accum = attr(op, "accum", DType)
    for position, value in enumerate(op.operands):
        if tensor_type(value).dtype.kind in "iub" and compute_type(value).dtype != accum:
            op.set_operand(position, _cast_map(Builder.before(op), value, accum))


def _cast_map(builder: Builder, value: Value, dtype: DType) -> Value:
    ty = tensor_type(value)
    block = Block([compute_type(value)])
    inner = Builder(block, builder.span)
    cast = inner.value("scalar.cast", block.args, ScalarType(dtype), {"dtype": dtype})
    inner.op("form.yield", (cast,))
    result = TensorType(ty.dims, dtype, ty.policy)
    attrs = {"maps": (tuple(range(ty.rank)),)}
    widened = builder.op("form.map", (value,), (result,), attrs, (block,), (value.name,))
    fold_views(widened)
    return widened.result
