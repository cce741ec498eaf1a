"""What the target of an assignment binds."""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.syntax import ast


def bound_names(target: ast.Expr) -> Iterator[ast.Name]:
    """The names that a target binds, wholly or, as `x[i]` and `s.field`, in part."""
    match target:
        case ast.Name():
            yield target
        case ast.TupleExpr(items=items) | ast.ListExpr(items=items):
            for item in items:
                yield from bound_names(item)
        case ast.Subscript(value=value) | ast.Attribute(value=value):
            yield from bound_names(value)
