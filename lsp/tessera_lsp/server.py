"""The language server: wiring between the protocol and the session. `tessera-lsp` and `tesserac lsp` run it.

Whatever happens in a handler is logged and answered with nothing; the server lives. Opening a file checks it and runs
none of it. The compiler is imported after the editor has had its first answer. See Note [When what is checked].
"""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from collections.abc import Callable, Generator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from tessera.version import __version__
from tessera_lsp.collecting import Collector
from tessera_lsp.documents import Change, Document, Encoding, Position, path_of
from tessera_lsp.legend import KINDS, MARKS
from tesserac.base.recursion import deep_recursion
from tesserac.base.source import SourceFile

if TYPE_CHECKING:
    from tesserac.driver.session import Session
    from tesserac.incremental.analyser import Analysis

R = TypeVar("R")

SETTLE = 0.15
"""Seconds without typing after which items that use what was edited are checked."""

BREATH = 0.001
"""Seconds in which messages that have arrived are taken in before work goes on."""

OPTIONS: dict[str, object] = {
    lsp.TEXT_DOCUMENT_HOVER: None,
    lsp.TEXT_DOCUMENT_DEFINITION: None,
    lsp.TEXT_DOCUMENT_COMPLETION: lsp.CompletionOptions(trigger_characters=[".", "@", "[", '"'], resolve_provider=True),
    lsp.TEXT_DOCUMENT_CODE_ACTION: lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix]),
    lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL: None,
    lsp.TEXT_DOCUMENT_FORMATTING: None,
    lsp.TEXT_DOCUMENT_RANGE_FORMATTING: None,
    lsp.TEXT_DOCUMENT_INLAY_HINT: lsp.InlayHintOptions(resolve_provider=False),
    lsp.TEXT_DOCUMENT_SIGNATURE_HELP: lsp.SignatureHelpOptions(["(", ","], retrigger_characters=["="]),
    lsp.TEXT_DOCUMENT_REFERENCES: None,
    lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT: None,
    lsp.TEXT_DOCUMENT_PREPARE_RENAME: None,
    lsp.TEXT_DOCUMENT_RENAME: lsp.RenameOptions(prepare_provider=True),
    lsp.TEXT_DOCUMENT_CODE_LENS: lsp.CodeLensOptions(resolve_provider=True),
    lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL: lsp.SemanticTokensLegend(KINDS, MARKS),
    lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE: lsp.SemanticTokensLegend(KINDS, MARKS),
}
"""The requests that `answers` answers, with what the editor is told about them."""

log = logging.getLogger(__name__)


def guarded(nothing: R) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """A handler that answers with `nothing` where it would fail."""

    def guard(handler: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(handler)
        def safe(*arguments: object) -> R:
            try:
                with deep_recursion():
                    return handler(*arguments)
            except JsonRpcException:  # an answer: that it cannot be done, and why
                raise
            except Exception:
                log.exception("%s failed", handler.__name__)
                return nothing

        return safe

    return guard


class TesseraProtocol(LanguageServerProtocol):
    """Texts are kept by `documents`, which knows what a line is; the copy of the framework stays as it was opened."""

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: lsp.DidChangeTextDocumentParams) -> Generator[Any, Any, None]:
        handler = self.fm.features[lsp.TEXT_DOCUMENT_DID_CHANGE]
        yield handler, (params,), None


