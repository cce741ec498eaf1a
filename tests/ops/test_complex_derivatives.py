"""Derivatives of complex functions and of real Fourier transforms against their closed forms.

The gradient of a real f of z = x + iy is df/dx - i df/dy, and a transpose has no conjugate: what goes back through
y = A z is A^T. Of a real transform the frequencies that have no partner (0, and the middle one of an even length) count
once, the others twice where they are read for both.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tests.support.source_support import compile_to_forms

Z = np.array([0.3 + 0.7j, -1.1 + 0.2j, 0.5 - 0.9j, -0.4 - 0.6j])
GRADIENTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sum(real(z))": np.ones_like,
    "sum(imag(z))": lambda z: np.full_like(z, -1j),
    "sum(real(z) * real(z) + imag(z) * imag(z))": lambda z: 2 * z.conj(),
    "sum(abs(z))": lambda z: z.conj() / abs(z),
    "sum(angle(z))": lambda z: (-z.imag - 1j * z.real) / abs(z) ** 2,
    "sum(real(z * z * z))": lambda z: 3 * z * z,
    "sum(imag(z * z))": lambda z: -2j * z,
    "sum(real(exp(z)))": np.exp,
    "sum(real(log(z)))": lambda z: 1 / z,
    "sum(imag(sqrt(z)))": lambda z: -0.5j / np.sqrt(z),
    "sum(real(1.0 / z))": lambda z: -1 / z**2,
    "sum(real(conj(z) * z))": lambda z: 2 * z.conj(),
    "real(prod(z))": lambda z: np.prod(z) / z,
    "sum(abs(fft(z)) ** 2)": lambda z: 2 * len(z) * z.conj(),
    "sum(abs(ifft(z)) ** 2)": lambda z: 2 * z.conj() / len(z),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("expression", GRADIENTS)
def test_gradients_of_real_functions(expression: str) -> None:
    text = f"def f(z: Tensor[4, c128]) -> Tensor[4, c128]:\n    return grad(lambda z: {expression})(z)\n"
    [found] = run_function(compile_to_forms(text), "m.f", [Z])
    np.testing.assert_allclose(found, GRADIENTS[expression](Z), rtol=1e-13)


def turns(n: int) -> np.ndarray:
    """exp(-2 pi i k t / n) for every frequency k that is not negative and every point t."""
    return np.exp(-2j * np.pi * np.outer(np.arange(n // 2 + 1), np.arange(n)) / n)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 9])
def test_what_goes_back_through_rfft(n: int) -> None:
    """y_k = sum_t x_t w_kt, so the cotangent of x_t is the real part of sum_k c_k w_kt: each bin once."""
    m = n // 2 + 1
    text = f"""
def f(x: Tensor[{n}, f64], c: Tensor[{m}, c128], d: Tensor[{n}, f64]):
    return vjp(lambda v: rfft(v), x)[1](c)[0], jvp(lambda v: rfft(v), (x,), (d,))[1]
"""
    rng = np.random.default_rng(n)
    x, d = rng.normal(size=(2, n))
    c = rng.normal(size=m) + 1j * rng.normal(size=m)
    back, along = run_function(compile_to_forms(text), "m.f", [x, c, d])
    np.testing.assert_allclose(back, (c @ turns(n)).real, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(along, np.fft.rfft(d), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 9])
def test_what_goes_back_through_irfft(n: int) -> None:
    """x_t = sum_k u_k real(z_k conj(w_kt)) / n with u = 1 for bins without a partner, else 2; these have no imaginary
    part that counts."""
    m = n // 2 + 1
    text = f"def f(z: Tensor[{m}, c128], g: Tensor[{n}, f64]):\n    return vjp(lambda v: irfft(v, n={n}), z)[1](g)[0]\n"
    rng = np.random.default_rng(n)
    z, g = rng.normal(size=m) + 1j * rng.normal(size=m), rng.normal(size=n)
    alone = np.isin(np.arange(m), [0, n / 2])
    wanted = np.where(alone, 1, 2) / n * (turns(n).conj() @ g)
    [found] = run_function(compile_to_forms(text), "m.f", [z, g])
    np.testing.assert_allclose(found, np.where(alone, wanted.real, wanted), rtol=1e-12, atol=1e-13)
