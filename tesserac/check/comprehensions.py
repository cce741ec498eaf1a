"""Comprehensions: written out, one value per item.

Enters: a comprehension of the syntax tree. Leaves: a tuple, or a dict, whose parts bind the item before they are
computed. What is iterated, and what an `if` asks, is known while compiling.
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.check import typed
from tesserac.check.assignment import assign
from tesserac.check.body import Body
from tesserac.check.conditions import require_condition
from tesserac.check.iteration import items_of
from tesserac.check.tuples import make_tuple
from tesserac.diag.codes.names import E0215
from tesserac.syntax import ast
from tesserac.types.ty import BoolType, ErrorType

Make = Callable[[], typed.Expr]


def infer_comprehension(body: Body, node: ast.ListComprehension) -> typed.Expr:
    """The values in order; names bound in it are not seen outside."""
    outside = body.scope
    body.scope = outside.snapshot()
    values = _expand(body, node.clauses, lambda: body.expression(node.element))
    body.scope = outside
    return body.error(node.span) if values is None else make_tuple(values, node.span)


def _expand(body: Body, clauses: tuple[ast.ComprehensionClause, ...], make: Make) -> list[typed.Expr] | None:
    if not clauses:
        value = make()
        return None if isinstance(value.type, ErrorType) else [value]
    first, *rest = clauses
    items = items_of(body, first.iterable, first.target.span)
    if items is None:
        return None
    values: list[typed.Expr] = []
    for item in items:
        bindings = assign(body, first.target, item, first.span)
        kept = _holds(body, first)
        inner = _expand(body, tuple(rest), make) if kept else []
        if kept is None or inner is None:
            return None
        values += [_bound(bindings, value) for value in inner]
    return values


def _holds(body: Body, clause: ast.ComprehensionClause) -> bool | None:
    """Whether an item is kept; None after a diagnostic."""
    for condition in clause.conditions:
        test = require_condition(body, body.expression(condition))
        if not isinstance(test.type, BoolType):
            if not isinstance(test.type, ErrorType):
                body.sink.error(E0215, at=condition.span, what="what a comprehension keeps")
            return None
        if not test.type.value:
            return False
    return True


def _bound(bindings: list[typed.Stmt], value: typed.Expr) -> typed.Expr:
    """The value, computed where the names of its item are bound."""
    static = isinstance(value, typed.Static)
    return value if static or not bindings else typed.Let(value.type, value.span, tuple(bindings), value)
