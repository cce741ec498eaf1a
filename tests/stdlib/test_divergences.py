"""Divergences of two distributions, of one kind and of two: against integrals and sums of densities that mpmath
computes, and infinite, without slopes, where the first reaches what the second does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tests.support.folding import folded
from tests.support.source_support import compile_to_forms

Log = Callable[[Any, Any, Any], Any]
A, B, C, D = 0.3, 0.4, -0.2, 1.75
NUMBERS = [np.array(value) for value in (A, B, C, D)]


def _beta(x: Any, a: Any, b: Any) -> Any:
    return (a - 1) * mp.log(x) + (b - 1) * mp.log1p(-x) - mp.log(mp.beta(a, b))


def _gamma(x: Any, a: Any, b: Any) -> Any:
    return a * mp.log(b) + (a - 1) * mp.log(x) - b * x - mp.loggamma(a)


def _normal(x: Any, a: Any, b: Any) -> Any:
    return -(((x - a) / b) ** 2) / 2 - mp.log(b * mp.sqrt(2 * mp.pi))


def _gumbel(x: Any, a: Any, b: Any) -> Any:
    return -(x - a) / b - mp.exp(-(x - a) / b) - mp.log(b)


def _weibull(x: Any, a: Any, b: Any) -> Any:
    return mp.log(b / a) + (b - 1) * mp.log(x / a) - (x / a) ** b


# Of parameters (a, b): how the distribution is written, its log density, and what it reaches.
REAL: dict[str, tuple[str, Log, Callable[[Any, Any], list[Any]]]] = {
    "Beta": ("2.0 + a, 1.0 + b", lambda x, a, b: _beta(x, 2 + a, 1 + b), lambda a, b: [0, 0.5, 1]),
    "Cauchy": (
        "a, b", lambda x, a, b: -mp.log(mp.pi * b * (1 + ((x - a) / b) ** 2)), lambda a, b: [-mp.inf, a, mp.inf],
    ),
    "Exponential": ("b", lambda x, a, b: mp.log(b) - b * x, lambda a, b: [0, 1 / b, 40 / b, 200 / b]),
    "Gamma": ("2.0 + a, b", lambda x, a, b: _gamma(x, 2 + a, b), lambda a, b: [0, 1 / b, 40 / b, 200 / b]),
    "Gumbel": ("a, b", _gumbel, lambda a, b: [a - 5 * b, a, a + 9 * b, a + 50 * b]),
    "HalfNormal": (
        "b", lambda x, a, b: _normal(x, 0, b) + mp.log(2), lambda a, b: [0, b, 4 * b, 12 * b],
    ),
    "InverseGamma": (
        "4.0 + a, b", lambda x, a, b: _gamma(1 / x, 4 + a, b) - 2 * mp.log(x),
        lambda a, b: [0, b / 8, b, 9 * b, mp.inf],
    ),
    "Laplace": (
        "a, b", lambda x, a, b: -abs(x - a) / b - mp.log(2 * b),
        lambda a, b: [a - 99 * b, a - 9 * b, a, a + 9 * b, a + 99 * b],
    ),
    "LogNormal": (
        "a, b", lambda x, a, b: _normal(mp.log(x), a, b) - mp.log(x),
        lambda a, b: [mp.exp(a + k * b) for k in (-9, -3, 0, 3, 6, 9, 12)],
    ),
    "Normal": ("a, b", _normal, lambda a, b: [a - 12 * b, a, a + 12 * b]),
    "Pareto": (
        "b, 4.0 + a",
        lambda x, a, b: mp.log(4 + a) + (4 + a) * mp.log(b) - (5 + a) * mp.log(x),
        lambda a, b: [b, 2 * b, 9 * b, mp.inf],
    ),
    "Uniform": ("a, a + b", lambda x, a, b: -mp.log(b), lambda a, b: [a, a + b]),
    "Weibull": ("b, 2.0 + a", lambda x, a, b: _weibull(x, b, 2 + a), lambda a, b: [0, b, 4 * b, 9 * b]),
}  # fmt: skip
CLOSED = """
Beta: Beta Exponential Gamma Normal
Cauchy: Cauchy
Exponential: Exponential Gamma Gumbel Normal
Gamma: Exponential Gamma Gumbel Normal
Gumbel: Gumbel Normal
HalfNormal: HalfNormal Exponential Gamma Normal
InverseGamma: InverseGamma Exponential Gamma Normal
Laplace: Laplace Normal
LogNormal: LogNormal Exponential Gamma Normal
Normal: Gumbel Laplace Normal
Pareto: Exponential Gamma Normal
Uniform: Beta Exponential Gamma Gumbel Normal
Weibull: Weibull Exponential Gamma Normal
"""
ROWS = [line.split(": ") for line in CLOSED.splitlines() if line]
# What lacks a place in those: supports that only some parameters make fit.
FITTING = {
    "kl(Beta(2.0 + a, 1.0 + b), Uniform(-0.5, d))": ("Beta", "Uniform", -0.5, D + 0.5),
    "kl(Uniform(2.0 + a, 2.0 + a + b), Pareto(d, 4.0 + c))": ("Uniform", "Pareto", C, D),
    "kl(Pareto(2.0 + b, 4.0 + a), Pareto(d, 4.0 + c))": ("Pareto", "Pareto", C, D),
}
TENSORS = ", ".join(f"{name}: Tensor[f64]" for name in "abcd")


def _second(kind: str) -> str:
    return f"{kind}({REAL[kind][0].replace('b', 'd').replace('a', 'c')})"


def _values(calls: list[str]) -> list[float]:
    forms = compile_to_forms(f"def f({TENSORS}):\n    return {', '.join(calls)},\n")
    return [float(value) for value in run_function(forms, "m.f", NUMBERS)]


def _integral(p: str, q: str, *numbers: float) -> float:
    a, b, c, d = map(mp.mpf, numbers)
    (_, first, reach), (_, second, _) = REAL[p], REAL[q]

    def excess(x: Any) -> Any:
        own = first(x, a, b)
        return mp.exp(own) * (own - second(x, c, d))

    ends = reach(a, b)
    kink = [c] if ends[0] < c < ends[-1] else []
    return float(mp.quad(excess, sorted(ends + kink)))


@pytest.mark.one_in(12)
@folded("kind, others", ROWS, one_in=12)
def test_divergences_are_integrals(kind: str, others: str) -> None:
    names = others.split()
    found = _values([f"kl({kind}({REAL[kind][0]}), {_second(other)})" for other in names])
    for other, value in zip(names, found, strict=True):
        exact = _integral(kind, other, A, B, C, D)
        np.testing.assert_allclose(value, exact, rtol=1e-7, err_msg=f"{kind}, {other}")


@pytest.mark.one_in(6)
@folded("call", FITTING, one_in=3)
def test_divergences_to_what_reaches_enough(call: str) -> None:
    p, q, c, d = FITTING[call]
    a, b = {"Beta": (A, B), "Uniform": (2 + A, B), "Pareto": (A, 2 + B)}[p]
    np.testing.assert_allclose(_values([call]), _integral(p, q, a, b, c, d), rtol=1e-7)


ENDLESS = """
Beta: Pareto
Exponential: Beta Pareto Uniform
Gamma: Beta Pareto Uniform
Gumbel: Beta Exponential Gamma Pareto Uniform
Laplace: Beta Exponential Gamma Pareto Uniform
Normal: Beta Exponential Gamma Pareto Uniform
Pareto: Beta Uniform
"""
APART = [
    "kl(Uniform(c, b), Gamma(a, d))",
    "kl(Uniform(c, b), Exponential(d))",
    "kl(Uniform(c, b), Beta(a, d))",
    "kl(Uniform(a, d), Beta(a, d))",
    "kl(Uniform(a, d), Pareto(b, d))",
    "kl(Beta(a, b), Uniform(a, d))",
    "kl(Pareto(a, b), Pareto(b, d))",
    "kl(Pareto(d, b), Exponential(d)) + 0.0 * a",
    "kl(Pareto(d, a), Gamma(d, b))",
    "kl(Pareto(b, d), Normal(a, b))",
    "kl(Poisson(b), Bernoulli(logits=a))",
    "kl(Poisson(b), Binomial(3, logits=a))",
    "kl(Binomial(4, logits=a), Binomial(3, logits=c))",
]
INFINITE = [
    *(
        f"kl({kind}({REAL[kind][0]}), {_second(other)})"
        for kind, others in (line.split(": ") for line in ENDLESS.splitlines() if line)
        for other in others.split()
    ),
    *APART,
]


@pytest.mark.one_in(12)
@folded("call", INFINITE, one_in=24)
def test_what_is_not_reached_is_infinitely_far(call: str) -> None:
    slopes = f"grad(lambda a, b, c, d: {call} + 0.0 * (a + b + c + d), wrt=(0, 1, 2, 3))(a, b, c, d)"
    forms = compile_to_forms(f"def f({TENSORS}):\n    return {call}\ndef g({TENSORS}):\n    return {slopes}\n")
    assert run_function(forms, "m.f", NUMBERS)[0] == np.inf, call
    assert np.all(np.array(run_function(forms, "m.g", NUMBERS)) == 0.0), call


def _chances(call: str, logit: float) -> Any:
    """Of counts from 0 on, far enough for these parameters."""
    won = 1 / (1 + mp.exp(-mp.mpf(logit)))
    if call.startswith("Geometric"):
        return [won * (1 - won) ** n for n in range(400)]
    trials = 7 if call.startswith("Binomial") else 1
    return [mp.binomial(trials, n) * won**n * (1 - won) ** (trials - n) for n in range(trials + 1)]


COUNTS = ("Geometric(logits=a)", "Binomial(7, logits=a)", "Bernoulli(logits=a)")


@pytest.mark.one_in(6)
@folded("text", COUNTS, one_in=3)
def test_divergences_of_counts_are_sums(text: str) -> None:
    own, other = _chances(text, A), _chances(text, C)
    poisson = [mp.exp(-mp.mpf(D)) * mp.mpf(D) ** n / mp.factorial(n) for n in range(len(own))]
    calls = [f"kl({text}, {text.replace('=a', '=c')})", f"entropy({text})"]
    calls += [f"kl({text}, Poisson(d))"] if "Bernoulli" in text else []
    exact = [sum(p * mp.log(p / q) for p, q in zip(own, other, strict=True)), -sum(p * mp.log(p) for p in own)]
    exact += [sum(p * mp.log(p / q) for p, q in zip(own, poisson, strict=True))]
    np.testing.assert_allclose(_values(calls), [float(value) for value in exact[: len(calls)]], rtol=1e-12)


def test_what_never_happens_adds_nothing() -> None:
    never, always = "Bernoulli(logits=a * -INF)", "Bernoulli(logits=a * INF)"
    assert _values([f"kl({never}, {never})", f"kl({never}, Bernoulli(logits=0.0 * a))"]) == [0.0, np.log(2.0)]
    calls = [f"entropy({never})", f"entropy({always})", "entropy(Geometric(logits=a * INF))"]
    assert _values(calls) == [0.0, 0.0, 0.0]
    far = [f"entropy(Geometric(logits=0.0 * a - {n}))" for n in ("800.0", "INF")]
    assert _values(far) == [801.0, np.inf]
