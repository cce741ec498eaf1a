"""What a misspelt name most likely means.

Enters: a name and those that are known. Leaves: the known one that is closest, and whether it is evident: then a tool
may put it there without asking.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LEAST_EVIDENT = 4
"""Shorter names have too many neighbours one letter away."""


def closest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that a misspelt name most likely means: one slip away, or else the most alike."""
    known = {candidate.lower(): candidate for candidate in candidates}
    lower = name.lower()
    slips = [candidate for candidate in known if is_one_slip(lower, candidate)] if len(name) >= LEAST_EVIDENT else []
    close = slips or difflib.get_close_matches(lower, known, n=1, cutoff=0.6 if len(name) <= 3 else 0.75)
    return known[close[0]] if close else None


def is_evident(name: str, guess: str, candidates: Iterable[str]) -> bool:
    """Whether a name is one slip away from the guess and from no other candidate."""
    lower = name.lower()
    near = {c for c in candidates if c.lower() == lower or is_one_slip(lower, c.lower())}
    return len(name) >= LEAST_EVIDENT and near == {guess}


def is_one_slip(name: str, other: str) -> bool:
    """One letter too many, missing, wrong, or two neighbours swapped."""
    if name == other or abs(len(name) - len(other)) > 1:
        return False
    start = next((i for i, (a, b) in enumerate(zip(name, other, strict=False)) if a != b), min(len(name), len(other)))
    rest, others = name[start:], other[start:]
    swapped = rest[:2] == others[1::-1] and rest[2:] == others[2:] and len(rest) > 1
    return rest[1:] == others or rest == others[1:] or rest[1:] == others[1:] or swapped
