"""Functions inside functions that are used after a name which they captured is bound anew.

Enters: a function of the tree. Leaves: such names. Here a function has the names around it as they were where it is
written; in Python it has them as they are where it is called, so that a program carried over means something else.
"""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.base.dataclass import dataclass
from tesserac.syntax import ast
from tesserac.syntax.targets import bound_names
from tesserac.syntax.walk import children, descendants

Loop = ast.For | ast.While
Outer = ast.FunctionDef | ast.TestBlock


@dataclass(frozen=True, eq=False)
class Captured:
    """`inner` is used where `name`, bound anew at its place, is no longer what it captured."""

    inner: str
    name: ast.Name


@dataclass(frozen=True, eq=False)
class _Statement:
    node: ast.Stmt
    loops: tuple[Loop, ...]


def stale_captures(function: Outer) -> Iterator[Captured]:
    """The first new binding of each captured name that a later use of the inner function does not see."""
    statements = list(_own_statements(function.body, ()))
    bound = {p.name for p in function.parameters} if isinstance(function, ast.FunctionDef) else set[str]()
    for at, defined in enumerate(statements):
        inner = _inner(defined.node)
        if inner is not None:
            name, free = inner
            yield from _of_one(name, free & bound, defined, statements[at + 1 :])
        bound |= {target.id for target in _targets(defined.node)}


def _of_one(
    inner: str, captured: set[str], defined: _Statement, after: list[_Statement]
) -> Iterator[Captured]:
    told: set[str] = set()
    for at, statement in enumerate(after):
        if inner in _defines(statement.node):
            return
        for target in _targets(statement.node):
            if target.id in captured - told and _is_used_after(inner, at, after, defined):
                told.add(target.id)
                yield Captured(inner, target)


def _is_used_after(inner: str, at: int, after: list[_Statement], defined: _Statement) -> bool:
    again = (s for s in after[: at + 1] if _share_loop(s, after[at], defined))
    return any(_uses(statement.node, inner) for statement in (*after[at + 1 :], *again))


def _share_loop(one: _Statement, other: _Statement, defined: _Statement) -> bool:
    """Whether a loop that the definition is before goes from one to the other."""
    return any(loop in other.loops and loop not in defined.loops for loop in one.loops)


def _own_statements(body: tuple[ast.Stmt, ...], loops: tuple[Loop, ...]) -> Iterator[_Statement]:
    """The statements of a function in the order of their text, without those of functions in it."""
    for node in body:
        yield _Statement(node, loops)
        match node:
            case ast.If():
                yield from _own_statements((*node.body, *node.otherwise), loops)
            case ast.For() | ast.While():
                yield from _own_statements(node.body, (*loops, node))
            case ast.With():
                yield from _own_statements(node.body, loops)


def _inner(node: ast.Stmt) -> tuple[str, set[str]] | None:
    """The name of a function that a statement makes, with the names that it has from outside."""
    match node:
        case ast.FunctionDef():
            own = {p.name for p in node.parameters} | {
                target.id for inner in descendants(node) if inner is not node for target in _targets(inner)
            }
            return node.name, _mentioned(node) - own
        case ast.Assignment(targets=(ast.Name(id=name),), value=ast.Lambda() as made):
            return name, _mentioned(made.body) - {p.name for p in made.parameters}
    return None


def _defines(node: ast.Stmt) -> set[str]:
    own = {node.name} if isinstance(node, ast.FunctionDef) else set[str]()
    return own | {target.id for target in _targets(node)}


def _targets(node: ast.Node) -> Iterator[ast.Name]:
    """Names that a statement binds, wholly or in part."""
    match node:
        case ast.Assignment(targets=targets):
            for target in targets:
                yield from bound_names(target)
        case ast.AnnotatedAssignment(target=target) | ast.AugmentedAssignment(target=target) | ast.For(target=target):
            yield from bound_names(target)


def _mentioned(node: ast.Node) -> set[str]:
    return {inner.id for inner in descendants(node) if isinstance(inner, ast.Name)}


def _uses(node: ast.Stmt, name: str) -> bool:
    """Whether a statement itself, without the blocks in it, mentions a name."""
    if isinstance(node, ast.FunctionDef):
        return name in _mentioned(node)
    return any(name in _mentioned(part) for part in children(node) if not isinstance(part, ast.Stmt))
