"""Transforms as decorators: `@vmap(in_axes=(0, None))`, `@grad`, `@checkpoint`.

Enters: a function as written. Leaves: two, the function as it stands, under a name that no program can write, and one
of its own name that is what the decorators make of it, the lowest first.

    @vmap                                 def `norm$plain`(x: Tensor[N, f32]): return sqrt(sum(x * x))
    @checkpoint                           def norm(x): return vmap(checkpoint(`norm$plain`))(x)
    def norm(x: Tensor[N, f32]): ...

A mapped function takes arguments of one dim more, so that these have no types of their own: each call decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tesserac.base.source import Span
from tesserac.syntax import ast

MAPS = ("vmap", "pmap")
TRANSFORMING = (*MAPS, "grad", "value_and_grad", "jacfwd", "jacrev", "hessian", "hvp", "checkpoint", "remat")
"""Decorators that make another function of the one below them."""
NOTHING_NEW = ("jit", "autodiff")
"""Those that say what every function is."""
OUTSIDE = ("export", "update")
"""Those that speak of the function that callers see."""
DIRECTION = "direction"
"""What `hvp` takes besides."""
_STATIC = ("int", "bool", "str")


def plain_name(name: str) -> str:
    return f"{name}$plain"


def is_transformed(node: ast.FunctionDef) -> bool:
    return any(decorator_name(decorator) in TRANSFORMING for decorator in node.decorators)


def decorator_name(decorator: ast.Decorator) -> str:
    """`vmap` for `@vmap` and for `@vmap(...)`."""
    node = decorator.expression
    head = node.function if isinstance(node, ast.Call) else node
    return head.id if isinstance(head, ast.Name) else ""


def taken_apart(node: ast.FunctionDef) -> tuple[ast.FunctionDef, ast.FunctionDef]:
    """The function that callers see, and the one as it stands."""
    transforming = [d for d in node.decorators if decorator_name(d) in TRANSFORMING]
    outside = tuple(d for d in node.decorators if decorator_name(d) in OUTSIDE)
    inside = tuple(d for d in node.decorators if d not in (*transforming, *outside))
    plain = replace(node, name=plain_name(node.name), decorators=inside)
    parameters = _parameters(node, [decorator_name(decorator) for decorator in transforming])
    value = applied(transforming, ast.Name(node.name_span, plain.name))
    called = ast.Call(node.name_span, value, tuple(_argument(parameter) for parameter in parameters))
    mapped = any(decorator_name(decorator) in MAPS for decorator in transforming)
    seen = replace(
        node,
        decorators=outside,
        parameters=parameters,
        returns=None,
        where=() if mapped else node.where,
        uses=None,
        body=(ast.Return(node.name_span, called),),
    )
    return seen, plain


def applied(decorators: Sequence[ast.Decorator], function: ast.Expr) -> ast.Expr:
    """What decorators make of a function, the last one first."""
    for decorator in reversed(decorators):
        node, span = decorator.expression, decorator.expression.span
        given = ast.Argument(function.span, None, function.span, function)
        if isinstance(node, ast.Call):
            function = ast.Call(span, node.function, (given, *node.arguments))
        else:
            function = ast.Call(span, node, (given,))
    return function


def _parameters(node: ast.FunctionDef, transforms: Iterable[str]) -> tuple[ast.Parameter, ...]:
    parameters = list(node.parameters)
    for name in transforms:
        if name in MAPS:
            parameters = [p if _is_static(p) else replace(p, annotation=None) for p in parameters]
        if name == "hvp":
            span: Span = node.name_span
            parameters.append(ast.Parameter(span, DIRECTION, span, None, None, False))
    return tuple(parameters)


def _is_static(parameter: ast.Parameter) -> bool:
    return isinstance(parameter.annotation, ast.Name) and parameter.annotation.id in _STATIC


def _argument(parameter: ast.Parameter) -> ast.Argument:
    span, name = parameter.name_span, parameter.name
    return ast.Argument(span, name if parameter.keyword_only else None, span, ast.Name(span, name))
