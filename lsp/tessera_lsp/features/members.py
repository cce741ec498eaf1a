"""What a struct has behind a dot: `self.w`, `layer.apply`.

In: the name before the dot. Out: the fields and methods of its struct, read off the text: a line that ends in a dot
does not check yet, and the struct is there all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from tessera_lsp.features.meanings import ItemMeaning, global_meaning
from tessera_lsp.features.places import Place
from tessera_lsp.features.scopes import Binding, visible
from tesserac.base.source import Span
from tesserac.driver.session import Session
from tesserac.incremental.analyser import Analysis
from tesserac.syntax import ast
from tesserac.types.ty import StructType

SELF = "self"


class Member(NamedTuple):
    """`type` is that of a field, as written."""

    name: str
    kind: Literal["field", "method"]
    type: str


def members_of(session: Session, analysis: Analysis, place: Place | None, name: str) -> list[Member]:
    """What `name.` can be followed by where it is a struct; nothing where it is none, or unknown."""
    if place is None or place.function is None:
        return []
    around = [node for node in place.path if isinstance(node, ast.StructDef)]
    binding = visible(place.function, place.offset).get(name)
    if name == SELF and around and binding is not None:
        return list(_members(around[-1], lambda span: analysis.source.slice(place.view.now(span))))
    found = _struct(session, analysis, place, binding) if binding is not None else None
    if found is None or not isinstance(found.node, ast.StructDef):
        return []
    return list(_members(found.node, lambda span: found.source.slice(found.now(span))))


def _members(node: ast.StructDef, text: Callable[[Span], str]) -> Iterator[Member]:
    for field in node.fields:
        yield Member(field.name, "field", text(field.annotation.span))
    for method in node.methods:
        yield Member(method.name, "method", "")


def _struct(session: Session, analysis: Analysis, place: Place, binding: Binding) -> ItemMeaning | None:
    """The struct that a local is one of: as its parameter says, as its value was found to be, or as it is made."""
    annotation = binding.parameter.annotation if binding.parameter is not None and binding.kind != "size" else None
    if binding.value is not None:
        found = place.view.type_of(binding.value)
        if isinstance(found, StructType):
            return _named(session, analysis, place, found.name)
        annotation = binding.value.function if isinstance(binding.value, ast.Call) else None
    head = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return _named(session, analysis, place, head.id) if isinstance(head, ast.Name) else None


def _named(session: Session, analysis: Analysis, place: Place, name: str) -> ItemMeaning | None:
    meaning = global_meaning(session, analysis, name, place.view.result)
    return meaning if isinstance(meaning, ItemMeaning) else None
