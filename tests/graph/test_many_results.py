"""Functions of many results: what is made for each does not grow with how many there are."""

from __future__ import annotations

import cProfile
import pstats
import sys

import numpy as np
import pytest

import tessera
from tessera import TesseraError
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.target.cpu.build import host_platform
from tests.support.sampling import spread

KINDS = {"maps": "x + {}.0", "sums": "sum(x * {}.0)", "the argument": "x", "products": "x @ x.T * {}.0"}


def program(kind: str, count: int) -> str:
    results = ", ".join(KINDS[kind].format(i) for i in range(count))
    return f"def f(x: Tensor[N, M, f32]):\n    return ({results})\n"


def built(kind: str, count: int) -> tuple[int, int]:
    """(bytes of code, calls of Python functions that it took)."""
    session, source = Session(), SourceFile("many.tess", program(kind, count))
    function, profile = session.function(source, "f"), cProfile.Profile()
    artifact = profile.runcall(session.artifact, source, function, host_platform())
    return len(artifact.code.text), pstats.Stats(profile).total_calls  # type: ignore[attr-defined]


@pytest.mark.one_in(48)
@pytest.mark.parametrize("kind", spread(KINDS, 3))
def test_the_work_for_a_result_does_not_depend_on_their_number(kind: str) -> None:
    built(kind, 2)
    few, more, many = (built(kind, count) for count in (40, 80, 120))
    for one, two, three in zip(few, more, many, strict=True):
        # As many more are as much work, and longer instructions for places further away; 1.67 where it is squared.
        assert three - two < 1.4 * (two - one), (few, more, many)


@pytest.mark.one_in(8)
def test_each_is_what_it_is() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    results = tessera.compile(program("maps", 300)).f(x)
    assert len(results) == 300
    for number, result in enumerate(results):
        np.testing.assert_array_equal(result, x + np.float32(number))


def test_results_made_before_memory_ends_are_given_back() -> None:
    text = "def f(x: Tensor[N, f32]):\n    return x + 1.0, x + 2.0, zeros(N*N*N*N*N)\n"
    function, x = tessera.compile(text).f, np.ones(3000, np.float32)
    before = sys.getrefcount(x.dtype)  # every array that is alive holds its dtype
    for _ in range(50):
        with pytest.raises(TesseraError) as caught:
            function(x)
        assert caught.value.code == "E0926"
    assert sys.getrefcount(x.dtype) < before + 50
