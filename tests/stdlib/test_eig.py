"""Eigenvalues of matrices that are not symmetric: against NumPy, by what defines them, in batches, and their slopes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import tessera

pytestmark = pytest.mark.one_in(144)

Array = np.ndarray
RNG = np.random.default_rng(5)
PROGRAM = """
def real_pairs(a: Tensor[N, N, f64]):
    return eig(a)

def complex_pairs(a: Tensor[N, N, c128]):
    return eig(a)

def values(a: Tensor[N, N, f64]):
    return eigvals(a)

def several(a: Tensor[B, N, N, f64]):
    return eig(a), vmap(lambda one: eig(one * 1.0))(a)

def zeros_of(p: Tensor[K, f64]):
    return roots(p)

def all_of(a: Tensor[N, N, f64], r: Tensor[N, N, f64]) -> Tensor[f64]:
    w, v = eig(a)
    return sum(r * real(v) + r * r * imag(v)) + sum(r[0] * real(w) + r[1] * imag(eigvals(a)))

def slopes(a: Tensor[N, N, f64], r: Tensor[N, N, f64], d: Tensor[N, N, f64]):
    return grad(all_of)(a, r), jvp(lambda a: all_of(a, r), (a,), (d,))[1]

def of_all_values(a: Tensor[N, N, f64]):
    return grad(lambda a: sum(real(eig(a)[0])) + sum(real(eigvals(a))))(a)

def of_one_value(a: Tensor[N, N, f64]):
    return grad(lambda a: real(eigvals(a)[0]))(a)
"""
MATRICES: dict[str, Array] = {
    "one": np.array([[-3.0]]),
    "none": np.zeros((0, 0)),
    "zeros": np.zeros((3, 3)),
    "rotation": np.array([[0.0, 1.0], [-1.0, 0.0]]),
    "circle": np.roll(np.eye(6), 1, 0),
    "triangle": np.triu(RNG.normal(size=(5, 5))),
    "symmetric": (lambda x: x + x.T)(RNG.normal(size=(6, 6))),
    "one block": np.eye(4, k=1) + 2.0 * np.eye(4),
    "large": 1e200 * RNG.normal(size=(5, 5)),
    "small": 1e-200 * RNG.normal(size=(5, 5)),
    **{f"random {n}": RNG.normal(size=(n, n)) for n in (2, 3, 4, 9, 17, 40, 75)},
}


@cache
def program() -> Any:
    return tessera.compile(PROGRAM)


def holds(a: Array, w: Array, v: Array) -> None:
    """Eigenvalues are NumPy's, in order; vectors have length 1 and their largest elements are positive."""
    size = np.abs(a).max(initial=1e-300)
    np.testing.assert_allclose(a / size @ v, v * (w / size), atol=1e-13 * max(1, len(w) / 16))
    assert np.array_equal(np.lexsort((w.imag, w.real)), np.arange(len(w)))
    gaps = np.abs(w[:, None] - np.linalg.eigvals(a)[None, :]).min(axis=1, initial=np.inf)
    assert (gaps <= 1e-7 * size).all()
    top = v[np.abs(v).argmax(axis=0), np.arange(len(w))] if len(w) else v[0:0]
    assert np.allclose(np.linalg.norm(v, axis=0), 1.0) and (top.real > 0).all() and np.allclose(top.imag, 0.0)


@pytest.mark.parametrize("name", MATRICES)
def test_pairs(name: str) -> None:
    a = MATRICES[name]
    w, v = program().real_pairs(a)
    holds(a, w, v)
    assert np.array_equal(np.sort_complex(w), np.sort_complex(w.conj()))
    assert not v[:, w.imag == 0].imag.any()
    assert np.array_equal(program().values(a), w)
    turned = a + 1j * a.T
    holds(turned, *program().complex_pairs(turned))


def test_batches_are_matrices_in_turn() -> None:
    a = RNG.normal(size=(3, 5, 5))
    for w, v in program().several(a):
        for place in range(3):
            one, columns = program().real_pairs(a[place])
            assert np.array_equal(w[place], one) and np.array_equal(v[place], columns)


def test_roots_are_zeros_of_a_polynomial() -> None:
    np.testing.assert_allclose(program().zeros_of(np.poly([1.0, 2.0, 3.0, 4.0])), [1, 2, 3, 4], rtol=1e-12)
    np.testing.assert_allclose(program().zeros_of(np.array([2.0, 0.0, 8.0, 0.0])), [-2j, 0, 2j], atol=1e-14)
    with pytest.raises(tessera.TesseraError, match="first coefficient"):
        program().zeros_of(np.array([0.0, 1.0]))


def test_slopes_are_those_of_differences() -> None:
    a, r, d = RNG.normal(size=(3, 6, 6))
    slope, change = program().slopes(a, r, d)
    high, low = (program().all_of(a + h * d, r) for h in (1e-6, -1e-6))
    np.testing.assert_allclose([np.sum(slope * d), change], (high - low) / 2e-6, rtol=1e-6)


def test_slopes_at_equal_values() -> None:
    np.testing.assert_allclose(program().of_all_values(np.eye(3)), 2.0 * np.eye(3), atol=1e-12)
    with pytest.raises(tessera.TesseraError, match="depends on their order"):
        program().of_one_value(np.eye(3))
