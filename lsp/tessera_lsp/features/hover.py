"""What an editor shows beside the mouse: the type of what is there, and what it is, in Markdown."""

from __future__ import annotations

import re

from tessera_lsp.features.describe import describe, describe_member, one_line
from tessera_lsp.features.markdown import code, paragraphs
from tessera_lsp.features.meanings import LocalMeaning, MemberMeaning, meaning_of
from tessera_lsp.features.orders import orders
from tessera_lsp.features.places import Place, place_at, word_at
from tessera_lsp.features.scopes import dim_names
from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile, Span
from tesserac.check.algebra.telling import known_text
from tesserac.driver.session import Session
from tesserac.syntax import ast
from tesserac.types.ty import ErrorType, OperatorType, Type

LONGEST = 60
"""Of an expression that is quoted."""

_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Hover:
    markdown: str
    span: Span


def hover(session: Session, source: SourceFile, offset: int) -> Hover | None:
    analysis = session.check_at(source, offset)
    place = place_at(analysis, offset)
    if place is None:
        return None
    word = word_at(place)
    meaning = meaning_of(session, analysis, place, word) if word is not None else None
    if word is None or meaning is None:
        return _expression(session, source, place)
    if isinstance(meaning, LocalMeaning):
        return Hover(_local(source, place, meaning), place.view.now(word.span))
    if isinstance(meaning, MemberMeaning):
        return Hover(describe_member(meaning), place.view.now(word.span))
    return Hover(paragraphs(describe(meaning), _call(place)), place.view.now(word.span))


def _expression(session: Session, source: SourceFile, place: Place) -> Hover | None:
    """The innermost expression that has a type."""
    for node in reversed(place.path):
        type_ = _known(place.view.type_of(node)) if isinstance(node, ast.Expr) else None
        if type_ is not None:
            span = place.view.now(node.span)
            text = one_line(source, span)
            shown = code(f"{text if len(text) <= LONGEST else '(...)'}: {type_.show()}")
            return Hover(paragraphs(shown, _operator(type_), orders(session, source, place)), span)
    return None


def _known(type_: Type | None) -> Type | None:
    return None if isinstance(type_, ErrorType) else type_


def _call(place: Place) -> str:
    """What the call under the cursor gives, on the name of its function."""
    call = next((node for node in reversed(place.path) if isinstance(node, ast.Call)), None)
    if call is None or place.offset > call.function.span.end:
        return ""
    type_ = _known(place.view.type_of(call))
    return f"Here: `{type_.show()}`" if type_ is not None else ""


# --------------------------------------------------------------------------------------------------- local names


def _local(source: SourceFile, place: Place, meaning: LocalMeaning) -> str:
    binding, type_ = meaning.binding, _known(meaning.type)
    if binding.kind == "size":
        return paragraphs(code(f"{binding.name}: size"), _origin(place, binding.name))
    if type_ is not None:
        sizes = dict.fromkeys(_NAME.findall(type_.show().partition("[")[2]))
        shown = code(f"{binding.name}: {type_.show()}")
        return paragraphs(shown, _operator(type_), *(_origin(place, name) for name in sizes))
    annotation = binding.parameter.annotation if binding.parameter is not None else None
    if annotation is not None and annotation.span.file == source.path:
        return code(f"{binding.name}: {one_line(source, place.view.now(annotation.span))}")
    return code(binding.name)


def _operator(type_: Type) -> str:
    """How an operator is made, and what is proven of it."""
    return f"`{known_text(type_)}`" if isinstance(type_, OperatorType) else ""


def _origin(place: Place, name: str) -> str:
    """Which parameters have a size."""
    function = place.function
    parameters = function.parameters if isinstance(function, ast.FunctionDef) else ()
    owners = [p.name for p in parameters if p.annotation and name in (dim for dim, _ in dim_names(p.annotation))]
    return f"`{name}`: a size of {', '.join(f'`{owner}`' for owner in owners)}" if owners else ""
