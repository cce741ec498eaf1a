"""Derivatives of tanh networks by `grad` of `grad`, to order four, against the closed form."""

from __future__ import annotations

import numpy as np
import pytest

import tessera

PROGRAM = """
def network(x: Tensor[f64], w: Tensor[H, f64], u: Tensor[H, H, f64], v: Tensor[H, f64]) -> Tensor[f64]:
    h = tanh(x * w + 0.1)
    return sum(v * tanh(h @ u + h))

def first(x: Tensor[f64], w: Tensor[H, f64], u: Tensor[H, H, f64], v: Tensor[H, f64]) -> Tensor[f64]:
    return grad(network)(x, w, u, v)

def second(x: Tensor[f64], w: Tensor[H, f64], u: Tensor[H, H, f64], v: Tensor[H, f64]) -> Tensor[f64]:
    return grad(grad(network))(x, w, u, v)

def third(x: Tensor[f64], w: Tensor[H, f64], u: Tensor[H, H, f64], v: Tensor[H, f64]) -> Tensor[f64]:
    return grad(grad(grad(network)))(x, w, u, v)

def fourth(x: Tensor[f64], w: Tensor[H, f64], u: Tensor[H, H, f64], v: Tensor[H, f64]) -> Tensor[f64]:
    return grad(grad(grad(grad(network))))(x, w, u, v)
"""
ORDERS = ("network", "first", "second", "third", "fourth")


def tanh_derivatives(z: np.ndarray) -> list[np.ndarray]:
    """tanh and its first four derivatives, as polynomials in t = tanh z."""
    t = np.tanh(z)
    s = 1 - t * t
    return [t, s, -2 * t * s, s * (6 * t * t - 2), s * (16 * t - 24 * t**3)]


def composed(outer: list[np.ndarray], inner: list[np.ndarray]) -> list[np.ndarray]:
    """Faà di Bruno to order four: derivatives of f(g(x)) from those of f at g(x) and of g at x."""
    _, a, b, c, d = inner
    return [
        outer[0],
        outer[1] * a,
        outer[2] * a**2 + outer[1] * b,
        outer[3] * a**3 + 3 * outer[2] * a * b + outer[1] * c,
        outer[4] * a**4 + 6 * outer[3] * a**2 * b + outer[2] * (3 * b**2 + 4 * a * c) + outer[1] * d,
    ]


def closed_form(x: float, w: np.ndarray, u: np.ndarray, v: np.ndarray) -> list[float]:
    zero = np.zeros_like(w)
    hidden = composed(tanh_derivatives(x * w + 0.1), [x * w + 0.1, w, zero, zero, zero])
    inner = [h @ u + h for h in hidden]
    return [float(np.sum(v * y)) for y in composed(tanh_derivatives(inner[0]), inner)]


@pytest.fixture(scope="module")
def program() -> tessera.Module:
    return tessera.compile(PROGRAM)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("order", range(5))
def test_agrees_with_the_closed_form(program: tessera.Module, order: int) -> None:
    rng = np.random.default_rng(order)
    w, u, v = rng.normal(size=6), rng.normal(size=(6, 6)) / 2, rng.normal(size=6)
    for x in (-0.7, 0.0, 1.3):
        expected = closed_form(x, w, u, v)[order]
        found = program[ORDERS[order]](x, w, u, v)
        assert found == pytest.approx(expected, rel=1e-11, abs=1e-11)
