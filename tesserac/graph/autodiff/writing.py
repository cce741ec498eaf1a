"""The writer that rules of operators are given: what they write stands where a builder is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tesserac.graph.dialect import PREFIX, operator_attrs
from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import Writer
from tesserac.ops.registry import Operator
from tesserac.types.dims import Dim
from tesserac.types.ty import TensorType


def writer(builder: Builder, attrs: Mapping[str, Attr]) -> Writer:
    """`attrs` are those that what is written has besides its own: the mode of its numerics."""

    def emit(operator: Operator, operands: Sequence[Value]) -> Value:
        result = operator.infer([tensor_type(v) for v in operands], lambda left, right: True)
        return builder.value(PREFIX + operator.name, operands, result, {**operator_attrs(operator), **attrs})

    def size(dim: Dim, type_: TensorType) -> Value:
        return builder.value("graph.size", (), type_, {"dim": dim})

    return Writer(emit, size)


def fit(write: Writer, tangent: Value, like: Value) -> Value:
    """A tangent with the type of what it is the tangent of: a rule may leave out what only broadcasts."""
    ty = tensor_type(like)
    return write.stored(write.expand(tangent, ty.dims), ty)
