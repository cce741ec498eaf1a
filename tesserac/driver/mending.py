"""Whether a fix mends: the program with it is checked before it is made or offered.

Enters: a diagnostic, its text, and a way to check texts. Leaves: the fixes with which the mistake is gone without a new
one, and whether nothing else is said either. A line that does not parse, or a name that nothing has, keeps what stands
around it from being checked: what comes to light then was there before, unless it points at a line that the fix writes.
So it is with warnings, which are given of a program without errors only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity
from tesserac.diag.render import apply_edits

Check = Callable[[SourceFile], Sequence[Diagnostic]]
"""What is said of a text."""
_HIDING = ("E01", "E02")
"""Codes of syntax and of names."""


def with_edits(source: SourceFile, edits: Iterable[Edit]) -> SourceFile:
    """The text with the edits made."""
    return SourceFile(source.path, apply_edits(source.text, list(edits)))


def with_mending_fixes(diagnostic: Diagnostic, source: SourceFile, check: Check) -> Diagnostic:
    """The diagnostic with those of its fixes that mend it; one stays safe if nothing new is said. Advice without edits,
    and edits of other files, are left as they are."""
    return replace(diagnostic, fixes=tuple(_mending(diagnostic, source, check)))


def _mending(diagnostic: Diagnostic, source: SourceFile, check: Check) -> Iterator[Fix]:
    for fix in diagnostic.fixes:
        if not fix.edits or any(edit.span.file != source.path for edit in fix.edits):
            yield fix
            continue
        new = list(_new(source, [diagnostic], fix.edits, check))
        if any(d.severity is Severity.ERROR for d in new):
            continue
        yield replace(fix, applicability=Applicability.MAYBE) if new else fix


def is_clean(source: SourceFile, mended: Sequence[Diagnostic], edits: Sequence[Edit], check: Check) -> bool:
    """Whether edits mend these diagnostics, and nothing new is said of the text with them."""
    return not any(_new(source, mended, edits, check))


def _new(
    source: SourceFile, mended: Sequence[Diagnostic], edits: Sequence[Edit], check: Check
) -> Iterator[Diagnostic]:
    """What is said of the text with the edits and was not before; a diagnostic that they should mend counts as new."""
    before = Counter(map(_words, check(source)))
    for diagnostic in mended:
        before[_words(diagnostic)] -= 1
    text = with_edits(source, edits)
    lines = _lines(text, edits)
    hiding = all(d.code.startswith(_HIDING) for d in mended)
    for diagnostic in check(text):
        before[_words(diagnostic)] -= 1
        if before[_words(diagnostic)] >= 0:
            continue
        excused = hiding or diagnostic.severity is not Severity.ERROR
        if not excused or any(text.position(place)[0] in lines for place in _places(diagnostic, text)):
            yield diagnostic


def _places(diagnostic: Diagnostic, text: SourceFile) -> Iterator[int]:
    """All that a diagnostic points at in a text."""
    spans = [label.span for label in (diagnostic.primary, *diagnostic.secondary)]
    spans += [step.span for step in diagnostic.because]
    yield from (span.start for span in spans if span.known and span.file == text.path)


def _words(diagnostic: Diagnostic) -> tuple[str, str]:
    """What tells diagnostics apart in two texts, in which they stand in different places."""
    return diagnostic.code, diagnostic.title


def _lines(text: SourceFile, edits: Sequence[Edit]) -> set[int]:
    """The lines of the new text that edits have written."""
    lines: set[int] = set()
    moved = 0
    for edit in sorted(edits, key=lambda edit: edit.span.start):
        start = edit.span.start + moved
        end = start + len(edit.replacement)
        lines.update(range(text.position(start)[0], text.position(end)[0] + 1))
        moved += len(edit.replacement) - (edit.span.end - edit.span.start)
    return lines
