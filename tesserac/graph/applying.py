"""Operators put into a graph by the compiler itself, where an expression of the program stands for several."""

from __future__ import annotations

from tesserac.graph.dialect import PREFIX, operator_attrs
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.convert import Cast
from tesserac.ops.registry import Operator
from tesserac.types.dtype import DType
from tesserac.types.ty import TensorType


def apply_operator(builder: Builder, operator: Operator, *operands: Value) -> Value:
    """The operator's result, of the type that it infers."""
    result = operator.infer([tensor_type(v) for v in operands])
    return builder.value(PREFIX + operator.name, operands, result, operator_attrs(operator))


def as_dtype(builder: Builder, value: Value, dtype: DType) -> Value:
    """The value in a dtype without a policy; nothing where it is that already."""
    ty = tensor_type(value)
    return value if ty == TensorType(ty.dims, dtype) else apply_operator(builder, Cast(dtype), value)
