"""Distribution functions of gamma and beta, and running logarithms of sums: values against mpmath, slopes by every
argument, and what stands at the edges."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from tests.support.native_runs import compiled_equals_oracle

PROGRAM = """
def shares(a: Tensor[N, f64], x: Tensor[N, f64]): return gammainc(a, x), gammaincc(a, x)
def narrow_shares(a: Tensor[N, f32], x: Tensor[N, f32]): return gammainc(a, x), gammaincc(a, x)
def slopes(a: Tensor[N, f64], x: Tensor[N, f64]): return grad(lambda s, t: sum(gammainc(s, t)), wrt=(0, 1))(a, x)
def below(a: Tensor[N, f64], b: Tensor[N, f64], x: Tensor[N, f64]): return betainc(a, b, x)
def beta_slopes(a: Tensor[N, f64], b: Tensor[N, f64], x: Tensor[N, f64]):
    return grad(lambda s, t, u: sum(betainc(s, t, u)), wrt=(0, 1, 2))(a, b, x)
def running(x: Tensor[B, N, f32]): return logcumsumexp(x, axis=N), logcumsumexp(x, axis=0)
def running_slope(x: Tensor[B, N, f32], c: Tensor[B, N, f32]):
    return grad(lambda t: sum(c * logcumsumexp(t)))(x)
