"""Methods as values: `m.loss` is the method with m as its first argument, `Net.loss` the method alone.

Enters: a value or a name before a dot, and the name of a method. Leaves: a function value like any other: one of the
module, which has captured the struct or nothing. A struct in the place of a function is its `apply`.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.names.refs import FunctionRef
from tesserac.check.names.struct_items import method_name
from tesserac.check.state.body import Body
from tesserac.check.values.tuples import make_value
from tesserac.syntax import ast
from tesserac.types.ty import FunctionType, StructType

CALLED = "apply"
"""The method that a call of a struct calls."""
CALLED_ELSEWHERE = frozenset({"forward", "call"})
"""What other tools call it."""
TOLD = "__call__"
"""A name for it that the declaration of the struct is told of."""


def bound_method(body: Body, value: typed.Expr, name: str, span: Span) -> typed.Expr | None:
    """`value.name` as a function of the other arguments; None if the struct has no such method."""
    type_ = value.type
    assert isinstance(type_, StructType)
    if name not in body.rules.methods(type_):
        return None
    method = FunctionType(type_.module, method_name(type_.name, name), (("self", type_),))
    return make_value(method, [value], span)


def as_function(body: Body, value: typed.Expr) -> typed.Expr:
    """What is to be called: a struct with an `apply` is that method, anything else stays."""
    if not isinstance(value.type, StructType):
        return value
    return bound_method(body, value, CALLED, value.span) or value


def method_of_struct(body: Body, node: ast.Attribute) -> FunctionRef | None:
    """The method that `Net.loss` means, a function whose first argument is the struct."""
    if isinstance(node.value, ast.Name) and body.binds(node.value.id):
        return None
    decl = body.rules.struct(node.value) if isinstance(node.value, ast.Name | ast.Attribute) else None
    if decl is None or node.name not in decl.methods:
        return None
    return FunctionRef(decl.owner, method_name(decl.name, node.name))
