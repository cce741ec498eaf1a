"""Types that nobody wrote, shown in the text: of names that are assigned, and of what functions return.

In: a part of a file. Out: `Hint`s, each with the words to write where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator

from tessera_lsp.features.meanings import checked_function
from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.incremental.analyser import ItemView
from tesserac.syntax import ast
from tesserac.syntax.walk import descendants
from tesserac.types.ty import OperatorType, StructType, TensorType, TupleType, Type

LONGEST = 60
"""Of a type that is shown whole."""


@dataclass(frozen=True)
class Hint:
    """`text` stands at `offset`; it is what the language would take there unless it is `cut`."""

    offset: int
    text: str
    cut: bool


def hints(session: Session, source: SourceFile, start: int, end: int) -> list[Hint]:
    """What is known of a part of a file. Nothing waits for it: what is still to be checked is shown as it was."""
    analysis = session.check_visible(source)
    views = (view for view in analysis.items if view.span.start <= end and start <= view.span.end)
    found = (hint for view in views for hint in _of_item(source, view))
    return [hint for hint in found if start <= hint.offset <= end]


def _of_item(source: SourceFile, view: ItemView) -> Iterator[Hint]:
    for item in view.nodes:
        for node in descendants(item):
            match node:
                case ast.Assignment(targets=targets, value=value):
                    for target in targets:
                        yield from _targets(view, target, view.type_of(value), value)
                case ast.FunctionDef(returns=None):
                    yield from _result(source, view, node)


def _targets(view: ItemView, target: ast.Expr, type_: Type | None, value: ast.Expr | None) -> Iterator[Hint]:
    match target:
        case ast.Name(span=span) if _is_shown(type_) and not _is_said(type_, value):
            assert type_ is not None
            yield _hint(view.now(span).end, ": ", type_)
        case ast.TupleExpr(items=items) if isinstance(type_, TupleType) and len(items) == len(type_.items):
            for item, part in zip(items, type_.items, strict=True):
                yield from _targets(view, item, part, None)


def _result(source: SourceFile, view: ItemView, node: ast.FunctionDef) -> Iterator[Hint]:
    checked = checked_function(node, view.result)
    if checked is not None and _is_shown(checked.result):
        last = node.parameters[-1].span if node.parameters else node.name_span
        closed = source.text.find(")", view.now(last).end)
        yield _hint(closed + 1, " -> ", checked.result)


def _hint(offset: int, before: str, type_: Type) -> Hint:
    text = type_.show()
    cut = len(text) > LONGEST
    return Hint(offset, before + (f"{text[: LONGEST - 1]}…" if cut else text), cut)


def _is_shown(type_: Type | None) -> bool:
    """Numbers and texts are plain to see."""
    if isinstance(type_, TupleType):
        return any(map(_is_shown, type_.items))
    return isinstance(type_, TensorType | StructType | OperatorType)


def _is_said(type_: Type | None, value: ast.Expr | None) -> bool:
    """Whether the value is a call that names its type: a struct as it is made."""
    function = value.function if isinstance(value, ast.Call) else None
    head = function.value if isinstance(function, ast.Subscript) else function
    return isinstance(type_, StructType) and isinstance(head, ast.Name) and head.id == type_.name
