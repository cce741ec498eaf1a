"""The excerpt of source under a diagnostic's title: lines with numbers, labelled spans underlined.

    16 |     y = q @ wo
       |         - ^ -- wo: ["F", "D"]
       |         | |
       |         | these two dims must be the same
       |         q: ["B", "S", "H"]

In: labels, the first of them primary, and the files. Out: lines of `Piece`s, text with a role that a palette colours.
The label furthest right stands behind its underline; the others hang below theirs, from right to left.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile, Span
from tesserac.diag.diagnostic import Label

TAB_WIDTH = 4
WIDTH = 100
"""Columns that a message may take."""
MAX_WIDTH = 88
"""Columns of source shown of one line; a longer one is cut to what is around its labels."""

_ELLIPSIS = "..."


class Piece(NamedTuple):
    """Text and what it is: plain, gutter, primary or secondary."""

    text: str
    role: str = "plain"


Line = list[Piece]


@dataclass(frozen=True, slots=True)
class Mark:
    """A label on one line, in columns of the screen."""

    start: int
    end: int
    text: str
    role: str


def render_labels(labels: Sequence[Label], sources: Mapping[str, SourceFile], gutter: int) -> list[Line]:
    """Excerpts file by file, the primary label's first."""
    lines: list[Line] = []
    for number, path in enumerate(dict.fromkeys(label.span.file for label in labels)):
        source = sources.get(path)
        here = [label for label in labels if label.span.file == path]
        arrow = "-->" if number == 0 else ":::"
        lines.append([Piece(f"{' ' * gutter}{arrow} ", "gutter"), Piece(location(here[0].span, source))])
        if source is not None:
            lines += _excerpt(source, here, labels[0], gutter)
    return lines


def location(span: Span, source: SourceFile | None) -> str:
    if source is None:
        return span.file
    line, column = source.position(span.start)
    return f"{span.file}:{line}:{column}"


def _excerpt(source: SourceFile, labels: Sequence[Label], primary: Label, gutter: int) -> list[Line]:
    empty = [Piece(f"{' ' * gutter} |", "gutter")]
    lines: list[Line] = [empty]
    by_line: dict[int, list[Label]] = {}
    for label in labels:
        by_line.setdefault(source.position(label.span.start)[0], []).append(label)
    previous = min(by_line) - 1
    for number in sorted(by_line):
        if number == previous + 2:
            lines.append([_numbered(number - 1, gutter), *_source(Columns(source.line_text(number - 1)), [])])
        elif number > previous + 2:
            lines.append([Piece(_ELLIPSIS, "gutter")])
        lines += _labelled_line(source, number, by_line[number], primary, gutter)
        previous = number
    return [*lines, empty]


def _numbered(number: int, gutter: int) -> Piece:
    return Piece(f"{number:>{gutter}} |", "gutter")


def _source(columns: Columns, marks: Sequence[Mark]) -> Line:
    text = columns.crop(marks)
    return [Piece(f" {text}")] if text else []


def _labelled_line(source: SourceFile, number: int, labels: Sequence[Label], primary: Label, gutter: int) -> list[Line]:
    columns = Columns(source.line_text(number))
    first = source.line_starts[number - 1]
    marks = [_mark(columns, label, first, primary) for label in labels]
    text = _source(columns, marks)
    shift = columns.cropped_before(marks)
    marks = [Mark(m.start - shift, m.end - shift, m.text, m.role) for m in marks]
    margin = Piece(f"{' ' * gutter} | ", "gutter")
    return [[_numbered(number, gutter), *text], *([margin, *line] for line in underlines(marks, WIDTH - gutter - 3))]


def _mark(columns: Columns, label: Label, line_start: int, primary: Label) -> Mark:
    """A label that goes on over several lines is underlined to the end of its first one."""
    start = columns.column(label.span.start - line_start)
    end = columns.column(label.span.end - line_start)
    return Mark(start, max(end, start + 1), label.text, "primary" if label is primary else "secondary")


# ------------------------------------------------------------------------------------------------- underlines


