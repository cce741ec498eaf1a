"""The node under the cursor, and the word that the cursor is on."""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.incremental.analyser import Analysis, ItemView
from tesserac.syntax import ast
from tesserac.syntax.walk import children


@dataclass(frozen=True)
class Place:
    """A place in an item: the nodes around it from the outside in, as they stood when the item was checked."""

    view: ItemView
    offset: int
    path: tuple[ast.Node, ...]

    @property
    def node(self) -> ast.Node:
        return self.path[-1]

    @property
    def functions(self) -> list[ast.FunctionDef | ast.TestBlock]:
        """The functions or the test around it, the innermost first."""
        return [node for node in reversed(self.path) if isinstance(node, ast.FunctionDef | ast.TestBlock)]

    @property
    def function(self) -> ast.FunctionDef | ast.TestBlock | None:
        """The innermost function or test around it."""
        return next(iter(self.functions), None)

    @property
    def struct(self) -> ast.StructDef | None:
        return next((node for node in self.path if isinstance(node, ast.StructDef)), None)


@dataclass(frozen=True)
class Word:
    """A name in the text, as the item was checked, and the node that it belongs to."""

    text: str
    span: Span
    node: ast.Node


def place_at(analysis: Analysis, offset: int) -> Place | None:
    view = analysis.item_at(offset)
    if view is None:
        return None
    then = offset - view.shift
    path: list[ast.Node] = []
    inside = _around(view.nodes, then)
    while inside is not None:
        path.append(inside)
        inside = _around(tuple(children(inside)), then)
    return Place(view, then, tuple(path)) if path else None


def _around(nodes: tuple[ast.Node, ...], offset: int) -> ast.Node | None:
    """The node that holds an offset; failing that, one that ends there: a cursor stands behind what was typed."""
    holding = [node for node in nodes if node.span.start <= offset <= node.span.end]
    within = [node for node in holding if offset < node.span.end]
    return next(iter(within or holding), None)


def word_at(place: Place) -> Word | None:
    """The name that the place is on."""
    return next((word for word in _words(place.node) if word.span.start <= place.offset <= word.span.end), None)


def _words(node: ast.Node) -> list[Word]:
    match node:
        case ast.Name(id=name, span=span):
            return [Word(name, span, node)]
        case ast.StringLiteral(value=value, span=span) if value.isidentifier():
            return [Word(value, span, node)]
        case (
            ast.FunctionDef(name=name, name_span=span)
            | ast.Parameter(name=name, name_span=span)
            | ast.Attribute(name=name, name_span=span)
            | ast.StructDef(name=name, name_span=span)
            | ast.FieldDef(name=name, name_span=span)
            | ast.ParamDecl(name=name, name_span=span)
        ):
            return [Word(name, span, node)]
        case ast.Argument(name=str(name), name_span=span):
            return [Word(name, span, node)]
    return []
