"""The file in the one style, as edits that leave alone what is in it already."""

from __future__ import annotations

from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Edit
from tesserac.syntax.fmt import format_range


def formatting(source: SourceFile) -> tuple[Edit, ...]:
    return format_range(source, 0, len(source.text))


def range_formatting(source: SourceFile, start: int, end: int) -> tuple[Edit, ...]:
    """The same for the items that touch a range."""
    return format_range(source, start, end)
