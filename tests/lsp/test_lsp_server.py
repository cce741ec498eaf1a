"""The server as an editor meets it: a process, the protocol, files that are typed into."""

from __future__ import annotations

import asyncio
import re

import pytest
from lsprotocol import types as lsp
from pytest_lsp import LanguageClient

from tesserac.base.source import SourceFile
from tesserac.driver.session import Session

URI = "file:///models/mlp.tess"
TEXT = '''"""A model."""

def helper(x: Tensor[N, f32], scale: float = 2.0) -> Tensor[N, f32]:
    """Scaled."""
    return x * scale

def project(x: Tensor[B, S, D, f32], wq: Tensor[D, H, f32], wo: Tensor[F, D, f32]):
    q = x @ wq
    return q @ wo

def normal_form(é: Tensor[N, f32]):
    return softmax(é) + helper(é, scale=3.0)
'''


def at(text: str, word: str, nth: int = 0) -> lsp.Position:
    offset = [found.start() for found in re.finditer(re.escape(word), text)][nth]
    line = text.count("\n", 0, offset)
    return lsp.Position(line, offset - (text.rfind("\n", 0, offset) + 1))


async def opened(client: LanguageClient, text: str) -> list[lsp.Diagnostic]:
    file = lsp.TextDocumentItem(URI, "tessera", 1, text)
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(file))
    await client.wait_for_notification(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    return list(client.diagnostics[URI])


async def typed(client: LanguageClient, version: int, place: lsp.Range, text: str) -> list[lsp.Diagnostic]:
    event = lsp.TextDocumentContentChangePartial(place, text)
    file = lsp.VersionedTextDocumentIdentifier(uri=URI, version=version)
    client.text_document_did_change(lsp.DidChangeTextDocumentParams(file, [event]))
    await client.wait_for_notification(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    return list(client.diagnostics[URI])


FILE = lsp.TextDocumentIdentifier(URI)


@pytest.mark.asyncio
async def test_diagnostics_carry_all_that_is_known(client: LanguageClient) -> None:
    [diagnostic] = await opened(client, TEXT)
    [expected] = Session().check(SourceFile("/models/mlp.tess", TEXT)).diagnostics
    assert diagnostic.code == expected.code and diagnostic.severity is lsp.DiagnosticSeverity.Error
    assert diagnostic.source == "tessera" and diagnostic.message.splitlines()[0] == expected.title
    assert diagnostic.range.start == at(TEXT, "@ wo")
    related = diagnostic.related_information or []
    assert len(related) == len(expected.secondary) + sum(step.span.known for step in expected.because)
    assert all(place.location.uri == URI for place in related)
    assert diagnostic.code_description and diagnostic.code_description.href.endswith(f"{expected.code}.md")
    assert "because" in diagnostic.data["rendered"] and "8 |     q = x @ wq" in diagnostic.data["rendered"]


@pytest.mark.one_in(12)
@pytest.mark.asyncio
async def test_typing_mends_and_breaks(client: LanguageClient) -> None:
    assert await opened(client, TEXT)
    start = at(TEXT, "wo: Tensor[F")
    place = lsp.Range(lsp.Position(start.line, start.character + 11), lsp.Position(start.line, start.character + 12))
    assert await typed(client, 2, place, "H") == []
    [broken] = await typed(client, 3, place, "G")
    assert broken.code == "E0301"
    mended = await typed(client, 4, place, "H")
    assert mended == []
    client.text_document_did_close(lsp.DidCloseTextDocumentParams(FILE))
    await client.wait_for_notification(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    assert not client.diagnostics[URI]


@pytest.mark.one_in(12)
@pytest.mark.asyncio
async def test_an_edit_reaches_the_functions_that_use_it(client: LanguageClient) -> None:
    text = TEXT.replace("Tensor[F", "Tensor[H")
    assert await opened(client, text) == []
    name = at(text, "scale: float")
    place = lsp.Range(name, lsp.Position(name.line, name.character + 5))
    own = await typed(client, 2, place, "factor")
    await client.wait_for_notification(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    both = client.diagnostics[URI]
    lines = {diagnostic.range.start.line for diagnostic in both}
    assert at(text, "helper(é").line in lines and len(both) > len(own)


@pytest.mark.one_in(12)
@pytest.mark.asyncio
async def test_questions_are_answered(client: LanguageClient) -> None:
    await opened(client, TEXT)
    hover = await client.text_document_hover_async(lsp.HoverParams(FILE, at(TEXT, "q @ wo")))
    assert hover and isinstance(hover.contents, lsp.MarkupContent)
    assert "q: Tensor[B, S, H, f32]" in hover.contents.value
    here = await client.text_document_definition_async(lsp.DefinitionParams(FILE, at(TEXT, "helper(é")))
    assert isinstance(here, lsp.Location) and here.range.start == at(TEXT, "helper(x")
    library = await client.text_document_definition_async(lsp.DefinitionParams(FILE, at(TEXT, "softmax")))
    assert isinstance(library, lsp.Location) and library.uri.endswith("stdlib/nn/softmax.tess")
    names = await client.text_document_completion_async(lsp.CompletionParams(FILE, at(TEXT, "q @ wo")))
    assert isinstance(names, lsp.CompletionList)
    assert {"q", "wq", "helper", "softmax", "D"} <= {item.label for item in names.items}
    softmax = next(item for item in names.items if item.label == "softmax")
    resolved = await client.completion_item_resolve_async(softmax)
    assert isinstance(resolved.documentation, lsp.MarkupContent) and "sum along an axis" in resolved.documentation.value
    symbols = await client.text_document_document_symbol_async(lsp.DocumentSymbolParams(FILE))
    assert symbols and [symbol.name for symbol in symbols] == ["helper", "project", "normal_form"]


@pytest.mark.one_in(12)
@pytest.mark.asyncio
async def test_fixes_are_actions(client: LanguageClient) -> None:
    text = "def f(value: Tensor[N, f32]):\n    return valu\n"
    [diagnostic] = await opened(client, text)
    params = lsp.CodeActionParams(FILE, diagnostic.range, lsp.CodeActionContext([diagnostic]))
    [action] = await client.text_document_code_action_async(params) or []
    assert isinstance(action, lsp.CodeAction) and action.kind == lsp.CodeActionKind.QuickFix
    assert action.edit and action.edit.changes
    [edit] = action.edit.changes[URI]
    assert edit.new_text == "value" and edit.range == diagnostic.range


@pytest.mark.one_in(12)
@pytest.mark.asyncio
async def test_formatting_touches_what_needs_it(client: LanguageClient) -> None:
    await opened(client, "def f(x: Tensor[N,f32]):\n    return x\n\ndef g(x: Tensor[N, f32]):\n    return x\n")
    params = lsp.DocumentFormattingParams(FILE, lsp.FormattingOptions(tab_size=4, insert_spaces=True))
    [edit] = await client.text_document_formatting_async(params) or []
    assert edit.range.start.line == 0 and "Tensor[N, f32]" in edit.new_text and "def g" not in edit.new_text


@pytest.mark.one_in(12)
@pytest.mark.asyncio
async def test_nonsense_is_answered_with_nothing(client: LanguageClient) -> None:
    await opened(client, TEXT)
    far = lsp.Position(100_000, 5_000)
    assert await client.text_document_hover_async(lsp.HoverParams(FILE, far)) is None
    unknown = lsp.TextDocumentIdentifier("file:///nowhere.tess")
    assert await client.text_document_hover_async(lsp.HoverParams(unknown, far)) is None
    version = lsp.VersionedTextDocumentIdentifier(uri=URI, version=2)
    wild = lsp.TextDocumentContentChangePartial(lsp.Range(far, far), "\x00\ud83d((((")
    client.text_document_did_change(lsp.DidChangeTextDocumentParams(version, [wild]))
    hover = await client.text_document_hover_async(lsp.HoverParams(FILE, at(TEXT, "q @ wo")))
    assert hover is not None, "the server lives"


@pytest.mark.one_in(12)
@pytest.mark.asyncio
async def test_diagnostics_on_request(asking_client: LanguageClient) -> None:
    client = asking_client
    file = lsp.TextDocumentItem(URI, "tessera", 1, TEXT)
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(file))
    first = await client.text_document_diagnostic_async(lsp.DocumentDiagnosticParams(FILE))
    assert isinstance(first, lsp.RelatedFullDocumentDiagnosticReport)
    assert [diagnostic.code for diagnostic in first.items] == ["E0301"]
    again = lsp.DocumentDiagnosticParams(FILE, previous_result_id=first.result_id)
    assert isinstance(await client.text_document_diagnostic_async(again), lsp.RelatedUnchangedDocumentDiagnosticReport)
    assert not client.diagnostics, "nothing is sent unasked"


@pytest.mark.one_in(12)
@pytest.mark.asyncio
async def test_the_editor_is_told_to_ask_again(asking_client: LanguageClient) -> None:
    """A file of several items is checked after the first answer; then the editor asks once more."""
    client, text = asking_client, TEXT * 2
    asked = asyncio.Event()

    client.protocol.fm.features[lsp.WORKSPACE_DIAGNOSTIC_REFRESH] = lambda _: asked.set()
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(URI, "tessera", 1, text)))
    await asyncio.wait_for(asked.wait(), 20)
    report = await client.text_document_diagnostic_async(lsp.DocumentDiagnosticParams(FILE))
    assert isinstance(report, lsp.RelatedFullDocumentDiagnosticReport)
    assert {"E0301", "E0202"} <= {diagnostic.code for diagnostic in report.items}
