"""The one exception that a user of compiled code sees."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A stretch of source text; lines and columns count from 1."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


class TesseraError(Exception):
    """A user's mistake or a failed run. `str()` is the rendered text; `spans` are the places it speaks of."""

    def __init__(self, code: str, text: str, spans: tuple[Place, ...] = ()) -> None:
        super().__init__(code, text, spans)
        self.code = code
        self.text = text
        self.spans = spans

    def __str__(self) -> str:
        return self.text
