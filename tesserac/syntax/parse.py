"""From a source file to its AST.

In: a `SourceFile`. Out: a `Module` with every item that could be read, and the diagnostics for the rest. Nothing is
raised for any text. Items are parsed one by one and remembered by their text, wherever they stand, so that parsing
a file again after an edit costs one item.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple, cast

from tesserac.base.dataclass import dataclass
from tesserac.base.recursion import deep_recursion
from tesserac.base.source import SourceFile, Span
from tesserac.diag.codes.files import E0903
from tesserac.diag.codes.syntax import E0110
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.move import moved_diagnostic
from tesserac.diag.sink import Sink
from tesserac.syntax import ast
from tesserac.syntax.build import Builder
from tesserac.syntax.files import MAX_SOURCE as MAX_SOURCE
from tesserac.syntax.lalr import Machine, SyntaxFailure
from tesserac.syntax.lexer import Lexed, tokenize
from tesserac.syntax.placement import module_items, typed_statements
from tesserac.syntax.split import split_items
from tesserac.syntax.tables import load_tables
from tesserac.syntax.walk import moved

REMEMBERED_TEXT = 2 * MAX_SOURCE
"""Characters of items whose trees are remembered: those used last. A tree takes some hundred bytes for each."""

REMEMBERED_MOVES = 1024


@dataclass(frozen=True, slots=True)
class ParseResult:
    module: ast.Module
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ParsedItem:
    """One piece of a file, where it was first met. A line with `;` holds several items; a docstring is none."""

    span: Span
    items: tuple[ast.Item, ...]
    doc: ast.StringLiteral | None
    diagnostics: tuple[Diagnostic, ...]


class PlacedItem(NamedTuple):
    """A piece of a file, as text met earlier that now stands `by` characters further on."""

    item: ParsedItem
    by: int


def parse_module(source: SourceFile) -> ParseResult:
    """The whole file, every span where it stands. Unchanged items at unchanged places are the same nodes again."""
    whole = source.span(0, len(source.text))
    if (refusal := too_large(source)) is not None:
        return ParseResult(ast.Module(whole, None, ()), (refusal,))
    pieces = [moved_item(item, by) if by else item for item, by in parse_items(source)]
    doc = pieces[0].doc.value if pieces and pieces[0].doc is not None else None
    module = ast.Module(whole, doc, tuple(item for piece in pieces for item in piece.items))
    diagnostics = [d for piece in pieces for d in piece.diagnostics] + stray_docs(pieces)
    return ParseResult(module, tuple(sorted(diagnostics, key=lambda d: d.primary.span.start)))


def too_large(source: SourceFile) -> Diagnostic | None:
    """Why a file is not read at all."""
    size = len(source.text.encode("utf-8", "surrogatepass"))
    if size < MAX_SOURCE:
        return None
    sink = Sink()
    sink.error(E0903, at=source.span(0, 0), size=size // 1024, limit=MAX_SOURCE // 1024)
    return sink.diagnostics[0]


def stray_docs(pieces: list[ParsedItem]) -> list[Diagnostic]:
    """A string at module level is the module's docstring if it comes first, and nothing otherwise."""
    sink = Sink()
    for piece in pieces[1:]:
        if piece.doc is not None:
            draft = sink.error(E0110, at=piece.doc.span, what="a string on its own", where="at module level")
            draft.remark("the docstring of a module comes first; a comment starts with `#`")
    return list(sink.diagnostics)


# ------------------------------------------------------------------------------------------------- items by text

BLANKS = " \t\f\r\n"
"""What may stand behind an item without being part of it. Any other character that looks empty is a mistake there."""

