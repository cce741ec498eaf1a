"""Where diagnostics are made.

    sink.error(E0301, at=node.op_span, left="H", right="F").note(param.span, '"H" is declared here')

One line states the mistake; the calls chained to it add places, reasons and fixes. The sink hands out
finished `Diagnostic` values in the order they were made, each code at most once per place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tesserac.base.source import NO_SPAN, Span
from tesserac.base.spelling import closest, is_evident
from tesserac.diag.diagnostic import Applicability, Code, Diagnostic, Edit, Fix, Label, Severity, Step


class Draft:
    """A diagnostic that is still being written. Each method adds one thing and returns the draft."""

    def __init__(self, code: Code, title: str, primary: Label) -> None:
        self.code = code
        self._title = title
        self._primary = primary
        self._secondary: list[Label] = []
        self._because: list[Step] = []
        self._notes: list[str] = []
        self._fixes: list[Fix] = []

    def note(self, span: Span, text: str) -> Draft:
        """A second place, with what happens there."""
        self._secondary.append(Label(span, text))
        return self

    def because(self, text: str, span: Span = NO_SPAN) -> Draft:
        """The next step of the reason."""
        self._because.append(Step(text, span))
        return self

    @property
    def at(self) -> Span:
        """The place it is about."""
        return self._primary.span

    @property
    def steps(self) -> int:
        """How many steps the reason has so far."""
        return len(self._because)

    def remark(self, text: str) -> Draft:
        """A fact worth knowing that has no place in the source."""
        self._notes.append(text)
        return self

    def fix(
        self,
        title: str,
        *edits: Edit,
        applicability: Applicability = Applicability.MAYBE,
        advice: str = "",
        is_one_way: bool = False,
    ) -> Draft:
        """A change that would mend it; without edits it is advice for a person."""
        self._fixes.append(Fix(title, edits, applicability, advice, is_one_way))
        return self

    def replace(
        self,
        title: str,
        span: Span,
        text: str,
        *,
        applicability: Applicability = Applicability.MAYBE,
        advice: str = "",
        is_one_way: bool = False,
    ) -> Draft:
        """The common fix: put `text` where `span` is; `advice` says what holds where more is wrong there."""
        edit = Edit(span, text)
        return self.fix(title, edit, applicability=applicability, advice=advice, is_one_way=is_one_way)

    def did_you_mean(
        self, name: str, candidates: Iterable[str], at: Span, *, quote: str = "`", written: str = "{}"
    ) -> Draft:
        """A fix that puts the closest candidate, as `written`, where a misspelt name stands; safe if it is evident."""
        known = list(candidates)
        guess = closest(name, known)
        if guess is None:
            return self
        applicability = Applicability.SAFE if is_evident(name, guess, known) else Applicability.MAYBE
        title = f"did you mean {quote}{guess}{quote}?"
        return self.replace(title, at, written.format(guess), applicability=applicability)

    def finish(self) -> Diagnostic:
        return Diagnostic(
            code=self.code.id,
            severity=self.code.severity,
            title=self._title,
            primary=self._primary,
            secondary=tuple(self._secondary),
            because=tuple(self._because),
            notes=tuple(self._notes),
            fixes=tuple(self._fixes),
        )


class Sink:
    """Collects diagnostics. A second report of one code at one place is dropped: it would say nothing new."""

    def __init__(self) -> None:
        self._drafts: dict[tuple[str, Span], Draft] = {}

    def error(self, code: Code, *, at: Span, label: str = "", **values: object) -> Draft:
        """Report an error; `values` fill the code's title, `label` stands beside the underlined source."""
        assert code.severity is Severity.ERROR, f"{code.id} is not an error"
        return self._add(code, code.title.format(**values), Label(at, label))

    def warning(self, code: Code, *, at: Span, label: str = "", **values: object) -> Draft:
        assert code.severity is Severity.WARNING, f"{code.id} is not a warning"
        return self._add(code, code.title.format(**values), Label(at, label))

    def _add(self, code: Code, title: str, primary: Label) -> Draft:
        draft = Draft(code, _one_line(title), primary)
        self._drafts.setdefault((code.id, primary.span), draft)
        return draft

    def draft(self, code: Code, at: Span) -> Draft | None:
        """What is being written of this code at this place."""
        return self._drafts.get((code.id, at))

    def adopt(self, other: Sink, wanted: Callable[[str], bool]) -> None:
        """Takes what another sink has of the codes that are wanted."""
        for (code, span), draft in other._drafts.items():
            if wanted(code):
                self._drafts.setdefault((code, span), draft)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        alone = not self.has_errors
        return tuple(draft.finish() for draft in self._drafts.values() if alone or not draft.code.alone)

    @property
    def has_errors(self) -> bool:
        return any(code.startswith("E") for code, _ in self._drafts)

    def has_errors_in(self, span: Span) -> bool:
        return any(code.startswith("E") and span.holds(at) for code, at in self._drafts)


def _one_line(title: str) -> str:
    """Titles quote the user's text, which may hold anything; what cannot be shown is replaced."""
    return "".join(c if c.isprintable() else "\ufffd" for c in title)
