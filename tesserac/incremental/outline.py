"""Which items of a file another item can depend on.

In: the items of a file, where they stand. Out: for each item its *context*, the items that its checking can read: those
that define a word in its text, those that define a word in theirs, and so on, the item itself among them. Words are
taken from the bare text, strings included, so that no rule of the language has to be repeated here: a context may hold
too much, never too little.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from tesserac.base.source import SourceFile, Span
from tesserac.check.names.decorated import rule_of
from tesserac.check.names.usage import Usage, usage_of
from tesserac.syntax import ast
from tesserac.syntax.parse import ParsedItem, parse_items
from tesserac.syntax.walk import descendants

REMEMBERED = 4096
"""Items whose words are remembered."""

_WORD = re.compile(r"[^\W\d]\w*")


class Named(NamedTuple):
    """A name that an item gives a meaning, and what kind of item that is: what a misspelt name may have meant depends
    on both."""

    name: str
    kind: Literal["function", "struct", "value"]


class OutlineItem(NamedTuple):
    """An item where it stands now; the same text is the same `parsed`, which may stand elsewhere."""

    parsed: ParsedItem
    span: Span

    @property
    def by(self) -> int:
        """How far it has moved since it was parsed."""
        return self.span.start - self.parsed.span.start


class Outline:
    """The items of one text."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.items = tuple(_place(source, parsed, by) for parsed, by in parse_items(source))
        self._definers: dict[str, list[int]] = {}
        for index, item in enumerate(self.items):
            for name in defined_names(item.parsed):
                self._definers.setdefault(name, []).append(index)

    @cached_property
    def names(self) -> frozenset[Named]:
        firsts = ((name, self.items[definers[0]].parsed) for name, definers in self._definers.items())
        return frozenset(_named(name, item) for name, item in firsts)

    @cached_property
    def _uses(self) -> tuple[tuple[int, ...], ...]:
        return tuple(self._used_by(item) for item in self.items)

    def _used_by(self, item: OutlineItem) -> tuple[int, ...]:
        words = words_of(self.source.slice(item.span)) & self._definers.keys()
        return tuple(index for word in words for index in self._definers[word])

    def context(self, index: int) -> tuple[int, ...]:
        """The indices of all items that checking this one can read, in the order of the text."""
        reached = {index}
        waiting = [index]
        while waiting:
            for used in self._uses[waiting.pop()]:
                if used not in reached:
                    reached.add(used)
                    waiting.append(used)
        return tuple(sorted(reached))

    def index_at(self, offset: int) -> int | None:
        """The item that holds an offset, or that the offset stands right behind."""
        index = bisect_right(self.items, offset, key=lambda item: item.span.start) - 1
        return index if index >= 0 and offset <= self.items[index].span.end else None


def _place(source: SourceFile, parsed: ParsedItem, by: int) -> OutlineItem:
    return OutlineItem(parsed, source.span(parsed.span.start + by, parsed.span.end + by))


def _named(name: str, item: ParsedItem) -> Named:
    if any(isinstance(node, ast.FunctionDef) and node.name == name for node in item.items):
        return Named(name, "function")
    is_struct = any(isinstance(node, ast.StructDef) and node.name == name for node in item.items)
    return Named(name, "struct" if is_struct else "value")


@lru_cache(maxsize=REMEMBERED)
def words_of(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))


@lru_cache(maxsize=REMEMBERED)
def defined_names(item: ParsedItem) -> tuple[str, ...]:
    """Every name that an item gives a meaning in its module; tests count by their titles."""
    return tuple(dict.fromkeys(name for node in item.items for name in _defined(node)))


@lru_cache(maxsize=REMEMBERED)
def usage(item: ParsedItem) -> Usage:
    """What an item mentions, and what it assigns for nothing."""
    return usage_of(item.items)


def _defined(node: ast.Item) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name):
            yield name
            yield from rule_of(node).values()  # a call of that function goes by this one
        case ast.StructDef(name=name):
            yield name
        case ast.ConstDef(targets=targets):
            yield from _names(targets)
        case ast.ParamDecl(name=name, annotation=annotation):  # its sizes are symbols of the whole module
            yield name
            yield from _names([annotation])
            yield from (s.value for s in descendants(annotation) if isinstance(s, ast.StringLiteral))
        case ast.Import(modules=modules):
            for module in modules:
                yield module.alias.id if module.alias else next(iter(module.path.names), "")
        case ast.FromImport(names=names):
            yield from ((name.alias or name.name).id for name in names)
        case ast.TestBlock(name=title):
            yield f"test {title.value}"


def _names(nodes: Sequence[ast.Expr]) -> Iterator[str]:
    for node in nodes:
        yield from (inner.id for inner in descendants(node) if isinstance(inner, ast.Name))