class TesseraServer(LanguageServer):
    """Open files, and the checks under way for them."""

    def __init__(self) -> None:
        super().__init__("tessera-lsp", __version__, protocol_cls=TesseraProtocol, max_workers=2)
        self.documents: dict[str, Document] = {}
        self.collector = Collector()
        self._checks: dict[str, asyncio.Task[None]] = {}
        self._told: set[str] = set()
        self._first: dict[str, int] = {}

    @cached_property
    def session(self) -> Session:
        from tesserac.driver.session import Session

        return Session()

    @property
    def encoding(self) -> Encoding:
        chosen = self.workspace.position_encoding
        encodings: dict[object, Encoding] = {"utf-8": "utf-8", "utf-32": "utf-32"}
        return encodings.get(getattr(chosen, "value", chosen), "utf-16")

    @property
    def is_asked(self) -> bool:
        """Whether the editor asks for diagnostics, so that they need not be sent unasked."""
        files = self.client_capabilities.text_document
        return files is not None and files.diagnostic is not None

    @property
    def can_ask_again(self) -> bool:
        workspace = self.client_capabilities.workspace
        diagnostics = workspace.diagnostics if workspace is not None else None
        return diagnostics is not None and bool(diagnostics.refresh_support)

    def show_again(self) -> None:
        """Has an editor that can be told so ask anew for what stands in and above the text."""
        workspace = self.client_capabilities.workspace
        if workspace is None:
            return
        for shown, ask in (
            (workspace.inlay_hint, self.workspace_inlay_hint_refresh),
            (workspace.code_lens, self.workspace_code_lens_refresh),
            (workspace.semantic_tokens, self.workspace_semantic_tokens_refresh),
        ):
            if shown is not None and shown.refresh_support:
                ask(None)

    @property
    def can_watch(self) -> bool:
        workspace = self.client_capabilities.workspace
        files = workspace.did_change_watched_files if workspace is not None else None
        return files is not None and bool(files.dynamic_registration)

    # ----------------------------------------------------------------------------------------------------- files

    def open(self, uri: str, version: int, text: str) -> None:
        self.documents[uri] = Document(uri, version, SourceFile(path_of(uri), text), self.encoding)
        self._first[uri] = version
        self.check_soon(uri)

    def change(self, uri: str, version: int, changes: list[Change]) -> None:
        if uri in self.documents:
            self.documents[uri] = self.documents[uri].changed(version, changes)
            self.check_soon(uri)

    def close(self, uri: str) -> None:
        document = self.documents.pop(uri, None)
        self._stop(uri)
        if document is not None:
            self.session.forget(document.source.path)
            self.collector.closed()
            self.check_stale()
        if uri in self._told:
            self._told.discard(uri)
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    # --------------------------------------------------------------------------------------------------- checking

    def check_soon(self, uri: str) -> None:
        """Starts a check of the newest text; one of an older text ends here."""
        self._stop(uri)
        self._checks[uri] = asyncio.get_running_loop().create_task(self._check(uri))

    def _stop(self, uri: str) -> None:
        task = self._checks.pop(uri, None)
        if task is not None:
            task.cancel()

    async def _check(self, uri: str) -> None:
        try:
            await asyncio.sleep(BREATH)
            document = self.documents[uri]
            self.collector.work_begins()
            analysis = self.session.check_visible(document.source)
            if not self.is_asked and (uri in self._told or not analysis.pending):
                self.publish(document, analysis)
            analysis = await self._check_rest(document, analysis)
            self._show_importers(document, analysis)
            if document.version == self._first.get(uri):
                self.collector.opened()
            self.collector.work_ended()
        except Exception:
            log.exception("checking %s failed", uri)

    async def _check_rest(self, document: Document, analysis: Analysis) -> Analysis:
        if not analysis.pending:
            return analysis
        if document.uri in self._told:
            await asyncio.sleep(SETTLE)
        while analysis.pending:
            await asyncio.sleep(BREATH)
            analysis = self.session.check_step(document.source)
            self._colour(document)
        if not self.is_asked:
            self.publish(document, analysis)
        elif self.can_ask_again:
            self.workspace_diagnostic_refresh(None)
        self._told.add(document.uri)
        self.show_again()
        return analysis

    def _colour(self, document: Document) -> None:
        """Tells the names of what was just checked, so that an editor that asks for all colours need not wait."""
        files = self.client_capabilities.text_document
        if files is not None and files.semantic_tokens is not None:
            from tessera_lsp.answers import colours

            colours(self.session, document)

    def _show_importers(self, document: Document, analysis: Analysis) -> None:
        """Open files that import this one see it as it is typed; while it has mistakes, as it was before them."""
        from tesserac.diag.diagnostic import Severity

        if any(said.severity is Severity.ERROR for said in analysis.diagnostics):
            return
        self.session.show_importers(document.source)
        self.check_stale()

    def check_stale(self) -> None:
        """Looks again at open files that import what has changed."""
        stale = [uri for uri, document in self.documents.items() if self.session.is_stale(document.source.path)]
        for uri in stale:
            self.check_soon(uri)
        if stale and self.is_asked and self.can_ask_again:
            self.workspace_diagnostic_refresh(None)

    def publish(self, document: Document, analysis: Analysis) -> None:
        from tessera_lsp.answers import diagnostics

        said = diagnostics(self.session, document, analysis)
        self._told.add(document.uri)
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(document.uri, said, document.version))

    def report(self, uri: str, previous: str | None) -> lsp.DocumentDiagnosticReport:
        """Diagnostics on request. What is still pending follows by asking again, if the editor can."""
        from tessera_lsp.answers import diagnostics, result_id

        document = self.documents.get(uri)
        if document is None:
            return lsp.RelatedFullDocumentDiagnosticReport(items=[])
        check = self.session.check_visible if self.can_ask_again else self.session.analyse
        analysis = check(document.source)
        identity = result_id(document, analysis)
        if identity == previous:
            return lsp.RelatedUnchangedDocumentDiagnosticReport(result_id=identity)
        said = diagnostics(self.session, document, analysis)
        return lsp.RelatedFullDocumentDiagnosticReport(items=said, result_id=identity)


