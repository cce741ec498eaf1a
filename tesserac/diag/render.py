"""A diagnostic as text for a terminal.

In: a diagnostic and the files it speaks of. Out: its title, the source with the labelled spans underlined, the
reasons, notes and fixes. Colours come with the palette, which is plain unless the caller knows better.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile, Span
from tesserac.diag.diagnostic import Diagnostic, Edit, Fix, Step
from tesserac.diag.snippet import WIDTH, Columns, Line, Mark, Piece, render_labels

MAX_FIX_LINES = 3


@dataclass(frozen=True, slots=True)
class Palette:
    """What to put before and after text of a role."""

    start: Mapping[str, str]
    end: str = "\x1b[0m"

    def paint(self, piece: Piece) -> str:
        start = self.start.get(piece.role)
        return f"{start}{piece.text}{self.end}" if start and piece.text.strip() else piece.text


PLAIN = Palette({})
COLOURS = Palette(
    {
        "error": "\x1b[1;31m",
        "warning": "\x1b[1;33m",
        "good": "\x1b[1;32m",
        "note": "\x1b[1;36m",
        "title": "\x1b[1m",
        "gutter": "\x1b[1;34m",
        "primary": "\x1b[1;31m",
        "secondary": "\x1b[1;34m",
    }
)


def render(diagnostic: Diagnostic, sources: Mapping[str, SourceFile], palette: Palette = PLAIN) -> str:
    """The diagnostic as lines of text, without a line end after the last."""
    labels = [diagnostic.primary, *diagnostic.secondary]
    gutter = max(len(str(_line(label.span, sources))) for label in labels)
    lines: list[Line] = [_title(diagnostic)]
    if diagnostic.primary.span.file:
        lines += render_labels([label for label in labels if label.span.known], sources, gutter)
    for step in diagnostic.because:
        lines += _paragraph("because", step.text + _place(step, diagnostic, sources), gutter)
    for note in diagnostic.notes:
        lines += _paragraph("note", note, gutter)
    for number, fix in enumerate(diagnostic.fixes, start=1):
        count = f"  [fix {number} of {len(diagnostic.fixes)}]" if len(diagnostic.fixes) > 1 else ""
        lines += _paragraph("help", fix.title + count, gutter)
        lines += _fixed_lines(fix, sources, gutter)
    return "\n".join("".join(palette.paint(piece) for piece in line).rstrip() for line in lines)


def _title(diagnostic: Diagnostic) -> Line:
    severity = str(diagnostic.severity)
    return [Piece(f"{severity}[{diagnostic.code}]", severity), Piece(f": {diagnostic.title}", "title")]


def _line(span: Span, sources: Mapping[str, SourceFile]) -> int:
    source = sources.get(span.file)
    return source.position(span.start)[0] if source is not None else 1


def _place(step: Step, diagnostic: Diagnostic, sources: Mapping[str, SourceFile]) -> str:
    """` (line 9)` after a step, with the file's name if it is another one."""
    if not step.span.known or step.span.file not in sources:
        return ""
    line = _line(step.span, sources)
    return f" (line {line})" if step.span.file == diagnostic.primary.span.file else f" ({step.span.file}:{line})"


def _paragraph(kind: str, text: str, gutter: int) -> list[Line]:
    margin = " " * gutter
    head = f" = {kind}: "
    width = WIDTH - gutter - len(head)
    wrapped = [part for line in text.splitlines() for part in textwrap.wrap(line, width) or [""]] or [""]
    first: Line = [Piece(f"{margin} = ", "gutter"), Piece(f"{kind}: ", "title"), Piece(wrapped[0])]
    return [first, *([Piece(f"{margin}{' ' * len(head)}{line}")] for line in wrapped[1:])]


def _fixed_lines(fix: Fix, sources: Mapping[str, SourceFile], gutter: int) -> list[Line]:
    """The first lines that the fix changes, as they would be."""
    if not fix.edits or fix.edits[0].span.file not in sources:
        return []
    path = fix.edits[0].span.file
    edits = [edit for edit in fix.edits if edit.span.file == path]
    first = min(edit.span.start for edit in edits)
    grown = sum(len(edit.replacement) - (edit.span.end - edit.span.start) for edit in edits)
    last = max(edit.span.end for edit in edits) + grown
    fixed = SourceFile(path, apply_edits(sources[path].text, edits))
    start, end = fixed.position(first)[0], fixed.position(last)[0]
    numbers = range(start, min(end, start + MAX_FIX_LINES - 1) + 1)
    margin = f"{' ' * gutter} |     "
    room = WIDTH - len(f"{margin}{end} | ")
    return [
        [Piece(margin, "gutter"), Piece(f"{n} | ", "gutter"), Piece(_changed_part(fixed, n, first, last, room))]
        for n in numbers
    ]


def _changed_part(fixed: SourceFile, number: int, first: int, last: int, room: int) -> str:
    """A line of the mended text, cut around what has changed where it is too long."""
    columns = Columns(fixed.line_text(number))
    start = fixed.offset(number, 1)
    changed = Mark(columns.column(first - start), columns.column(last - start), "", "plain")
    return columns.crop([changed], room if columns.width <= room else room - 2 * len("..."))


def apply_edits(text: str, edits: list[Edit]) -> str:
    """The text with all edits made. Their spans are of the text as it is, and do not overlap."""
    for edit in sorted(edits, key=lambda edit: edit.span.start, reverse=True):
        text = text[: edit.span.start] + edit.replacement + text[edit.span.end :]
    return text