class _Remembered(dict[tuple[str, str], ParsedItem]):
    """By path and text, the last used last. An item is a function of its key but for where the text first stood."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0  # of all texts

    def keep(self, key: tuple[str, str], item: ParsedItem) -> None:
        if self.pop(key, None) is None:
            self.size += len(key[1])
        self[key] = item  # the last one now

    def clear(self) -> None:
        super().clear()
        self.size = 0

    def forget(self) -> None:
        """Lets go of the items used longest ago, once there are too many."""
        while self.size > REMEMBERED_TEXT:
            oldest = next(iter(self))
            self.size -= len(oldest[1])
            del self[oldest]


_remembered = _Remembered()


def parse_items(source: SourceFile) -> list[PlacedItem]:
    """The items of a file without moving what has only moved: for an editor, after a keystroke."""
    placed: list[PlacedItem] = []
    for start, end in split_items(source.text):
        text = source.text[start:end].rstrip(BLANKS)
        item = _remembered.get((source.path, text)) or _parse_item(source, start, start + len(text))
        _remembered.keep((source.path, text), item)
        placed.append(PlacedItem(item, start - item.span.start))
    _remembered.forget()
    return placed


def unknown_items(source: SourceFile) -> list[tuple[int, int]]:
    """Where the items stand whose trees are not remembered."""
    if too_large(source) is not None:
        return []
    places = [(start, start + len(source.text[start:end].rstrip(BLANKS))) for start, end in split_items(source.text)]
    return [(start, end) for start, end in places if (source.path, source.text[start:end]) not in _remembered]


def parse_at(source: SourceFile, places: Iterable[tuple[int, int]]) -> list[tuple[str, ParsedItem]]:
    """The items at some of these places, each with its text: for `remember`."""
    return [(source.text[start:end], _parse_item(source, start, end)) for start, end in places]


def remember(path: str, items: Iterable[tuple[str, ParsedItem]]) -> None:
    """Takes in items of a file, each with its text, that an earlier run has parsed."""
    for text, item in items:
        _remembered.keep((path, text), item)


@lru_cache(maxsize=REMEMBERED_MOVES)
def moved_item(item: ParsedItem, by: int) -> ParsedItem:
    file, start, end = item.span
    return ParsedItem(
        Span(file, start + by, end + by),
        tuple(moved(node, by) for node in item.items),
        moved(item.doc, by) if item.doc is not None else None,
        tuple(moved_diagnostic(diagnostic, by) for diagnostic in item.diagnostics),
    )


def _parse_item(source: SourceFile, start: int, end: int) -> ParsedItem:
    sink = Sink()
    parser = _ItemParser(source, sink)
    statements = parser.statements(start, end)
    doc = None
    if len(statements) == 1 and isinstance(first := statements[0], ast.ExpressionStatement):
        doc = first.value if isinstance(first.value, ast.StringLiteral) else None
    with deep_recursion():
        items = module_items(statements, sink) if doc is None else ()
    return ParsedItem(source.span(start, end), items, doc, tuple(parser.diagnostics()))


def parse_input(source: SourceFile, start: int, end: int) -> tuple[tuple[ast.Stmt | ast.Item, ...], list[Diagnostic]]:
    """What was typed at a prompt and stands in `source` from `start` to `end`: items and statements alike."""
    sink = Sink()
    parser = _ItemParser(source, sink)
    with deep_recursion():
        statements = typed_statements(parser.statements(start, end), sink)
    return statements, parser.diagnostics()


@cache
def _machine() -> Machine:
    return Machine(load_tables())


class _ItemParser:
    """Parses one item. What the builder says about a line that then turns out to be spoiled is not kept."""

    def __init__(self, source: SourceFile, sink: Sink) -> None:
        self.source = source
        self.sink = sink
        self.spoiled: list[range] = []
        self.builder = Builder(source, Sink(), self.hole)

    def diagnostics(self) -> list[Diagnostic]:
        built = self.builder.sink.diagnostics
        kept = [d for d in built if not any(d.primary.span.start in line for line in self.spoiled)]
        return [*self.sink.diagnostics, *kept]

    def statements(self, start: int, end: int) -> tuple[ast.Stmt | ast.Item, ...]:
        value = self.run("item_input", tokenize(self.source, self.sink, start, end))
        return cast("tuple[ast.Stmt | ast.Item, ...]", value) if value is not None else ()

    def hole(self, start: int, end: int) -> ast.Expr | None:
        """The expression in a hole of an f-string."""
        lexed = tokenize(self.source, self.sink, start, end, in_brackets=True)
        return cast("ast.Expr | None", self.run("expression_input", lexed))

    def run(self, start: str, lexed: Lexed) -> object:
        if not lexed.tokens:
            return None

        def report(failure: SyntaxFailure) -> None:
            line = _line(failure)
            self.spoiled.append(line)
            if not any(fault in line for fault in lexed.faults):  # the lexer has not said it already
                from tesserac.syntax.syntax_errors import report_failure

                report_failure(failure, self.source, self.sink)

        return _machine().run(start, lexed.tokens, self.builder.make, report)


def _line(failure: SyntaxFailure) -> range:
    """The offsets of the line with the failure, its end included."""
    tokens, at = failure.tokens, failure.at
    while at < len(tokens) - 1 and tokens[at].kind != "_NEWLINE":
        at += 1
    return range(tokens[failure.first].start, tokens[at].end + 1)