# ---------------------------------------------------------------------------------------------------------- wiring


def create_server() -> TesseraServer:
    server = TesseraServer()
    _register_files(server)
    _register_diagnostics(server)
    for method, options in OPTIONS.items():
        _register_answer(server, method, options)
    _register_resolve(server)
    return server


def _register_files(server: TesseraServer) -> None:
    @server.feature(lsp.INITIALIZED)
    @guarded(None)
    def initialized(_: lsp.InitializedParams) -> None:
        """The editor has its answer; what the first file will need is loaded now."""
        import tessera_lsp.answers  # noqa: F401

        assert server.session.library
        if server.can_watch:
            from tesserac.project.layout import MANIFEST, SUFFIX

            watchers = [lsp.FileSystemWatcher(f"**/{name}") for name in (f"*{SUFFIX}", MANIFEST)]
            options = lsp.DidChangeWatchedFilesRegistrationOptions(watchers)
            one = lsp.Registration("watched", lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            server.client_register_capability(lsp.RegistrationParams([one]))

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    @guarded(None)
    def did_open(params: lsp.DidOpenTextDocumentParams) -> None:
        file = params.text_document
        server.open(file.uri, file.version, file.text)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    @guarded(None)
    def did_change(params: lsp.DidChangeTextDocumentParams) -> None:
        changes = [_change(event) for event in params.content_changes]
        server.change(params.text_document.uri, params.text_document.version, changes)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    @guarded(None)
    def did_save(params: lsp.DidSaveTextDocumentParams) -> None:
        """Other files may import the one that was saved: with its mistakes, if it has some."""
        server.session.show_saved(path_of(params.text_document.uri))
        for uri in server.documents:
            server.check_soon(uri)

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    @guarded(None)
    def did_change_on_disk(_: lsp.DidChangeWatchedFilesParams) -> None:
        """A file that is imported was written by another program, or by the editor on behalf of one."""
        server.check_stale()

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    @guarded(None)
    def did_close(params: lsp.DidCloseTextDocumentParams) -> None:
        server.close(params.text_document.uri)


def _change(event: lsp.TextDocumentContentChangeEvent) -> Change:
    if isinstance(event, lsp.TextDocumentContentChangePartial):
        start, end = event.range.start, event.range.end
        return Change(Position(start.line, start.character), Position(end.line, end.character), event.text)
    return Change(None, None, event.text)


def _register_diagnostics(server: TesseraServer) -> None:
    options = lsp.DiagnosticOptions(inter_file_dependencies=False, workspace_diagnostics=False, identifier="tessera")
    nothing: lsp.DocumentDiagnosticReport = lsp.RelatedFullDocumentDiagnosticReport(items=[])

    @server.feature(lsp.TEXT_DOCUMENT_DIAGNOSTIC, options)
    @guarded(nothing)
    def diagnostic(params: lsp.DocumentDiagnosticParams) -> lsp.DocumentDiagnosticReport:
        return server.report(params.text_document.uri, params.previous_result_id)


class _AboutFile(Protocol):
    text_document: lsp.TextDocumentIdentifier


def _register_answer(server: TesseraServer, method: str, options: object) -> None:
    def answer(params: _AboutFile) -> object:
        from tessera_lsp.answers import ANSWERS

        document = server.documents.get(params.text_document.uri)
        return ANSWERS[method](server.session, document, params) if document is not None else None

    answer.__name__ = method
    nothing: object = None
    server.feature(method, options)(guarded(nothing)(answer))


def _register_resolve(server: TesseraServer) -> None:
    @server.feature(lsp.COMPLETION_ITEM_RESOLVE)
    def resolve(item: lsp.CompletionItem) -> lsp.CompletionItem:
        from tessera_lsp.answers import answer_resolve

        document = server.documents.get(item.data) if isinstance(item.data, str) else None
        if document is None:
            return item
        return guarded(item)(answer_resolve)(server.session, document, item)

    @server.feature(lsp.CODE_LENS_RESOLVE)
    def resolve_lens(lens: lsp.CodeLens) -> lsp.CodeLens:
        from tessera_lsp.answers import answer_lens

        uri, name = lens.data or ("", "")
        document = server.documents.get(uri)
        return lens if document is None else guarded(lens)(answer_lens)(server.session, document, lens, name)


def main() -> int:
    """Serves one editor over standard input and output; the log goes to standard error."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    create_server().start_io()
    return 0


# Note [When what is checked]
# After a keystroke the item under the cursor is checked and told at once. Items that use it wait until nobody has typed
# for SETTLE seconds, and are then checked a few at a time, with a BREATH between for requests. A new text ends the
# check of the old one, at any of these pauses. The first time a file is told, it is told whole.
