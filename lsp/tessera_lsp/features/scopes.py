"""Local names of a function: where each is given a value, and which of these a use of it reads.

This is the text's view of scopes, which is there also while the text is wrong. The last place before a use that binds
the name is taken for what it reads; in a loop, a place after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.syntax import ast
from tesserac.syntax.walk import children, descendants

Kind = Literal["parameter", "local", "size"]
Function = ast.FunctionDef | ast.TestBlock


@dataclass(frozen=True)
class Binding:
    """`since` is the offset from which it counts: `x = x + 1` reads the x before. `within` limits it to a lambda
    or a comprehension. `value` is what a single name is assigned."""

    name: str
    span: Span
    kind: Kind
    since: int
    within: Span
    parameter: ast.Parameter | None = None
    value: ast.Expr | None = None


def bindings(function: Function) -> list[Binding]:
    """Every place that binds a name, in the order of the text; sizes count where they first stand."""
    parameters = function.parameters if isinstance(function, ast.FunctionDef) else ()
    found = [_parameter(parameter, function.span) for parameter in parameters]
    taken = {binding.name for binding in found}
    found += [size for size in sizes(function) if size.name not in taken]
    for statement in function.body:
        for node in _within_function(statement):
            if isinstance(node, _BINDING):
                found += _bound_by(node, function.span)
    return sorted(found, key=lambda binding: binding.span.start)


_BINDING = (
    ast.Assignment, ast.AnnotatedAssignment, ast.For, ast.ListComprehension, ast.DictComprehension, ast.Lambda,
    ast.FunctionDef,
)  # fmt: skip
"""Nodes that bind names."""


def _within_function(node: ast.Node) -> Iterator[ast.Node]:
    """The node and all below it; what functions in it bind is theirs."""
    waiting = [node]
    while waiting:
        first = waiting.pop()
        yield first
        if not isinstance(first, ast.FunctionDef):
            waiting += reversed(children(first))


def _parameter(node: ast.Parameter, within: Span) -> Binding:
    return Binding(node.name, node.name_span, "parameter", node.name_span.start, within, node)


def _bound_by(node: ast.Node, within: Span) -> Iterator[Binding]:
    match node:
        case ast.Assignment(targets=targets, value=value):
            for target in targets:
                yield from _targets(target, node.span.end, within, value)
        case ast.AnnotatedAssignment(target=target, value=value):
            yield from _targets(target, node.span.end, within, value)
        case ast.For(target=target):
            yield from _targets(target, target.span.end, within)
        case ast.ListComprehension(clauses=clauses) | ast.DictComprehension(clauses=clauses):
            for clause in clauses:
                yield from _targets(clause.target, node.span.start, node.span)
        case ast.Lambda(parameters=parameters):
            yield from (_parameter(parameter, node.span) for parameter in parameters)
        case ast.FunctionDef(name=name, name_span=span):
            yield Binding(name, span, "local", span.start, within)


def _targets(target: ast.Expr, since: int, within: Span, value: ast.Expr | None = None) -> Iterator[Binding]:
    match target:
        case ast.Name(id=name, span=span):
            yield Binding(name, span, "local", since, within, value=value)
        case ast.TupleExpr(items=items) | ast.ListExpr(items=items):
            for item in items:
                yield from _targets(item, since, within)


def sizes(function: Function) -> list[Binding]:
    """The dim names of a signature, each where it first stands."""
    if not isinstance(function, ast.FunctionDef):
        return []
    first: dict[str, Binding] = {}
    for parameter in function.parameters:
        for name, span in dim_names(parameter.annotation) if parameter.annotation else ():
            first.setdefault(name, Binding(name, span, "size", function.span.start, function.span, parameter))
    return list(first.values())


def dim_names(annotation: ast.Expr) -> Iterator[tuple[str, Span]]:
    """Names of sizes in the brackets of a type, bare or quoted. They start with an upper-case letter."""
    for node in descendants(annotation):
        if isinstance(node, ast.Subscript):
            for argument in node.arguments:
                yield from _upper_names(argument.value)


def _upper_names(node: ast.Expr) -> Iterator[tuple[str, Span]]:
    for inner in descendants(node):
        if isinstance(inner, ast.Name) and inner.id[:1].isupper():
            yield inner.id, inner.span
        elif isinstance(inner, ast.StringLiteral) and inner.value.isidentifier():
            yield inner.value, inner.span


def binding_of(function: Function, name: str, offset: int) -> Binding | None:
    """What a name means at an offset, if it is a local one."""
    named = [b for b in bindings(function) if b.name == name and b.within.start <= offset <= b.within.end]
    here = [b for b in named if b.span.start <= offset <= b.span.end]
    before = [b for b in named if b.since <= offset]
    innermost = sorted(before, key=lambda b: (b.within.end - b.within.start, -b.since))
    return next(iter(here or innermost or named), None)


def first_binding(function: Function, binding: Binding) -> Binding:
    """The first place that gives this name a value: a name that is assigned again is the same name."""
    same = (b for b in bindings(function) if (b.name, b.within) == (binding.name, binding.within))
    return next(same, binding)


def struct_sizes(struct: ast.StructDef) -> dict[str, Binding]:
    """The sizes that a struct is made for."""
    return {
        name.id: Binding(name.id, name.span, "size", struct.span.start, struct.span) for name in struct.parameters
    }


def visible(function: Function, offset: int) -> dict[str, Binding]:
    """The local names that have a value at an offset, each as bound last."""
    found: dict[str, Binding] = {}
    for binding in bindings(function):
        if binding.since <= offset and binding.within.start <= offset <= binding.within.end:
            found[binding.name] = binding
    return found
