# ruff: noqa: E501
"""The gamma function's family, inverses of the error function and Bessel's functions, with their derivatives, against
mpmath: errors in units in the last place, next to zeros of a function of the largest term there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tests.support.folding import folded
from tests.support.source_support import compile_to_forms

mpmath.mp.dps = 50
Array = np.ndarray
Meaning = Callable[[Any], Any]
RNG = np.random.default_rng(3)
POSITIVE = np.r_[
    np.exp2(RNG.uniform(-60, 60, 12)), RNG.uniform(0.05, 12, 24), [1, 2, 0.5, 1.5, 2.5, 8, 1.0000001, 1.9999999, 1e30]
]
NEGATIVE = -RNG.uniform(0, 20, 10)
ANY = np.r_[RNG.normal(size=16) * 5, RNG.normal(size=10) * 40, np.exp2(RNG.uniform(-40, 6, 8)), 0, 8, -8]
UNIT = np.r_[RNG.uniform(-1, 1, 16), 1 - np.exp2(-RNG.uniform(1, 22, 10)), np.exp2(-RNG.uniform(1, 40, 6))]
TAIL = np.r_[RNG.uniform(0.01, 1.9, 12), np.exp2(-RNG.uniform(1, 120, 12))]


SECOND = np.r_[RNG.uniform(0.01, 12, 20), np.exp2(RNG.uniform(-20, 6, 10)), 2, 8]


def scaled_tail(x: Any) -> Any:
    with mpmath.workdps(5000 if x > 30 else 200):
        return mpmath.exp(x * x) * mpmath.erfc(x)


def inverse(y: Any) -> Any:
    return mpmath.erfinv(y)


Case = tuple[Meaning, Meaning, Array, float, float]
"""A value, its slope, points, and the bounds of both."""
CASES: dict[str, Case] = {
    "lgamma(x)": (lambda x: mpmath.log(abs(mpmath.gamma(x))), mpmath.digamma, np.r_[POSITIVE, NEGATIVE], 4, 8),
    "digamma(x)": (mpmath.digamma, lambda x: mpmath.psi(1, x), np.r_[POSITIVE, NEGATIVE], 8, 8),
    "polygamma(1, x)": (lambda x: mpmath.psi(1, x), lambda x: mpmath.psi(2, x), POSITIVE, 8, 8),
    "polygamma(3, x)": (lambda x: mpmath.psi(3, x), lambda x: mpmath.psi(4, x), POSITIVE[12:], 16, 64),
    "erfinv(x)": (inverse, lambda y: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(inverse(y) ** 2), UNIT, 4, 64),
    "erfcinv(x)": (lambda q: inverse(1 - q), lambda q: -mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(inverse(1 - q) ** 2), TAIL, 4, 512),
    "ndtri(x)": (lambda p: mpmath.sqrt(2) * inverse(2 * p - 1), lambda p: 1 / mpmath.npdf(mpmath.sqrt(2) * inverse(2 * p - 1)), TAIL / 2, 4, 512),
    "log_ndtr(x)": (lambda x: mpmath.log(mpmath.ncdf(x)), lambda x: mpmath.npdf(x) / mpmath.ncdf(x), np.clip(ANY, -60, 9), 8, 64),
    "i0(x)": (lambda x: mpmath.besseli(0, x), lambda x: mpmath.besseli(1, x), np.clip(ANY, -85, 85), 4, 4),
    "i1(x)": (lambda x: mpmath.besseli(1, x), lambda x: (mpmath.besseli(0, x) + mpmath.besseli(2, x)) / 2, np.clip(ANY, -85, 85), 4, 4),
    "i0e(x)": (lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), lambda x: mpmath.exp(-x) * (mpmath.besseli(1, x) - mpmath.besseli(0, x)), np.abs(ANY[:-3]), 4, 32),
    "i1e(x)": (lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), lambda x: mpmath.exp(-x) * ((mpmath.besseli(0, x) + mpmath.besseli(2, x)) / 2 - mpmath.besseli(1, x)), np.abs(ANY[:-3]) + 4, 4, 64),
    "y0(x)": (lambda x: mpmath.bessely(0, x), lambda x: -mpmath.bessely(1, x), SECOND, 8, 8),
    "y1(x)": (lambda x: mpmath.bessely(1, x), lambda x: mpmath.bessely(0, x) - mpmath.bessely(1, x) / x, SECOND, 8, 8),
    "k0(x)": (lambda x: mpmath.besselk(0, x), lambda x: -mpmath.besselk(1, x), SECOND, 8, 8),
    "k1(x)": (lambda x: mpmath.besselk(1, x), lambda x: -mpmath.besselk(0, x) - mpmath.besselk(1, x) / x, SECOND, 8, 8),
    "k0e(x)": (lambda x: mpmath.besselk(0, x) * mpmath.exp(x), lambda x: mpmath.exp(x) * (mpmath.besselk(0, x) - mpmath.besselk(1, x)), SECOND, 8, 32),
    "k1e(x)": (lambda x: mpmath.besselk(1, x) * mpmath.exp(x), lambda x: mpmath.exp(x) * (mpmath.besselk(1, x) - mpmath.besselk(0, x) - mpmath.besselk(1, x) / x), SECOND, 8, 32),
    "erfcx(x)": (scaled_tail, lambda x: 2 * x * scaled_tail(x) - 2 / mpmath.sqrt(mpmath.pi), np.clip(ANY, -9, 90), 4, 16),
    "zeta(x)": (mpmath.zeta, lambda x: mpmath.diff(mpmath.zeta, x), np.r_[RNG.uniform(-9, 20, 20), 1.001, 0.999, 0, -1, 2, 50], 32, 64),
    "zeta(1.5 + x, x)": (lambda x: mpmath.zeta(x + 1.5, x), lambda x: mpmath.diff(lambda t: mpmath.zeta(t + 1.5, t), x), np.r_[RNG.uniform(0.1, 8, 12)], 8, 64),
    "gamma(x)": (mpmath.gamma, lambda x: mpmath.gamma(x) * mpmath.digamma(x), np.r_[RNG.uniform(0.01, 30, 20), RNG.uniform(-9, 0, 9), 1, 2, 8, 171, 1e-30], 16, 64),
    "exprel(x)": (lambda x: mpmath.expm1(x) / x if x else mpmath.mpf(1), lambda x: (mpmath.exp(x) * x - mpmath.expm1(x)) / x**2 if x else mpmath.mpf(0.5), np.clip(ANY, -80, 80), 8, 16),
    "boxcox(x, 0.25)": (lambda x: (x**0.25 - 1) * 4, lambda x: x**-0.75, SECOND, 8, 8),
    "boxcox1p(x, -0.5)": (lambda x: (1 - (1 + x) ** -0.5) * 2, lambda x: (1 + x) ** -1.5, SECOND, 8, 8),
    "j0(x)": (lambda x: mpmath.besselj(0, x), lambda x: -mpmath.besselj(1, x), ANY, 8, 8),
    "j1(x)": (lambda x: mpmath.besselj(1, x), lambda x: (mpmath.besselj(0, x) - mpmath.besselj(2, x)) / 2, ANY, 8, 8),
}  # fmt: skip
RELATIVE = ("erf", "i0", "i1(", "k", "exprel", "gamma", "boxcox", "ndtri", "polygamma")
"""Of those that have no zero inside the range, or are exact there."""


def run(text: str, dtype: str, x: Array) -> list[Array]:
    """The value, and in f64 the slope. Only what is asked for is compiled: few cases have their turn at a commit."""
    results = f"{text}, grad(lambda x: sum({text}))(x)" if dtype == "f64" else text
    return list(run_function(compile_to_forms(f"def f(x: Tensor[N, {dtype}]):\n    return {results}\n"), "m.f", [x]))


def error(got: Array, exact: list[Any], relative: bool) -> float:
    """The largest error in units of the last place; a result that the type does not hold is infinite."""
    info, worst = np.finfo(got.dtype), 0.0
    for one, other in zip(got, exact, strict=True):
        if abs(other) >= float(info.max):
            assert not np.isfinite(one)
            continue
        unit = max(abs(other), mpmath.mpf(float(info.tiny)) if relative else 1)
        worst = max(worst, float(abs(mpmath.mpf(float(one)) - other) / unit) / float(info.eps))
    return worst


def check_bounds(text: str, dtype: str, case: Case, *, relative: bool) -> None:
    value, slope, points, bound, slope_bound = case
    x = np.unique(points.astype({"f32": np.float32, "f64": np.float64}[dtype]))
    got, *rise = run(text, dtype, x)
    exact = [mpmath.mpf(float(v)) for v in x]
    assert error(got, [value(v) for v in exact], relative) <= bound
    if rise:
        assert error(rise[0], [slope(v) for v in exact], relative) <= slope_bound


@pytest.mark.one_in(4)
@folded("text, dtype", [(text, dtype) for text in CASES for dtype in ("f32", "f64")], one_in=48)
def test_values_and_slopes(text: str, dtype: str) -> None:
    check_bounds(text, dtype, CASES[text], relative=text.startswith(RELATIVE))


@pytest.mark.one_in(24)
def test_edges() -> None:
    points = np.array([0.0, -1.0, -2.0, np.inf, -np.inf, np.nan, 1.0, 2.0])
    expected = {
        "lgamma(x)": [np.inf, np.inf, np.inf, np.inf, np.inf, np.nan, 0, 0],
        "erfinv(x)": [0, -np.inf, np.nan, np.nan, np.nan, np.nan, np.inf, np.nan],
        "erfcinv(x)": [np.inf, np.nan, np.nan, np.nan, np.nan, np.nan, 0, -np.inf],
        "y0(x)": [-np.inf, np.nan, np.nan, 0, np.nan, np.nan, 0.08825696421567697, 0.5103756726497451],
        "y1(x)": [-np.inf, np.nan, np.nan, 0, np.nan, np.nan, -0.7812128213002887, -0.10703243154093755],
        "k0(x)": [np.inf, np.nan, np.nan, 0, np.nan, np.nan, 0.42102443824070834, 0.11389387274953344],
        "k1e(x)": [np.inf, np.nan, np.nan, 0, np.nan, np.nan, 1.636153486263258, 1.0334768470686888],
        "erfcx(x)": [1, 5.008980080762283, 108.94090438997797, 0, np.inf, np.nan, 0.427583576155807, 0.25539567631050574],
        "zeta(x)": [-0.5, -1 / 12, 0, 1, np.nan, np.nan, np.inf, np.pi**2 / 6],
        "gamma(x)": [np.inf, np.nan, np.nan, np.inf, np.nan, np.nan, 1, 1],
        "factorial(x + 17)": [3.55687428096e14, 20922789888000, 1307674368000, np.inf, 0, np.nan, 6.402373705728e15, 1.21645100408832e17],
        "comb(x + 50, x + 3)": [19600, 1176, 48, np.nan, np.nan, np.nan, 249900, 2598960],
        "exprel(x)": [1, 0.6321205588285577, 0.4323323583816937, np.inf, 0, np.nan, np.expm1(1), np.expm1(2) / 2],
        "boxcox(x, -0.5)": [-np.inf, np.nan, np.nan, 2, np.nan, np.nan, 0, 2 - np.sqrt(2)],
        "boxcox(x, 0.0)": [-np.inf, np.nan, np.nan, np.inf, np.nan, np.nan, 0, np.log(2)],
        "i0e(x)": [1, 0.4657596075936404, 0.308508322553671, 0, 0, np.nan, 0.4657596075936404, 0.308508322553671],
    }
    for text, wanted in expected.items():
        got, _ = run(text, "f64", points)
        np.testing.assert_allclose(got, wanted, rtol=1e-14, err_msg=text)


@pytest.mark.one_in(16)
def test_betaln_does_not_cancel() -> None:
    text = "def f(a: Tensor[N, f64], b: Tensor[N, f64]):\n    return betaln(a, b)\n"
    a = np.exp2(RNG.uniform(-30, 60, 40))
    b = RNG.permutation(a)
    (got,) = run_function(compile_to_forms(text), "m.f", [a, b])
    exact = [mpmath.log(mpmath.beta(mpmath.mpf(x), mpmath.mpf(y))) for x, y in zip(a, b, strict=True)]
    assert error(got, exact, False) <= 32


@pytest.mark.one_in(16)
@folded("dtype", ["f32", "f64"], one_in=48)
def test_beta_keeps_its_digits_at_every_magnitude(dtype: str) -> None:
    """Tiny beside huge too: the logarithm within 12 units of itself or of 1, beta as far as its exponent is known, and the
    slope of the logarithm relative to itself."""
    text = "lambda a, b: sum(betaln(a, b))"
    module = compile_to_forms(
        f"def f(a: Tensor[N, {dtype}], b: Tensor[N, {dtype}]):\n    return betaln(a, b), beta(a, b), grad({text})(a, b)\n"
    )
    kind = {"f32": np.float32, "f64": np.float64}[dtype]
    info = np.finfo(kind)
    sizes = [1e-44, 1e-37, 1e-30, 1e-10, 1e-3, 0.5, 1, 1.5, 3, 7.9, 20, 1e4, 1e15, 1e37]
    a, b = (side.ravel().astype(kind) for side in np.meshgrid(sizes[::2], sizes[1::2]))
    a, b = np.r_[a, b], np.r_[b, a]
    with mpmath.workprec(360):
        for x, y, log, whole, slope in zip(a, b, *run_function(module, "m.f", [a, b]), strict=True):
            p, q = mpmath.mpf(float(x)), mpmath.mpf(float(y))
            exact = mpmath.loggamma(p) + mpmath.loggamma(q) - mpmath.loggamma(p + q)
            rise = mpmath.digamma(p) - mpmath.digamma(p + q)
            size = max(1, abs(exact))
            assert abs(float(log) - exact) <= 12 * info.eps * size, (x, y, log)
            if abs(rise) < float(info.max):
                assert abs(float(slope) - rise) <= 16 * info.eps * max(abs(rise), info.tiny), (x, y, slope)
            if abs(exact) < np.log(float(info.max)) - 1:
                units = 24 + (size / 4 if min(x, y) < 1 else 4 * size)
                assert abs(float(whole) - mpmath.exp(exact)) <= units * info.eps * mpmath.exp(exact), (x, y, whole)


@pytest.mark.one_in(16)
@folded("dtype", ["f32", "f64"], one_in=48)
def test_log_scaled_beta_and_its_slopes(dtype: str) -> None:
    """The value within 16 units of the smaller operand, or of itself; slopes relative to themselves, also next to q = 1,
    where that by p is 0."""
    of = f"(p: Tensor[N, {dtype}], q: Tensor[N, {dtype}])"
    slopes = "grad(lambda u, v: sum(log_scaled_beta(u, v)), wrt=(0, 1))(p, q)"
    module = compile_to_forms(f"def f{of}:\n    return log_scaled_beta(p, q), {slopes}\n")
    kind = {"f32": np.float32, "f64": np.float64}[dtype]
    eps = float(np.finfo(kind).eps)
    sizes = [1e-30, 1e-9, 1e-3, 0.3, 0.5, 0.999, 1 - eps, 1.0, 1 + eps, 1.7, 9.0, 1e9]
    p, q = (side.ravel().astype(kind) for side in np.meshgrid(sizes, sizes))
    held = (p < 1) & (p <= q)
    p, q = p[held], q[held]
    with mpmath.workprec(360):
        value, by_p, by_q = run_function(module, "m.f", [p, q])
        for x, y, *found in zip(p, q, value, by_p, by_q, strict=True):
            a, b = mpmath.mpf(float(x)), mpmath.mpf(float(y))
            whole = mpmath.loggamma(1 + a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)
            rises = [mpmath.digamma(c) - mpmath.digamma(a + b) for c in (1 + a, b)]
            units = [max(a, abs(whole)), *(max(abs(rise), mpmath.mpf(1e-38)) for rise in rises)]
            for got, exact, unit in zip(found, (whole, *rises), units, strict=True):
                assert abs(float(got) - exact) <= 16 * eps * unit, (x, y, got)
