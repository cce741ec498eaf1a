"""Colours of names are told along the check, so that an editor that asks for those of a whole file need not wait."""

from __future__ import annotations

import pytest
from lsprotocol import types as lsp

from tessera_lsp.answers import answer_tokens
from tessera_lsp.documents import Document, position_of
from tessera_lsp.features import tokens
from tessera_lsp.legend import KINDS
from tessera_lsp.server import TesseraServer
from tesserac.base.source import SourceFile

ONE = "def f{}(x: Tensor[N, f32], 𝛽: Tensor[N, f32]) -> Tensor[N, f32]:\n    return 𝛽 * x + softmax(𝛽, axis=0) * x\n\n"
TEXT = "".join(map(ONE.format, range(40)))
URI = "file:///colours.tess"
SHOWN = lsp.ClientCapabilities(
    text_document=lsp.TextDocumentClientCapabilities(
        semantic_tokens=lsp.SemanticTokensClientCapabilities([], [], [], lsp.ClientSemanticTokensRequestOptions()),
        diagnostic=lsp.DiagnosticClientCapabilities(),
    )
)
ASKED = lsp.SemanticTokensParams(lsp.TextDocumentIdentifier(URI))


@pytest.mark.asyncio
async def test_what_a_check_has_passed_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TesseraServer, "client_capabilities", SHOWN)
    server = TesseraServer()
    document = Document(URI, 1, SourceFile("/colours.tess", TEXT), "utf-16")
    analysis = server.session.check_visible(document.source)
    assert analysis.pending
    await server._check_rest(document, analysis)
    monkeypatch.setattr(tokens, "_Reader", None)
    assert len(answer_tokens(server.session, document, ASKED).data) > 40 * 5


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_places_are_counted_as_the_editor_counts(encoding: str) -> None:
    server = TesseraServer()
    source = SourceFile("/colours.tess", TEXT)
    document = Document(URI, 1, source, encoding)  # type: ignore[arg-type]
    found = tokens.tokens(server.session, source, 0, len(TEXT))
    data = answer_tokens(server.session, document, ASKED).data
    line = column = 0
    for token, (after, start, length, kind, _) in zip(found, zip(*[iter(data)] * 5, strict=True), strict=True):
        line, column = line + after, start if after else column + start
        first, last = (position_of(source, offset, document.encoding) for offset in token.span[1:])
        assert ((line, column), length) == (first, last.character - first.character)
        assert KINDS[kind] == token.kind
