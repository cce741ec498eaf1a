"""What is wrong with a file, in the order of the text, as many as an editor can use."""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.diag.diagnostic import Diagnostic, Severity

LIMIT = 100
"""More than these help nobody, and slow editors down."""


def shown(diagnostics: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The first errors, then as many of the others as there is room for; all in the order of the text."""
    if len(diagnostics) <= LIMIT:
        return tuple(diagnostics)
    by_weight = sorted(diagnostics, key=lambda diagnostic: diagnostic.severity is not Severity.ERROR)
    kept = set(map(id, by_weight[:LIMIT]))
    return tuple(diagnostic for diagnostic in diagnostics if id(diagnostic) in kept)
