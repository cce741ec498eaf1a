"""One size given as two ints: both names are that size in the function."""

from __future__ import annotations

import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tests.support.source_support import compile_to_forms

WIDE = """
def wide(x, a: int, b: int):
    return expand(x[None], (3, a, b))

def swapped(x: Tensor[a, b, f32], a: int, b: int) -> Tensor[b, a, f32]:
    return transpose(x)
"""


def test_a_size_that_is_given_twice_has_both_names() -> None:
    text = WIDE + "def f(x: Tensor[N, N, f32]):\n    return wide(x, N, N), swapped(x, N, N), wide(x, N, N)[0] @ x\n"
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    wide, swapped, product = run_function(compile_to_forms(text), "m.f", [x])
    assert np.array_equal(wide, np.broadcast_to(x, (3, 3, 3))) and np.array_equal(swapped, x.T)
    assert np.array_equal(product, x @ x)


def test_two_sizes_stay_two() -> None:
    text = WIDE + "def f(x: Tensor[M, K, f32]):\n    return wide(x, M, M)\n"
    with pytest.raises(AssertionError, match="E0217"):
        compile_to_forms(text)
