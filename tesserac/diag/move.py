"""A diagnostic moved to another place in the text, as the items it speaks of are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tesserac.base.source import Span
from tesserac.diag.diagnostic import Diagnostic, Edit, Label, Step


def moved_diagnostic(diagnostic: Diagnostic, by: int) -> Diagnostic:
    """A copy that stands `by` characters further on, for a diagnostic that speaks of one item only."""
    file = diagnostic.primary.span.file
    return placed_diagnostic(diagnostic, lambda old: Span(file, old.start + by, old.end + by) if old.known else old)


def placed_diagnostic(diagnostic: Diagnostic, place: Callable[[Span], Span]) -> Diagnostic:
    """A copy with every span where `place` puts it."""

    def label(old: Label) -> Label:
        return Label(place(old.span), old.text)

    return replace(
        diagnostic,
        primary=label(diagnostic.primary),
        secondary=tuple(label(secondary) for secondary in diagnostic.secondary),
        because=tuple(Step(step.text, place(step.span)) for step in diagnostic.because),
        fixes=tuple(
            replace(fix, edits=tuple(Edit(place(edit.span), edit.replacement) for edit in fix.edits))
            for fix in diagnostic.fixes
        ),
    )
