"""Reading a source file from disk: either its text or the diagnostic that says why not."""

from __future__ import annotations

from pathlib import Path

from tesserac.base.source import SourceFile, Span
from tesserac.diag.codes.files import E0901, E0902, E0903
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.sink import Sink

MAX_SOURCE = 512 * 1024
"""Bytes of UTF-8."""


def read_source(path: str | Path) -> SourceFile | Diagnostic:
    """The file as text. A byte-order mark is dropped; lines may end in `\\n` or `\\r\\n`."""
    name = str(path)
    sink = Sink()
    at = Span(name, 0, 0)
    try:
        size = Path(path).stat().st_size
        if size < MAX_SOURCE:
            return SourceFile(name, Path(path).read_bytes().decode("utf-8-sig"))
        sink.error(E0903, at=at, size=size // 1024, limit=MAX_SOURCE // 1024)
    except UnicodeDecodeError as problem:
        what = f"byte 0x{problem.object[problem.start]:02x} at position {problem.start} is not UTF-8"
        sink.error(E0902, at=at, path=name).remark(f"{what}; save the file with the encoding UTF-8")
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        sink.error(E0901, at=at, path=name, reason=reason.lower())
    return sink.diagnostics[0]
