"""Calls and attributes as they are written: `f(x)`, `x.f()`, `op.f(x)`, `x.T`.

Enters: a call or attribute of the syntax tree. Leaves: what it means, applied. A method is the function of that name
with the value as its first argument.
"""

from __future__ import annotations

from tesserac.check import typed
from tesserac.check.arguments import Arg, Callee, check_arguments
from tesserac.check.body import Body
from tesserac.check.builtin_calls import call_builtin, transpose
from tesserac.check.calls import call_function
from tesserac.check.globals import global_value, report_later, unknown_name
from tesserac.check.operator_calls import call_operator
from tesserac.check.resolve import (
    BuiltinRef,
    ConstantRef,
    DTypeRef,
    FunctionRef,
    LaterRef,
    LibraryRef,
    OperatorRef,
    Resolved,
    closest,
)
from tesserac.check.words import type_text
from tesserac.diag.codes.names import E0207, E0208
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.ty import DTypeType, ErrorType, FunctionType, IntType, TensorType, TupleType, Type


def infer_call(body: Body, node: ast.Call) -> typed.Expr:
    function = node.function
    if isinstance(function, ast.Attribute):
        return _call_attribute(body, node, function)
    if isinstance(function, ast.Name):
        callee = Callee(function.id, function.span, node.span)
        local = body.scope.bindings.get(function.id)
        if local is None and function.id not in body.scope.half_bound and function.id not in body.symbols:
            meaning = body.rules.resolve(function.id)
            if isinstance(meaning, LaterRef):
                return report_later(body, function.span, meaning.feature)
            if meaning is None:
                unknown_name(body, function)
            return call_meaning(body, meaning, check_arguments(body, node.arguments), callee)
    value = body.expression(function)
    if isinstance(value.type, FunctionType):
        callee = Callee(value.type.name, function.span, node.span)
        ref = FunctionRef(value.type.module, value.type.name)
        return call_function(body, ref, check_arguments(body, node.arguments), callee)
    if not isinstance(value.type, ErrorType):
        body.sink.error(E0207, at=function.span, what=type_text(value.type))
    return body.error(node.span)


def call_meaning(body: Body, meaning: Resolved | None, args: list[Arg], callee: Callee) -> typed.Expr:
    """A call of what a name outside the function means."""
    match meaning:
        case FunctionRef():
            return call_function(body, meaning, args, callee)
        case OperatorRef(op):
            return call_operator(body, op, args, callee)
        case BuiltinRef(name):
            return call_builtin(body, name, args, callee)
        case ConstantRef() | DTypeRef() | LibraryRef():
            body.sink.error(E0207, at=callee.at, what=f"`{callee.name}`")
    return body.error(callee.span)


def _call_attribute(body: Body, node: ast.Call, function: ast.Attribute) -> typed.Expr:
    """`op.name(...)`, or a method: the function of that name with the value as its first argument."""
    callee = Callee(function.name, function.name_span, node.span)
    base = function.value
    is_local = isinstance(base, ast.Name) and (base.id in body.scope.bindings or base.id in body.symbols)
    if isinstance(base, ast.Name) and not is_local and isinstance(body.rules.resolve(base.id), LibraryRef):
        meaning = body.rules.library(function.name)
        if isinstance(meaning, LaterRef):
            return report_later(body, function.span, meaning.feature)
        if meaning is None:
            body.sink.error(E0208, at=function.name_span, what="the library", name=function.name)
        return call_meaning(body, meaning, check_arguments(body, node.arguments), callee)
    receiver = body.expression(base)
    if isinstance(receiver.type, ErrorType):
        return receiver
    meaning = body.rules.resolve(function.name)
    if isinstance(meaning, LaterRef):
        return report_later(body, function.name_span, meaning.feature)
    if not isinstance(meaning, FunctionRef | OperatorRef | BuiltinRef):
        _unknown_attribute(body, receiver.type, function)
        return body.error(node.span)
    args = [Arg(None, base.span, receiver), *check_arguments(body, node.arguments)]
    return call_meaning(body, meaning, args, callee)


def infer_attribute(body: Body, node: ast.Attribute) -> typed.Expr:
    base = node.value
    if isinstance(base, ast.Name) and base.id not in body.scope.bindings and base.id not in body.symbols:
        meaning = body.rules.resolve(base.id)
        if isinstance(meaning, LibraryRef):
            return global_value(body, ast.Name(node.span, node.name), body.rules.library(node.name))
    value = body.expression(base)
    type_ = value.type
    if isinstance(type_, TensorType):
        match node.name:
            case "T":
                return transpose(body, value, Callee(".T", node.name_span, node.span))
            case "shape":
                return typed.Static(TupleType(tuple(map(IntType, type_.dims))), node.span)
            case "dtype":
                return typed.Static(DTypeType(type_.dtype, type_.policy), node.span)
            case "rank" | "ndim":
                return typed.Static(IntType(Dim.const(type_.rank)), node.span)
    if not isinstance(type_, ErrorType):
        _unknown_attribute(body, type_, node)
    return body.error(node.span)


def _unknown_attribute(body: Body, type_: Type, node: ast.Attribute) -> None:
    draft = body.sink.error(E0208, at=node.name_span, what=type_text(type_), name=node.name)
    known = ["T", "shape", "dtype", "rank", *body.rules.suggestions()] if isinstance(type_, TensorType) else []
    guess = closest(node.name, known)
    if guess:
        draft.replace(f"did you mean `{guess}`?", node.name_span, guess)
