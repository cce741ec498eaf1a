"""What can be iterated: ranges, tuples, lists.

Enters: the expression after `in`. Leaves: the bounds of a range, or the items of what is written out.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.check import typed
from tesserac.check.body import Body
from tesserac.check.tuples import tuple_items
from tesserac.check.words import type_text
from tesserac.diag.codes.names import E0205, E0210, E0213, E0215, E0299
from tesserac.syntax import ast
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.ty import ErrorType, IntType, ListType, TensorType, TupleType


def is_range(body: Body, node: ast.Expr) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.function, ast.Name):
        return False
    return node.function.id == "range" and "range" not in body.scope.bindings


def items_of(body: Body, node: ast.Expr, span: Span) -> tuple[typed.Expr, ...] | None:
    """The items of a tuple, a list, or a range whose bounds are known; None after a diagnostic."""
    if not is_range(body, node):
        value = body.expression(node)
        if isinstance(value.type, TupleType):
            return tuple_items(value, span)
        not_iterable(body, value)
        return None
    assert isinstance(node, ast.Call)
    bounds = range_bounds(body, node)
    if bounds is None:
        return None
    start, stop, step = bounds
    for bound in (start, stop):
        if bound.constant is None:
            body.unknown_count(bound, node.span)
            return None
    assert start.constant is not None and stop.constant is not None
    numbers = range(start.constant, stop.constant, step)
    return tuple(typed.Static(IntType(Dim.const(number)), span) for number in numbers)


def not_iterable(body: Body, value: typed.Expr) -> None:
    """Says why a value has no items that could be told apart."""
    if isinstance(value.type, ListType):
        body.unknown_count(value.type.count, value.span)
    elif isinstance(value.type, TensorType):
        draft = body.sink.error(E0213, at=value.span)
        draft.remark("loop over `range(N)` and index, or use `scan` or `vmap`")
    elif not isinstance(value.type, ErrorType):
        expected = "a range, a tuple or a list"
        body.sink.error(E0210, at=value.span, expected=expected, found=type_text(value.type))


def range_bounds(body: Body, call: ast.Call) -> tuple[Dim, Dim, int] | None:
    """Start, stop and step; None after a diagnostic."""
    values = [body.expression(argument.value) for argument in call.arguments]
    if not 1 <= len(values) <= 3 or any(argument.name for argument in call.arguments):
        body.sink.error(E0205, at=call.span, problem="`range` takes a stop, or a start, a stop and a step")
        return None
    sizes: list[Dim] = []
    for value in values:
        if isinstance(value.type, IntType):
            sizes.append(value.type.value)
        elif isinstance(value.type, TensorType):
            body.sink.error(E0299, at=value.span, feature="a trip count that is a tensor")
            return None
        else:
            if not isinstance(value.type, ErrorType):
                body.sink.error(E0210, at=value.span, expected="an int", found=type_text(value.type))
            return None
    start, stop, step = (ZERO, *sizes, ONE) if len(sizes) == 1 else (*sizes, ONE)[:3]
    if step.constant is None or step.constant == 0:
        body.sink.error(E0215, at=values[-1].span, what="the step of a range, not zero,")
        return None
    return start, stop, step.constant
