"""Source text and places in it.

In: the text of a file. Out: `Span`, a half-open range of character offsets that every later structure has,
and `SourceFile`, which turns offsets into lines and columns for people (both from 1).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple

from tesserac.base.dataclass import dataclass


class Span(NamedTuple):
    """The characters `start <= offset < end` of one file. Every node has some, so they are tuples: cheap to make."""

    file: str
    start: int
    end: int

    def to(self, last: Span) -> Span:
        """The span from the start of this one to the end of `last`."""
        return Span(self.file, self.start, last.end)

    def holds(self, other: Span) -> bool:
        """Whether all of the other one is inside this."""
        return self.file == other.file and self.start <= other.start and other.end <= self.end

    @property
    def known(self) -> bool:
        return self.start >= 0


NO_SPAN = Span("", -1, -1)
"""The place of things that no source text stands for."""


@dataclass(frozen=True)
class SourceFile:
    """One file's text. Lines end at `\\n`; a `\\r` before it belongs to the line end."""

    path: str
    text: str

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        starts = [0]
        find = self.text.find
        while (newline := find("\n", starts[-1])) >= 0:
            starts.append(newline + 1)
        return tuple(starts)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, from 1. Columns count characters, a tab is one."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """The inverse of `position`, clamped to the line."""
        line = min(max(line, 1), len(self.line_starts))
        start = self.line_starts[line - 1]
        return start + min(max(column - 1, 0), len(self.line_text(line)))

    def line_text(self, line: int) -> str:
        """The text of a line, without its line end."""
        start = self.line_starts[line - 1]
        end = self.line_starts[line] - 1 if line < len(self.line_starts) else len(self.text)
        return self.text[start:end].removesuffix("\r")

    def slice(self, span: Span) -> str:
        return self.text[span.start : span.end]

    def span(self, start: int, end: int) -> Span:
        return Span(self.path, start, end)


def lines_of(text: str) -> list[str]:
    """Lines with their ends, as the language counts them: Python's `splitlines` knows ends that are none here."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
