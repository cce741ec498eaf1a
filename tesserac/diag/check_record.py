"""All that is to be said about a file, and what that depends on: readable without the rooms that found it."""

from __future__ import annotations

from collections.abc import Iterable

from tesserac.base.codec import Codec
from tesserac.base.dataclass import dataclass
from tesserac.base.records import Records
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.stored import DIAGNOSTICS, NAMED

Reads = tuple[tuple[str, str], ...]
"""Paths of files, each with the SHA-256 of its content; that of a file which is not there is empty."""


@dataclass(frozen=True)
class CheckRecord:
    """`text` is the digest of the file, `reads` are all other files that checking it can have read, `imports` those
    that it imports itself, each with the digest of its interface. `alone`: no diagnostic points into one of them."""

    text: str
    reads: Reads
    imports: Reads
    alone: bool
    diagnostics: tuple[Diagnostic, ...]

    def holds(self, path: str, records: Records) -> bool:
        """Whether no file has changed since."""
        return bool(self.text) and records.digest(path) == self.text and records.fresh(self.reads)


_CODEC = Codec((*DIAGNOSTICS, CheckRecord), named=NAMED)


def last_record(path: str, records: Records) -> CheckRecord | None:
    """The record of an earlier run; files may have changed since."""
    known = records.read("checked", path, _CODEC)
    return known if isinstance(known, CheckRecord) else None


def record_of(path: str, records: Records) -> CheckRecord | None:
    """The record of an earlier run, if it still holds."""
    known = last_record(path, records)
    return known if known is not None and known.holds(path, records) else None


def keep_record(path: str, records: Records, record: CheckRecord) -> None:
    records.write("checked", path, record, _CODEC)


def points_elsewhere(diagnostics: Iterable[Diagnostic], files: Iterable[str]) -> bool:
    """Whether a diagnostic shows a place in one of some files."""
    others = frozenset(files)
    return any(
        span.file in others
        for d in diagnostics
        for span in (d.primary.span, *(label.span for label in d.secondary), *(step.span for step in d.because))
    )
