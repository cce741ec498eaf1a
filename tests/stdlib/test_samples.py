"""Samples against the distributions that they are of, by the test of Kolmogorov and Smirnov: of n numbers the largest
gap between shares and probabilities, times sqrt(n), is above GAP with probability 2 exp(-2 GAP^2) = 1e-4 where numbers
are continuous, and less often where they are not. Keys are fixed: a test that has passed passes."""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tests.support.folding import folded
from tests.support.source_support import compile_to_forms

Array = np.ndarray
Below = Callable[[float], Any]
A, B = np.float64(1.25), np.float64(2.5)
COUNT, GAP = 4000, 2.2253


def _counted(shares: Callable[[int], Any]) -> Below:
    """What lies at or below x of a distribution of counts."""
    return lambda x: sum(shares(k) for k in range(int(x) + 1))


def _of(*shares: float) -> Below:
    return lambda x: sum(shares[: int(x) + 1])


def _inverse_gamma(x: float) -> Any:
    return mp.gammainc(A, B / x, mp.inf, regularized=True)


def _beta(a: float, b: float) -> Below:
    return lambda x: mp.betainc(a, b, 0, x, regularized=True)


def _normal(mean: float, std: float) -> Below:
    return lambda x: mp.ncdf((x - mean) / std)


def _truncated(low: float, high: float, mean: float, std: float) -> Below:
    """By the tails, which keep digits far out."""

    def above(z: float) -> Any:
        return mp.ncdf(-z)

    whole = above(low) - above(high)
    return lambda x: (above(low) - above((x - mean) / std)) / whole


NB = [comb(k + 2, k) * 0.4**k * 0.6**3 for k in range(200)]
P4 = (0.1, 0.4, 0.2, 0.3)
LOGITS = "log(array([0.1, 0.4, 0.2, 0.3], dtype=f64))"
SECOND = tuple(sum(P4[j] / (1 - P4[i]) * P4[i] for i in range(4) if i != j) for j in range(4))
"""The second of several draws without putting back."""
CASES: dict[str, Below] = {
    "sample(Cauchy(a, b), 4000, key=k)": lambda x: 0.5 + np.arctan((x - A) / B) / np.pi,
    "sample(HalfCauchy(b), 4000, key=k)": lambda x: 2 / np.pi * np.arctan(x / B),
    "sample(Gumbel(a, b), 4000, key=k)": lambda x: np.exp(-np.exp(-(x - A) / B)),
    "sample(Weibull(b, a), 4000, key=k)": lambda x: -np.expm1(-((x / B) ** A)),
    "sample(Pareto(a, b), 4000, key=k)": lambda x: 1 - (A / x) ** B,
    "sample(InverseGamma(a, b), 4000, key=k)": _inverse_gamma,
    "sample(Chi2(b), 4000, key=k)": lambda x: mp.gammainc(B / 2, 0, x / 2, regularized=True),
    "sample(Chi2(0.1 * a), 4000, key=k)": lambda x: mp.gammainc(A / 20, 0, x / 2, regularized=True),
    "sample(Binomial(12, probs=0.2 * a), 4000, key=k)": _counted(lambda n: comb(12, n) * 0.25**n * 0.75 ** (12 - n)),
    "sample(Geometric(probs=0.2 * a), 4000, key=k)": _counted(lambda n: 0.25 * 0.75**n),
    "sample(NegativeBinomial(2.4 * a, probs=0.16 * b), 4000, key=k)": _counted(lambda n: NB[n]),
    "sample(Dirichlet(array([1.25, 0.3, 2.0], dtype=f64)), 4000, key=k)[:, 0]": _beta(1.25, 2.3),
    "sample(Dirichlet(array([1.25, 0.3, 2.0], dtype=f64)), 4000, key=k)[:, 1]": _beta(0.3, 3.25),
    "sample(MultivariateNormal(array([1.0, -2.0], dtype=f64), array([[4.0, 1.0], [1.0, 9.0]], dtype=f64)), 4000, "
    "key=k) @ array([1.0, 1.0], dtype=f64)": _normal(-1.0, 15**0.5),
    f"sample(Categorical(logits={LOGITS}), 4000, key=k)": _of(*P4),
    "sample(Bernoulli(probs=0.2 * a), 4000, key=k)": _of(0.75, 0.25),
    f"sample_tokens(expand({LOGITS}, (4000, 4)), key=k)": _of(*P4),
    f"multinomial(expand(exp({LOGITS}), (4000, 4)), 2, key=k)[:, 1]": _of(*SECOND),
    "exponential(4000, scale=2.5, dtype=f64, key=k)": lambda x: -np.expm1(-x / 2.5),
    "gumbel(4000, dtype=f64, key=k)": lambda x: np.exp(-np.exp(-x)),
    "normal(4000, mean=1.25, std=2.5, dtype=f64, key=k)": _normal(A, B),
    "normal(4000, dtype=f32, key=k)": _normal(0, 1),
    "uniform(4000, low=-1.0, high=3.0, key=k)": lambda x: (x + 1) / 4,
    "randint(-3, 4, 4000, key=k)": lambda x: (x + 4) / 7,
    "bernoulli(0.25, 4000, key=k)": _of(0.75, 0.25),
    "choice(4, 4000, p=array([0.1, 0.4, 0.2, 0.3]), key=k)": _of(*P4),
    "cast(permutation(4000, key=k)[:2000], f64) / 4000.0": lambda x: x,
    "dropout(ones(4000), 0.75, key=k)": lambda x: 0.75 if x < 4 else 1.0,
    "gumbel_softmax(zeros(4000, 2), key=k)[:, 0]": lambda x: x,
    "ravel(glorot_uniform(80, 50, key=k)) / sqrt(6.0 / 130.0)": lambda x: (x + 1) / 2,
    "ravel(he_normal(80, 50, key=k)) * sqrt(40.0)": _normal(0, 1),
    "ravel(lecun_normal(80, 50, key=k)) * sqrt(80.0)": _normal(0, 1),
    "ravel(he_uniform(80, 50, key=k)) / sqrt(6.0 / 80.0)": lambda x: (x + 1) / 2,
    "truncated_normal(4000, low=-1.0, high=2.0, mean=3.0, std=0.5, key=k)": _truncated(-1, 2, 3, 0.5),
    "truncated_normal(4000, low=6.0, high=6.5, dtype=f64, key=k)": _truncated(6, 6.5, 0, 1),
    "truncated_normal(4000, low=-INF, high=-3.0, key=k)": _truncated(-np.inf, -3, 0, 1),
    "rademacher(4000, key=k)": lambda x: 0.5 if x < 1 else 1.0,
    "ravel(orthogonal(200, 200, gain=3.0, key=k)) * sqrt(200.0) / 3.0": _normal(0, 1),
}


