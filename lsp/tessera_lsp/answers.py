"""The requests that an editor makes about a file, answered: one function per request.

Each takes the session, the file as it is now and the request, and asks one feature.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from tessera_lsp.convert import Converter, completion_item, position, signature_help
from tessera_lsp.documents import Document
from tessera_lsp.features.actions import actions
from tessera_lsp.features.completion import completion, description
from tessera_lsp.features.definition import definition
from tessera_lsp.features.diagnostics import shown
from tessera_lsp.features.formatting import formatting, range_formatting
from tessera_lsp.features.hints import hints
from tessera_lsp.features.hover import hover
from tessera_lsp.features.lenses import lenses, rewrites
from tessera_lsp.features.references import NotRenamed, name_at, references, renamed
from tessera_lsp.features.signature import signature
from tessera_lsp.features.symbols import symbols
from tessera_lsp.features.tokens import pieces
from tesserac.driver.session import Session
from tesserac.incremental.analyser import Analysis


def converter(session: Session, document: Document) -> Converter:
    return Converter(document, session.sources())


def diagnostics(session: Session, document: Document, analysis: Analysis) -> list[lsp.Diagnostic]:
    convert = converter(session, document)
    return [convert.diagnostic(diagnostic) for diagnostic in shown(analysis.diagnostics)]


def result_id(document: Document, analysis: Analysis) -> str:
    """Equal ids mean equal diagnostics."""
    digest = hashlib.sha256(document.source.text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{digest}-{analysis.pending}"


def answer_hover(session: Session, document: Document, params: lsp.HoverParams) -> lsp.Hover | None:
    found = hover(session, document.source, document.offset(position(params.position)))
    return converter(session, document).hover(found) if found is not None else None


def answer_definition(session: Session, document: Document, params: lsp.DefinitionParams) -> lsp.Location | None:
    found = definition(session, document.source, document.offset(position(params.position)))
    return converter(session, document).location(found) if found is not None else None


def answer_completion(session: Session, document: Document, params: lsp.CompletionParams) -> lsp.CompletionList:
    found = completion(session, document.source, document.offset(position(params.position)))
    items = [completion_item(suggestion, document.uri) for suggestion in found]
    return lsp.CompletionList(is_incomplete=False, items=items)


def answer_resolve(session: Session, document: Document, item: lsp.CompletionItem) -> lsp.CompletionItem:
    """A suggestion with its description."""
    text = description(session, document.source, item.label)
    if text:
        item.documentation = lsp.MarkupContent(lsp.MarkupKind.Markdown, text)
    return item


def answer_actions(session: Session, document: Document, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    start, end = (document.offset(position(place)) for place in (params.range.start, params.range.end))
    convert = converter(session, document)
    return [convert.action(action) for action in actions(session, document.source, start, end)]


def answer_symbols(
    session: Session, document: Document, params: lsp.DocumentSymbolParams
) -> list[lsp.DocumentSymbol]:
    convert = converter(session, document)
    return [convert.symbol(symbol) for symbol in symbols(session, document.source)]


def answer_formatting(
    session: Session, document: Document, params: lsp.DocumentFormattingParams
) -> list[lsp.TextEdit]:
    return converter(session, document).edits(formatting(document.source))


def answer_range_formatting(
    session: Session, document: Document, params: lsp.DocumentRangeFormattingParams
) -> list[lsp.TextEdit]:
    start, end = (document.offset(position(place)) for place in (params.range.start, params.range.end))
    return converter(session, document).edits(range_formatting(document.source, start, end))


def answer_hints(session: Session, document: Document, params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
    start, end = (document.offset(position(place)) for place in (params.range.start, params.range.end))
    convert = converter(session, document)
    return [convert.hint(hint) for hint in hints(session, document.source, start, end)]


def answer_signature(
    session: Session, document: Document, params: lsp.SignatureHelpParams
) -> lsp.SignatureHelp | None:
    found = signature(session, document.source, document.offset(position(params.position)))
    return signature_help(found) if found is not None else None


def answer_references(session: Session, document: Document, params: lsp.ReferenceParams) -> list[lsp.Location]:
    found = references(session, document.source, document.offset(position(params.position)))
    wanted = [one for one in found if params.context.include_declaration or not one.is_definition]
    convert = converter(session, document)
    return [convert.location(reference.span) for reference in wanted]


def answer_highlight(
    session: Session, document: Document, params: lsp.DocumentHighlightParams
) -> list[lsp.DocumentHighlight]:
    offset = document.offset(position(params.position))
    found = references(session, document.source, offset, everywhere=False)
    convert = converter(session, document)
    return [lsp.DocumentHighlight(convert.range(reference.span)) for reference in found]


def answer_prepare_rename(session: Session, document: Document, params: lsp.PrepareRenameParams) -> lsp.Range:
    with _renaming():
        found = name_at(session, document.source, document.offset(position(params.position)))
    return converter(session, document).range(found)


def answer_rename(session: Session, document: Document, params: lsp.RenameParams) -> lsp.WorkspaceEdit:
    with _renaming():
        offset = document.offset(position(params.position))
        found = renamed(session, document.source, offset, params.new_name)
    convert = converter(session, document)
    places = [convert.location(span) for spans in found.values() for span in spans]
    changes: dict[str, list[lsp.TextEdit]] = {}
    for place in places:
        changes.setdefault(place.uri, []).append(lsp.TextEdit(place.range, params.new_name))
    return lsp.WorkspaceEdit(changes=changes)


def answer_lenses(session: Session, document: Document, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
    convert = converter(session, document)
    return [convert.lens(lens) for lens in lenses(session, document.source)]


def answer_lens(session: Session, document: Document, lens: lsp.CodeLens, name: str) -> lsp.CodeLens:
    """A lens with what it says."""
    lens.command = lsp.Command(rewrites(session, document.source, name), "")
    return lens


def answer_tokens(session: Session, document: Document, params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
    return colours(session, document)


def colours(session: Session, document: Document) -> lsp.SemanticTokens:
    """Of all names; those of items that are as they were cost nothing."""
    return converter(session, document).tokens(pieces(session, document.source, 0, len(document.source.text)))


def answer_tokens_of_range(
    session: Session, document: Document, params: lsp.SemanticTokensRangeParams
) -> lsp.SemanticTokens:
    start, end = (document.offset(position(place)) for place in (params.range.start, params.range.end))
    return converter(session, document).tokens(pieces(session, document.source, start, end), start, end)


@contextmanager
def _renaming() -> Iterator[None]:
    """Why a name stays is shown to whoever renames it."""
    try:
        yield
    except NotRenamed as problem:
        raise JsonRpcException(str(problem), code=lsp.LSPErrorCodes.RequestFailed) from None


ANSWERS: dict[str, Callable[[Session, Document, Any], object]] = {
    lsp.TEXT_DOCUMENT_HOVER: answer_hover,
    lsp.TEXT_DOCUMENT_DEFINITION: answer_definition,
    lsp.TEXT_DOCUMENT_COMPLETION: answer_completion,
    lsp.TEXT_DOCUMENT_CODE_ACTION: answer_actions,
    lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL: answer_symbols,
    lsp.TEXT_DOCUMENT_FORMATTING: answer_formatting,
    lsp.TEXT_DOCUMENT_RANGE_FORMATTING: answer_range_formatting,
    lsp.TEXT_DOCUMENT_INLAY_HINT: answer_hints,
    lsp.TEXT_DOCUMENT_SIGNATURE_HELP: answer_signature,
    lsp.TEXT_DOCUMENT_REFERENCES: answer_references,
    lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT: answer_highlight,
    lsp.TEXT_DOCUMENT_PREPARE_RENAME: answer_prepare_rename,
    lsp.TEXT_DOCUMENT_RENAME: answer_rename,
    lsp.TEXT_DOCUMENT_CODE_LENS: answer_lenses,
    lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL: answer_tokens,
    lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE: answer_tokens_of_range,
}
"""By the name of the request, whose type the function's last parameter has."""
