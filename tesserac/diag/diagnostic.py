"""A diagnostic as data.

Built once, through a `Sink`; shown as terminal text, one line, JSON or in an editor by `render.py` and the
language server. Nothing here knows how it will look.
"""

from __future__ import annotations

from enum import StrEnum

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Applicability(StrEnum):
    """SAFE: the fix keeps what the author evidently meant. MAYBE: it is one of several readings."""

    SAFE = "safe"
    MAYBE = "maybe"


@dataclass(frozen=True, slots=True)
class Code:
    """A stable name for one kind of mistake, with the title that its diagnostics share.

    The letter gives the severity (`E0302`, `W0401`). `title` is a format string over the values that the sink
    is given. What one that is told `alone` warns of is often what an error comes from: it is not said beside one.
    """

    id: str
    title: str
    alone: bool = False

    @property
    def severity(self) -> Severity:
        return Severity.WARNING if self.id.startswith("W") else Severity.ERROR


@dataclass(frozen=True, slots=True)
class Label:
    """A place in the source and what is to be said about it; the text may be empty."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One link of the chain that explains the mistake."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Edit:
    span: Span
    replacement: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that a tool may apply together; their spans do not overlap. `advice` holds also where the edits alone do
    not mend the program, since more is wrong there; then they may be made all the same, unless they are only one way to
    follow it."""

    title: str
    edits: tuple[Edit, ...]
    applicability: Applicability
    advice: str = ""
    is_one_way: bool = False


@dataclass(frozen=True, slots=True)
class Diagnostic:
    code: str
    severity: Severity
    title: str
    primary: Label
    secondary: tuple[Label, ...] = ()
    because: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    fixes: tuple[Fix, ...] = ()
