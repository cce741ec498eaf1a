"""Comparisons: of tensors and numbers, of tuples, of what only compiling knows.

Enters: a chain of comparisons of the syntax tree. Leaves: a bool, or an operator that gives bools. Sizes that only a
run knows are compared in the run, also where they are parts of a tuple (`x.shape == y.shape`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.base.source import Span
from tesserac.check.algebra import rules as algebra
from tesserac.check.expressions.membership import membership
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.operators.apply import apply_operator
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.check.values.conditions import require_condition
from tesserac.check.values.tuples import tuple_items
from tesserac.diag.codes.names import E0210, E0218
from tesserac.diag.codes.precision import E0405
from tesserac.ops.compare import BitAnd, BitNot, Equal, Less, LessEqual, NotEqual
from tesserac.ops.registry import Operator
from tesserac.syntax import ast
from tesserac.types.ty import BoolType, DTypeType, ErrorType, NoneType, StrType, TensorType, TupleType

_COMPARISONS: dict[str, Operator] = {
    "==": Equal(), "!=": NotEqual(), "<": Less(), "<=": LessEqual(), ">": Less(), ">=": LessEqual(),
}  # fmt: skip
_EXCHANGED = (">", ">=")
_KNOWN = (StrType, NoneType, DTypeType, TupleType)


def infer_comparison(body: Body, node: ast.Comparison) -> typed.Expr:
    left = body.expression(node.first)
    joined: list[tuple[typed.Expr, Span]] = []
    for link in node.links:
        right = body.expression(link.operand)
        joined.append((_compare(body, link, left, right, node.span), link.op_span))
        left = right
    return _all_of(body, joined, node.span)


def _all_of(body: Body, tests: Sequence[tuple[typed.Expr, Span]], span: Span) -> typed.Expr:
    """All of some comparisons, each with its place, joined by halves: one of many is not a deep tree."""
    joined = list(tests)
    while len(joined) > 1:
        pairs = zip(joined[::2], joined[1::2], strict=False)
        halves = [(apply_operator(body, BitAnd(), [a, b], at, span), at) for (a, _), (b, at) in pairs]
        joined = halves + joined[len(halves) * 2 :]
    return joined[0][0]


def _compare(
    body: Body, link: ast.ComparisonLink, left: typed.Expr, right: typed.Expr, span: Span
) -> typed.Expr:
    if isinstance(left.type, ErrorType) or isinstance(right.type, ErrorType):
        return body.error(span)
    if link.op in ("in", "not in"):
        return membership(body, link, left, right, span)
    if link.op in ("is", "is not"):
        return _is_none(body, link, left, right, span)
    if algebra.has_operator(left, right):
        return algebra.compare(body, link, left, right, Callee(link.op, link.op_span, span))
    if isinstance(right.type, NoneType) and link.op in ("==", "!=") and isinstance(left.type, TensorType):
        draft = body.sink.error(E0210, at=right.span, expected="a tensor", found=type_text(right.type))
        draft.replace("`is` asks for None", link.op_span, "is" if link.op == "==" else "is not")
        return body.error(span)
    if isinstance(left.type, _KNOWN) and isinstance(right.type, _KNOWN):
        return _equal(body, link, left, right, span)
    operands = [right, left] if link.op in _EXCHANGED else [left, right]
    return apply_operator(body, _COMPARISONS[link.op], operands, link.op_span, span)


def _is_none(
    body: Body, link: ast.ComparisonLink, left: typed.Expr, right: typed.Expr, span: Span
) -> typed.Expr:
    """`is` only asks for None."""
    if not isinstance(right.type, NoneType):
        draft = body.sink.error(E0218, at=link.op_span)
        draft.replace("compare the values", link.op_span, "==" if link.op == "is" else "!=")
        return body.error(span)
    return typed.Static(BoolType((left.type == right.type) == (link.op == "is")), span)


def _equal(
    body: Body, link: ast.ComparisonLink, left: typed.Expr, right: typed.Expr, span: Span
) -> typed.Expr:
    """Strings, dtypes, None and tuples are the same or not; none of them is less than another."""
    if link.op not in ("==", "!="):
        body.sink.error(E0405, at=link.op_span, operation=f"`{link.op}`", dtype=type_text(left.type))
        return body.error(span)
    same = _same(body, link, left, right, span)
    return same if link.op == "==" else apply_operator(body, BitNot(), [same], link.op_span, span)


def _same(
    body: Body, link: ast.ComparisonLink, left: typed.Expr, right: typed.Expr, span: Span
) -> typed.Expr:
    if not (isinstance(left.type, TupleType) and isinstance(right.type, TupleType)):
        return typed.Static(BoolType(left.type == right.type), span)
    if len(left.type.items) != len(right.type.items):
        return typed.Static(BoolType(False), span)
    equals = replace(link, op="==")
    pairs = zip(tuple_items(left, left.span), tuple_items(right, right.span), strict=True)
    tests = [require_condition(body, _compare(body, equals, *pair, span)) for pair in pairs]
    return _decided(body, tests, link.op_span, span)


def _decided(body: Body, tests: Sequence[typed.Expr], at: Span, span: Span) -> typed.Expr:
    """All of some conditions; what compiling knows of one may decide them all."""
    if any(isinstance(test.type, ErrorType) for test in tests):
        return body.error(span)
    if BoolType(False) in (test.type for test in tests):
        return typed.Static(BoolType(False), span)
    open_ = [(test, at) for test in tests if not isinstance(test.type, BoolType)]
    return _all_of(body, open_, span) if open_ else typed.Static(BoolType(True), span)
