"""An index that leaves its dim in the first or last iteration of a loop is told while typing, and what moves it."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tests.diag.test_growing_lists import mended, offered

HEAD = "def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    y = zeros_like(x)\n"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("for i in range(1, N+1):\n        y[i - 1] = x[i]", "for i in range(1, N+1):\n        y[i - 1] = x[i - 1]"),
        ("for i in range(len(x) + 1):\n        y[i] = x[i]", "for i in range(len(x)):\n        y[i] = x[i]"),
        ("for i in range(N):\n        y[i] = x[i + 1]", "for i in range(N - 1):\n        y[i] = x[i + 1]"),
        ("for i in range(N):\n        y[i] = x[i - 1]", "for i in range(1, N):\n        y[i] = x[i - 1]"),
        ("for i in range(0, N):\n        y[i - 2] = x[i]", "for i in range(2, N):\n        y[i - 2] = x[i]"),
    ],
)
def test_a_loop_that_goes_too_far(wrong: str, right: str) -> None:
    assert [d.code for d in offered(f"{HEAD}    {wrong}\n    return y\n")] == ["E0313"]
    assert mended(f"{HEAD}    {wrong}\n    return y\n") == f"{HEAD}    {right}\n    return y\n"


@pytest.mark.parametrize(
    "loop",
    [
        "for i in range(N):\n        y[i] = x[i + 1] if i + 1 < N else 0.0",
        "for i in range(N):\n        if i > 0:\n            y[i] = x[i - 1]",
        "for i in range(N):\n        for j in range(i):\n            y[i] += x[i - 1]",
        "for i in range(N):\n        if x[i] < 0.0:\n            break\n        y[i] = x[i]",
    ],
)
def test_what_a_condition_or_a_loop_within_decides_is_not_told(loop: str) -> None:
    text = f"{HEAD}    {loop}\n    return y\n"
    assert not offered(text)
    assert np.isfinite(tessera.compile(text).f(np.ones(5, "f4"))).all()


def test_both_loops_around_a_stencil() -> None:
    text = """def f(u: Tensor[N, M, f32]) -> Tensor[N, M, f32]:
    v = u
    for i in range(1, N):
        for j in range(1, M{}):
            v[i, j] = u[i - 1, j] + u[i, j + 1]
    return v
"""
    assert mended(text.format("")) == text.format(" - 1")
