"""Questions about control flow that the syntax tree alone answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tesserac.syntax import ast


def may_return(node: ast.If) -> bool:
    """Whether some branch holds a `return` outside loops, where it is an error of its own."""
    return any(_holds_return(statement) for statement in (*node.body, *node.otherwise))


def _holds_return(node: ast.Stmt) -> bool:
    return isinstance(node, ast.Return) or (isinstance(node, ast.If) and may_return(node))


def always_returns(statements: Sequence[ast.Stmt]) -> bool:
    return any(
        isinstance(node, ast.Return)
        or (isinstance(node, ast.If) and always_returns(node.body) and always_returns(node.otherwise))
        for node in statements
    )


def assigned_names(statements: Sequence[ast.Stmt]) -> list[str]:
    """Names that statements bind, each once, in order; loop indices included."""
    return list(dict.fromkeys(name for node in statements for name in _assigned(node)))


def _assigned(node: ast.Stmt) -> Iterator[str]:
    match node:
        case ast.Assignment(targets=targets):
            for target in targets:
                yield from _target_names(target)
        case ast.AnnotatedAssignment(target=target) | ast.AugmentedAssignment(target=target):
            yield from _target_names(target)
        case ast.If(body=body, otherwise=otherwise):
            yield from assigned_names((*body, *otherwise))
        case ast.For(target=target, body=body):
            yield from _target_names(target)
            yield from assigned_names(body)
        case ast.While(body=body) | ast.With(body=body):
            yield from assigned_names(body)


def _target_names(target: ast.Expr) -> Iterator[str]:
    match target:
        case ast.Name(id=name):
            yield name
        case ast.TupleExpr(items=items) | ast.ListExpr(items=items):
            for item in items:
                yield from _target_names(item)
        case ast.Subscript(value=value) | ast.Attribute(value=value):
            yield from _target_names(value)
