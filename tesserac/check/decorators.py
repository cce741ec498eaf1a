"""Decorators of functions: which are known, and which are still to come."""

from __future__ import annotations

from tesserac.diag.codes.names import E0299
from tesserac.diag.sink import Sink
from tesserac.syntax import ast

UPDATE = "update"
"""Marks a function whose call, as a statement, binds the name that it is given first to its result."""
ACCEPTED = ("export", "jit", UPDATE)
"""`@export` marks what a bundle shows; every function is compiled, so `@jit` says nothing new."""


def check_decorators(node: ast.FunctionDef, sink: Sink) -> bool:
    """Whether the function can be checked as a plain one; what cannot has a diagnostic."""
    later = [decorator for decorator in node.decorators if not _is_accepted(decorator.expression)]
    if later:
        sink.error(E0299, at=later[0].span, feature=f"the decorator `{dotted_name(later[0].expression)}`")
    return not later


def _is_accepted(node: ast.Expr) -> bool:
    return (isinstance(node, ast.Name) and node.id in ACCEPTED) or dotted_name(node).partition(".")[0] == "kernel"


def is_kernel(node: ast.FunctionDef) -> bool:
    """Whether a function is written for one tile of its result."""
    return any(dotted_name(decorator.expression).partition(".")[0] == "kernel" for decorator in node.decorators)


def is_update(node: ast.FunctionDef) -> bool:
    return any(dotted_name(decorator.expression) == UPDATE for decorator in node.decorators)


def dotted_name(node: ast.Expr) -> str:
    """`kernel.auto` for itself and for calls of it."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, name=name):
            return f"{dotted_name(value)}.{name}"
        case ast.Call(function=function):
            return dotted_name(function)
    return "of this form"
