"""What numbers and strings mean: escapes, and the holes of f-strings."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, cast

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile, Span
from tesserac.diag.codes.syntax import E0115, E0118
from tesserac.diag.sink import Sink
from tesserac.syntax.lexer import Token

_PREFIX = re.compile(r"[rRfF]*")
_ESCAPE = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^{}]*\}|[0-7]{1,3}|\r?\n|.|$)", re.DOTALL
)
_SIMPLE = {"\\": "\\", "'": "'", '"': '"'} | dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_HOLE_END = re.compile(r"(?P<opener>[(\[{])|(?P<closer>[)\]])|(?P<string>'[^']*'|\"[^\"]*\")|(?P<end>!(?!=)|:|\})")
_HOLE_TAIL = re.compile(r"(?:!(?P<conversion>[rsa]))?\s*(?::(?P<format>[^{}]*))?\}")
_SHOWN = re.compile(r"(?<![=!<>])=\s*\Z")

Conversion = Literal["", "r", "s", "a"]


@dataclass(frozen=True, slots=True)
class Hole:
    """`{text[start:end]!conversion:format}` at `span`; `label` is what `=` shows before the value."""

    span: Span
    start: int
    end: int
    label: str
    conversion: Conversion
    format: str


def int_value(text: str) -> int | None:
    """The value of an integer literal; None for what looks like one (`1__0`, `0b`, `007`, thousands of digits)."""
    try:
        return int(text, 0)
    except ValueError:
        return None


def float_value(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def is_formatted(token: Token) -> bool:
    prefix = _PREFIX.match(token.text)
    return prefix is not None and "f" in prefix[0].lower()


def string_parts(source: SourceFile, token: Token, sink: Sink) -> list[str | Hole]:
    """The contents of a string token: one text, or the texts and holes of an f-string."""
    prefix = _PREFIX.match(token.text)
    length = prefix.end() if prefix else 0
    quotes = 3 if token.text[length:].startswith(('"""', "'''")) and len(token.text) >= length + 6 else 1
    reader = _Reader(source, sink, token.end - quotes, "r" in token.text[:length].lower())
    start = token.start + length + quotes
    if is_formatted(token):
        return reader.formatted(start)
    return [reader.plain(start, reader.end)]


@dataclass
class _Reader:
    source: SourceFile
    sink: Sink
    end: int
    raw: bool

    def plain(self, start: int, end: int) -> str:
        if self.raw:
            return self.source.text[start:end]
        pieces: list[str] = []
        for escape in _ESCAPE.finditer(self.source.text, start, end):
            pieces += [self.source.text[start : escape.start()], self.unescape(escape)]
            start = escape.end()
        return "".join(pieces) + self.source.text[start:end]

    def unescape(self, escape: re.Match[str]) -> str:
        body = escape[0][1:]
        meaning = _meaning(body)
        if meaning is None:
            draft = self.sink.error(E0118, at=self.source.span(escape.start(), escape.end()), escape=escape[0])
            draft.remark("write `\\\\` for a backslash, or put `r` before the string")
            return body
        return meaning

    def formatted(self, position: int) -> list[str | Hole]:
        """Texts and holes by turns; nothing at all if a hole cannot be made out."""
        parts: list[str | Hole] = [""]
        while position < self.end:
            brace = next((i for i in range(position, self.end) if self.source.text[i] in "{}"), self.end)
            parts[-1] = f"{parts[-1]}{self.plain(position, brace)}"
            doubled = self.source.text[brace : min(brace + 2, self.end)]
            if doubled in ("{{", "}}"):
                parts[-1] = f"{parts[-1]}{doubled[0]}"
                position = brace + 2
            elif brace < self.end:
                try:
                    hole = self.hole(brace)
                except _BadHole as bad:
                    self.sink.error(E0115, at=self.source.span(bad.start, bad.end), problem=bad.problem).remark(
                        bad.remedy
                    )
                    return []
                parts += [hole, ""]
                position = hole.span.end
            else:
                position = brace
        return parts

    def hole(self, brace: int) -> Hole:
        start = brace + 1
        if self.source.text[brace] == "}":
            raise _BadHole(brace, start, "`}` opens nothing in this f-string", "write `}}` for a brace")
        end = self.expression_end(start)
        if end is None:
            raise _BadHole(brace, start, "`{` is never closed in this f-string", "write `{{` for a brace")
        tail = _HOLE_TAIL.match(self.source.text, end, self.end)
        if tail is None:
            remedy = "a value may be followed by `!r`, `!s` or `!a`, then by `:` and a format such as `.3f`"
            raise _BadHole(end, end + 1, "this is not a format that an f-string knows", remedy)
        shown = _SHOWN.search(self.source.text, start, end)
        stop = shown.start() if shown else end
        if not self.source.text[start:stop].strip():
            raise _BadHole(brace, end, "this hole of an f-string is empty", "write a value between the braces")
        label = self.source.text[start:end] if shown else ""
        conversion = cast(Conversion, tail["conversion"] or "")
        return Hole(self.source.span(brace, tail.end()), start, stop, label, conversion, tail["format"] or "")

    def expression_end(self, position: int) -> int | None:
        """Where the value in a hole ends: at its `}`, `:` or `!` outside brackets and strings."""
        depth = 0
        for found in _HOLE_END.finditer(self.source.text, position, self.end):
            if found.lastgroup == "opener":
                depth += 1
            elif found.lastgroup == "closer":
                depth -= 1
            elif found.lastgroup == "end":
                if depth <= 0:
                    return found.start()
                depth -= found[0] == "}"
        return None


@dataclass
class _BadHole(Exception):
    start: int
    end: int
    problem: str
    remedy: str


def _meaning(body: str) -> str | None:
    """What stands for `\\body`; None if it is no escape."""
    if body in _SIMPLE:
        return _SIMPLE[body]
    if body.endswith("\n"):
        return ""
    if body[:1] in "01234567" and body:
        return chr(int(body, 8))
    if body[:1] == "N" and len(body) > 1:
        try:
            return unicodedata.lookup(body[2:-1])
        except KeyError:
            return None
    if body[:1] in ("x", "u", "U") and len(body) > 1:
        point = int(body[1:], 16)
        return chr(point) if point <= 0x10FFFF and not 0xD800 <= point <= 0xDFFF else None
    return None
