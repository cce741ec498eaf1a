"""`isinstance(x, int)`: what kind of value a parameter without a type was given.

Enters: a call of `isinstance` as written. Leaves: a bool known while compiling, since kinds are. A branch that it rules
out is not looked at, as after `x is None`.
"""

from __future__ import annotations

from typing import TypeGuard

from tesserac.check.model import typed
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0205, E0210
from tesserac.syntax import ast
from tesserac.types.ty import (
    BoolType,
    ErrorType,
    FloatType,
    IntType,
    OperatorType,
    StrType,
    TensorType,
    TupleType,
    Type,
)

QUESTION = "isinstance"
_KINDS: dict[str, type[Type]] = {
    "int": IntType,
    "float": FloatType,
    "bool": BoolType,
    "str": StrType,
    "tuple": TupleType,
    "Tensor": TensorType,
    "Operator": OperatorType,
}


def infer_isinstance(body: Body, node: ast.Call) -> typed.Expr:
    if len(node.arguments) != 2 or any(argument.name is not None for argument in node.arguments):
        body.sink.error(E0205, at=node.function.span, problem="`isinstance` takes a value and a kind")
        return body.error(node.span)
    value, kind = (argument.value for argument in node.arguments)
    found = body.expression(value)
    if not isinstance(kind, ast.Name) or kind.id not in _KINDS:
        kinds = ", ".join(_KINDS)
        body.sink.error(E0210, at=kind.span, expected=f"a kind ({kinds})", found=f"`{body.rules.text(kind.span)}`")
        return body.error(node.span)
    if isinstance(found.type, ErrorType):
        return found
    return typed.Static(BoolType(isinstance(found.type, _KINDS[kind.id])), node.span)


def asks_kind(test: ast.Node) -> TypeGuard[ast.Call]:
    """Whether a test is `isinstance(x, kind)`."""
    called = test.function if isinstance(test, ast.Call) and test.arguments else None
    return isinstance(called, ast.Name) and called.id == QUESTION
