"""What the engine tries of one expression is bounded, whatever that is: its time is that of a hundred nodes."""

from __future__ import annotations

import random

import pytest

from benchmarks.engine import N, chain, grown
from tesserac.graph.algebra.costs import Facts
from tesserac.graph.algebra.engine import MOST_TRIED, Engine
from tesserac.graph.algebra.rules import Rule
from tesserac.graph.algebra.terms import Term


def tried(term: Term, monkeypatch: pytest.MonkeyPatch) -> int:
    """Laws beyond normal forms whose right side is made."""
    count, apply = [0], Rule.apply

    def counted(rule: Rule, at: Term) -> Term | None:
        found = apply(rule, at)
        count[0] += found is not None and not rule.law.normal
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Rule, "apply", counted)
        Engine(Facts()).simplify(term)
    return count[0]


def test_sums_that_stand_in_several_places_are_not_applied_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(grown(random.Random(1), N), monkeypatch) <= MOST_TRIED
    assert tried(grown(random.Random(8), N), monkeypatch) <= MOST_TRIED


def test_chains_need_no_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(chain([N], random.Random(0), applied=True), monkeypatch) == 0