def underlines(marks: Iterable[Mark], width: int = WIDTH) -> list[Line]:
    """The rows under a line of source: the underlines, then the texts that did not fit behind them. A text that would
    leave the screen is moved to the left of its underline."""
    ordered = sorted(marks, key=lambda m: (m.start, m.end))
    inline = _inline(ordered, width)
    hanging = [mark for mark in ordered if mark.text and mark is not inline]
    rows = [_marks_row(ordered, inline)]
    if hanging:
        rows.append(_row([(mark.start, Piece("|", mark.role)) for mark in hanging]))
    while hanging:
        last = hanging.pop()
        start = max(min(last.start, width - len(last.text)), 0)
        bars = [(mark.start, Piece("|", mark.role)) for mark in hanging if mark.start < start]
        rows.append(_row([*bars, (start, Piece(last.text, last.role))]))
    return rows


def _inline(ordered: Sequence[Mark], width: int) -> Mark | None:
    """The mark whose text may follow its underline: the last one, if no other reaches as far and there is room."""
    last = ordered[-1]
    alone = all(mark.end <= last.start for mark in ordered[:-1]) and last.end + len(last.text) < width
    return last if alone and last.text else None


def _marks_row(ordered: Sequence[Mark], inline: Mark | None) -> Line:
    width = max(mark.end for mark in ordered)
    cells: list[Piece] = [Piece(" ")] * width
    for mark in sorted(ordered, key=lambda m: m.role == "primary"):  # the primary is drawn over the others
        sign = Piece("^" if mark.role == "primary" else "-", mark.role)
        cells[mark.start : mark.end] = [sign] * (mark.end - mark.start)
    return cells if inline is None else [*cells, Piece(f" {inline.text}", inline.role)]


def _row(placed: Sequence[tuple[int, Piece]]) -> Line:
    line: Line = []
    column = 0
    for start, piece in placed:
        if start < column:
            continue
        line += [Piece(" " * (start - column)), piece]
        column = start + len(piece.text)
    return line


# ---------------------------------------------------------------------------------------------------- columns


class Columns:
    """A line of source as the screen shows it: tabs expanded, wide characters two columns, no control codes."""

    def __init__(self, text: str) -> None:
        self._shown: list[str] = []
        self._starts = [0]
        for character in text:
            shown = _shown(character, self._starts[-1])
            self._shown.append(shown)
            self._starts.append(self._starts[-1] + _width(shown))

    @property
    def width(self) -> int:
        return self._starts[-1]

    def column(self, index: int) -> int:
        """The column where a character of the line begins; the end of the line for one beyond it."""
        return self._starts[min(max(index, 0), len(self._shown))]

    def cropped_before(self, marks: Sequence[Mark]) -> int:
        """How many columns `crop` takes away before the marks."""
        first = self._first_shown(marks)
        return self._starts[first] - (len(_ELLIPSIS) if first else 0)

    def crop(self, marks: Sequence[Mark], width: int = MAX_WIDTH) -> str:
        first = self._first_shown(marks, width)
        last = first
        while last < len(self._shown) and self._starts[last + 1] - self._starts[first] <= width:
            last += 1
        before = _ELLIPSIS if first else ""
        after = _ELLIPSIS if last < len(self._shown) else ""
        return (before + "".join(self._shown[first:last]) + after).rstrip()

    def _first_shown(self, marks: Sequence[Mark], width: int = MAX_WIDTH) -> int:
        if self._starts[-1] <= width or not marks or max(mark.end for mark in marks) <= width:
            return 0
        wanted = max(0, min(mark.start for mark in marks) - width // 4)
        return next(i for i, start in enumerate(self._starts) if start >= wanted)


def _shown(character: str, column: int) -> str:
    if character == "\t":
        return " " * (TAB_WIDTH - column % TAB_WIDTH)
    printable = character.isprintable() or unicodedata.combining(character)
    return character if printable else "\ufffd"


def _width(shown: str) -> int:
    if len(shown) != 1:
        return len(shown)
    if unicodedata.combining(shown):
        return 0
    return 2 if unicodedata.east_asian_width(shown) in "WF" else 1
