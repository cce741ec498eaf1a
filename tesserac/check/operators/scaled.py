"""Values with scales: `i8 @scale(axis=0)` is {q, scale}, which only a few operators take as it is.

Enters: a use of an operator with such an operand or result. Leaves: a cast to or from it, or a permutation that carries
its axis along, as a typed `Apply`; E0409 for everything else, which names the cast.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import SYMBOLS, storage_text
from tesserac.check.model.operator_use import Use
from tesserac.check.state.body import Body
from tesserac.diag.codes.precision import E0405, E0408, E0409
from tesserac.ops.convert import Cast
from tesserac.ops.registry import Operator, static_fields
from tesserac.ops.shape import Permute
from tesserac.types.policy import Policy, PolicyError, placed_scale
from tesserac.types.ty import TensorType


def meets_scale(use: Use) -> bool:
    """Whether an operand has scales, or the result would."""
    return any(map(_is_scaled, use.operands)) or _makes_scaled(use.op)


def _is_scaled(operand: typed.Expr) -> bool:
    return isinstance(operand.type, TensorType) and operand.type.is_scaled


def _makes_scaled(op: Operator) -> bool:
    policy = static_fields(op).get("policy")
    return isinstance(policy, Policy) and policy.scale_axis is not None


def apply_to_scaled(body: Body, use: Use) -> typed.Expr:
    operand = use.operands[0] if use.operands else None
    if operand is not None and isinstance(operand.type, TensorType):
        if isinstance(use.op, Cast):
            return _cast(body, use, use.op, operand, operand.type)
        if isinstance(use.op, Permute):
            return _permuted(use, use.op, operand, operand.type)
    scaled = next((o for o in use.operands if _is_scaled(o)), None)
    return refuse_scaled(body, scaled, f"`{SYMBOLS.get(use.op.name, use.op.name)}`", use.span, use.at)


def _cast(body: Body, use: Use, op: Cast, operand: typed.Expr, source: TensorType) -> typed.Expr:
    try:
        policy = placed_scale(op.dtype, op.policy, source.rank)
    except PolicyError as error:
        body.sink.error(E0408, at=use.at, problem=str(error))
        return body.error(use.span)
    target = TensorType(source.dims, op.dtype, policy)
    for side in (source, target):
        if not side.is_scaled and not side.dtype.is_float:
            draft = body.sink.error(E0405, at=use.at, operation="a cast to or from scaled values", dtype=side.dtype)
            draft.note(operand.span, storage_text(source)).remark("scales belong to floats; `w.q` are its numbers")
            return body.error(use.span)
    return typed.Apply(target, use.span, Cast(op.dtype, policy), (operand,))


def _permuted(use: Use, op: Permute, operand: typed.Expr, source: TensorType) -> typed.Expr:
    axis = source.policy.scale_axis
    assert axis is not None
    policy = replace(source.policy, scale_axis=op.order.index(axis))
    return typed.Apply(TensorType(op.dims((source,)), source.dtype, policy), use.span, op, (operand,))


def refuse_scaled(
    body: Body, operand: typed.Expr | None, operation: str, span: Span, at: Span | None = None
) -> typed.Expr:
    draft = body.sink.error(E0409, at=at or span, operation=operation)
    draft.remark("they are cast, transposed, passed on and stored; `w.q` and `w.scale` are their parts")
    if operand is not None and isinstance(operand.type, TensorType):
        draft.note(operand.span, storage_text(operand.type))
        draft.replace("multiply the scales in first", operand.span, f"cast({body.rules.text(operand.span)}, f32)")
    return body.error(span)
