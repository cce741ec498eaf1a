"""Mutants judged by the oracle and by the checker, and the figures of the comparison.

Scored are the mutants that the oracle rejects: whether the checker has an error for each, only one, where it points,
and whether the first fix that is offered mends it. The others are counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Applicability, Diagnostic, Fix, Severity
from tesserac.diag.render import apply_edits
from tesserac.driver.mending import with_mending_fixes
from tesserac.syntax.parse import parse_module
from tests.mutation.evaluate import judge
from tests.mutation.mutate import Mutant
from tests.mutation.values import Rejected, Unjudged
from tests.support.checking import diagnose

Verdict = str
SOUND, REJECTED, UNJUDGED = "sound", "rejected", "unjudged"


@dataclass(frozen=True)
class Outcome:
    """What the oracle says of a mutant, with its reason, and what the checker does."""

    mutant: Mutant
    verdict: Verdict
    reason: str
    codes: tuple[str, ...]
    primary: bool
    shown: bool
    fix: Fix | None
    mended: bool

    @property
    def found(self) -> bool:
        return bool(self.codes)


def examine(mutant: Mutant) -> Outcome:
    source = SourceFile("example.tess", mutant.text)
    verdict, reason = _verdict(source)
    errors = errors_of(source)
    spans = [span for d in errors for span in _spans(d)]
    offered = with_mending_fixes(errors[:1], source, diagnose, errors)
    fix = next((fix for d in offered for fix in d.fixes if fix.edits), None)
    return Outcome(
        mutant,
        verdict,
        reason,
        tuple(d.code for d in errors),
        any(_covers(source, d.primary.span.start, d.primary.span.end, mutant.line) for d in errors),
        any(_covers(source, start, end, mutant.line) for start, end in spans),
        fix,
        fix is not None and not errors_of(applied(source, fix)),
    )


def errors_of(source: SourceFile) -> list[Diagnostic]:
    return [d for d in diagnose(source) if d.severity is Severity.ERROR]


def applied(source: SourceFile, fix: Fix) -> SourceFile:
    return SourceFile(source.path, apply_edits(source.text, list(fix.edits)))


def _verdict(source: SourceFile) -> tuple[Verdict, str]:
    parsed = parse_module(source)
    if parsed.diagnostics:
        return REJECTED, "does not parse"
    try:
        judge(parsed.module)
    except Rejected as why:
        return REJECTED, str(why)
    except Unjudged as why:
        return UNJUDGED, str(why)
    return SOUND, ""


def _spans(diagnostic: Diagnostic) -> list[tuple[int, int]]:
    labels = (diagnostic.primary, *diagnostic.secondary, *diagnostic.because)
    return [(at.span.start, at.span.end) for at in labels if at.span.known and at.span.file == "example.tess"]


def _covers(source: SourceFile, start: int, end: int, line: int) -> bool:
    return source.position(start)[0] <= line <= source.position(max(start, end - 1))[0]


@dataclass(frozen=True)
class Figure:
    """So many of so many, and the share that is wanted."""

    title: str
    count: int
    total: int
    wanted: float

    @property
    def share(self) -> float:
        return self.count / self.total if self.total else 1.0

    @property
    def reached(self) -> bool:
        return self.share >= self.wanted


def figures(outcomes: Iterable[Outcome]) -> list[Figure]:
    wrong = [o for o in outcomes if o.verdict == REJECTED]
    found = [o for o in wrong if o.found]
    safe = [o for o in found if o.fix is not None and o.fix.applicability is Applicability.SAFE]
    maybe = [o for o in found if o.fix is not None and o.fix.applicability is Applicability.MAYBE]
    return [
        Figure("diagnosed", len(found), len(wrong), 0.98),
        Figure("the mutated line is the primary span", sum(o.primary for o in found), len(found), 0.70),
        Figure("the mutated line is a span or step", sum(o.shown for o in found), len(found), 0.95),
        Figure("one error only", sum(len(o.codes) == 1 for o in found), len(found), 0.95),
        Figure("a fix is offered", sum(o.fix is not None for o in found), len(found), 0.60),
        Figure("fix 1 leaves no error, `safe`", sum(o.mended for o in safe), len(safe), 1.0),
        Figure("fix 1 leaves no error, `maybe`", sum(o.mended for o in maybe), len(maybe), 0.80),
    ]
