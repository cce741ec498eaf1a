"""The outline of a file: its items, and what structs hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile, Span
from tesserac.driver.session import Session
from tesserac.incremental.analyser import ItemView
from tesserac.syntax import ast

Kind = Literal["function", "struct", "field", "method", "constant", "param", "test"]


@dataclass(frozen=True)
class Symbol:
    """`span` is all of it, `name_span` a part of that."""

    name: str
    kind: Kind
    span: Span
    name_span: Span
    children: tuple[Symbol, ...] = ()


def symbols(session: Session, source: SourceFile) -> list[Symbol]:
    analysis = session.check_visible(source)
    return [symbol for view in analysis.items for node in view.nodes for symbol in _symbols(view, node)]


def _symbols(view: ItemView, node: ast.Item) -> Iterator[Symbol]:
    whole = view.now(node.span)
    match node:
        case ast.FunctionDef(name=name, name_span=span):
            yield Symbol(name, "function", whole, view.now(span))
        case ast.StructDef(name=name, name_span=span):
            yield Symbol(name, "struct", whole, view.now(span), tuple(_members(view, node)))
        case ast.ConstDef(targets=targets):
            for target in targets:
                if isinstance(target, ast.Name):
                    yield Symbol(target.id, "constant", whole, view.now(target.span))
        case ast.ParamDecl(name=name, name_span=span):
            yield Symbol(name, "param", whole, view.now(span))
        case ast.TestBlock(name=title):
            yield Symbol(f'test "{title.value}"', "test", whole, view.now(title.span))


def _members(view: ItemView, node: ast.StructDef) -> Iterator[Symbol]:
    for field in node.fields:
        yield Symbol(field.name, "field", view.now(field.span), view.now(field.name_span))
    for method in node.methods:
        yield Symbol(method.name, "method", view.now(method.span), view.now(method.name_span))
