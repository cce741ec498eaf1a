"""What the session knows: definitions and values by name, and the module that an input is checked in.

A name is one or the other. A value that its type tells (an int, a string, ...) is also a constant of the module, so
that functions and sizes may use it; arrays reach the input as its parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import lru_cache

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile, Span
from tesserac.repl.values import Value, literal
from tesserac.syntax import ast
from tesserac.syntax.walk import descendants

INPUT = "repl.input"
"""The function that an input becomes. No name of a program can be this."""


@dataclass(frozen=True)
class Workspace:
    """Never changed: an input that fails leaves the one before it in place."""

    items: tuple[ast.Item, ...] = ()
    values: dict[str, Value] = field(default_factory=dict)

    def define(self, item: ast.Item) -> Workspace:
        """With an item in place of what its names meant before."""
        new = tuple(single_names(item))
        names = {name for one in new for name in defined_names(one)}
        return Workspace((*self.without(names).items, *new), self.without(names).values)

    def bind(self, name: str, value: Value) -> Workspace:
        rest = self.without({name})
        return Workspace(rest.items, {**rest.values, name: value})

    def without(self, names: set[str]) -> Workspace:
        items = tuple(item for item in self.items if not names & set(defined_names(item)))
        return Workspace(items, {name: value for name, value in self.values.items() if name not in names})

    def changed_since(self, earlier: Workspace, more: Sequence[ast.Item], source: SourceFile) -> frozenset[str] | None:
        """The names that mean something else than earlier, or something new, where nothing defined then mentions one of
        them; None where something may, or may be seen in another way."""
        old = {id(item) for item in earlier.items}
        kept = [item for item in self.items if id(item) in old]
        new = [*(item for item in self.items if id(item) not in old), *more]
        if len(kept) != len(earlier.items) or not all(map(_stands_alone, new)):
            return None
        names = {name for item in new for name in defined_names(item)}
        values = {*self.values, *earlier.values}
        names |= {name for name in values if self.values.get(name) is not earlier.values.get(name)}
        mentioned = any(names & _words(source.slice(item.span)) for item in kept)
        return None if mentioned else frozenset(names)

    def names(self) -> list[str]:
        return [*(name for item in self.items for name in defined_names(item)), *self.values]

    # ------------------------------------------------------------------------------------------------ the module

    def constants(self) -> Iterator[ast.ConstDef]:
        for name, value in self.values.items():
            known = literal(value.type, value.span)
            if known is not None:
                yield ast.ConstDef(value.span, (ast.Name(value.span, name),), None, known)

    def module(self, span: Span, *more: ast.Item) -> ast.Module:
        return ast.Module(span, None, (*self.items, *self.constants(), *more))

    def arguments(self, statements: Sequence[ast.Stmt]) -> dict[str, Value]:
        """The values that an input works on: arrays that it names, and what it updates."""
        used = {node.id for s in statements for node in descendants(s) if isinstance(node, ast.Name)}
        updated = set(assigned_names(statements))
        return {
            name: value
            for name, value in self.values.items()
            if name in updated or (name in used and literal(value.type, value.span) is None)
        }


def _stands_alone(item: ast.Item) -> bool:
    """Whether an item adds a name, and nothing to the meaning of others: not the rule of a derivative, or a size of the
    module."""
    plain = isinstance(item, ast.FunctionDef) and not item.decorators
    return plain or isinstance(item, ast.StructDef | ast.ConstDef | ast.TestBlock)


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


def input_function(span: Span, arguments: dict[str, Value], body: tuple[ast.Stmt, ...]) -> ast.FunctionDef:
    """An input as a function of the values that it works on."""
    parameters = tuple(ast.Parameter(v.span, name, v.span, None, None, False) for name, v in arguments.items())
    return ast.FunctionDef(span, (), INPUT, span, parameters, None, (), None, None, body)


def single_names(item: ast.Item) -> Iterator[ast.Item]:
    """The same as items of one name each, so that each name can be replaced on its own."""
    match item:
        case ast.FromImport():
            yield from (replace(item, names=(name,)) for name in item.names)
        case ast.Import():
            yield from (replace(item, modules=(module,)) for module in item.modules)
        case ast.ConstDef():
            yield from (replace(item, targets=(target,)) for target in item.targets)
        case _:
            yield item


def defined_names(item: ast.Item) -> list[str]:
    match item:
        case ast.FunctionDef() | ast.StructDef() | ast.ParamDecl():
            return [item.name]
        case ast.ConstDef():
            return [name for target in item.targets for name in _roots(target)]
        case ast.FromImport():
            return [(imported.alias or imported.name).id for imported in item.names]
        case ast.Import():
            return [m.alias.id if m.alias else m.path.names[0] for m in item.modules]
        case ast.TestBlock():
            return []


def assigned_names(statements: Sequence[ast.Stmt]) -> list[str]:
    """The names that statements bind or rebind, in the order of the text."""
    found: dict[str, None] = {}
    for statement in statements:
        for node in descendants(statement):
            found.update(dict.fromkeys(_bound_by(node)))
    return list(found)


def _bound_by(node: ast.Node) -> Iterator[str]:
    match node:
        case ast.Assignment(targets=targets):
            for target in targets:
                yield from _roots(target)
        case ast.AnnotatedAssignment(target=target) | ast.AugmentedAssignment(target=target):
            yield from _roots(target)


def _roots(target: ast.Expr) -> Iterator[str]:
    """The names that an assignment to `target` rebinds."""
    match target:
        case ast.Name():
            yield target.id
        case ast.TupleExpr(items=items) | ast.ListExpr(items=items):
            for item in items:
                yield from _roots(item)
        case ast.Subscript(value=value) | ast.Attribute(value=value):
            yield from _roots(value)
