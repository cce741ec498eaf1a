"""What decorators say of a function as they are written, before anything of it is checked."""

from __future__ import annotations

from tesserac.check.names.refs import DERIVATIVE_RULES
from tesserac.syntax import ast


def rule_of(node: ast.FunctionDef) -> dict[str, str]:
    """The functions that this one is a derivative of, by the decorators that say so."""
    found: dict[str, str] = {}
    for decorator in node.decorators:
        match decorator.expression:
            case ast.Call(function=ast.Name(id=kind), arguments=[ast.Argument(value=ast.Name(id=of))]):
                if kind in DERIVATIVE_RULES:
                    found[kind] = of
    return found


def implemented(node: ast.FunctionDef) -> ast.Expr | None:
    """The function that a kernel says it implements."""
    return _said(node, "kernel", "implements")


def law_of(node: ast.FunctionDef) -> ast.Expr | None:
    """The function that a law is of."""
    return _said(node, "law", "of")


def _said(node: ast.FunctionDef, decorator: str, argument: str) -> ast.Expr | None:
    """What the first decorator of that name says there."""
    for given in node.decorators:
        match given.expression:
            case ast.Call(function=ast.Name(id=name), arguments=arguments) if name == decorator:
                return next((a.value for a in arguments if a.name == argument), None)
    return None
