"""Distributions where parameters or places are at the ends of their range: values, and slopes that are not NaN."""

from __future__ import annotations

from math import comb, inf, lgamma, log, nan, pi, tan

import numpy as np

from tesserac.graph.interp import run_function
from tests.support.folding import folded
from tests.support.source_support import compile_to_forms

M = np.exp(28.0)
CHANCES = [comb(1000, k) / 2**1000 for k in range(1001)]
EDGES = {
    "cdf(Gamma(2.0, 1.0), x)": [(inf, 1.0), (0.0, 0.0), (nan, nan)],
    "cdf(InverseGamma(2.0, 1.0), x)": [(inf, 1.0), (0.0, 0.0)],
    "cdf(Beta(2.0, 3.0), x)": [(inf, 1.0), (-inf, 0.0)],
    "cdf(StudentT(3.0), x)": [(inf, 1.0), (-inf, 0.0)],
    "cdf(Binomial(8, probs=x), full_like(x, 3.0))": [(0.0, 1.0), (1.0, 0.0)],
    "icdf(Cauchy(), x)": [(0.0, -inf), (1.0, inf), (2.0, nan), (-1.0, nan), (0.9, tan(0.4 * pi))],
    "icdf(HalfCauchy(), x)": [(0.0, 0.0), (1.0, inf), (1 - 2.0**-24, 1 / tan(pi * 2.0**-25)), (1.5, nan)],
    "icdf(Uniform(), x)": [(0.25, 0.25), (1.5, nan), (-0.5, nan)],
    "grad(lambda r: sum(log_prob(Gamma(2.0, r), x)))(full_like(x, 0.5))": [(0.0, 4.0), (1e-40, 4.0), (2.0, 2.0)],
    "grad(lambda s: sum(log_prob(Weibull(s, 2.0), x)))(full_like(x, 3.0))": [(1e-40, -2 / 3), (0.0, -2 / 3)],
    "grad(lambda r: sum(log_prob(InverseGamma(2.0, r), x)))(full_like(x, 4.0))": [(inf, 0.5), (1.0, -0.5)],
    "grad(lambda m: sum(log_prob(LogNormal(m, 1.0), x)))(0.0 * x)": [(nan, nan), (-1.0, 0.0)],
    "grad(lambda l: sum(variance(Geometric(logits=l))))(x)": [(-28.0, -(M + 2 * M * M))],
    "grad(lambda a: sum(variance(InverseGamma(a, 1.0))))(x)": [(0.5, 0.0), (1.0, 0.0), (2.0, 0.0), (4.0, -7 / 108)],
    "grad(lambda a: sum(variance(Pareto(1.0, a))))(x)": [(1.0, 0.0), (2.0, 0.0)],
    "variance(Weibull(1.0, x))": [(0.02, inf), (1.0, 1.0)],
    "log_prob(InverseGamma(2.0, 1.0), x)": [(1e-40, -inf), (0.0, -inf), (nan, nan)],
    "log_prob(Cauchy(0.0, 0.5), x)": [(3e38, -log(pi / 2) - 2 * log(6e38))],
    "grad(lambda s: sum(log_prob(Cauchy(0.0, s), x)))(full_like(x, 0.5))": [(3e38, 2.0)],
    "log_prob(Binomial(1000, logits=0.0 * x), x)": [
        (k, lgamma(1001) - lgamma(k + 1) - lgamma(1001 - k) - 1000 * log(2)) for k in (0.0, 5.0, 400.0, 500.0, 991.0)
    ],
    "log_prob(NegativeBinomial(40.0, logits=0.0 * x), x)": [(50.0, log(comb(89, 50)) - 90 * log(2))],
    "entropy(Binomial(1000, logits=x))": [(0.0, -sum(p * log(p) for p in CHANCES if p > 0))],
}
"""By an expression of x: numbers x, and what comes of them."""


@folded("text", EDGES, one_in=24)
def test_edges(text: str) -> None:
    given, wanted = np.array(EDGES[text]).T
    program = compile_to_forms(f"def f(x: Tensor[N, f32]):\n    return {text}\n")
    (found,) = run_function(program, "m.f", [given.astype(np.float32)])
    np.testing.assert_allclose(found, wanted.astype(np.float32), rtol=4e-6, atol=1e-5, err_msg=text)
