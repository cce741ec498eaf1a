"""Real numbers beside complex ones: a real operand becomes a complex one of the same precision.

Enters: a use of an operator. Leaves: its operands, each f32 beside c64, and f64 beside c128, with a cast around it. Any
other pair of dtypes is left as it is, for the message that names a cast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tesserac.check.model import typed
from tesserac.check.model.operator_use import Use
from tesserac.check.operators.precision import is_update
from tesserac.check.state.body import Body
from tesserac.ops.contract import MatMul
from tesserac.ops.convert import Cast
from tesserac.ops.einsum import Einsum
from tesserac.ops.elementwise import Pointwise, Where
from tesserac.ops.signature import ELEMENT_CLASSES, Operand
from tesserac.types.dtype import DType, component
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import TensorType


def with_complex(body: Body, use: Use, patterns: Sequence[Operand]) -> Use:
    """Only operators that compute: an assignment into a tensor, also `x += z`, keeps the dtype of what it updates."""
    if not isinstance(use.op, Pointwise | Where | MatMul | Einsum):
        return use
    numbers = dict(_complex_variables(use, patterns))
    if not numbers:
        return use
    kept = use.operands[0] if is_update(body, use) else None
    operands = tuple(
        operand if operand is kept else _widened(operand, numbers.get(pattern.pattern.element.variable))
        for pattern, operand in zip(patterns, use.operands, strict=True)
    )
    return Use(use.op, operands, use.at, use.span)


def _complex_variables(use: Use, patterns: Sequence[Operand]) -> Iterator[tuple[str, DType]]:
    """The element variables that stand for complex numbers somewhere, and for which."""
    for pattern, operand in zip(patterns, use.operands, strict=True):
        variable = pattern.pattern.element.variable
        takes = "c" in ELEMENT_CLASSES.get(variable, "")
        if takes and isinstance(operand.type, TensorType) and operand.type.dtype.is_complex:
            yield variable, operand.type.dtype


def _widened(operand: typed.Expr, dtype: DType | None) -> typed.Expr:
    ty = operand.type
    if dtype is None or not isinstance(ty, TensorType) or (ty.dtype, ty.policy) != (component(dtype), NO_POLICY):
        return operand
    return typed.Apply(TensorType(ty.dims, dtype), operand.span, Cast(dtype, NO_POLICY), (operand,))
