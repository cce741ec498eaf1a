"""Generic walks over nodes: the children of one, and a tree moved to another place in the text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from operator import attrgetter
from typing import TypeVar

from tesserac.base.recursion import deep_recursion
from tesserac.base.source import Span
from tesserac.syntax.ast import ErrorStatement, Node

N = TypeVar("N", bound=Node)


_FIELDS: dict[type[Node], tuple[str, ...]] = {}


def _all_fields(cls: type[Node]) -> tuple[str, ...]:
    names = _FIELDS.get(cls)
    if names is None:
        names = _FIELDS[cls] = tuple(field.name for field in fields(cls))
    return names


def field_names(cls: type[Node]) -> tuple[str, ...]:
    """The fields of a node, without its span, which is the first."""
    return _all_fields(cls)[1:]


_PLAIN = frozenset(("Span", "str", "int", "float", "bool", "None", "tuple"))
"""Words of the types of fields that hold no nodes."""
_BELOW: dict[type[Node], Callable[[Node], tuple[object, ...]]] = {}


def _below(cls: type[Node]) -> Callable[[Node], tuple[object, ...]]:
    """What reads the fields of a class of nodes that may hold others: half of all nodes are names and literals."""
    names = [field.name for field in fields(cls) if not _PLAIN.issuperset(re.findall(r"\w+", str(field.type)))]
    if not names:
        return lambda node: ()
    read = attrgetter(*names)
    return read if len(names) > 1 else lambda node: (read(node),)


def children(node: Node) -> list[Node]:
    """The nodes directly below, in the order of their text as the fields have it."""
    cls = type(node)
    if cls not in _BELOW:
        _BELOW[cls] = _below(cls)
    found: list[Node] = []
    for value in _BELOW[cls](node):
        if type(value) is tuple:
            found += [item for item in value if isinstance(item, Node)]
        elif isinstance(value, Node):
            found.append(value)
    return found


def descendants(node: Node) -> Iterator[Node]:
    """The node and all below it, each before its children, however deep."""
    waiting = [node]
    while waiting:
        first = waiting.pop()
        yield first
        waiting += reversed(children(first))


def is_broken(node: Node) -> bool:
    """Whether some statement of it did not parse, so that nobody knows what else stands there."""
    return any(isinstance(one, ErrorStatement) for one in descendants(node))


def moved(node: N, by: int) -> N:
    """A copy of a tree that stands `by` characters further on."""

    def copied(old: object) -> object:
        if isinstance(old, Node):
            make: Callable[..., Node] = type(old)
            return make(*[copied(getattr(old, name)) for name in _all_fields(type(old))])
        if type(old) is Span:
            return Span(old.file, old.start + by, old.end + by)
        if type(old) is tuple:
            return tuple([copied(item) for item in old])
        return old

    with deep_recursion():
        copy = copied(node)
    assert isinstance(copy, type(node))
    return copy
