"""Structs as vectors: `a + b`, `a - b`, `lr * g`, `g / n`, `-g`, leaf by leaf.

Enters: an operator and operands one of which is a struct. Leaves: a struct of the same kind. What is known while
compiling (the number of heads of an attention) is no leaf, nor is a float of a struct: it stays as the left operand has
it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import noun, type_text
from tesserac.check.operators.apply import apply_operator
from tesserac.check.state.body import Body, is_static
from tesserac.check.values.generic_items import any_item, stand_in
from tesserac.check.values.tuples import recomputed, tuple_items
from tesserac.diag.codes.names import E0210
from tesserac.ops.registry import Operator
from tesserac.types.dims import Dim
from tesserac.types.ty import (
    Aggregate,
    ErrorType,
    ListType,
    NoneType,
    StructType,
    TensorType,
    Type,
    parts,
    setting_fields,
)

_OF_TWO = ("add", "sub")
_BY_A_SCALAR = ("mul", "div")


def has_struct(operands: Sequence[typed.Expr]) -> bool:
    return any(isinstance(operand.type, StructType) for operand in operands)


def apply_to_structs(
    body: Body, op: Operator, operands: Sequence[typed.Expr], at: Span, span: Span
) -> typed.Expr:
    """An operator of vectors on structs; `at` is where a message points."""
    if any(isinstance(operand.type, ErrorType) for operand in operands):
        return body.error(span)
    if _fits(op, operands):
        return _leaf_by_leaf(body, op, operands, at, span)
    struct = next(operand for operand in operands if isinstance(operand.type, StructType))
    other = next((operand for operand in operands if operand is not struct), struct)
    wanted = "a scalar" if op.name in _BY_A_SCALAR else f"`{struct.type.show()}`" if op.name in _OF_TWO else "a tensor"
    draft = body.sink.error(E0210, at=at, expected=wanted, found=type_text(other.type))
    draft.note(struct.span, f"this is {type_text(struct.type)}")
    draft.remark(f"structs are added, subtracted, and multiplied by a scalar; there is no {noun(op.name)} of these")
    return body.error(span)


def _fits(op: Operator, operands: Sequence[typed.Expr]) -> bool:
    if len(operands) == 1:
        return op.name == "neg"
    left, right = operands
    if op.name in _OF_TWO:
        return _same_kind(left.type, right.type)
    scalars = [operand for operand in operands if not isinstance(operand.type, StructType)]
    by_right = op.name == "mul" or scalars == [right]
    return op.name in _BY_A_SCALAR and len(scalars) == 1 and by_right and _is_scalar(scalars[0].type)


def _same_kind(left: Type, right: Type) -> bool:
    names = [(t.module, t.name) for t in (left, right) if isinstance(t, StructType)]
    return len(names) == 2 and names[0] == names[1]


def _is_scalar(type_: Type) -> bool:
    return parts(type_) is None and not (isinstance(type_, TensorType) and type_.dims)


def _leaf_by_leaf(
    body: Body, op: Operator, operands: Sequence[typed.Expr], at: Span, span: Span
) -> typed.Expr:
    """Walks all operands that are made of parts together; a scalar goes to every leaf."""
    first = next(operand for operand in operands if isinstance(operand.type, Aggregate))
    inner = [tuple_items(o, o.span) if isinstance(o.type, Aggregate) else None for o in operands]
    results: list[typed.Expr] = []
    settings = setting_fields(first.type)
    for place, part in enumerate(tuple_items(first, first.span)):
        chosen = [o if own is None else own[place] for o, own in zip(operands, inner, strict=True)]
        stays = is_static(part.type) or (settings and settings[place])
        if stays or any(isinstance(o.type, NoneType) for o in chosen):
            results.append(part)  # a gradient has None where an integer has no derivative
        elif lists := [o.type for o in chosen if isinstance(o.type, ListType)]:
            results.append(_any_part(body, op, chosen, lists[0].count, at, span))
        else:
            results.append(_part(body, op, chosen, at, span))
    if any(isinstance(result.type, ErrorType) for result in results):
        return body.error(span)
    return recomputed(first, results)


def _part(body: Body, op: Operator, operands: Sequence[typed.Expr], at: Span, span: Span) -> typed.Expr:
    if any(isinstance(operand.type, Aggregate) for operand in operands):
        return _leaf_by_leaf(body, op, operands, at, span)
    return apply_operator(body, op, operands, at, span)


def _any_part(
    body: Body, op: Operator, operands: Sequence[typed.Expr], count: Dim, at: Span, span: Span
) -> typed.Expr:
    """Lists whose length only a call knows, with one item for all of them."""
    items = [any_item(body, o, o.span) if isinstance(o.type, ListType) else o for o in operands]
    found = [item for item in items if item is not None]
    if len(found) < len(items) or any(isinstance(o.type, Aggregate) for o in operands):
        return body.unknown_count(count, span)
    result = _part(body, op, found, at, span)
    return result if isinstance(result.type, ErrorType) else stand_in(ListType(count, result.type), span)
