"""Comprehensions: written out, one value per item.

Enters: a comprehension of the syntax tree. Leaves: a tuple, or a dict, whose parts bind the item before they are
computed. What is iterated, and what an `if` asks, is known while compiling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.places.assignment import assign
from tesserac.check.places.iteration import AnyItem, is_range, items_of
from tesserac.check.state.body import Body
from tesserac.check.state.evaluation import framed, named
from tesserac.check.values.conditions import require_condition
from tesserac.check.values.dicts import make_dict, new_key, read_key
from tesserac.check.values.generic_items import stand_in
from tesserac.check.values.tuples import make_tuple, tuple_items
from tesserac.diag.codes.names import E0215
from tesserac.diag.diagnostic import Edit
from tesserac.syntax import ast
from tesserac.types.ty import BoolType, ErrorType, Key, ListType

Make = Callable[[], typed.Expr]


def infer_comprehension(body: Body, node: ast.ListComprehension | ast.DictComprehension) -> typed.Expr:
    """The values in order; names bound in it are not seen outside."""
    outside, keys = body.scope, list[Key]()
    body.scope = outside.snapshot()
    if isinstance(node, ast.ListComprehension):
        values = _expand(body, node.clauses, lambda: body.expression(node.element), _mapped(body, node))
    else:
        values = _expand(body, node.clauses, lambda: _entry(body, node.entry, keys))
    body.scope = outside
    if values is None:
        return body.error(node.span)
    is_dict = isinstance(node, ast.DictComprehension)
    if isinstance(values, AnyItem):
        made = ListType(values.count, values.item.type)
        return body.error(node.span) if is_dict else stand_in(made, node.span)
    return make_dict(keys, values, node.span) if is_dict else make_tuple(values, node.span)


def _entry(body: Body, entry: ast.DictEntry, keys: list[Key]) -> typed.Expr:
    """The value of an entry, whose key is added to those before it."""
    key = read_key(body, entry.key)
    if key is None or not new_key(body, key, keys, entry.key.span):
        return body.error(entry.span)
    keys.append(key)
    return body.expression(entry.value)


def _mapped(body: Body, node: ast.ListComprehension) -> Edit | None:
    """`[f(i) for i in range(N)]` as a tensor with a row for each number, `[f(row) for row in x]` for each row."""
    clause, places = node.clauses[0], node.clauses[0].iterable
    if len(node.clauses) > 1 or clause.conditions or not isinstance(clause.target, ast.Name):
        return None
    name, element, rows = (body.rules.text(part.span) for part in (clause.target, node.element, places))
    if not isinstance(places, ast.Call) or not is_range(body, places):
        return Edit(node.span, f"vmap(lambda {name}: {element})({rows})")
    if len(places.arguments) != 1:
        return None
    return Edit(node.span, f"vmap(lambda {name}: {element})(arange({body.rules.text(places.arguments[0].span)}))")


def _expand(
    body: Body, clauses: tuple[ast.ComprehensionClause, ...], make: Make, mapped: Edit | None = None
) -> list[typed.Expr] | AnyItem | None:
    if not clauses:
        value = make()
        return None if isinstance(value.type, ErrorType) else [value]
    first, *rest = clauses
    items = items_of(body, first.iterable, first.target.span, mapped)
    if items is None:
        return None
    if isinstance(items, AnyItem):
        return _expand_any(body, first, items, tuple(rest), make)
    values: list[typed.Expr] = []
    for item in items:
        with framed(body) as frame:
            bindings = assign(body, first.target, item, first.span)
            kept = _holds(body, first)
            inner = _expand(body, tuple(rest), make) if kept else []
        if kept is None or inner is None or isinstance(inner, AnyItem):
            return None
        if frame.statements:
            values += _done(body, [*bindings, *frame.statements], inner, first.span)
        else:
            values += [_bound(bindings, value) for value in inner]
    return values


def _expand_any(
    body: Body,
    clause: ast.ComprehensionClause,
    items: AnyItem,
    rest: tuple[ast.ComprehensionClause, ...],
    make: Make,
) -> AnyItem | None:
    """Of a list whose length only a call knows the value for one item; None where a call also decides how many."""
    if clause.conditions:
        return None
    with framed(body):
        assign(body, clause.target, items.item, clause.span)
        inner = _expand(body, rest, make)
    one = isinstance(inner, list) and len(inner) == 1 and not rest
    return AnyItem(items.count, inner[0]) if isinstance(inner, list) and one else None


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


def _done(body: Body, statements: list[typed.Stmt], values: list[typed.Expr], span: Span) -> Sequence[typed.Expr]:
    """The values of an item, computed after its statements, which are done here, once."""
    together = make_tuple(values, span)
    return tuple_items(named(body, typed.Let(together.type, span, tuple(statements), together)), span)


def _bound(bindings: list[typed.Stmt], value: typed.Expr) -> typed.Expr:
    """The value, computed where the names of its item are bound."""
    static = isinstance(value, typed.Static)
    return value if static or not bindings else typed.Let(value.type, value.span, tuple(bindings), value)
