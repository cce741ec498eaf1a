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
    for decorator in node.decorators:
        match decorator.expression:
            case ast.Call(function=ast.Name(id="kernel"), arguments=arguments):
                return next((a.value for a in arguments if a.name == "implements"), None)
    return None


def law_of(node: ast.FunctionDef) -> ast.Expr | None:
    """The function that a law is of."""
    for decorator in node.decorators:
        match decorator.expression:
            case ast.Call(function=ast.Name(id="law"), arguments=arguments):
                return next((a.value for a in arguments if a.name == "of"), None)
    return None
