"""The formatter: one style for every program, and no options.

In: a source file. Out: its text in that style, with the diagnostics of what could not be read. Items are laid out one
by one from their concrete trees, so that no comment is lost; an item with an error of syntax stays exactly as it is.

The program stays the same but for spellings that mean the same: quotes around sizes in types, other names of dtypes
there, `dim=` and `keepdim=` of library functions. Formatting what is formatted changes nothing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.recursion import deep_recursion
from tesserac.base.source import SourceFile, Span, lines_of
from tesserac.diag.codes.files import E0903
from tesserac.diag.diagnostic import Diagnostic, Edit
from tesserac.syntax import ast
from tesserac.syntax.comments import find_comments
from tesserac.syntax.concrete import parse_concrete
from tesserac.syntax.files import MAX_SOURCE
from tesserac.syntax.fmt_expressions import Expressions
from tesserac.syntax.fmt_names import Names
from tesserac.syntax.fmt_statements import Edge, Statements
from tesserac.syntax.parse import PlacedItem, parse_items, parse_module
from tesserac.syntax.split import split_items

MAX_ROUNDS = 4
"""Two are enough but for comments in places where nobody puts them."""


@dataclass(frozen=True, slots=True)
class FormatResult:
    text: str
    diagnostics: tuple[Diagnostic, ...]


def format_source(source: SourceFile) -> FormatResult:
    """The whole file. Lines end as its first one does; the last line has an end too. A file too long to be parsed
    stays as it is."""
    diagnostics = parse_module(source).diagnostics
    if any(diagnostic.code == E0903.id for diagnostic in diagnostics):
        return FormatResult(source.text, diagnostics)
    text = "".join(edit.replacement for edit in _pieces(source))
    return FormatResult(text, diagnostics)


def format_range(source: SourceFile, start: int, end: int) -> tuple[Edit, ...]:
    """The edits that format the items which touch a range, each with the blank lines and comments behind it."""
    touched = [edit for edit in _pieces(source) if edit.span.start < max(end, start + 1) and start < edit.span.end]
    return tuple(edit for edit in touched if source.slice(edit.span) != edit.replacement)


def format_diff(source: SourceFile, formatted: str) -> str:
    """What formatting changes, as a unified diff; empty if nothing."""
    old, new = lines_of(source.text), lines_of(formatted)
    lines = difflib.unified_diff(old, new, source.path, f"{source.path} (formatted)")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


# -------------------------------------------------------------------------------------------------- item by item


def _pieces(source: SourceFile) -> list[Edit]:
    """The file cut at the starts of its items, each piece with its text in our style."""
    placed = parse_items(source)
    names = Names(item for piece in placed for item in piece.item.items)
    spans = [source.span(start, end) for start, end in split_items(source.text)]
    start = spans[0].start if spans else len(source.text)
    pieces = [Edit(source.span(0, start), _head(source, start))]
    with deep_recursion():
        for number, (piece, span) in enumerate(zip(placed, spans, strict=True)):
            below = _edge(placed[number + 1]) if number + 1 < len(placed) else Edge.BARE
            text = _item(source, piece, span, names, below, is_first=not number)
            pieces.append(Edit(span, text))
    return [Edit(edit.span, _with_line_ends(edit.replacement, source.text)) for edit in pieces]


def _head(source: SourceFile, end: int) -> str:
    """The comments above everything."""
    writer = Statements(source, Expressions((), find_comments(source.text, (), 0, end), Names(())))
    writer.gap(0, 0, Edge.BARE, Edge.PLAIN if end < len(source.text) else Edge.BARE)
    return _text(writer.lines).lstrip("\n")


def _item(source: SourceFile, piece: PlacedItem, span: Span, names: Names, below: Edge, *, is_first: bool) -> str:
    """One item and what follows it up to the next, which is `below`. One without any token (a backslash before a
    comment), or so deep that indenting it would make the file too long to be parsed, stays as it is."""
    text = source.slice(span)
    own = text if text.endswith("\n") else f"{text}\n"
    if piece.item.diagnostics or not (piece.item.items or piece.item.doc):
        return own
    place = _Place(names, _edge(piece), below, is_docstring=is_first and piece.item.doc is not None)
    for _ in range(MAX_ROUNDS):
        before = text
        text, settled = _laid_out(SourceFile(source.path, text), place)
        if settled or text == before:
            break
    return text if len(text) < MAX_SOURCE else own


@dataclass(frozen=True, slots=True)
class _Place:
    """What the layout of an item depends on besides its text."""

    names: Names
    kind: Edge
    below: Edge
    is_docstring: bool


def _laid_out(item: SourceFile, place: _Place) -> tuple[str, bool]:
    """The item in our style, and whether doing that again must give the same.

    It need not where a comment stands in the middle of an expression: what is around it then finds its place first,
    and that may be one where the comment belongs to another token than it did.
    """
    concrete = parse_concrete(item, 0, len(item.text))
    assert concrete is not None, "an item without diagnostics has a tree"
    comments = find_comments(item.text, concrete.leaves, 0, len(item.text))
    layout = Expressions(concrete.leaves, comments, place.names)
    writer = Statements(item, layout)
    writer.item(concrete.root, is_docstring=place.is_docstring)
    writer.gap(len(concrete.leaves), 0, place.kind, place.below)
    assert not comments.left, "every comment is laid out"
    return _text(writer.lines), not layout.has_remarks


def _edge(piece: PlacedItem) -> Edge:
    """An item that stays as it is has no blank line put before it."""
    kinds = (ast.FunctionDef, ast.StructDef, ast.TestBlock)
    apart = not piece.item.diagnostics and any(isinstance(item, kinds) for item in piece.item.items)
    return Edge.APART if apart else Edge.PLAIN


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _with_line_ends(text: str, model: str) -> str:
    """Lines that end as the first one of the file does."""
    first = model.find("\n")
    return re.sub(r"(?<!\r)\n", "\r\n", text) if first > 0 and model[first - 1] == "\r" else text
