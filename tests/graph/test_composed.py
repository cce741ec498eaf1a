"""Every transform of every transform: each pair in the interpreter, a sample of longer chains as machine code too.
`python -m tests.tools.composed_transforms` goes on from there."""

from __future__ import annotations

import random

import pytest

from tests.support import sampling
from tests.support.composed import ALL_STEPS, FUNCTIONS, STEPS, check_chains


@pytest.mark.one_in(48)
@pytest.mark.parametrize("outer", STEPS)
def test_a_step_of_every_step(outer: str) -> None:
    check_chains([((inner, outer), "exponential") for inner in STEPS], compiled=False)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_longer_chains_are_the_same_compiled(function: str) -> None:
    rng = random.Random(function)
    count = 3 if sampling.thorough else 1
    check_chains([(rng.sample(sorted(STEPS), 3), function) for _ in range(count)], compiled=True)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("inner", sorted(ALL_STEPS.keys() - STEPS.keys()))
def test_ways_that_a_program_may_go(inner: str) -> None:
    """Each mapped, and differentiated after that."""
    check_chains([((inner,), "power"), ((inner, "vmap", "grad"), "power")], compiled=False)
