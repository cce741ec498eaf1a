"""Generic walks over nodes: the children of one, and a tree moved to another place in the text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import TypeVar

from tesserac.base.source import Span
from tesserac.syntax.ast import Node

N = TypeVar("N", bound=Node)


_FIELDS: dict[type[Node], tuple[str, ...]] = {}


def field_names(cls: type[Node]) -> tuple[str, ...]:
    """The fields of a node, without its span."""
    names = _FIELDS.get(cls)
    if names is None:
        names = _FIELDS[cls] = tuple(field.name for field in fields(cls) if field.name != "span")
    return names


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below, in the order of their text as the fields have it."""
    for name in field_names(type(node)):
        value = getattr(node, name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, Node))


def descendants(node: Node) -> Iterator[Node]:
    """The node and all below it, each before its children."""
    yield node
    for child in children(node):
        yield from descendants(child)


def moved(node: N, file: str, by: int) -> N:
    """A copy of a tree in which every span belongs to `file` and stands `by` characters further on."""

    def span(old: Span) -> Span:
        return Span(file, old.start + by, old.end + by)

    def value(old: object) -> object:
        if isinstance(old, Node):
            return tree(old)
        if isinstance(old, Span):
            return span(old)
        return tuple([value(item) for item in old]) if isinstance(old, tuple) else old

    def tree(old: Node) -> Node:
        make: Callable[..., Node] = type(old)
        return make(span(old.span), *[value(getattr(old, name)) for name in field_names(type(old))])

    copy = tree(node)
    assert isinstance(copy, type(node))
    return copy
