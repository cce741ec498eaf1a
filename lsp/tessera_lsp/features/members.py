"""What a struct has behind a dot: `self.w`, `layer.apply`.

In: the name before the dot. Out: the fields and methods of its struct, read off the text: a line that ends in a dot
does not check yet, and the struct is there all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from tessera_lsp.features.meanings import struct_of
from tessera_lsp.features.places import Place
from tesserac.base.source import Span
from tesserac.driver.session import Session
from tesserac.incremental.analyser import Analysis
from tesserac.syntax import ast


class Member(NamedTuple):
    """`type` is that of a field, as written."""

    name: str
    kind: Literal["field", "method"]
    type: str


def members_of(session: Session, analysis: Analysis, place: Place | None, name: str) -> list[Member]:
    """What `name.` can be followed by where it is a struct; nothing where it is none, or unknown."""
    found = struct_of(session, analysis, place, name)
    if found is None or not isinstance(found.node, ast.StructDef):
        return []
    return list(_members(found.node, lambda span: found.source.slice(found.now(span))))


def _members(node: ast.StructDef, text: Callable[[Span], str]) -> Iterator[Member]:
    for field in node.fields:
        yield Member(field.name, "field", text(field.annotation.span))
    for method in node.methods:
        yield Member(method.name, "method", "")
