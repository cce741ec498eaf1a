"""Diagnostics for programs: one line each, or JSON. Lines and columns count from 1."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from tesserac.base.source import SourceFile, Span
from tesserac.diag.diagnostic import Diagnostic

Json = str | int | bool | list["Json"] | dict[str, "Json"]


def render_short(diagnostic: Diagnostic, sources: Mapping[str, SourceFile]) -> str:
    """`file:line:column: error[E0101]: title`."""
    place = _range(diagnostic.primary.span, sources)
    where = f"{place['file']}:{place['line']}:{place['column']}"
    return f"{where}: {diagnostic.severity}[{diagnostic.code}]: {diagnostic.title}"


def render_json(diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile]) -> str:
    """One array of objects."""
    return json.dumps([to_json(d, sources) for d in diagnostics], ensure_ascii=False, indent=1)


def to_json(diagnostic: Diagnostic, sources: Mapping[str, SourceFile]) -> dict[str, Json]:
    """`labels` are all labelled places, the primary one first. Where no place is known, `file` is empty."""
    labels = [diagnostic.primary, *diagnostic.secondary]
    return {
        "code": diagnostic.code,
        "severity": str(diagnostic.severity),
        "message": diagnostic.title,
        **_range(diagnostic.primary.span, sources),
        "labels": [{**_range(label.span, sources), "text": label.text} for label in labels],
        "because": [{**_range(step.span, sources), "text": step.text} for step in diagnostic.because],
        "notes": list(diagnostic.notes),
        "fixes": [
            {
                "title": fix.title,
                "applicability": str(fix.applicability),
                "edits": [{**_range(edit.span, sources), "replacement": edit.replacement} for edit in fix.edits],
            }
            for fix in diagnostic.fixes
        ],
    }


def _range(span: Span, sources: Mapping[str, SourceFile]) -> dict[str, Json]:
    source = sources.get(span.file)
    line, column = source.position(span.start) if source is not None else (1, 1)
    end_line, end_column = source.position(span.end) if source is not None else (1, 1)
    return {"file": span.file, "line": line, "column": column, "end_line": end_line, "end_column": end_column}
