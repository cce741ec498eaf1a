"""Several files open at once: a file sees those that it imports as they are typed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pytest_lsp import LanguageClient

LAYERS = "def project(x: Tensor[B, D, f32], w: Tensor[D, H, f32]):\n    return x @ w\n"
MODEL = """from layers import project

def f(x: Tensor[B, D, f32], w: Tensor[D, H, f32], b: Tensor[H, f32]):
    y = project(x, w)
    return y + b
"""


def opened(client: LanguageClient, path: Path, text: str) -> str:
    path.write_text(text)
    item = lsp.TextDocumentItem(path.as_uri(), "tessera", 1, text)
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
    return path.as_uri()


def typed(client: LanguageClient, uri: str, version: int, text: str) -> None:
    file = lsp.VersionedTextDocumentIdentifier(uri=uri, version=version)
    client.text_document_did_change(
        lsp.DidChangeTextDocumentParams(file, [lsp.TextDocumentContentChangeWholeDocument(text)])
    )


async def codes(client: LanguageClient, uri: str, expected: list[str]) -> list[str]:
    """What is said of a file as soon as it is what is expected; else what is said in the end."""
    said = ["nothing yet"]
    for _ in range(200):
        if uri in client.diagnostics:
            said = [str(diagnostic.code) for diagnostic in client.diagnostics[uri]]
        if said == expected:
            break
        await asyncio.sleep(0.05)
    return said


@pytest.mark.one_in(12)
@pytest.mark.asyncio
async def test_a_file_sees_what_it_imports_as_it_is_typed(client: LanguageClient, tmp_path: Path) -> None:
    layers = opened(client, tmp_path / "layers.tess", LAYERS)
    model = opened(client, tmp_path / "model.tess", MODEL)
    assert await codes(client, model, []) == []
    typed(client, layers, 2, LAYERS.replace("return x @ w", "return (x @ w).T"))
    assert await codes(client, model, ["E0302"]) == ["E0302"], "although nothing was saved"
    typed(client, layers, 3, LAYERS.replace("return x @ w", "return (x @ "))
    assert len(await codes(client, layers, ["E0101"])) == 1
    assert await codes(client, model, ["E0302"]) == ["E0302"], "as it was before the mistake"
    typed(client, layers, 4, LAYERS)
    assert await codes(client, model, []) == []
    typed(client, layers, 5, LAYERS.replace("return x @ w", "return (x @ w).T"))
    assert await codes(client, model, ["E0302"]) == ["E0302"]
    client.text_document_did_close(lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(layers)))
    assert await codes(client, model, []) == [], "the disk has what was there before"


@pytest.mark.one_in(12)
@pytest.mark.asyncio
async def test_a_file_that_is_saved_with_mistakes_cannot_be_imported(client: LanguageClient, tmp_path: Path) -> None:
    layers = opened(client, tmp_path / "layers.tess", LAYERS)
    model = opened(client, tmp_path / "model.tess", MODEL)
    assert await codes(client, model, []) == []
    wrong = LAYERS.replace("return x @ w", "return x @ w2")
    typed(client, layers, 2, wrong)
    assert await codes(client, layers, ["E0201"]) == ["E0201"]
    assert await codes(client, model, []) == []
    (tmp_path / "layers.tess").write_text(wrong)
    client.text_document_did_save(lsp.DidSaveTextDocumentParams(lsp.TextDocumentIdentifier(layers)))
    assert await codes(client, model, ["E0209"]) == ["E0209"]


@pytest.mark.one_in(12)
@pytest.mark.asyncio
async def test_a_file_written_by_another_program_is_read(client: LanguageClient, tmp_path: Path) -> None:
    (tmp_path / "layers.tess").write_text(LAYERS)
    model = opened(client, tmp_path / "model.tess", MODEL)
    assert await codes(client, model, []) == []
    (tmp_path / "layers.tess").write_text(LAYERS.replace("return x @ w", "return (x @ w).T"))
    change = lsp.FileEvent((tmp_path / "layers.tess").as_uri(), lsp.FileChangeType.Changed)
    client.workspace_did_change_watched_files(lsp.DidChangeWatchedFilesParams([change]))
    assert await codes(client, model, ["E0302"]) == ["E0302"]


@pytest.mark.one_in(12)
@pytest.mark.asyncio
async def test_names_calls_and_types_are_asked_for(client: LanguageClient, tmp_path: Path) -> None:
    layers = opened(client, tmp_path / "layers.tess", LAYERS)
    model = opened(client, tmp_path / "model.tess", MODEL)
    assert await codes(client, model, []) == []
    file, name = lsp.TextDocumentIdentifier(layers), lsp.Position(0, 5)
    edit = await client.text_document_rename_async(lsp.RenameParams(file, name, "linear"))
    assert edit is not None and edit.changes is not None
    assert {uri: len(edits) for uri, edits in edit.changes.items()} == {layers: 1, model: 2}
    with pytest.raises(JsonRpcException, match="`1x` is no name"):
        await client.text_document_rename_async(lsp.RenameParams(file, name, "1x"))
    whole = lsp.Range(lsp.Position(0, 0), lsp.Position(9, 0))
    shown = await client.text_document_inlay_hint_async(lsp.InlayHintParams(lsp.TextDocumentIdentifier(model), whole))
    assert [hint.label for hint in shown or []] == [" -> Tensor[B, H, f32]", ": Tensor[B, H, f32]"]
    place = lsp.Position(3, len("    y = project(x, "))
    help_ = await client.text_document_signature_help_async(
        lsp.SignatureHelpParams(lsp.TextDocumentIdentifier(model), place)
    )
    assert help_ is not None and help_.active_parameter == 1
    [one] = help_.signatures
    assert one.label == "project(x: Tensor[B, D, f32], w: Tensor[D, H, f32])"
    start, end = len("project(x: Tensor[B, D, f32], "), len(one.label) - 1
    assert one.parameters is not None and one.parameters[1].label == (start, end)
