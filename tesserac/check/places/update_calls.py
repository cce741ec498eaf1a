"""Statement calls of functions marked `@update`: `mask(s, rows)` binds `s` to the result.

Enters: an expression that is a statement. Leaves: the place that it binds, and the binding. Where the same call stands
in an expression it gives its result and binds nothing.
"""

from __future__ import annotations

from tesserac.check.declarations.decorators import is_update
from tesserac.check.model import typed
from tesserac.check.names.refs import FunctionRef, Resolved
from tesserac.check.places.assignment import assign
from tesserac.check.state.body import Body
from tesserac.diag.codes.effects import E0608
from tesserac.syntax import ast
from tesserac.types.ty import ErrorType


def update_place(body: Body, node: ast.Expr) -> ast.Expr | None:
    """The first argument of such a call; None for any other expression."""
    if not isinstance(node, ast.Call):
        return None
    meaning = _meaning(body, node.function)
    if not isinstance(meaning, FunctionRef):
        return None
    signature = body.rules.signature(meaning.owner, meaning.name)
    if not is_update(signature.node) or not signature.parameters:
        return None
    first = signature.parameters[0].name
    given = [a.value for a in node.arguments if a.name == first] or [a.value for a in node.arguments if a.name is None]
    return given[0] if given else None


def _meaning(body: Body, function: ast.Expr) -> Resolved | None:
    name = function.value if isinstance(function, ast.Attribute) else function
    local = isinstance(name, ast.Name) and body.binds(name.id)
    return None if local else body.rules.meaning(function)


def check_update(body: Body, node: ast.Call, place: ast.Expr) -> list[typed.Stmt]:
    value = body.expression(node)
    root = place
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    if isinstance(value.type, ErrorType):
        return []
    if not isinstance(root, ast.Name) or root.id not in body.scope.bindings:
        draft = body.sink.error(E0608, at=place.span, function=body.rules.text(node.function.span))
        draft.remark("to keep what it gives under another name, assign it")
        return []
    return assign(body, place, value, node.span)
