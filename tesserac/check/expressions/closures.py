"""Functions without a place of their own: lambdas, and functions inside functions.

Enters: one of these in a body. Leaves: a function value: the function as one of the module, whose first parameters are
the names it takes from where it is written, together with their values there. Nothing of it is special after that.

    scale = 2.0                           def `lambda$31`(scale, x): return x * scale
    f = lambda x: x * scale               f = (`lambda$31`, scale)
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.names.decorating import NOTHING_NEW, TRANSFORMING, applied, decorator_name, plain_name
from tesserac.check.places.assignment import bind
from tesserac.check.state.body import Body
from tesserac.check.values.tuples import make_value
from tesserac.diag.codes.kernels import E0508
from tesserac.syntax import ast
from tesserac.syntax.walk import descendants
from tesserac.types.ty import FunctionType, IntType


def infer_lambda(body: Body, node: ast.Lambda) -> typed.Expr:
    statements = (ast.Return(node.body.span, node.body),)
    return _close(body, "lambda", node.parameters, None, statements, node.span)


def check_inner(body: Body, node: ast.FunctionDef) -> list[typed.Stmt]:
    """`def` inside a function binds its name to the function, with what it sees now."""
    value = _close(body, node.name, node.parameters, node.returns, node.body, node.span, node.uses, node.where)
    transforming = [decorator for decorator in node.decorators if _transforms(body, decorator)]
    if not transforming:
        return bind(body, node.name, node.name_span, value, node.span)
    name = plain_name(node.name)
    plain = bind(body, name, node.name_span, value, node.span)
    made = body.expression(applied(transforming, ast.Name(node.name_span, name)))
    return [*plain, *bind(body, node.name, node.name_span, made, node.span)]


def _transforms(body: Body, decorator: ast.Decorator) -> bool:
    """Whether a decorator makes another function; inside a function there are no others."""
    name = decorator_name(decorator)
    if name not in (*TRANSFORMING, *NOTHING_NEW):
        draft = body.sink.error(E0508, at=decorator.span, problem=f"`@{name}` does not stand inside a function")
        draft.remark(f"what does are transforms: {', '.join(f'`@{each}`' for each in TRANSFORMING)}")
    return name in TRANSFORMING


def _close(
    body: Body,
    name: str,
    parameters: tuple[ast.Parameter, ...],
    returns: ast.Expr | None,
    statements: Sequence[ast.Stmt],
    span: Span,
    uses: tuple[ast.Name, ...] | None = None,
    where: tuple[ast.Expr, ...] = (),
) -> typed.Expr:
    own = {parameter.name for parameter in parameters}
    parts: list[ast.Node] = [*parameters, *statements, *where, *([returns] if returns else [])]
    names = dict.fromkeys(n.id for part in parts for n in descendants(part) if isinstance(n, ast.Name))
    values = {n: _value(body, n, span) for n in names if n not in own and _is_local(body, n)}
    taken = tuple(_parameter(n, value, span) for n, value in values.items())
    unique = _unique_name(name, taken, span)
    lifted = ast.FunctionDef(
        span, (), unique, span, (*taken, *parameters), returns, where, uses, None, tuple(statements)
    )
    ref = body.rules.define_inner(lifted)
    type_ = FunctionType(ref.owner, ref.name, tuple((n, value.type) for n, value in values.items()))
    return make_value(type_, list(values.values()), span)


def _is_local(body: Body, name: str) -> bool:
    return body.binds(name)


def _value(body: Body, name: str, span: Span) -> typed.Expr:
    if name in body.scope.bindings:
        return body.local(name, span)
    return typed.Static(IntType(body.sizes.symbols[name]), span)


def _parameter(name: str, value: typed.Expr, span: Span) -> ast.Parameter:
    """A size stays one: it may stand in the annotations of the function."""
    annotation = ast.Name(span, "int") if isinstance(value.type, IntType) else None
    return ast.Parameter(span, name, span, annotation, None, False)


def _unique_name(name: str, taken: Sequence[ast.Parameter], span: Span) -> str:
    """One name per place and set of names taken from around it; the part before `$` is for people."""
    listed = ", ".join(f"{p.name}: int" if p.annotation else p.name for p in taken)
    return f"{name}${span.start}.{hashlib.sha256(listed.encode()).hexdigest()[:4]}"
