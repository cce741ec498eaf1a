"""Open files: their text as the editor has it, and positions in it.

In: what the editor says was typed. Out: `Document`s, each with the text as a `SourceFile`. The protocol counts lines
from 0 and columns in units of an encoding that both sides have agreed on; the compiler counts characters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile

Encoding = Literal["utf-8", "utf-16", "utf-32"]


class Position(NamedTuple):
    """As the protocol has it: both from 0, `character` in units of the encoding."""

    line: int
    character: int


class Change(NamedTuple):
    """New text for a range, or, without a range, for the whole file."""

    start: Position | None
    end: Position | None
    text: str


@dataclass(frozen=True)
class Document:
    """One version of an open file."""

    uri: str
    version: int
    source: SourceFile
    encoding: Encoding

    def offset(self, position: Position) -> int:
        return offset_of(self.source, position, self.encoding)

    def changed(self, version: int, changes: list[Change]) -> Document:
        """The file after these changes, made one after the other."""
        source = self.source
        for change in changes:
            source = SourceFile(source.path, _changed(source, change, self.encoding))
        return Document(self.uri, version, source, self.encoding)


def _changed(source: SourceFile, change: Change, encoding: Encoding) -> str:
    if change.start is None or change.end is None:
        return change.text
    start, end = (offset_of(source, position, encoding) for position in (change.start, change.end))
    return source.text[:start] + change.text + source.text[end:]


def offset_of(source: SourceFile, position: Position, encoding: Encoding) -> int:
    """The offset of a position. One beyond the end of its line, or of the file, is moved there."""
    if position.line >= len(source.line_starts):
        return len(source.text)
    start = source.line_starts[position.line]
    text = source.line_text(position.line + 1)
    return start + _characters(text, position.character, encoding)


def position_of(source: SourceFile, offset: int, encoding: Encoding) -> Position:
    line, column = source.position(offset)
    start = source.line_starts[line - 1]
    before = source.text[start : start + column - 1]
    return Position(line - 1, units_of(before, encoding))


def units_of(text: str, encoding: Encoding) -> int:
    """How long a text is where an encoding counts."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    if encoding == "utf-8":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text) + sum(character > "\uffff" for character in text)


def _characters(text: str, units: int, encoding: Encoding) -> int:
    """How many characters of a line take at most that many units."""
    if encoding == "utf-32" or text.isascii():
        return min(units, len(text))
    for count, character in enumerate(text):
        units -= units_of(character, encoding)
        if units < 0:
            return count
    return len(text)


def path_of(uri: str) -> str:
    """The path of a file; anything that is no file, such as an unsaved text, keeps its address."""
    parts = urlsplit(uri)
    return url2pathname(unquote(parts.path)) if parts.scheme == "file" else uri


def uri_of(path: str) -> str:
    return Path(path).resolve().as_uri() if "://" not in path and not path.startswith("untitled:") else path