"""
A = np.array([1e-5, 0.02, 0.3, 0.9, 1.0, 2.5, 7.9, 8.1, 40.0, 300.0])
X = np.array([1e-200, 1e-6, 0.01, 0.56, 1.5, 2.1, 8.0, 33.0, 290.0, 400.0])


def _run(name: str, *args: np.ndarray) -> tuple[np.ndarray, ...]:
    got = compiled_equals_oracle(PROGRAM)(name, *args)
    return got if isinstance(got, tuple) else (got,)


def _gamma(a: float, x: float) -> tuple[float, float]:
    a, x = mp.mpf(a), mp.mpf(x)
    below = mp.gammainc(a, 0, x, regularized=True)
    return float(below), float(1 - below)


def _differences(got: np.ndarray, wanted: list[float]) -> float:
    wanted = np.array(wanted)
    seen = np.abs(wanted) > 1e-290
    return float(np.max(np.abs(got / np.where(seen, wanted, 1) - 1)[seen], initial=0))


@pytest.mark.one_in(48)
def test_shares_of_the_gamma_distribution() -> None:
    a, x = (t.ravel() for t in np.meshgrid(A, X))
    with mp.workdps(400):
        pairs = [_gamma(s, t) for s, t in zip(a, x, strict=True)]
    for got, wanted in zip(_run("shares", a, x), zip(*pairs, strict=True), strict=True):
        assert _differences(got, list(wanted)) < 2e-13
    single = [t.astype(np.float32) for t in (a, x)]
    wide = _run("shares", *(t.astype(np.float64) for t in single))
    for got, exact in zip(_run("narrow_shares", *single), wide, strict=True):
        assert got.tobytes() == exact.astype(np.float32).tobytes()


@pytest.mark.one_in(24)
def test_slopes_of_the_gamma_distribution() -> None:
    a, x = np.array([0.3, 1.0, 7.0, 12.0, 90.0]), np.array([0.2, 3.0, 6.0, 20.0, 85.0])
    by_a, by_x = _run("slopes", a, x)
    with mp.workdps(30):
        exact = [mp.diff(lambda t, u=u: mp.gammainc(t, 0, u, regularized=True), s) for s, u in zip(a, x, strict=True)]
        density = [mp.exp((s - 1) * mp.log(u) - u - mp.loggamma(s)) for s, u in zip(a, x, strict=True)]
    assert _differences(by_a, [float(v) for v in exact]) < 1e-12
    assert _differences(by_x, [float(v) for v in density]) < 1e-12


@pytest.mark.one_in(24)
def test_shares_and_slopes_of_the_beta_distribution() -> None:
    a, b, x = (t.ravel() for t in np.meshgrid([0.02, 0.7, 3.0, 60.0], [0.1, 1.0, 9.0, 50.0], [1e-9, 0.2, 0.55, 0.999]))
    with mp.workdps(60):
        exact = [mp.betainc(s, t, 0, u, regularized=True) for s, t, u in zip(a, b, x, strict=True)]
    assert _differences(_run("below", a, b, x)[0], [float(v) for v in exact]) < 1e-12
    a, b, x = np.array([0.5, 4.0, 30.0]), np.array([2.0, 0.7, 25.0]), np.array([0.1, 0.8, 0.5])
    slopes = _run("beta_slopes", a, b, x)
    with mp.workdps(30):
        for place, order in enumerate(((1, 0, 0), (0, 1, 0), (0, 0, 1))):
            wanted = [
                float(mp.diff(lambda p, q, u: mp.betainc(p, q, 0, u, regularized=True), point, order))
                for point in zip(a, b, x, strict=True)
            ]
            assert _differences(slopes[place], wanted) < 1e-11


@pytest.mark.one_in(24)
def test_small_parameters_of_the_beta_distribution_keep_their_digits() -> None:
    a = np.array([0.86, 4.4, 1.6e-7, 1e-3, 1e-12, 2.0, 5e-14, 0.03])
    b = np.array([6e-11, 7.8e-10, 0.03, 2.0, 3.0, 1e-12, 900.0, 40.0])
    x = np.array([0.99999998, 0.9999999966, 3.4e-5, 1e-3, 1e-30, 1 - 1e-15, 4e-27, 1e-200])
    share = _run("below", a, b, x)[0]
    slopes = _run("beta_slopes", a, b, x)
    with mp.workdps(60):
        points = [tuple(map(mp.mpf, point)) for point in zip(a, b, x, strict=True)]
        exact = [mp.betainc(s, t, 0, u, regularized=True) for s, t, u in points]
        by_a = [_slope(point, (1, 0)) / point[0] for point in points]
        by_b = [_slope(point, (0, 1)) / point[1] for point in points]
    assert _differences(share, [float(v) for v in exact]) < 1e-12
    assert _differences(slopes[0], [float(v) for v in by_a]) < 1e-10
    assert _differences(slopes[1], [float(v) for v in by_b]) < 1e-10


def _slope(point: tuple[mp.mpf, ...], along: tuple[int, int]) -> mp.mpf:
    """By the logarithms of the parameters."""
    step, (s, t, u) = mp.mpf(10) ** -20, point
    ends = [(s * (1 + h * along[0]), t * (1 + h * along[1])) for h in (step, -step)]
    above, below = (mp.betainc(p, q, 0, u, regularized=True) for p, q in ends)
    return (above - below) / (2 * step)


@pytest.mark.one_in(48)
def test_edges_of_both() -> None:
    inf, nan = np.inf, np.nan
    a = np.array([0.0, 0.0, 1.0, inf, 1.0, -1.0, 1.0, inf, nan, 2.0])
    x = np.array([0.0, 1.0, 0.0, 1.0, inf, 1.0, -1.0, inf, 1.0, 0.0])
    below, above = _run("shares", a, x)
    np.testing.assert_array_equal(below, [nan, 1, 0, 0, 1, nan, nan, nan, nan, 0])
    np.testing.assert_array_equal(above, [nan, 0, 1, 1, 0, nan, nan, nan, nan, 1])
    p, q = np.array([1.0, 1.0, 2.0, 2.0, 0.0, 1.0, inf, 1.0]), np.array([2.0, 2.0, 1.0, 1.0, 1.0, 0.0, 1.0, inf])
    u = np.array([0.0, 1.0, -0.1, 1.1, 0.5, 0.5, 0.5, 0.5])
    np.testing.assert_array_equal(_run("below", p, q, u)[0], [0, 1, nan, nan, 1, 0, 0, 1])
    p, q, u = np.array([1e-300, 1e-20, 1.0]), np.array([2.5, 1.0, 1e-300]), np.array([1e-300, 1e-18, 0.5])
    np.testing.assert_allclose(_run("below", p, q, u)[0], [1, 1, np.log(2) * 1e-300], rtol=1e-12)


@pytest.mark.one_in(48)
def test_running_logarithms_of_sums() -> None:
    inf = np.inf
    x = np.array([[1, 2, -inf, 3], [-inf, -inf, 1, 2], [1e30, 1, 2, 3], [1000, 1001, -1000, 5]], np.float32)
    along, down = _run("running", x)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(along, np.logaddexp.accumulate(x.astype(np.float64), axis=1), rtol=3e-7)
        np.testing.assert_allclose(down, np.logaddexp.accumulate(x.astype(np.float64), axis=0), rtol=3e-7)
    [slope] = _run("running_slope", x, np.ones_like(x))
    assert slope[1].tolist()[:2] == [0, 0] and slope[2].tolist() == [4, 0, 0, 0]
    np.testing.assert_allclose(slope.sum(axis=1)[[0, 3]], 4, rtol=1e-4)
