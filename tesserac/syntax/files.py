"""Reading a source file from disk: either its text or the diagnostic that says why not."""

from __future__ import annotations

import os
from pathlib import Path

from tessera.errors import reason_of
from tessera.files import read_file
from tesserac.base.source import SourceFile, Span
from tesserac.diag.codes.files import E0901, E0902, E0903, E0952
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.sink import Sink

MANIFEST = "tessera.toml"
MAX_SOURCE = 512 * 1024
"""Bytes of UTF-8."""


def read_source(path: str | Path) -> SourceFile | Diagnostic:
    """The file as text. A byte-order mark is dropped; lines may end in `\\n` or `\\r\\n`."""
    name = str(path)
    sink = Sink()
    at = Span(name, 0, 0)
    try:
        if (reason := _leads_astray(name)) is not None:
            sink.error(E0952, at=at, path=name, reason=reason).remark("put the program there, or a link to one")
            return sink.diagnostics[0]
        data = read_file(path, MAX_SOURCE)
        if len(data) < MAX_SOURCE:
            return decoded(name, data)
        sink.error(E0903, at=at, size=os.stat(path).st_size // 1024, limit=MAX_SOURCE // 1024)
    except (OSError, ValueError) as problem:
        sink.error(E0901, at=at, path=name, reason=reason_of(problem).lower())
    return sink.diagnostics[0]


def decoded(name: str, data: bytes) -> SourceFile | Diagnostic:
    """What a file, or standard input, holds."""
    try:
        return SourceFile(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        sink, what = Sink(), f"byte 0x{data[problem.start]:02x} at position {problem.start} is not UTF-8"
        sink.error(E0902, at=Span(name, 0, 0), path=name).remark(f"{what}; save the file with the encoding UTF-8")
        return sink.diagnostics[0]


def _leads_astray(path: str) -> str | None:
    """What is wrong with a link, if it is one: messages quote the file that it leads to, so a project that others wrote
    must not make them quote any file of the machine."""
    shown, real = os.path.abspath(path), os.path.realpath(path)
    if shown == real or not os.path.exists(real):
        return None
    home = project_folder(os.path.dirname(shown))
    if home is not None and os.path.commonpath([os.path.realpath(home), real]) != os.path.realpath(home):
        return "it leads out of its project"
    suffix = os.path.splitext(shown)[1]
    return None if os.path.splitext(real)[1] == suffix else f"it leads to a file that is not called *{suffix}"


def project_folder(folder: str) -> str | None:
    """The nearest folder with a project file."""
    while not os.path.isfile(os.path.join(folder, MANIFEST)):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return folder
