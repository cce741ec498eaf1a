"""Whether a fix mends: the program with it is checked before it is made or offered.

Enters: diagnostics, their text, and a way to check texts. Leaves: the fixes with which a mistake is gone without a new
one, and whether nothing else is said either. A line that does not parse, or a name that nothing has, keeps what stands
around it from being checked: what comes to light then was there before, unless it points at a line that the fix writes.
So it is with warnings, which are given of a program without errors only. What has no type hides mistakes too, and no
line tells those from what a wrong fix brings about: see Note [Mistakes in a row].

Note [Mistakes in a row]
~~~~~~~~~~~~~~~~~~~~~~~~
`(x - mu) / sqrt(var) * g + b`, with four vectors that have to be lined up, is four mistakes of which one is told: what
is subtracted has no type, so nothing is said of the rest. With `mu[:, None]` the next of them is an error, and the fix
would not count as one. So a fix that brings errors is followed: theirs are made too, and those of what comes then. If
that ends in a program without new errors, the fix is the first step of a repair, and offered, if none of the
diagnostic's fixes mends alone. A step that writes the kind of mistake that it mends is no step on.

A fix that says the same in the words of this language, `softmax(y, x)` for `F.softmax(y, x)` or a struct for a class,
is right whatever else is wrong with what it writes: it counts if the text parses, and what comes to light is told next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity
from tesserac.diag.render import apply_edits

Check = Callable[[SourceFile], Sequence[Diagnostic] | None]
"""What is said of a text; None where that cannot be told."""
MOST_CHECKS = 24
"""Trials for one file: one with a hundred mistakes is told about as soon as one with few."""
MOST_STEPS = 6
"""Fixes that are made in a row to see where the first of them leads."""
_SYNTAX = "E01"
_HIDING = (_SYNTAX, "E02")
"""Codes of syntax and of names."""
_OF_NAMES = ("E0201", "E0208")
"""Codes of names that nothing has: no fix of another mistake takes a name away."""

Proposal = tuple[Diagnostic, Fix]


@dataclass(frozen=True)
class _Tried:
    """A text with edits made, what is said of it, what of that is new, and where the edits stand."""

    text: SourceFile
    said: Sequence[Diagnostic]
    new: list[Diagnostic]
    written: list[range]

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.new if d.severity is Severity.ERROR]


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
    unmended = set(range(len(said))) - {n for n, _ in kept}
    kept |= {(n, rank): fix for n in sorted(unmended) for rank, fix in trials.first_step(said[n])}
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
        if _are_apart(proposals) and self._mend_together(proposals):
            return [fix for _, fix in proposals]
        half = len(proposals) // 2
        return self.mending(proposals[:half]) + self.mending(proposals[half:])

    def _mend_together(self, proposals: Sequence[Proposal]) -> bool:
        tried = self._tried(self._source, self._before, proposals)
        return tried is not None and not tried.new

    def first_step(self, diagnostic: Diagnostic) -> list[tuple[int, Fix]]:
        """The first fix, and its place among all, that begins a repair of several steps; none if there is none."""
        for rank, fix in enumerate(diagnostic.fixes):
            if _is_own(fix, self._source) and self._leads_on(diagnostic, fix):
                return [(rank, replace(fix, applicability=Applicability.MAYBE))]
        return []

    def _leads_on(self, diagnostic: Diagnostic, fix: Fix) -> bool:
        """Whether the fixes of what a fix brings to light, and of what those do, end in a text without new errors."""
        steps: Sequence[Proposal] = [(diagnostic, fix)]
        tried = self._tried(self._source, self._before, steps)
        written: list[tuple[str, range]] = []
        for _ in range(MOST_STEPS):
            if tried is None or not tried.errors:
                return tried is not None
            written += [(d.code, place) for d, _ in steps for place in tried.written]
            steps = [(d, fix) for d in tried.errors for fix in d.fixes[:1] if _is_own(fix, tried.text)]
            if len(steps) < len(tried.errors) or not _are_apart(steps) or _go_round(steps, written):
                return False
            written = [(code, _moved(place, _edits(steps))) for code, place in written]
            tried = self._tried(tried.text, tried.said, steps)
        return False

    def _alone(self, diagnostic: Diagnostic, fix: Fix) -> Fix | None:
        tried = self._tried(self._source, self._before, [(diagnostic, fix)])
        if tried is None or (tried.errors and not (_is_right_anyhow(fix) and _is_behind(diagnostic, tried))):
            return None
        return replace(fix, applicability=Applicability.MAYBE) if tried.new else fix

    def _tried(self, text: SourceFile, said: Sequence[Diagnostic], proposals: Sequence[Proposal]) -> _Tried | None:
        if self._left == 0:
            return None
        self._left -= 1
        return _try(text, said, [diagnostic for diagnostic, _ in proposals], _edits(proposals), self._check)


def _is_right_anyhow(fix: Fix) -> bool:
    """Whether what it writes is what its advice says, which holds whatever else is wrong."""
    return bool(fix.advice) and not fix.is_one_way


def _is_behind(diagnostic: Diagnostic, tried: _Tried) -> bool:
    """Whether what comes to light is another mistake, which the one that is mended hid: the text parses, and what was
    wrong is not wrong where the fix writes."""
    def is_still_there(said: Diagnostic) -> bool:
        return _words(said) == _words(diagnostic) and any(said.primary.span.start in place for place in tried.written)

    return not any(said.code.startswith(_SYNTAX) or is_still_there(said) for said in tried.errors)


def _edits(proposals: Sequence[Proposal]) -> list[Edit]:
    return [edit for _, fix in proposals for edit in fix.edits]


def _are_apart(proposals: Sequence[Proposal]) -> bool:
    spans = sorted((edit.span.start, edit.span.end) for edit in _edits(proposals))
    return all(left[1] < right[0] for left, right in pairwise(spans))


def _go_round(steps: Sequence[Proposal], written: Sequence[tuple[str, range]]) -> bool:
    """Whether what was written at one of these places, to mend a mistake, is such a mistake itself."""
    return any(d.code == code and d.primary.span.start in place for d, _ in steps for code, place in written)


def _meet(edit: Edit, place: range) -> bool:
    return edit.span.start < place.stop and place.start < edit.span.end


def _moved(place: range, edits: Sequence[Edit]) -> range:
    """Where a part of a text stands after edits elsewhere; of one around it, all that it writes."""
    around = next((edit for edit in edits if _meet(edit, place)), None)
    start, count = (place.start, len(place)) if around is None else (around.span.start, len(around.replacement))
    by = sum(len(e.replacement) - (e.span.end - e.span.start) for e in edits if e.span.end <= start)
    return range(start + by, start + by + count)


def is_clean(source: SourceFile, mended: Sequence[Diagnostic], edits: Sequence[Edit], check: Check) -> bool:
    """Whether edits mend these diagnostics, and nothing new is said of the text with them."""
    before = check(source)
    tried = None if before is None else _try(source, before, mended, edits, check)
    return tried is not None and not tried.new


def _try(
    source: SourceFile,
    said_before: Sequence[Diagnostic],
    mended: Sequence[Diagnostic],
    edits: Sequence[Edit],
    check: Check,
) -> _Tried | None:
    """The text with the edits. What is said of it and was not before is new, and so is a diagnostic that they should
    mend and do not. None where nothing can be told."""
    text = with_edits(source, edits)
    said = check(text)
    if said is None:
        return None
    written = _written(edits)
    lines = {line for place in written for line in range(*_lines(text, place))}
    left = Counter(map(_words, said_before))
    left.subtract(map(_words, mended))
    hiding = all(d.code.startswith(_HIDING) for d in mended)
    new: list[Diagnostic] = []
    for diagnostic in said:
        left[_words(diagnostic)] -= 1
        if left[_words(diagnostic)] >= 0:
            continue
        excused = hiding or diagnostic.severity is not Severity.ERROR or diagnostic.code in _OF_NAMES
        if not excused or any(text.position(place)[0] in lines for place in _places(diagnostic, text)):
            new.append(diagnostic)
    return _Tried(text, said, new, written)


def _places(diagnostic: Diagnostic, text: SourceFile) -> Iterator[int]:
    """All that a diagnostic points at in a text."""
    spans = [label.span for label in (diagnostic.primary, *diagnostic.secondary)]
    spans += [step.span for step in diagnostic.because]
    yield from (span.start for span in spans if span.known and span.file == text.path)


def _words(diagnostic: Diagnostic) -> tuple[str, str]:
    """What tells diagnostics apart in two texts, in which they stand in different places."""
    return diagnostic.code, diagnostic.title


def _written(edits: Sequence[Edit]) -> list[range]:
    """The parts of the new text that edits have written."""
    places: list[range] = []
    moved = 0
    for edit in sorted(edits, key=lambda edit: edit.span.start):
        start = edit.span.start + moved
        places.append(range(start, start + len(edit.replacement)))
        moved += len(edit.replacement) - (edit.span.end - edit.span.start)
    return places


def _lines(text: SourceFile, place: range) -> tuple[int, int]:
    """The lines that a part of a text stands in, from the first to the one behind the last."""
    return text.position(place.start)[0], text.position(place.stop)[0] + 1
