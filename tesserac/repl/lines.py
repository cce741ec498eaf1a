"""Lines become inputs.

Enters: lines as they are typed or piped. Leaves: whole inputs: a command, a statement, or an item with its block.
Brackets, triple quotes and a backslash hold an input open, and so does a block: until the next line that stands at its
beginning, and for a person until an empty line.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from tesserac.base.source import SourceFile
from tesserac.diag.codes.syntax import E0102, E0104
from tesserac.diag.sink import Sink
from tesserac.syntax.lexer import Token, tokenize

INDENT = "    "
COMMAND = ":"

_CONTINUES = re.compile(r"\s|#|[)\]}]|el(?:se|if)\b")
_LAYOUT = ("_NEWLINE", "_INDENT", "_DEDENT")


class State(Enum):
    WHOLE = auto()
    IN_BLOCK = auto()  # the next line may belong to it, or not
    CUT = auto()  # the next line does belong to it


def state_of(text: str) -> State:
    """Whether an input can end here."""
    source = SourceFile("", text)
    sink = Sink()
    tokens = tokenize(source, sink, 0, len(text)).tokens
    if text.endswith("\\") or any(_holds_open(d.code, text, d.primary.span.start) for d in sink.diagnostics):
        return State.CUT
    if _only_decorators(tokens) or _last(tokens) == ":":
        return State.CUT
    return State.IN_BLOCK if any(t.kind == "_INDENT" for t in tokens) else State.WHOLE


def _holds_open(code: str, text: str, at: int) -> bool:
    triple = text.startswith(('"""', "'''"), at)
    return code == E0102.id or (code == E0104.id and triple)


def _last(tokens: list[Token]) -> str:
    return next((t.kind for t in reversed(tokens) if t.kind not in _LAYOUT), "")


def _only_decorators(tokens: list[Token]) -> bool:
    return bool(tokens) and tokens[0].kind == "@" and not any(t.kind == "def" for t in tokens)


class LineReader:
    """`by_hand` is true where a person types: an empty line then ends a block."""

    def __init__(self, *, by_hand: bool) -> None:
        self._by_hand = by_hand
        self._lines: list[str] = []
        self._state = State.WHOLE

    @property
    def waiting(self) -> bool:
        """Whether an input is begun and not finished."""
        return bool(self._lines)

    @property
    def indentation(self) -> str:
        """What the next line most likely starts with."""
        if not self._lines or self._state is State.WHOLE:
            return ""
        last = self._lines[-1]
        own = last[: len(last) - len(last.lstrip())]
        return own + INDENT if last.rstrip().endswith(":") else own

    def feed(self, line: str) -> list[str]:
        """Takes one line; the inputs that are whole now."""
        if not self._lines:
            return self._begin(line)
        blank = not line.strip()
        if self._state is State.IN_BLOCK:
            if blank and self._by_hand:
                return [self.finish()]
            if not blank and not _CONTINUES.match(line):
                return [self.finish(), *self._begin(line)]
        return self._extend(line)

    def _begin(self, line: str) -> list[str]:
        content = line.strip()
        if not content or content.startswith("#"):
            return []
        return [content] if content.startswith(COMMAND) else self._extend(line)

    def _extend(self, line: str) -> list[str]:
        self._lines.append(line.rstrip())
        self._state = state_of("\n".join(self._lines))
        return [self.finish()] if self._state is State.WHOLE else []

    def finish(self) -> str:
        """What there is, whole or not."""
        text = "\n".join(self._lines).rstrip()
        self.drop()
        return text

    def drop(self) -> None:
        self._lines.clear()
        self._state = State.WHOLE
