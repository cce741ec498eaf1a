"""What `tesserac check` says about files, at the cost of what has changed since an earlier run.

Enters: paths. Leaves: a `CheckRecord` for each, kept on disk with all that makes the next one cheap: an unchanged file
is not looked at, one whose imports have the same interfaces keeps its record, and in one that was edited only the items
are checked that the edit can have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from tesserac.base.collecting import collection_paused, keep_to_the_end
from tesserac.base.records import Records
from tesserac.base.source import SourceFile
from tesserac.check.names.lint import lint_module
from tesserac.diag.check_record import CheckRecord, Reads, keep_record, last_record, points_elsewhere
from tesserac.diag.diagnostic import Diagnostic, Severity
from tesserac.driver.growth import growth_mistakes
from tesserac.driver.mending import with_mending_fixes
from tesserac.incremental.analyser import Analyser
from tesserac.incremental.ledger import Ledger, read_ledger, write_ledger
from tesserac.modules.imports import ImportedFile, Importer
from tesserac.modules.library import Library, load_library
from tesserac.syntax import ast
from tesserac.syntax.ahead import parse_ahead
from tesserac.syntax.files import read_source
from tesserac.syntax.parse import parse_items

MODULE = "main"
"""What symbols of a file start with that is checked item by item."""


class CheckCache:
    """One run of the command."""

    def __init__(self, records: Records) -> None:
        self._records = records

    @cached_property
    def _library(self) -> Library:
        return load_library()

    @cached_property
    def _importer(self) -> Importer:
        return Importer(self._library, frozenset({MODULE}), self._records)

    def of(self, path: str) -> CheckRecord:
        source = read_source(path)
        if isinstance(source, Diagnostic):
            return CheckRecord("", (), (), True, (source,))
        with collection_paused():
            record = self._same_imports(source) or self._edited(source) or self._whole(source)
            keep_record(path, self._records, record)
            keep_to_the_end()
        return record

    def _same_imports(self, source: SourceFile) -> CheckRecord | None:
        """The last record about the same text, if no interface has changed that it depends on."""
        known = last_record(source.path, self._records)
        if known is None or known.text != self._records.digest(source.path) or not known.alone:
            return None
        ledger = read_ledger(self._records, source.path)
        if ledger is None:
            return None
        imports, reads = self._imports(source)
        return replace(known, reads=reads) if imports == known.imports else None

    def _edited(self, source: SourceFile) -> CheckRecord | None:
        """Item by item, where an earlier run has left what it knew."""
        ledger = read_ledger(self._records, source.path)
        if ledger is None:
            return None
        imports, reads = self._imports(source)
        analyser = self._analyser(ledger if ledger.imports == imports else None)
        analysis = analyser.settle(source)
        if analysis is None:
            return None
        write_ledger(self._records, source, analyser, imports)
        return self._record(source, self._tried(source, analysis.diagnostics, analyser), imports, reads)

    def _whole(self, source: SourceFile) -> CheckRecord:
        """The file as one module."""
        parse_ahead(source)
        found: ImportedFile = self._importer.program(source.path)
        said = list(found.said or ())
        if found.module is not None and not any(d.severity is Severity.ERROR for d in said):
            said += lint_module(found.module, source)
        analyser = self._analyser(None)
        analyser.learn(source, found.said or ())
        write_ledger(self._records, source, analyser, found.imports)
        return self._record(source, self._tried(source, said, analyser), found.imports, found.reads)

    def _tried(
        self, source: SourceFile, said: Sequence[Diagnostic], analyser: Analyser
    ) -> Sequence[Diagnostic]:
        """What is said, with the fixes that mend: only items that a fix changes are checked anew. Which fixes are tried
        while trials are left depends on their order: it is that of the text."""

        def check(text: SourceFile) -> Sequence[Diagnostic] | None:
            analysis = analyser.whole(text)
            return None if analysis is None else analysis.diagnostics

        return with_mending_fixes(sorted(said, key=_place), source, check)

    def _analyser(self, ledger: Ledger | None) -> Analyser:
        analyser = Analyser(MODULE, self._library, self._importer.imports_of)
        if ledger is not None:
            analyser.adopt(ledger.findings)
        return analyser

    def _imports(self, source: SourceFile) -> tuple[Reads, Reads]:
        """The interfaces that a file imports, and all files read for them; only its imports are looked at."""
        items = (node for item, _ in parse_items(source) for node in item.items)
        imports = tuple(node for node in items if isinstance(node, ast.Import | ast.FromImport))
        module = ast.Module(source.span(0, len(source.text)), None, imports)
        return self._importer.interfaces_of(module, source.path)

    def _record(
        self, source: SourceFile, said: Sequence[Diagnostic], imports: Reads, reads: Reads
    ) -> CheckRecord:
        is_sound = not any(d.severity is Severity.ERROR for d in said)
        found = (*said, *growth_mistakes(source)) if is_sound else said
        ordered = tuple(sorted(found, key=_place))
        others = [path for path, _ in reads if path != source.path]
        alone = not points_elsewhere(ordered, others)
        return CheckRecord(self._records.digest(source.path), reads, imports, alone, ordered)


def _place(diagnostic: Diagnostic) -> int:
    return diagnostic.primary.span.start
