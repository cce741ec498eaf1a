"""Derivatives of programs, from the text to the compiled result: gradients, their composition, loops and branches."""

from __future__ import annotations

import numpy as np
import pytest

import tessera

PROGRAM = """
def network(w: Tensor[D, f64], x: Tensor[B, D, f64]) -> Tensor[f64]:
    return mean((tanh(x @ w) - 1.0) ** 2)

def network_slope(w: Tensor[D, f64], x: Tensor[B, D, f64]) -> (Tensor[f64], Tensor[D, f64]):
    return value_and_grad(network)(w, x)

def by_name(w: Tensor[D, f64], x: Tensor[B, D, f64]) -> (Tensor[B, D, f64], Tensor[D, f64]):
    return grad(network, wrt=("x", "w"))(w, x)

def third(x: Tensor[f64]) -> Tensor[f64]:
    return grad(grad(grad(lambda t: sin(t) * t)))(x)

def turns(w: Tensor[N, f64], x: Tensor[T, N, f64]) -> Tensor[f64]:
    h = zeros(N, dtype=f64)
    for t in range(T):
        h = tanh(h * w + x[t])
    return sum(h * w)

def turns_slope(w: Tensor[N, f64], x: Tensor[T, N, f64]) -> (Tensor[N, f64], Tensor[T, N, f64]):
    return grad(turns, wrt=(0, 1))(w, x)

def turns_curve(w: Tensor[N, f64], x: Tensor[T, N, f64], v: Tensor[N, f64]) -> (Tensor[N, f64], Tensor[N, f64]):
    return jvp(lambda u: grad(turns)(u, x), (w,), (v,))

def branch(x: Tensor[f64]) -> Tensor[f64]:
    y = x * x
    if x > 1.0:
        y = sin(y) * x
    else:
        y = exp(y)
    return y

def branch_slope(x: Tensor[f64]) -> Tensor[f64]:
    return grad(branch)(x)

def back(x: Tensor[N, f64], y: Tensor[N, f64], c: Tensor[N, f64]) -> (Tensor[N, f64], Tensor[N, f64]):
    value, pull = vjp(lambda a, b: a * b / (b + 2.0), x, y)
    return pull(c)
"""


@pytest.fixture(scope="module")
def program() -> tessera.Module:
    return tessera.compile(PROGRAM)


def numerically(function, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Central differences."""
    x = np.array(x, np.float64)
    slope = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[place] += sign * step
            ends.append(function(moved))
        slope[place] = (ends[0] - ends[1]) / (2 * step)
    return slope


@pytest.mark.one_in(4)
def test_gradient_of_a_network(program: tessera.Module) -> None:
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=3), rng.normal(size=(5, 3))
    value, slope = program.network_slope(w, x)
    assert value == program.network(w, x)
    np.testing.assert_allclose(slope, numerically(lambda v: program.network(v, x), w), rtol=1e-7)
    by_x, by_w = program.by_name(w, x)
    np.testing.assert_array_equal(by_w, slope)
    np.testing.assert_allclose(by_x, numerically(lambda v: program.network(w, v), x), rtol=1e-6, atol=1e-9)


def test_third_derivative(program: tessera.Module) -> None:
    assert program.third(0.7) == pytest.approx(-3 * np.sin(0.7) - 0.7 * np.cos(0.7), rel=1e-14)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("length", [0, 1, 5])
def test_back_through_a_loop(program: tessera.Module, length: int) -> None:
    rng = np.random.default_rng(1)
    w, x = rng.normal(size=4), rng.normal(size=(length, 4))
    by_w, by_x = program.turns_slope(w, x)
    np.testing.assert_allclose(by_w, numerically(lambda v: program.turns(v, x), w), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(by_x, numerically(lambda v: program.turns(w, v), x), rtol=1e-6, atol=1e-9)


@pytest.mark.one_in(2)
def test_forward_over_reverse_of_a_loop(program: tessera.Module) -> None:
    rng = np.random.default_rng(2)
    w, x, v = rng.normal(size=4), rng.normal(size=(3, 4)), rng.normal(size=4)
    slope, curve = program.turns_curve(w, x, v)
    np.testing.assert_array_equal(slope, program.turns_slope(w, x)[0])
    ends = [program.turns_slope(w + sign * 1e-6 * v, x)[0] for sign in (1, -1)]
    np.testing.assert_allclose(curve, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("x", [0.3, 1.7])
def test_back_through_a_branch(program: tessera.Module, x: float) -> None:
    slope = np.sin(x * x) + 2 * x * x * np.cos(x * x) if x > 1 else 2 * x * np.exp(x * x)
    assert program.branch_slope(x) == pytest.approx(slope, rel=1e-13)


def test_pullback(program: tessera.Module) -> None:
    rng = np.random.default_rng(3)
    x, y, c = (rng.uniform(1, 2, size=4) for _ in range(3))
    by_x, by_y = program.back(x, y, c)
    np.testing.assert_allclose(by_x, c * y / (y + 2), rtol=1e-14)
    np.testing.assert_allclose(by_y, c * x * 2 / (y + 2) ** 2, rtol=1e-13)
