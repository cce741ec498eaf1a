"""What a file does not define because a part of it did not parse.

Enters: a file, and the errors of its syntax. Leaves: which of the errors of its meaning follow from them. A name that
stands in a line that did not parse, or that the rest of that item would define, is not missing: it was told already.
Of a struct with such a line nobody knows what else it has, so that what does not fit it says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile, Span
from tesserac.diag.codes.names import E0201, E0204, E0205, E0208, E0938
from tesserac.diag.codes.syntax import E0102, E0103
from tesserac.diag.diagnostic import Diagnostic, Severity
from tesserac.syntax.split import Piece, split_items

_WORD = re.compile(r"\w+")
_DEFINED = re.compile(r"^[ \t]*(?:(?:def|struct|param)\s+(\w+)|(\w+)[ \t]*[:=](?!=))", re.MULTILINE)
_STRUCT = re.compile(r"(?:@.*\n)*struct\s+(\w+)")
MIN_NAME = 3
"""Letters of a name by which a longer one is known that begins with it."""
_BRACKETS = (E0102.id, E0103.id)
_NAMING = (E0201.id, E0204.id, E0205.id, E0208.id, E0938.id)


@dataclass(frozen=True)
class Unread:
    """Names that a file would define, and its structs that are known in part, by name and place."""

    source: SourceFile
    names: frozenset[str]
    lines: tuple[Piece, ...]
    structs: tuple[tuple[str, Piece], ...]

    def explains(self, diagnostic: Diagnostic) -> bool:
        """Whether an error is there only because of what was not read."""
        file, start, end = diagnostic.primary.span
        if file != self.source.path or diagnostic.severity is not Severity.ERROR:
            return False
        if any(_holds(line, start) for line in self.lines):
            return True
        if diagnostic.code in _NAMING and self._is_unread(self.source.text[start:end]):
            return True
        return any(self._is_of(diagnostic, name, piece) for name, piece in self.structs)

    def _is_unread(self, name: str) -> bool:
        """A name, or what a missing bracket has run together with the word after it."""
        return name in self.names or (len(name) >= MIN_NAME and any(known.startswith(name) for known in self.names))

    def _is_of(self, diagnostic: Diagnostic, name: str, piece: Piece) -> bool:
        named = re.search(rf"`{name}[`\[]", diagnostic.title) is not None
        places = [label.span for label in diagnostic.secondary]
        if not _is_within(diagnostic.primary.span, piece):
            places += [step.span for step in diagnostic.because]
        return named or any(span.file == self.source.path and _is_within(span, piece) for span in places)


def unread_of(source: SourceFile, syntax: Iterable[Diagnostic]) -> Unread:
    broken = sorted(_place(source, d) for d in syntax if d.severity is Severity.ERROR)
    own = [start for start in broken if start >= 0]
    pieces = {piece: start for start in reversed(own) for piece in split_items(source.text) if _holds(piece, start)}
    lines = tuple(_line(source.text, start) for start in own)
    names = {word for line in lines for word in _WORD.findall(source.text, *line)}
    names |= {name for piece, start in pieces.items() for name in _defined(source.text, piece, start)}
    return Unread(source, frozenset(names), lines, tuple(_in_part(source.text, pieces)))


def one_per_line(source: SourceFile, syntax: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Of several errors in one line the first: of brackets if there is one, since the rest was read without it."""
    kept: list[Diagnostic] = []
    first: dict[Piece, Diagnostic] = {}
    for diagnostic in sorted(syntax, key=lambda d: (d.primary.span.start, d.code)):
        if diagnostic.severity is not Severity.ERROR or diagnostic.primary.span.file != source.path:
            kept.append(diagnostic)
            continue
        line = _line(source.text, diagnostic.primary.span.start)
        known = first.setdefault(line, diagnostic)
        if known.code not in _BRACKETS and diagnostic.code in _BRACKETS:
            first[line] = diagnostic
    return [*kept, *first.values()]


def _in_part(text: str, broken: Iterable[Piece]) -> Iterator[tuple[str, Piece]]:
    """The structs of which a line did not parse, and those that have such a struct as a field."""
    structs = {piece: found[1] for piece in split_items(text) if (found := _STRUCT.match(text, piece.start))}
    waiting = [piece for piece in broken if piece in structs]
    seen = set(waiting)
    while waiting:
        piece = waiting.pop()
        yield structs[piece], piece
        users = [user for user in structs if user not in seen and _mentions(text, user, structs[piece])]
        waiting += users
        seen.update(users)


def _mentions(text: str, piece: Piece, name: str) -> bool:
    """Whether an item has a name, or the part of it that comes before a bracket that is missing."""
    words = {word for word in _WORD.findall(text, *piece) if len(word) >= MIN_NAME}
    return name in words or any(name.startswith(word) for word in words)


def _place(source: SourceFile, diagnostic: Diagnostic) -> int:
    """Where the part that did not parse begins: a bracket that is closed wrongly was opened before. -1 elsewhere."""
    if diagnostic.primary.span.file != source.path:
        return -1
    places = [label.span.start for label in diagnostic.secondary if label.span.file == source.path]
    return min(diagnostic.primary.span.start, *places) if places else diagnostic.primary.span.start


def _defined(text: str, piece: Piece, start: int) -> Iterator[str]:
    """The names that an item defines from a line on."""
    line = text.rfind("\n", 0, start) + 1
    for found in _DEFINED.finditer(text, line, piece.end):
        yield found[1] or found[2]


def _line(text: str, place: int) -> Piece:
    end = text.find("\n", place)
    return Piece(text.rfind("\n", 0, place) + 1, end if end >= 0 else len(text))


def _holds(piece: Piece, start: int) -> bool:
    return piece.start <= start <= piece.end


def _is_within(span: Span, piece: Piece) -> bool:
    return piece.start <= span.start and span.end <= piece.end
