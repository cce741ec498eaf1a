"""Functions without a place of their own: lambdas, and functions inside functions.

Enters: one of these in a body. Leaves: a function value: the function as one of the module, whose first parameters are
the names it takes from where it is written, together with their values there. Nothing of it is special after that.

    scale = 2.0                           def `lambda$31`(scale, x): return x * scale
    f = lambda x: x * scale               f = (`lambda$31`, scale)
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.names.decorating import NOTHING_NEW, TRANSFORMING, applied, decorator_name, plain_name
from tesserac.check.names.refs import FunctionRef
from tesserac.check.names.resolve import ModuleNames
from tesserac.check.places.assignment import bind
from tesserac.check.state.body import Body
from tesserac.check.values.tuples import make_value
from tesserac.diag.codes.kernels import E0508
from tesserac.syntax import ast
from tesserac.syntax.walk import descendants
from tesserac.types.ty import FunctionType, IntType, Type


def infer_lambda(body: Body, node: ast.Lambda) -> typed.Expr:
    return _close(body, node)


def check_inner(body: Body, node: ast.FunctionDef) -> list[typed.Stmt]:
    """`def` inside a function binds its name to the function, with what it sees now."""
    value = _close(body, node)
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


def _close(body: Body, node: ast.Lambda | ast.FunctionDef) -> typed.Expr:
    plain = _as_function(node)
    own = {parameter.name for parameter in plain.parameters}
    parts: list[ast.Node] = [*plain.parameters, *plain.body, *plain.where, *([plain.returns] if plain.returns else [])]
    names = dict.fromkeys(n.id for part in parts for n in descendants(part) if isinstance(n, ast.Name))
    values = {n: _value(body, n, node.span) for n in names if n not in own and _is_local(body, n)}
    captures = tuple((n, value.type) for n, value in values.items())
    ref = body.rules.define_inner(_lifted(plain, captures))
    return make_value(FunctionType(ref.owner, ref.name, captures), list(values.values()), node.span)


def _as_function(node: ast.Lambda | ast.FunctionDef) -> ast.FunctionDef:
    """Without decorators, which transform it where it is bound."""
    span = node.span
    if isinstance(node, ast.FunctionDef):
        return ast.FunctionDef(
            span, (), node.name, span, node.parameters, node.returns, node.where, node.uses, None, node.body
        )
    statements = (ast.Return(node.body.span, node.body),)
    return ast.FunctionDef(span, (), "lambda", span, node.parameters, None, (), None, None, statements)


def _lifted(plain: ast.FunctionDef, captures: Sequence[tuple[str, Type]]) -> ast.FunctionDef:
    """The function as one of the module, under a name of its own."""
    taken = tuple(_parameter(name, type_, plain.span) for name, type_ in captures)
    unique = _unique_name(plain.name, taken, plain.span)
    return replace(plain, name=unique, parameters=(*taken, *plain.parameters))


class _Module(Protocol):
    """A module, as the caller of a program has it."""

    @property
    def names(self) -> ModuleNames: ...
    def define_inner(self, node: ast.FunctionDef) -> FunctionRef: ...


def find_inner(checker: _Module, name: str, captures: Sequence[tuple[str, Type]]) -> None:
    """Takes in a function that was written inside another one, by its name and what it captured, where no check of its
    module has come to it yet: a caller of a program got it from an earlier one."""
    names = checker.names
    if any(name in known for known in (names.functions, names.hidden, names.inner)):
        return
    around = (*names.functions.values(), *names.hidden.values(), *names.constants.values())
    inside = (node for outer in around for node in descendants(outer))
    start = int(name.rpartition("$")[2].partition(".")[0])
    node = next(n for n in inside if isinstance(n, ast.Lambda | ast.FunctionDef) and n.span.start == start)
    ref = checker.define_inner(_lifted(_as_function(node), captures))
    assert ref.name == name, "the text is that which the function was made of"


def _is_local(body: Body, name: str) -> bool:
    return body.binds(name)


def _value(body: Body, name: str, span: Span) -> typed.Expr:
    if name in body.scope.bindings:
        return body.local(name, span)
    return typed.Static(IntType(body.sizes.symbols[name]), span)


def _parameter(name: str, type_: Type, span: Span) -> ast.Parameter:
    """A size stays one: it may stand in the annotations of the function."""
    annotation = ast.Name(span, "int") if isinstance(type_, IntType) else None
    return ast.Parameter(span, name, span, annotation, None, False)


def _unique_name(name: str, taken: Sequence[ast.Parameter], span: Span) -> str:
    """One name per place and set of names taken from around it; the part before `$` is for people."""
    listed = ", ".join(f"{p.name}: int" if p.annotation else p.name for p in taken)
    return f"{name}${span.start}.{hashlib.sha256(listed.encode()).hexdigest()[:4]}"
