"""From the data of the compiler and the features to the types of the protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from lsprotocol import types as lsp

from tessera_lsp.documents import Document, Encoding, Position, position_of, units_of, uri_of
from tessera_lsp.features.actions import Action
from tessera_lsp.features.completion import Suggestion
from tessera_lsp.features.hints import Hint
from tessera_lsp.features.hover import Hover
from tessera_lsp.features.lenses import Lens
from tessera_lsp.features.signature import CallSignature
from tessera_lsp.features.symbols import Symbol
from tessera_lsp.features.tokens import Piece, Token
from tessera_lsp.legend import KINDS, MARKS, Mark
from tesserac.base.resources import library_file
from tesserac.base.source import SourceFile, Span
from tesserac.diag.diagnostic import Diagnostic, Edit, Severity
from tesserac.diag.pages import page_file
from tesserac.diag.render import render
from tesserac.incremental.analyser import ItemView

SOURCE = "tessera"
SEVERITIES = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.NOTE: lsp.DiagnosticSeverity.Information,
}
COMPLETION_KINDS = {
    "local": lsp.CompletionItemKind.Variable,
    "size": lsp.CompletionItemKind.TypeParameter,
    "function": lsp.CompletionItemKind.Function,
    "struct": lsp.CompletionItemKind.Struct,
    "constant": lsp.CompletionItemKind.Constant,
    "operator": lsp.CompletionItemKind.Function,
    "dtype": lsp.CompletionItemKind.EnumMember,
    "type": lsp.CompletionItemKind.Class,
    "attribute": lsp.CompletionItemKind.Property,
    "keyword": lsp.CompletionItemKind.Keyword,
}
KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}
RUN_TEST, RUN_MAIN = "tessera.runTest", "tessera.runMain"
"""Commands that an editor has: each takes the address of a file and a name."""
DESCRIBED = ("function", "struct", "constant", "operator", "dtype")
"""Kinds of suggestions that have a description."""

SYMBOL_KINDS = {
    "function": lsp.SymbolKind.Function,
    "struct": lsp.SymbolKind.Struct,
    "field": lsp.SymbolKind.Field,
    "method": lsp.SymbolKind.Method,
    "constant": lsp.SymbolKind.Constant,
    "param": lsp.SymbolKind.Variable,
    "test": lsp.SymbolKind.Event,
}


class Converter:
    """For one file; `sources` has the other files that its diagnostics speak of."""

    def __init__(self, document: Document, sources: Mapping[str, SourceFile]) -> None:
        self.document = document
        self.sources = {**sources, document.source.path: document.source}

    @property
    def encoding(self) -> Encoding:
        return self.document.encoding

    def range(self, span: Span) -> lsp.Range:
        source = self.sources.get(span.file)
        if source is None or not span.known:
            return lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0))
        start, end = (position_of(source, offset, self.encoding) for offset in (span.start, span.end))
        return lsp.Range(lsp.Position(*start), lsp.Position(*end))

    def location(self, span: Span) -> lsp.Location:
        if span.file == self.document.source.path:
            return lsp.Location(self.document.uri, self.range(span))
        return lsp.Location(uri_of(str(library_file(span.file) or span.file)), self.range(span))

    # ------------------------------------------------------------------------------------------------ diagnostics

    def diagnostic(self, diagnostic: Diagnostic) -> lsp.Diagnostic:
        """Labels and reasons are related places; notes, and helps that no edit carries out, are lines of the message;
        `data` has the whole text as the command line shows it."""
        page = page_file(diagnostic.code)
        return lsp.Diagnostic(
            range=self.range(diagnostic.primary.span),
            message="\n".join(_message(diagnostic)),
            severity=SEVERITIES[diagnostic.severity],
            code=diagnostic.code,
            code_description=lsp.CodeDescription(page.as_uri()) if page is not None else None,
            source=SOURCE,
            related_information=self._related(diagnostic),
            data={"rendered": render(diagnostic, self.sources)},
        )

    def _related(self, diagnostic: Diagnostic) -> list[lsp.DiagnosticRelatedInformation]:
        places = [(label.span, label.text) for label in diagnostic.secondary]
        places += [(step.span, f"because: {step.text}") for step in diagnostic.because]
        return [
            lsp.DiagnosticRelatedInformation(self.location(span), text)
            for span, text in places
            if span.known and span.file in self.sources
        ]

    # ---------------------------------------------------------------------------------------------------- answers

    def hover(self, hover: Hover) -> lsp.Hover:
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, hover.markdown), self.range(hover.span))

    def edits(self, edits: Sequence[Edit]) -> list[lsp.TextEdit]:
        return [lsp.TextEdit(self.range(edit.span), edit.replacement) for edit in edits]

    def action(self, action: Action) -> lsp.CodeAction:
        return lsp.CodeAction(
            title=action.fix.title,
            kind=lsp.CodeActionKind.QuickFix,
            diagnostics=[self.diagnostic(action.diagnostic)],
            is_preferred=action.preferred,
            edit=lsp.WorkspaceEdit(changes={self.document.uri: self.edits(action.fix.edits)}),
        )

    def hint(self, hint: Hint) -> lsp.InlayHint:
        """One that is whole can be taken into the text."""
        source = self.document.source
        place = lsp.Position(*position_of(source, hint.offset, self.encoding))
        edits = None if hint.cut else [lsp.TextEdit(lsp.Range(place, place), hint.text)]
        return lsp.InlayHint(place, hint.text, lsp.InlayHintKind.Type, text_edits=edits)

    def lens(self, lens: Lens) -> lsp.CodeLens:
        """The editor runs what is run, in a terminal of its own; what only tells has no command."""
        data = None if lens.title else [self.document.uri, lens.name]
        return lsp.CodeLens(self.range(lens.span), self.command(lens) if lens.title else None, data)

    def command(self, lens: Lens) -> lsp.Command:
        names = {"run test": RUN_TEST, "run main": RUN_MAIN}
        if lens.does not in names:
            return lsp.Command(lens.title, "")
        return lsp.Command(lens.title, names[lens.does], arguments=[self.document.uri, lens.name])

    def tokens(
        self, found: Sequence[tuple[ItemView, Piece]], start: int = 0, end: int | None = None
    ) -> lsp.SemanticTokens:
        """Those of items, or those of a part of the text."""
        data, line = list[int](), 0
        for view, piece in found:
            whole = end is None or (start <= view.span.start and view.span.end <= end)
            codes = self._kept_codes(view, piece) if whole else self._codes(view, piece.tokens, start, end or 0)
            if codes:
                first = self.document.source.position(view.span.start)[0] - 1
                data += [first + codes[0] - line, *codes[1:]]
                line = first + sum(codes[::5])
        return lsp.SemanticTokens(data)

    def _kept_codes(self, view: ItemView, piece: Piece) -> list[int]:
        if self.encoding not in piece.codes:
            piece.codes[self.encoding] = self._codes(view, piece.tokens, 0, len(self.document.source.text))
        return piece.codes[self.encoding]

    def _codes(self, view: ItemView, tokens: Sequence[Token], start: int, end: int) -> list[int]:
        """Five numbers for each: line and column from the one before, or the start of the item; length, kind, marks."""
        source, encoding = self.document.source, self.encoding
        text, lines = source.text, source.line_starts
        data, before, line = list[int](), -1, source.position(view.span.start)[0]
        for token in tokens:
            first, last = token.span.start + view.shift, token.span.end + view.shift
            if start <= first and last <= end:
                own = source.position(first)[0]
                after = text[before if data and own == line else lines[own - 1] : first]
                length = units_of(text[first:last], encoding)
                data += [own - line, units_of(after, encoding), length, KIND_CODES[token.kind], _code(token.marks)]
                before, line = first, own
        return data

    def symbol(self, symbol: Symbol) -> lsp.DocumentSymbol:
        return lsp.DocumentSymbol(
            name=symbol.name,
            kind=SYMBOL_KINDS[symbol.kind],
            range=self.range(symbol.span),
            selection_range=self.range(symbol.name_span),
            children=[self.symbol(child) for child in symbol.children],
        )


def _message(diagnostic: Diagnostic) -> Iterator[str]:
    """All that an editor shows only as text; a help with edits is an action of its own."""
    yield diagnostic.title
    if diagnostic.primary.text:
        yield diagnostic.primary.text
    yield from (f"note: {note}" for note in diagnostic.notes)
    yield from (f"help: {fix.title}" for fix in diagnostic.fixes if not fix.edits)


def completion_item(suggestion: Suggestion, uri: str) -> lsp.CompletionItem:
    """Without a description unless it is short: that of the one item looked at is asked for later."""
    return lsp.CompletionItem(
        label=suggestion.name,
        kind=COMPLETION_KINDS[suggestion.kind],
        detail=suggestion.detail or None,
        documentation=suggestion.doc or None,
        sort_text=f"{suggestion.rank}{suggestion.name}",
        data=uri if suggestion.kind in DESCRIBED and not suggestion.doc else None,
    )


def signature_help(found: CallSignature) -> lsp.SignatureHelp:
    """Parameters are marked in the label by where they stand: one name may be part of another."""
    parameters, at = [], 0
    for text in found.parameters:
        start = found.label.index(text, at)
        at = start + len(text)
        parameters.append(lsp.ParameterInformation((start, at)))
    doc = lsp.MarkupContent(lsp.MarkupKind.Markdown, found.doc) if found.doc else None
    beyond = len(parameters)  # where none is meant, none is shown
    active = beyond if found.active is None else found.active
    return lsp.SignatureHelp([lsp.SignatureInformation(found.label, doc, parameters)], 0, active)


@cache
def _code(marks: tuple[Mark, ...]) -> int:
    return sum(1 << MARKS.index(mark) for mark in marks)


def position(position: lsp.Position) -> Position:
    return Position(position.line, position.character)
