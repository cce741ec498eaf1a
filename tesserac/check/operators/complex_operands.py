"""Real numbers beside complex ones: a real operand becomes a complex one of the same precision.

Enters: a use of an operator. Leaves: its operands, each f32 beside c64, and f64 beside c128, with a cast around it. Of
what is written with `complex` and plain numbers alone the precision is that of what it meets, as of a plain number. Any
other pair of dtypes is left as it is, for the message that names a cast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tesserac.check.model import typed
from tesserac.check.model.operator_use import Use
from tesserac.check.operators.precision import is_update
from tesserac.check.state.body import Body
from tesserac.ops.contract import MatMul
from tesserac.ops.convert import Cast
from tesserac.ops.einsum import Einsum
from tesserac.ops.elementwise import Pointwise, Where
from tesserac.ops.signature import ELEMENT_CLASSES, Operand
from tesserac.types.dtype import C64, C128, F32, F64, DType, component
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import TensorType

_ONE_F32 = TensorType((), F32)


def with_complex(body: Body, use: Use, patterns: Sequence[Operand]) -> Use:
    """Only operators that compute: an assignment into a tensor, also `x += z`, keeps the dtype of what it updates."""
    if not isinstance(use.op, Pointwise | Where | MatMul | Einsum):
        return use
    use = _met(use)
    numbers = dict(_complex_variables(use, patterns))
    if not numbers:
        return use
    kept = use.operands[0] if is_update(body, use) else None
    operands = tuple(
        operand if operand is kept else _widened(operand, numbers.get(pattern.pattern.element.variable))
        for pattern, operand in zip(patterns, use.operands, strict=True)
    )
    return Use(use.op, operands, use.at, use.span)


def _met(use: Use) -> Use:
    """A use in which complex numbers that are plain are c128 where another operand is f64 or c128."""
    plain = {place: made for place, x in enumerate(use.operands) if (made := _in_f64(x, C64)) is not None}
    beside = [x.type for place, x in enumerate(use.operands) if place not in plain]
    others = [type_.dtype for type_ in beside if isinstance(type_, TensorType)]
    if not plain or not any(dtype in (F64, C128) for dtype in others):
        return use
    return Use(use.op, tuple(plain.get(place, x) for place, x in enumerate(use.operands)), use.at, use.span)


def _in_f64(x: typed.Expr, own: DType) -> typed.Expr | None:
    """A number of this dtype, written with plain numbers alone, in twice the bits; None for any other."""
    if not isinstance(x.type, TensorType) or x.type != TensorType((), own):
        return None
    wide = TensorType((), C128 if own == C64 else F64)
    if isinstance(x, typed.Coerce) and not isinstance(x.value.type, TensorType):
        return replace(x, type=wide) if x.span == x.value.span else None  # a cast says its dtype
    if not isinstance(x, typed.Apply) or not isinstance(x.op, Pointwise):
        return None
    parts = [_in_f64(part, F32 if part.type == _ONE_F32 else C64) for part in x.operands]
    made = tuple(part for part in parts if part is not None)
    return replace(x, type=wide, operands=made) if len(made) == len(parts) > 0 else None


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
