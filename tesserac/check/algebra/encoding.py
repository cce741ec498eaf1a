"""Operator trees as text, for callers outside the language, who hand an operator back as they got it.

Enters: a tree, or the text of one. Leaves: the other. A kind is a list of its name and its fields in order, a leaf the
number of its place: `["Kronecker", ["Dense", 0, false, false], ["Diag", 1]]`.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass

from tesserac.check.algebra import combined, kinds, products, structured
from tesserac.check.algebra.base import Kind
from tesserac.types.algebra import Leaf, Tree


def encoded(tree: Tree) -> str:
    return json.dumps(_row(tree), separators=(",", ":"))


def decoded(text: str) -> Kind:
    tree = _part(json.loads(text))
    assert isinstance(tree, Kind), "what was handed out comes back"
    return tree


def _row(part: object) -> object:
    if isinstance(part, Leaf):
        return [_LEAF, part.index]
    if isinstance(part, tuple):
        return [_TUPLE, *map(_row, part)]
    if is_dataclass(part):
        return [type(part).__name__, *(_row(getattr(part, field.name)) for field in fields(part))]
    return part


def _part(row: object) -> object:
    if not isinstance(row, list):
        return row
    head, *rest = row
    if head == _LEAF:
        return Leaf(rest[0])
    items = tuple(map(_part, rest))
    return items if head == _TUPLE else _classes()[str(head)](*items)


_LEAF, _TUPLE = "leaf", "tuple"


def _classes() -> dict[str, type]:
    """Every kind there is, by its name."""
    found: dict[str, type] = {"Factor": combined.Factor}
    for module in (combined, kinds, products, structured):
        found |= {name: value for name, value in vars(module).items() if isinstance(value, type)}
    return found