def gap(drawn: Array, below: Below) -> float:
    """The largest difference of shares and probabilities, at every twentieth number and at all that are seldom: between
    two of these it is smaller than the step of either."""
    drawn = np.sort(drawn.astype(np.float64))
    places = np.unique(drawn) if len(np.unique(drawn)) < 300 else drawn[10::20]
    shares = np.searchsorted(drawn, places, side="right") / drawn.size
    return max(abs(float(below(float(x))) - share) for x, share in zip(places, shares, strict=True))


@pytest.mark.one_in(4)
@folded("call", CASES, one_in=48)
def test_samples_have_the_distribution(call: str) -> None:
    forms = compile_to_forms(f"def f(a: Tensor[f64], b: Tensor[f64], k: Key):\n    return {call}\n")
    (drawn,) = run_function(forms, "m.f", [A, B, np.uint64(5)])
    assert drawn.size >= 2000 and np.isfinite(drawn).all()
    assert gap(drawn, CASES[call]) * np.sqrt(drawn.size) < GAP, call


def test_another_distribution_is_told() -> None:
    """What the test is worth: a normal distribution that is 1.2 times as wide, or off by a tenth."""
    x = np.random.default_rng(2).normal(size=COUNT)
    assert gap(x, _normal(0, 1)) * np.sqrt(COUNT) < GAP
    assert gap(x, _normal(0, 1.2)) * np.sqrt(COUNT) > GAP < gap(x, _normal(0.1, 1)) * np.sqrt(COUNT)


def test_orthogonal_weights_are_so_along_the_shorter_side() -> None:
    forms = compile_to_forms(
        "def f(k: Key):\n    return orthogonal(7, 4, dtype=f64, key=k), orthogonal(4, 7, gain=2.0, dtype=f64, key=k)\n"
    )
    tall, wide = run_function(forms, "m.f", [np.uint64(5)])
    np.testing.assert_allclose(tall.T @ tall, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(wide @ wide.T, 4.0 * np.eye(4), atol=1e-13)
