"""`in` and `not in`: decided while compiling.

Enters: a value and what it may be in: a tuple, a list, the keys of a dict, a string. Leaves: a known bool.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.places.iteration import written_out
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0210, E0215
from tesserac.syntax import ast
from tesserac.types.ty import BoolType, FloatType, IntType, StrType, TensorType, TupleType, Type, parts


def membership(
    body: Body, link: ast.ComparisonLink, value: typed.Expr, container: typed.Expr, span: Span
) -> typed.Expr:
    found = _is_in(body, value, container)
    return body.error(span) if found is None else typed.Static(BoolType(found == (link.op == "in")), span)


def _is_in(body: Body, value: typed.Expr, container: typed.Expr) -> bool | None:
    """None after a diagnostic."""
    if isinstance(container.type, StrType):
        if isinstance(value.type, StrType):
            return value.type.value in container.type.value
        body.sink.error(E0210, at=value.span, expected="a string", found=type_text(value.type))
        return None
    items = written_out(container, container.span)
    if items is None:
        _no_container(body, value, container)
        return None
    known = [_known(body, item, value.span) for item in (value, *items)]
    return None if None in known else known[0] in known[1:]


def _known(body: Body, value: typed.Expr, at: Span) -> object:
    """A value that compares as the language does: 1 is 1.0, but not "1". None after a diagnostic."""
    known = _constant(value.type)
    if known is None and not (isinstance(value.type, IntType) and body.wants_value(value.type.value)):
        draft = body.sink.error(E0215, at=at, what="what `in` compares")
        draft.remark("compare with `==` what only a run knows")
    return known


def _constant(type_: Type) -> object:
    match type_:
        case IntType(value=size):
            return size.constant
        case FloatType(value=number):
            return number
        case BoolType(value=flag):
            return flag
        case TensorType():
            return None
        case TupleType():
            items = tuple(map(_constant, type_.items))
            return None if None in items else items
    return type_ if parts(type_) is None else None


def _no_container(body: Body, value: typed.Expr, container: typed.Expr) -> None:
    expected = "a tuple, a list, a dict or a string"
    draft = body.sink.error(E0210, at=container.span, expected=expected, found=type_text(container.type))
    if isinstance(container.type, TensorType):
        text, sought = body.rules.text(container.span), body.rules.text(value.span)
        draft.remark(f"`any({text} == {sought})` asks for an element of a tensor")
