"""Mistakes that have right dims and dtypes: warned of, once, with a fix that computes what was meant."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tests.diag.test_growing_lists import mended, offered

ROWS = "def f(p: Tensor[B, A, f32], a: Tensor[B, i64], w: Tensor[B, f32]) -> Tensor[{}f32]:\n    return {}\n"
PRODUCT = 'def f(x: Tensor[B, S, D, f32], w: Tensor[D, E, f32], v: Tensor[D, f32]):\n    return einsum("{}", x, {})\n'
STEP = """def loss(w: Tensor[D, f32], x: Tensor[B, D, f32]) -> Tensor[f32]:
    return mean((x @ w) ** 2)

def step(w: Tensor[D, f32], x: Tensor[B, D, f32]){}:
    {}
    return w - 0.1 * g, l
"""


def test_each_row_at_its_own_place() -> None:
    text = ROWS.format("", "mean(p[:, a] * w)")
    assert [d.code for d in offered(text)] == ["W0303"]
    p, a, w = np.arange(6, dtype="f4").reshape(2, 3), np.array([2, 0]), np.array([1.0, 10.0], "f4")
    assert tessera.compile(mended(text)).f(p, a, w) == (2 * 1 + 3 * 10) / 2


def test_each_row_at_its_own_place_where_the_result_says_so() -> None:
    text = ROWS.format("B, ", "p[:, a]")
    assert [d.code for d in offered(text)] == ["E0308"]
    assert mended(text) == ROWS.format("B, ", "p[arange(B), a]")


@pytest.mark.parametrize("read", ["gather(p, a, axis=1)", "p[:, a[:1]]", "p[arange(B), a]"])
def test_all_pairs_that_are_said_to_be_meant(read: str) -> None:
    assert not offered(ROWS.format("", f"mean({read})"))


def test_columns_in_another_order_are_no_pairs() -> None:
    assert not offered("def f(x: Tensor[N, N, f32], order: Tensor[N, i64]):\n    return x[:, order]\n")


def test_labels_that_are_summed_apart() -> None:
    text = PRODUCT.format("bsd,fe->bse", "w")
    assert [d.code for d in offered(text)] == ["W0304"]
    assert mended(text) == PRODUCT.format("bsd,de->bse", "w")


@pytest.mark.parametrize(("equation", "other"), [("bsd,de->be", "w"), ("bsd,fe->bdse", "w"), ("bsd,d->d", "v")])
def test_sums_that_are_meant(equation: str, other: str) -> None:
    assert not offered(PRODUCT.format(equation, other))


@pytest.mark.parametrize("line", ["g, l = value_and_grad(loss)(w, x)", "h = value_and_grad(loss); g, l = h(w, x)"])
def test_names_of_a_value_and_its_gradient(line: str) -> None:
    text = STEP.format("", line)
    assert [d.code for d in offered(text)] == ["W0217"]
    assert mended(text) == text.replace("g, l =", "l, g =")


def test_an_error_is_told_without_the_warning_of_what_it_comes_from() -> None:
    text = STEP.format(" -> (Tensor[D, f32], Tensor[f32])", "g, l = value_and_grad(loss)(w, x)")
    assert [d.code for d in offered(text)] == ["E0308"]
    assert mended(text) == text.replace("g, l =", "l, g =")
