"""The server as an editor meets it: a process, the protocol, files that are typed into."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from lsprotocol import types as lsp
from pytest_lsp import LanguageClient

from tessera_lsp.convert import RUN_MAIN, RUN_TEST
from tessera_lsp.legend import KINDS, OWN_KINDS, OWN_MARKS
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session

EXTENSION = Path(__file__).resolve().parents[2] / "vscode-extension"
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


TESTED = TEXT.replace("q @ wo", "q") + '''
def taken(a: Tensor[M, N, f32], é: Tensor[N, K, f32], v: Tensor[K, f32]):
    return a @ é @ v

test "a title":
    assert True
'''


@pytest.mark.asyncio
async def test_lenses_and_colours(client: LanguageClient) -> None:
    """What an editor runs it is told by name; what a law saves, when it asks for it."""
    await opened(client, TESTED)
    lenses = list(await client.text_document_code_lens_async(lsp.CodeLensParams(FILE)) or [])
    [run] = [lens for lens in lenses if lens.command is not None and lens.command.command]
    assert run.command and (run.command.command, *(run.command.arguments or ())) == ("tessera.runTest", URI, "a title")
    assert run.range.start == at(TESTED, '"a title"')
    [untold] = [lens for lens in lenses if lens.command is None]
    told = await client.code_lens_resolve_async(untold)
    assert told.command and told.command.title.startswith("associativity") and not told.command.command
    found = await client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(FILE))
    assert found is not None
    words = [(text, KINDS[kind]) for text, kind in words_of(found.data)]
    assert words[:4] == [("helper", "function"), ("x", "parameter"), ("Tensor", "type"), ("N", "typeParameter")]
    assert words.count(("é", "parameter")) == 5 and ("softmax", "function") in words
    line = at(TESTED, "def taken").line
    part = lsp.SemanticTokensRangeParams(FILE, lsp.Range(lsp.Position(line, 0), lsp.Position(line + 1, 0)))
    shown = await client.text_document_semantic_tokens_range_async(part)
    assert shown is not None and [text for text, _ in words_of(shown.data)][:2] == ["taken", "a"]


def words_of(data: Sequence[int]) -> list[tuple[str, int]]:
    lines, line, column, words = TESTED.split("\n"), 0, 0, []
    for after, start, length, kind, _ in zip(*[iter(data)] * 5, strict=True):
        line, column = line + after, start + (column if after == 0 else 0)
        words.append((lines[line][column : column + length], kind))
    return words


def test_the_extension_has_what_the_server_names() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))["contributes"]
    assert tuple(one["id"] for one in manifest["semanticTokenTypes"]) == OWN_KINDS
    assert tuple(one["id"] for one in manifest["semanticTokenModifiers"]) == OWN_MARKS
    code = (EXTENSION / "src/extension.js").read_text(encoding="utf-8")
    assert all(f'registerCommand("{command}"' in code for command in (RUN_TEST, RUN_MAIN))
