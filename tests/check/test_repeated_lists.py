"""`[0] * n`, and lists of numbers that a program means as arrays."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tests.diag.test_growing_lists import mended, offered

KNAPSACK = """
def knapsack(w: Tensor[N, i64], v: Tensor[N, i64], cap: int):
    best = [0] * (cap + 1)
    for i in range(N):
        for c in range(cap, w[i] - 1, -1):
            best[c] = max(best[c], best[c - w[i]] + v[i])
    return best[cap]

def main():
    return knapsack(array([2, 3, 4]), array([3, 4, 6]), 6)
"""


def test_items_are_repeated() -> None:
    module = tessera.compile("""
def shaped(x: Tensor[N, f32]): return reshape(x, (1,) * 3 + x.shape), 2 * (0,)
def filled(n: int): return array([0.5] * n + [1.0] * (n - 2))
def both(x: Tensor[N, f32]):
    a, b = [x] * 2
    return a + b
""")
    x = np.ones(5, np.float32)
    assert module.shaped(x)[0].shape == (1, 1, 1, 5) and module.shaped(x)[1] == (0, 0)
    assert module.filled(4).tolist() == [0.5] * 4 + [1.0] * 2 and module.filled(1).tolist() == [0.5]
    assert np.array_equal(module.both(x), x + x)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("[0] * N", "zeros(N, dtype=i64)"),
        ("[0.0] * (N + 1)", "zeros(N + 1)"),
        ("(N - 1) * [False]", "zeros(N - 1, dtype=bool)"),
        ("[2.5] * N", "full(N, 2.5)"),
        ("[0] * 20000", "zeros(20000, dtype=i64)"),
        ("[x + 1.0] * 2", "[x + 1.0 for i in range(2)]"),
    ],
)
def test_what_is_meant_is_offered(wrong: str, right: str) -> None:
    text = "def f(x: Tensor[N, f32]):\n    return {}\n"
    assert mended(text.format(wrong)) == text.format(right)


def test_a_list_that_is_changed_at_any_place_is_a_tensor_where_it_is_made() -> None:
    text = "def f(x: Tensor[N, i64]):\n    a = {}\n    for i in range(N):\n        a[x[i]] += 1.0\n    return a\n"
    assert mended(text.format("[0.5, 0.5, 0.0]")) == text.format("array([0.5, 0.5, 0.0])")
    assert mended(text.format("[0.0] * 3")) == text.format("zeros(3)")
    fixed = mended(KNAPSACK)
    assert fixed == KNAPSACK.replace("[0] * (cap + 1)", "zeros(cap + 1, dtype=i64)")
    assert tessera.compile(fixed).main() == 9


def test_a_list_that_is_only_read_is_a_tensor_where_it_is_read() -> None:
    text = "def f(x: Tensor[N, i64]):\n    a = [1, 2, 3]\n    return {}[argmax(x)]\n"
    assert mended(text.format("a")) == text.format("array(a)")


def test_many_tensors_are_no_list() -> None:
    (error,) = offered("def f(x: Tensor[N, f32]): return [x] * N\n")
    assert error.code == "E0215" and not error.fixes
