"""From a source file to its AST.

In: a `SourceFile`. Out: a `Module` with every item that could be read, and the diagnostics for the rest. Nothing is
raised for any text. Items are parsed one by one and remembered by their text, wherever they stand, so that parsing
a file again after an edit costs one item.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import cast

from tesserac.base.source import SourceFile, Span
from tesserac.diag.codes.files import E0903
from tesserac.diag.codes.syntax import E0110
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.move import moved_diagnostic
from tesserac.diag.sink import Sink
from tesserac.syntax import ast
from tesserac.syntax.build import Builder
from tesserac.syntax.lalr import Machine, SyntaxFailure
from tesserac.syntax.lexer import Lexed, tokenize
from tesserac.syntax.placement import module_items
from tesserac.syntax.split import split_items
from tesserac.syntax.syntax_errors import report_failure
from tesserac.syntax.tables import load_tables
from tesserac.syntax.walk import moved

MAX_SOURCE = 512 * 1024
"""Bytes of UTF-8."""

REMEMBERED_ITEMS = 8192


@dataclass(frozen=True, slots=True)
class ParseResult:
    module: ast.Module
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class ParsedItem:
    """One piece of a file. A line with `;` holds several items; a docstring is none."""

    items: tuple[ast.Item, ...]
    doc: ast.StringLiteral | None
    diagnostics: tuple[Diagnostic, ...]


def parse_module(source: SourceFile) -> ParseResult:
    size = len(source.text.encode("utf-8", "surrogatepass"))
    whole = source.span(0, len(source.text))
    if size >= MAX_SOURCE:
        sink = Sink()
        sink.error(E0903, at=source.span(0, 0), size=size // 1024, limit=MAX_SOURCE // 1024)
        return ParseResult(ast.Module(whole, None, ()), sink.diagnostics)
    pieces = [
        parse_item_at(source.text[piece.start : piece.end].rstrip(), source.path, piece.start)
        for piece in split_items(source.text)
    ]
    module = ast.Module(whole, _doc(pieces), tuple(item for piece in pieces for item in piece.items))
    diagnostics = [d for piece in pieces for d in piece.diagnostics] + _stray_docs(pieces)
    return ParseResult(module, tuple(sorted(diagnostics, key=lambda d: d.primary.span.start)))


def _doc(pieces: list[ParsedItem]) -> str | None:
    return pieces[0].doc.value if pieces and pieces[0].doc is not None else None


def _stray_docs(pieces: list[ParsedItem]) -> list[Diagnostic]:
    """A string at module level is the module's docstring if it comes first, and nothing otherwise."""
    sink = Sink()
    for piece in pieces[1:]:
        if piece.doc is not None:
            draft = sink.error(E0110, at=piece.doc.span, what="a string on its own", where="at module level")
            draft.remark("the docstring of a module comes first; a comment starts with `#`")
    return list(sink.diagnostics)


@lru_cache(maxsize=REMEMBERED_ITEMS)
def parse_item_at(text: str, path: str, offset: int) -> ParsedItem:
    """An item in its place. The same text at the same place gives the very same nodes."""
    item = parse_item(text)
    return ParsedItem(
        tuple(moved(node, path, offset) for node in item.items),
        moved(item.doc, path, offset) if item.doc is not None else None,
        tuple(moved_diagnostic(diagnostic, path, offset) for diagnostic in item.diagnostics),
    )


@lru_cache(maxsize=REMEMBERED_ITEMS)
def parse_item(text: str) -> ParsedItem:
    """An item by itself: offsets count from its first character, and its spans name no file."""
    sink = Sink()
    statements = _ItemParser(text, sink).statements()
    doc = None
    if len(statements) == 1 and isinstance(first := statements[0], ast.ExpressionStatement):
        doc = first.value if isinstance(first.value, ast.StringLiteral) else None
    items = module_items(statements, sink) if doc is None else ()
    return ParsedItem(items, doc, sink.diagnostics)


@cache
def _machine() -> Machine:
    return Machine(load_tables())


class _ItemParser:
    def __init__(self, text: str, sink: Sink) -> None:
        self.text = text
        self.sink = sink
        self.builder = Builder(text, sink, self.hole)

    def statements(self) -> tuple[ast.Stmt | ast.Item, ...]:
        value = self.run("item_input", tokenize(self.text, self.sink))
        return cast("tuple[ast.Stmt | ast.Item, ...]", value) if value is not None else ()

    def hole(self, start: int, end: int) -> ast.Expr | None:
        """The expression in a hole of an f-string."""
        lexed = tokenize(self.text, self.sink, start, end, in_brackets=True)
        return cast("ast.Expr | None", self.run("expression_input", lexed))

    def run(self, start: str, lexed: Lexed) -> object:
        if not lexed.tokens:
            return None

        def report(failure: SyntaxFailure) -> None:
            if not _explained(failure, lexed.faults):
                report_failure(failure, self.sink)

        return _machine().run(start, lexed.tokens, self.builder.make, report)


def _explained(failure: SyntaxFailure, faults: list[int]) -> bool:
    """Whether the lexer has already said what is wrong with this line."""
    tokens, at = failure.tokens, failure.at
    while at < len(tokens) - 1 and tokens[at].kind != "_NEWLINE":
        at += 1
    span = Span("", tokens[failure.first].start, tokens[at].end)
    return any(span.start <= fault <= span.end for fault in faults)
