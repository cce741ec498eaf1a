"""LU factors with what solves by them, and running results of an operation that the program gives."""

from __future__ import annotations

import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tests.support.folding import folded
from tests.support.source_support import compile_to_forms

Array = np.ndarray
RNG = np.random.default_rng(5)
SHAPES = ((1, 1), (5, 5), (3, 7), (7, 3), (40, 35), (35, 40), (0, 3))

FACTORS = """
def f(x: Tensor[M, N, {0}]):
    packed, pivots = lu_factor(x)
    p, l, u = lu(x)
    rows, _ = lu(x, permute_l=True)
    return packed, pivots, p, l, u, rows
"""


def drawn(dtype: str, *shape: int) -> Array:
    x = RNG.normal(size=shape)
    return x + 1j * RNG.normal(size=shape) if dtype == "c128" else x


@folded("shape, dtype", [(shape, dtype) for shape in SHAPES for dtype in ("f64", "c128")], one_in=48)
def test_factors_give_the_matrix(shape: tuple[int, int], dtype: str) -> None:
    x = drawn(dtype, *shape)
    packed, pivots, p, low, u, rows = run_function(compile_to_forms(FACTORS.format(dtype)), "m.f", [x])
    k = min(shape)
    assert (low.shape, u.shape, pivots.shape) == ((shape[0], k), (k, shape[1]), (k,))
    np.testing.assert_allclose(p @ low @ u, x, atol=1e-13)
    np.testing.assert_allclose(rows @ u, x, atol=1e-13)
    np.testing.assert_array_equal(packed, np.tril(low, -1) @ np.eye(k, shape[1]) + np.eye(shape[0], k) @ u)
    assert np.all(np.abs(low) <= 1 + 1e-12) and np.all(pivots >= np.arange(k))
    order = np.arange(shape[0])
    for i, other in enumerate(pivots):
        order[[i, other]] = order[[other, i]]
    np.testing.assert_array_equal(p, np.eye(shape[0])[:, order])


@pytest.mark.one_in(24)
@folded("shape", SHAPES[:4], one_in=4)
def test_factors_have_slopes(shape: tuple[int, int]) -> None:
    text = """
def f(x: Tensor[M, N, f64], w: Tensor[M, N, f64], d: Tensor[M, N, f64]):
    y, along = jvp(lambda x: lu_factor(x)[0], (x,), (d,))
    return y, along, grad(lambda x: sum(lu_factor(x)[0] * w))(x)
"""
    forms = compile_to_forms(text)
    x, w, d = (drawn("f64", *shape) for _ in range(3))
    value, along, back = run_function(forms, "m.f", [x, w, d])
    step = 1e-6
    changed, _, _ = run_function(forms, "m.f", [x + step * d, w, d])
    np.testing.assert_allclose(along, (changed - value) / step, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(np.sum(back * d), np.sum(along * w), rtol=1e-9)


@pytest.mark.one_in(24)
def test_systems_are_solved_by_factors() -> None:
    text = """
def f(x: Tensor[B, N, N, c128], b: Tensor[B, N, R, c128]):
    packed, pivots = lu_factor(x)
    both = packed, pivots
    return (
        lu_solve(packed, pivots, b), lu_solve(both, b, 1), lu_solve(both, b, trans=2),
        lu_solve(packed, pivots, b, adjoint=True), lu_solve(packed, pivots, b.T, left=False),
        lu_solve(packed, pivots, b.T, left=False, adjoint=True), lu_solve(both, b[..., 0]),
    )
"""
    x, b = drawn("c128", 2, 6, 6), drawn("c128", 2, 6, 3)
    turned, adjoint, right = x.swapaxes(1, 2), x.conj().swapaxes(1, 2), b.swapaxes(1, 2)
    a, t, h, g, r, s, v = run_function(compile_to_forms(text), "m.f", [x, b])
    pairs = ((x @ a, b), (turned @ t, b), (adjoint @ h, b), (adjoint @ g, b), (r @ x, right), (s @ adjoint, right))
    for found, wanted in pairs:
        np.testing.assert_allclose(found, wanted, atol=1e-11)
    np.testing.assert_allclose((x @ v[..., None])[..., 0], b[..., 0], atol=1e-11)


RUNNING = """
def f(x: Tensor[N, f32], a: Tensor[M, N, f64], b: Tensor[M, N, f64]):
    join = lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1])
    _, y = associative_scan(join, (a, b), axis=1)
    z = associative_scan(lambda p, q: p * q, a, axis=1, reverse=True)
    g = grad(lambda a, b: sum(associative_scan(join, (a, b), axis=1)[1]), argnums=(0, 1))(a, b)
    return associative_scan(lambda p, q: p + q, x), cumsum(x), y, z, g
"""


@pytest.mark.one_in(24)
@folded("size", (0, 1, 2, 512, 513, 1800), one_in=6)
def test_running_results_have_the_order_of_cumsum(size: int) -> None:
    x, a, b = RNG.normal(size=size).astype("f4"), RNG.uniform(0.5, 1, (2, size)), RNG.normal(size=(2, size))
    own, sums, y, z, by_a, by_b = run_function(compile_to_forms(RUNNING), "m.f", [x, a, b])
    assert own.tobytes() == sums.tobytes()
    state, states, back, rest = np.zeros(2), [np.zeros(2)], np.zeros((2, size)), np.zeros(2)
    for i in range(size):
        states.append(state := a[:, i] * state + b[:, i])
    np.testing.assert_allclose(y, np.array(states[1:]).reshape(size, 2).T, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(z, np.cumprod(a[:, ::-1], axis=1)[:, ::-1], rtol=1e-12)
    for i in range(size - 1, -1, -1):
        back[:, i] = rest = 1 + (a[:, i + 1] * rest if i + 1 < size else 0)
    np.testing.assert_allclose(by_b, back, rtol=1e-11)
    np.testing.assert_allclose(by_a, back * np.array(states[:-1]).reshape(size, 2).T, rtol=1e-11, atol=1e-12)
