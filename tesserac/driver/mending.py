"""Whether a fix mends: the program with it is checked before it is made or offered.

Enters: diagnostics, their text, and a way to check texts. Leaves: the fixes with which a mistake is gone without a new
one, and whether nothing else is said either. A line that does not parse, or a name that nothing has, keeps what stands
around it from being checked: what comes to light then was there before, unless it points at a line that the fix writes.
So it is with warnings, which are given of a program without errors only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity
from tesserac.diag.render import apply_edits

Check = Callable[[SourceFile], Sequence[Diagnostic] | None]
"""What is said of a text; None where that cannot be told."""
MOST_CHECKS = 24
"""Trials for one file: one with a hundred mistakes is told about as soon as one with few."""
_HIDING = ("E01", "E02")
"""Codes of syntax and of names."""

Proposal = tuple[Diagnostic, Fix]


def with_edits(source: SourceFile, edits: Iterable[Edit]) -> SourceFile:
    """The text with the edits made."""
    return SourceFile(source.path, apply_edits(source.text, list(edits)))


def with_mending_fixes(
    said: Sequence[Diagnostic], source: SourceFile, check: Check, among: Sequence[Diagnostic] = ()
) -> tuple[Diagnostic, ...]:
    """Diagnostics of a file, all of them or some `among` all, with those of their fixes that mend; one stays safe if
    nothing new is said. Advice without edits, and edits of other files, are left as they are. What does not mend, and
    what is still untried after `MOST_CHECKS`, is left out, or is its advice."""
    trials = _Trials(source, among or said, check)
    kept: dict[tuple[int, int], Fix] = {}
    for rank in range(max((len(d.fixes) for d in said), default=0)):
        places = [n for n, d in enumerate(said) if len(d.fixes) > rank and _is_own(d.fixes[rank], source)]
        proposals = [(said[n], said[n].fixes[rank]) for n in places]
        found = trials.mending(proposals)
        kept |= {(n, rank): fix for n, fix in zip(places, found, strict=True) if fix is not None}
    return tuple(
        replace(d, fixes=tuple(f for k, own in enumerate(d.fixes) if (f := _offered(own, kept.get((n, k)), source))))
        for n, d in enumerate(said)
    )


def _offered(fix: Fix, tried: Fix | None, source: SourceFile) -> Fix | None:
    """A fix as it was tried; of one that does not mend, its advice."""
    if tried is not None or not _is_own(fix, source):
        return tried or fix
    return replace(fix, title=fix.advice, edits=()) if fix.advice else None


def _is_own(fix: Fix, source: SourceFile) -> bool:
    """Whether a fix changes this file and no other; advice changes none."""
    return bool(fix.edits) and all(edit.span.file == source.path for edit in fix.edits)


class _Trials:
    """Tries fixes of one text, as many together as mend: what does not is found by halving."""

    def __init__(self, source: SourceFile, before: Sequence[Diagnostic], check: Check) -> None:
        self._source, self._before, self._check, self._left = source, before, check, MOST_CHECKS

    def mending(self, proposals: Sequence[Proposal]) -> list[Fix | None]:
        """Each fix, as it may be offered; None for those that do not mend."""
        if len(proposals) <= 1:
            return [self._alone(diagnostic, fix) for diagnostic, fix in proposals]
        if _are_apart(proposals) and self._new(proposals) == []:
            return [fix for _, fix in proposals]
        half = len(proposals) // 2
        return self.mending(proposals[:half]) + self.mending(proposals[half:])

    def _alone(self, diagnostic: Diagnostic, fix: Fix) -> Fix | None:
        new = self._new([(diagnostic, fix)])
        if new is None or any(d.severity is Severity.ERROR for d in new):
            return None
        return replace(fix, applicability=Applicability.MAYBE) if new else fix

    def _new(self, proposals: Sequence[Proposal]) -> list[Diagnostic] | None:
        if self._left == 0:
            return None
        self._left -= 1
        edits = [edit for _, fix in proposals for edit in fix.edits]
        return _new(self._source, self._before, [diagnostic for diagnostic, _ in proposals], edits, self._check)


def _are_apart(proposals: Sequence[Proposal]) -> bool:
    spans = sorted((edit.span.start, edit.span.end) for _, fix in proposals for edit in fix.edits)
    return all(left[1] < right[0] for left, right in pairwise(spans))


def is_clean(source: SourceFile, mended: Sequence[Diagnostic], edits: Sequence[Edit], check: Check) -> bool:
    """Whether edits mend these diagnostics, and nothing new is said of the text with them."""
    before = check(source)
    return before is not None and _new(source, before, mended, edits, check) == []


def _new(
    source: SourceFile,
    said_before: Sequence[Diagnostic],
    mended: Sequence[Diagnostic],
    edits: Sequence[Edit],
    check: Check,
) -> list[Diagnostic] | None:
    """What is said of the text with the edits and was not before; a diagnostic that they should mend counts as new.
    None where that cannot be told."""
    text = with_edits(source, edits)
    said = check(text)
    if said is None:
        return None
    before = Counter(map(_words, said_before))
    for diagnostic in mended:
        before[_words(diagnostic)] -= 1
    lines = _lines(text, edits)
    hiding = all(d.code.startswith(_HIDING) for d in mended)
    new: list[Diagnostic] = []
    for diagnostic in said:
        before[_words(diagnostic)] -= 1
        if before[_words(diagnostic)] >= 0:
            continue
        excused = hiding or diagnostic.severity is not Severity.ERROR
        if not excused or any(text.position(place)[0] in lines for place in _places(diagnostic, text)):
            new.append(diagnostic)
    return new


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
