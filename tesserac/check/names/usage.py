"""Which names an item of a module mentions, and which of its own it never reads.

Enters: one top-level item of the tree; no types are needed, so an editor may ask after every keystroke. Leaves: a
`Usage`. What is written in quotes counts as mentioned, since sizes may be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.recursion import deep_recursion
from tesserac.check.names.captures import Captured, stale_captures
from tesserac.syntax import ast
from tesserac.syntax.walk import children, descendants

_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, eq=False)
class LocalName:
    """A name that a statement of a function assigns. `alone`: the statement may go without leaving an empty block or
    losing a call."""

    name: ast.Name
    statement: ast.Stmt
    alone: bool


@dataclass(frozen=True, eq=False)
class Usage:
    """`names` are all that the item mentions, `locals` all that its functions assign, once per name, `unread` those
    that are never read, `stale` those that a function inside captured before they were bound anew."""

    names: frozenset[str]
    locals: tuple[LocalName, ...]
    unread: tuple[LocalName, ...]
    stale: tuple[Captured, ...]


def usage_of(items: Sequence[ast.Item]) -> Usage:
    """What the items of one piece of text use. What an import names is no use of it."""
    used = [item for item in items if not isinstance(item, ast.Import | ast.FromImport)]
    functions = [function for item in used for function in _functions(item)]
    names = frozenset(name for item in used for name in _mentioned(item))
    with deep_recursion():
        assigned = [local for function in functions for local in _locals(function)]
        unread = [local for function in functions for local in _unread(function)]
        stale = [captured for function in functions for captured in stale_captures(function)]
    return Usage(names, tuple(assigned), tuple(unread), tuple(stale))


def _functions(item: ast.Item) -> Iterator[ast.FunctionDef | ast.TestBlock]:
    """Functions that no other encloses: names of an inner one belong to the outer, which may read them."""
    if isinstance(item, ast.FunctionDef | ast.TestBlock):
        yield item
    elif isinstance(item, ast.StructDef):
        yield from item.methods


def _mentioned(node: ast.Node) -> Iterator[str]:
    for inner in descendants(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.StringLiteral):
            yield from _WORD.findall(inner.value)


def _locals(function: ast.FunctionDef | ast.TestBlock) -> list[LocalName]:
    """The first assignment of every name."""
    first: dict[str, LocalName] = {}
    for block in _blocks(function.body):
        for statement in block:
            for name in _assigned(statement):
                first.setdefault(name.id, LocalName(name, statement, False))
    return list(first.values())


def _assigned(statement: ast.Stmt) -> Iterator[ast.Name]:
    match statement:
        case ast.Assignment(targets=targets):
            for target in targets:
                yield from _plain_names(target)
        case ast.AnnotatedAssignment(target=ast.Name() as name):
            yield name
        case ast.For(target=target):
            yield from _plain_names(target)


def _plain_names(target: ast.Expr) -> Iterator[ast.Name]:
    if isinstance(target, ast.Name):
        yield target
    elif isinstance(target, ast.TupleExpr | ast.ListExpr):
        for item in target.items:
            yield from _plain_names(item)


def _unread(function: ast.FunctionDef | ast.TestBlock) -> Iterator[LocalName]:
    """Only what `name = value` assigns: unpacking and loops must take every value, wanted or not."""
    written: list[LocalName] = []
    for block in _blocks(function.body):
        for statement in block:
            if isinstance(statement, ast.Assignment) and len(statement.targets) == 1:
                target = statement.targets[0]
                if isinstance(target, ast.Name) and not target.id.startswith("_"):
                    calls = any(isinstance(node, ast.Call) for node in descendants(statement.value))
                    written.append(LocalName(target, statement, len(block) > 1 and not calls))
    targets = {id(local.name) for local in written}
    reads = {name for node in _below(function) for name in _reads(node, targets)}
    yield from (local for local in written if local.name.id not in reads)


def _reads(node: ast.Node, targets: set[int]) -> Iterator[str]:
    if isinstance(node, ast.Name) and id(node) not in targets:
        yield node.id
    elif isinstance(node, ast.StringLiteral):
        yield from _WORD.findall(node.value)


def _below(function: ast.FunctionDef | ast.TestBlock) -> Iterator[ast.Node]:
    for child in children(function):
        yield from descendants(child)


def _blocks(body: tuple[ast.Stmt, ...]) -> Iterator[tuple[ast.Stmt, ...]]:
    """A block and all blocks in it, those of inner functions among them."""
    yield body
    for statement in body:
        match statement:
            case ast.If(body=inner, otherwise=otherwise):
                yield from _blocks(inner)
                yield from _blocks(otherwise)
            case ast.For(body=inner) | ast.While(body=inner) | ast.With(body=inner) | ast.FunctionDef(body=inner):
                yield from _blocks(inner)
