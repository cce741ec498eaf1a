"""A client for the real server, in a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest_lsp
from lsprotocol import types as lsp
from pytest_lsp import ClientServerConfig, LanguageClient

ROOT = Path(__file__).resolve().parents[2]
PATHS = os.pathsep.join(str(ROOT / part) for part in (".", "runtime", "lsp"))
SERVER = ClientServerConfig([sys.executable, "-m", "tessera_lsp"], server_env={**os.environ, "PYTHONPATH": PATHS})

PUSHED = lsp.ClientCapabilities(
    text_document=lsp.TextDocumentClientCapabilities(
        publish_diagnostics=lsp.PublishDiagnosticsClientCapabilities(related_information=True),
        completion=lsp.CompletionClientCapabilities(
            completion_item=lsp.ClientCompletionItemOptions(documentation_format=[lsp.MarkupKind.Markdown])
        ),
    )
)
PULLED = lsp.ClientCapabilities(
    workspace=lsp.WorkspaceClientCapabilities(
        diagnostics=lsp.DiagnosticWorkspaceClientCapabilities(refresh_support=True)
    ),
    text_document=lsp.TextDocumentClientCapabilities(diagnostic=lsp.DiagnosticClientCapabilities())
)


@pytest_lsp.fixture(config=SERVER)
async def client(lsp_client: LanguageClient):  # type: ignore[no-untyped-def]
    """Diagnostics come to it unasked."""
    await lsp_client.initialize_session(lsp.InitializeParams(capabilities=PUSHED))
    yield
    await lsp_client.shutdown_session()


@pytest_lsp.fixture(config=SERVER)
async def asking_client(lsp_client: LanguageClient):  # type: ignore[no-untyped-def]
    """It asks for diagnostics."""
    await lsp_client.initialize_session(lsp.InitializeParams(capabilities=PULLED))
    yield
    await lsp_client.shutdown_session()
