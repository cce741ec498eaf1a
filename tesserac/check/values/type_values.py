"""Types where a value is expected: `Operator["Din", "Dout", T = f32]`, `KVCache[...] @paged`, `fp8(e4m3|e5m2)`.

Enters: an expression that names a type. Leaves: a compile-time record of kind `type`, or a dtype. A module constant of
such a type abbreviates it. Where alternatives are written (`f32|bf16`) the type is that of the first.
"""

from __future__ import annotations

from tesserac.check.model import typed
from tesserac.check.model.scope import Binding
from tesserac.check.names.refs import StructRef
from tesserac.check.names.type_attributes import TYPE_ATTRIBUTES, attribute_name, check_attribute, report_attribute
from tesserac.check.state.body import Body
from tesserac.syntax import ast
from tesserac.types import dtype as dtypes
from tesserac.types.ty import DTypeType, ErrorType, IntType, RecordType, StrType, TupleType, Type

TYPE = "type"
HEADS = ("Operator", "SpectralOperator", "OptimizerState", "KVCache", "Tensor")


def is_type_application(body: Body, node: ast.Subscript) -> bool:
    """Whether `Name[...]` is a type: Name is one, and no local name hides it."""
    head = node.value
    if not isinstance(head, ast.Name) or head.id in body.scope.bindings:
        return False
    return head.id in HEADS and (head.id != "KVCache" or isinstance(body.rules.resolve(head.id), StructRef))


def type_application(body: Body, node: ast.Subscript) -> typed.Expr:
    """Sizes may be new names; named arguments bind from left to right, and later ones may use earlier ones."""
    assert isinstance(node.value, ast.Name)
    kept, body.scope = body.scope, body.scope.snapshot()
    arguments: list[tuple[str, Type]] = []
    for place, argument in enumerate(node.arguments):
        type_ = _argument(body, argument.value)
        arguments.append((argument.name or str(place), type_))
        if argument.name is not None:
            body.scope.bind(Binding(argument.name, type_, argument.name_span, None))
    body.scope = kept
    if any(isinstance(type_, ErrorType) for _, type_ in arguments):
        return body.error(node.span)
    return typed.Static(RecordType(TYPE, (("name", StrType(node.value.id)), *arguments)), node.span)


def _argument(body: Body, node: ast.Expr) -> Type:
    new = isinstance(node, ast.Name) and node.id[0].isupper() and body.rules.resolve(node.id) is None
    if new and isinstance(node, ast.Name) and node.id not in body.scope.bindings and node.id not in body.sizes.symbols:
        return StrType(node.id)
    return body.expression(node).type


def with_type_attribute(body: Body, node: ast.BinaryOp, type_: RecordType) -> typed.Expr:
    """`T @paged`, `T @device(gpu)`."""
    name = attribute_name(node.right)
    if name not in TYPE_ATTRIBUTES:
        report_attribute(body.sink, node.right)
        return body.error(node.span)
    if not check_attribute(body.sink, node.right):
        return body.error(node.span)
    given = [body.expression(argument.value).type for argument in getattr(node.right, "arguments", ())]
    if any(isinstance(value, ErrorType) for value in given):
        return body.error(node.span)
    return typed.Static(RecordType(TYPE, (*type_.fields, (f"@{name}", TupleType(tuple(given))))), node.span)


def dtype_call(node: ast.Call) -> DTypeType | None:
    """`fp8(e4m3)`, or `fp8(e4m3|e5m2)` with alternatives; None for a call of anything else."""
    if not isinstance(node.function, ast.Name) or len(node.arguments) != 1:
        return None
    forms = alternatives(node.arguments[0].value)
    found = [dtypes.lookup(f"{node.function.id}({form.id})") for form in forms if isinstance(form, ast.Name)]
    known = [dtype for dtype in found if dtype is not None]
    return DTypeType(known[0]) if known and len(known) == len(forms) else None


def alternatives(node: ast.Expr) -> list[ast.Expr]:
    """`a|b` as both."""
    if isinstance(node, ast.BinaryOp) and node.op == "|":
        return [*alternatives(node.left), *alternatives(node.right)]
    return [node]


def first_alternative(body: Body, node: ast.Expr) -> ast.Expr:
    """The attribute of a policy with the first of its alternatives, and a number where a constant names one."""
    if not isinstance(node, ast.Call) or len(node.arguments) != 1:
        return node
    argument = node.arguments[0]
    value = alternatives(argument.value)[0]
    if isinstance(value, ast.Name) and dtypes.lookup(value.id) is None and body.rules.alias(value.id) is not None:
        type_ = body.expression(value).type
        if isinstance(type_, IntType) and type_.value.constant is not None:
            value = ast.IntLiteral(value.span, type_.value.constant)
    return ast.Call(node.span, node.function, (ast.Argument(argument.span, argument.name, argument.name_span, value),))
