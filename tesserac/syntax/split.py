"""Cut a file into top-level items, so that an error spoils one item and an edit reparses one.

An item starts at a column-0 line that is not inside brackets or a triple-quoted string and does not begin with a
closing bracket, `#`, `else` or `elif`. Decorators belong to the next `def`. An item that never closes is cut again
at its next column-0 line that can only be the start of another one.

Only the cuts are made here; the lexer of the piece reports what is wrong with it. What lies between two lines that
could be cuts is read once and remembered, so that cutting a file again after a keystroke reads one such stretch.
See Note [Brackets of a stretch].
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

MAX_RECUTS = 8
"""Each recut reads the rest of the file again. After this many, every `_RESTART` line is a cut."""

REMEMBERED_STRETCHES = 16384

_EVENT = re.compile(
    r'''(?P<string>"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""|'{3}[^'\\]*(?:(?:\\.|'(?!'{2}))[^'\\]*)*'{3}
      |"(?!"")[^"\\\n]*(?:\\.[^"\\\n]*)*"?|'(?!'{2})[^'\\\n]*(?:\\.[^'\\\n]*)*'?|\#[^\n]*|\\\r?\n)
      |(?P<forever>"""|'{3})
      |(?P<open>[(\[{])
      |(?P<close>[)\]}])
      |\n(?P<cut>(?=[^\s\#)\]}])(?!el(?:se|if)\b))''',
    re.VERBOSE | re.DOTALL,
)
_CANDIDATE = re.compile(r"\n(?=[^\s#)\]}])(?!el(?:se|if)\b)")
_RESTART = re.compile(r"^(?=(?:def|struct|param|test|from|import)\b|@)", re.MULTILINE)
_DECORATED = re.compile(r"@|def\b")


class Piece(NamedTuple):
    start: int
    end: int


def split_items(text: str) -> list[Piece]:
    """The items of a file, in order. What lies between them is blank lines and comments."""
    starts = _item_starts(text)
    ends = [*starts[1:], len(text)]
    pieces = [Piece(start, end) for start, end in zip(starts, ends, strict=True) if text[start:end].strip()]
    return _join_decorators(text, pieces)


def _item_starts(text: str) -> list[int]:
    starts = [_first_content(text)]
    for _ in range(MAX_RECUTS):
        found, closed = _cuts_from(text, starts[-1])
        starts += found
        restart = None if closed else _RESTART.search(text, starts[-1] + 1)
        if restart is None:
            return starts
        starts.append(restart.start())
    return starts + [match.start() for match in _RESTART.finditer(text, starts[-1] + 1)]


def _first_content(text: str) -> int:
    """Where the first line that is not blank begins: a comment above everything is no item."""
    found = re.compile(r"\ufeff?(?:[ \t\f\r]*(?:#[^\n]*)?(?:\n|$))*").match(text)
    return found.end() if found else 0


def _cuts_from(text: str, start: int) -> tuple[list[int], bool]:
    """The item starts after `start`, and whether the last item found is closed by the end of the file."""
    cuts: list[int] = []
    depth = 0
    begin = item = start
    for candidate in _CANDIDATE.finditer(text, start):
        end = candidate.end()
        stretch = _read_stretch(text[begin:end])
        if stretch is None:
            found, closed = _cuts_by_event(text, item)
            return cuts + found, closed
        depth = stretch.leave(depth)
        if depth == 0:
            cuts.append(end)
            item = end
        begin = end
    found, closed = _cuts_by_event(text, begin, depth)
    return cuts + found, closed


def _cuts_by_event(text: str, start: int, depth: int = 0) -> tuple[list[int], bool]:
    """The same, reading every string and bracket up to the end of the file."""
    cuts: list[int] = []
    for event in _EVENT.finditer(text, start):
        kind = event.lastgroup
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth = max(depth - 1, 0)
        elif kind == "cut" and depth == 0:
            cuts.append(event.end())
        elif kind == "forever":
            return cuts, False
    return cuts, depth == 0


class _Stretch(NamedTuple):
    """What a stretch of text does to the number of open brackets; `lowest` is the lowest it gets from 0, unclamped."""

    net: int
    lowest: int

    def leave(self, depth: int) -> int:
        return self.net + max(depth, -self.lowest)


@lru_cache(maxsize=REMEMBERED_STRETCHES)
def _read_stretch(text: str) -> _Stretch | None:
    """None if something in it reaches over its end: a string, or a line joined to the next by a backslash."""
    net = lowest = 0
    ended = False
    for event in _EVENT.finditer(f"{text}x"):
        kind = event.lastgroup
        if kind == "forever":
            return None
        net += (kind == "open") - (kind == "close")
        lowest = min(lowest, net)
        ended = kind == "cut" and event.end() == len(text)
    return _Stretch(net, lowest) if ended else None


def _join_decorators(text: str, pieces: list[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    open_decorators = False
    for piece in pieces:
        if open_decorators and _DECORATED.match(text, piece.start):
            joined[-1] = Piece(joined[-1].start, piece.end)
        else:
            joined.append(piece)
        open_decorators = text[piece.start] == "@"
    return joined


# Note [Brackets of a stretch]
# Closing brackets that nothing opened count for nothing, so from depth d the text "))(" leads to max(d - 2, 0) + 1. A
# walk that is stopped at 0 ends where the free walk does, raised by what it would have sunk below 0: with the free
# walk's end `net` and lowest point `lowest`, that is net + max(d, -lowest). Hence a stretch is read once, whatever was
# open before it. It is read on its own only if its last newline was seen as one: then no token crosses its end.
