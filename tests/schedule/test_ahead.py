"""Loops of small steps beside products that do not wait for them: which those are, and that nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.schedule.dialect import BESIDE
from tesserac.schedule.machine import AARCH64, SM_80, Machine
from tests.schedule.test_sequential import host

STEPS = """
def f(p: Tensor[K, N, f32], i: Tensor[K, i64], x: Tensor[M, 64, f32], w: Tensor[64, 64, f32]):
    for t in range(3):
        for c in range(K):
            p[c] = p[c] - {}
        x = {}
    return p, x
"""
PROGRAM = STEPS.format("p[c, i[c]] * 0.5 - max(p[c])", "x @ w")


def beside(program: str, machine: Machine = AARCH64) -> int:
    return sum(op.name == BESIDE for op in host(program, "f", machine).walk())


def bits(results: object) -> list[bytes]:
    assert isinstance(results, tuple)
    return [np.asarray(result).tobytes() for result in results]


def test_what_does_not_wait_runs_beside() -> None:
    assert beside(PROGRAM) == 1
    assert beside(PROGRAM, SM_80) == 0


@pytest.mark.parametrize("product", ["x @ w + p[0, 0]", "x * 2.0"])
def test_other_loops_stay(product: str) -> None:
    """What follows reads what the loop writes, or is no product."""
    assert beside(STEPS.format("max(p[c])", product)) == 0


@pytest.mark.one_in(4)
def test_bits_and_errors() -> None:
    run, random = tessera.compile(PROGRAM).f, np.random.default_rng(3)
    given = [random.standard_normal(shape).astype("f4") for shape in ((5, 40), (700, 64), (64, 64))]
    good, bad = np.array([0, 39, 7, 1, 2]), np.array([0, 39, 40, 1, 2])
    count = tessera.get_num_threads()
    try:
        tessera.set_num_threads(1)
        wanted = bits(run(given[0], good, *given[1:]))
        for threads in (3, 4, 6):
            tessera.set_num_threads(threads)
            for _ in range(5):
                assert bits(run(given[0], good, *given[1:])) == wanted
            with pytest.raises(tessera.TesseraError, match="index 40"):
                run(given[0], bad, *given[1:])
    finally:
        tessera.set_num_threads(count)
