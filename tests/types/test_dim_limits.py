"""Sizes without end: every one is checked or refused with a code, after a counted amount of work."""

from __future__ import annotations

import pytest

from benchmarks.dims import PATHOLOGICAL
from tesserac.base.source import SourceFile
from tesserac.check.sizes.bounds import BUDGET, Prover
from tesserac.check.sizes.elimination import Budget, contradicts
from tesserac.types.dims import Dim, TooComplex
from tests.support.checking import diagnose

LIMITS = {"E0114", "E0316"}


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_it_ends_in_time(name: str) -> None:
    """Fine, or too complex: nothing else is wrong with these programs. The sizes are a tenth of the benchmark's."""
    found = diagnose(SourceFile(f"{name}.tess", PATHOLOGICAL[name](10)))
    assert {diagnostic.code for diagnostic in found} <= LIMITS


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", ["sums", "division chain", "floors in floors", "squares"])
def test_the_hardest_are_refused(name: str) -> None:
    found = diagnose(SourceFile(f"{name}.tess", PATHOLOGICAL[name](1)))
    assert "E0316" in {diagnostic.code for diagnostic in found}


def test_a_search_stops_at_its_budget() -> None:
    rows = [sum((Dim.sym(f"A{(i * j) % 17}") * ((i + j) % 7 - 3) for j in range(12)), Dim.const(i)) for i in range(40)]
    budget = Budget(200)
    assert not contradicts(rows, budget) and budget.spent
    prover = Prover(rows, lambda name: True, Budget(BUDGET))
    prover.never_negative(Dim.sym("A1") - Dim.sym("A2") - 5)
    assert prover.budget.left >= -40


def test_products_powers_and_nesting_are_limited() -> None:
    wide = sum((Dim.sym(f"A{i}") for i in range(40)), Dim.const(1))
    with pytest.raises(TooComplex):
        wide * wide
    power = Dim.sym("N")
    with pytest.raises(TooComplex):
        for _ in range(10):
            power = power * power
    nested = Dim.sym("N")
    with pytest.raises(TooComplex):
        for _ in range(40):
            nested = (nested + 1).floor_div(3)


INDICES = [
    "x[:min(N, 2**64)]",
    "x[min(N, 2**64) - 1:]",
    "x[min(N, 2**64) - 1]",
    "x[::2**64]",
    "x.at[min(N, 2**64) - 1].set(1.0)",
]


@pytest.mark.parametrize("index", INDICES)
def test_an_index_beyond_the_integers_of_a_run_is_one_error(index: str) -> None:
    """Also where it is only the part of a minimum that is never taken."""
    found = diagnose(SourceFile("wide.tess", f"def f(x: Tensor[N, f32]) where N >= 1:\n    return {index}\n"))
    assert [diagnostic.code for diagnostic in found] == ["E0315"]
