"""Distributions: log densities against mpmath over many magnitudes, entropies and divergences as integrals of these,
samples against the distribution (Kolmogorov and Smirnov, with fixed keys), slopes of samples as those of quantiles, and
that no element depends on what stands beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import mpmath as mp
import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tests.support.checking import check_text
from tests.support.folding import folded
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import compile_to_forms

Array = np.ndarray
Density = Callable[[Any, Any, Any], Any]
LOG_2PI = mp.log(2 * mp.pi)


def _normal(x: Any, a: Any, b: Any) -> Any:
    return -(((x - a) / b) ** 2) / 2 - mp.log(b) - LOG_2PI / 2


def _gamma(x: Any, a: Any, b: Any) -> Any:
    return a * mp.log(b) + (a - 1) * mp.log(x) - b * x - mp.loggamma(a) if x > 0 else mp.mpf("-inf")


def _beta(x: Any, a: Any, b: Any) -> Any:
    inside = 0 < x < 1
    whole = mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b)
    return (a - 1) * mp.log(x) + (b - 1) * mp.log1p(-x) + whole if inside else mp.mpf("-inf")


def _student(x: Any, a: Any, b: Any) -> Any:
    size = mp.loggamma((b + 1) / 2) - mp.loggamma(b / 2) - mp.log(b * mp.pi) / 2
    return size - (b + 1) / 2 * mp.log1p((x - a) ** 2 / b)


CASES: dict[str, tuple[Density, tuple[float, float]]] = {
    "Normal(a, b)": (_normal, (-40.0, 40.0)),
    "LogNormal(a, b)": (lambda x, a, b: _normal(mp.log(x), a, b) - mp.log(x) if x > 0 else mp.mpf("-inf"), (0.0, 60.0)),
    "HalfNormal(b)": (lambda x, a, b: _normal(x, 0, b) + mp.log(2) if x >= 0 else mp.mpf("-inf"), (0.0, 40.0)),
    "Laplace(a, b)": (lambda x, a, b: -abs(x - a) / b - mp.log(2 * b), (-80.0, 80.0)),
    "Exponential(b)": (lambda x, a, b: mp.log(b) - b * x if x >= 0 else mp.mpf("-inf"), (0.0, 60.0)),
    "Uniform(a, a + b)": (lambda x, a, b: -mp.log(b) if a <= x < a + b else mp.mpf("-inf"), (-3.0, 9.0)),
    "Gamma(b, a * a)": (lambda x, a, b: _gamma(x, b, a * a), (0.0, 60.0)),
    "Beta(b, a * a)": (lambda x, a, b: _beta(x, b, a * a), (0.0, 1.0)),
    "StudentT(b, a, 1.0)": (_student, (-4e3, 4e3)),
    "VonMises(a, b)": (
        lambda x, a, b: b * mp.cos(x - a) - mp.log(2 * mp.pi * mp.besseli(0, b)), (-np.pi, np.pi),
    ),
    "Poisson(b)": (
        lambda x, a, b: x * mp.log(b) - b - mp.loggamma(x + 1) if x >= 0 and x == mp.floor(x) else mp.mpf("-inf"),
        (0.0, 0.0),
    ),
}  # fmt: skip
CONTINUOUS = list(CASES)[:-1]


@cache
def program(text: str) -> Any:
    """Of one distribution: densities of it and of another, samples, entropy and divergence."""
    other = text.replace("b", "(1.5 * b)").replace("a,", "(a + 0.25),")
    other = "Uniform(a - 0.5, a + 2.0 * b)" if "Uniform" in text else other
    lines = []
    for dtype in ("f32", "f64"):
        lines += [f"def of_{dtype}(x: Tensor[N, {dtype}], a: Tensor[{dtype}], b: Tensor[{dtype}]):"]
        lines += [f"    return log_prob({text}, x), log_prob({other}, x)"]
    lines += ["def drawn(a: Tensor[f64], b: Tensor[f64], k: Key):", f"    return sample({text}, 3000, key=k)"]
    apart = "0.0 * a" if "Student" in text else f"kl({text}, {other})"
    if text in CONTINUOUS:
        lines += ["def mean(a: Tensor[f64], b: Tensor[f64]):", f"    return entropy({text}), {apart}"]
    return compile_to_forms("\n".join(lines) + "\n")


@pytest.mark.one_in(8)
@folded("text", CASES, one_in=48)
def test_log_densities(text: str) -> None:
    """Within 16 units of the result, of 1 or of what the parameters are rounded to."""
    for dtype, kind in {"f32": np.float32, "f64": np.float64}.items():
        _are_log_densities(text, dtype, kind)


def _are_log_densities(text: str, dtype: str, kind: type[np.floating]) -> None:
    density, _ = CASES[text]
    x = np.array([-3.0, -1e-3, 1e-30, 0.01, 0.3, 0.75, 1.0, 2.0, 5.0, 30.0, 700.0, 1e8], kind)
    for a, b in ((0.5, 1.25), (-2.0, 0.001), (1.5, 40.0), (0.25, 3000.0)):
        found, _ = run_function(program(text), f"m.of_{dtype}", [x, kind(a), kind(b)])
        for place, value in zip(x, found, strict=True):
            if (place == 1.0 and "Beta" in text) or (place > 1e3 and "VonMises" in text):
                continue  # a pole; an angle of which nothing is left
            exact = _exactly(density, place, kind(a), kind(b))
            if mp.isinf(exact):
                assert value == -np.inf, (text, place, a, b, value)
                continue
            unit = float(np.finfo(kind).eps) * max(1.0, abs(float(exact)), abs(float(b * mp.log(max(place, 1e-30)))))
            assert abs(float(value) - exact) <= 16 * unit, (text, place, a, b, value, exact)


def _exactly(density: Density, *numbers: np.floating) -> Any:
    with mp.workdps(40):
        return density(*(mp.mpf(float(number)) for number in numbers))


def _grid(text: str) -> Array:
    low, high = CASES[text][1]
    unit = np.linspace(0, 1, 60001)[1:-1]
    if "LogNormal" in text:
        return np.exp(-12.0 + 28.0 * unit)
    if text.startswith(("Gamma", "HalfNormal", "Exponential")):
        return high * unit**3
    return low + (high - low) * unit


A, B = np.float64(1.25), np.float64(2.5)


@pytest.mark.one_in(8)
@folded("text", CONTINUOUS, one_in=12)
def test_entropies_and_divergences_are_integrals(text: str) -> None:
    x = _grid(text)
    own, other = run_function(program(text), "m.of_f64", [x, A, B])
    density = np.exp(own)
    entropy, apart = run_function(program(text), "m.mean", [A, B])
    with np.errstate(invalid="ignore"):
        surprise = np.where(density > 0, -own * density, 0.0)
        excess = np.where(density > 0, (own - other) * density, 0.0)
    np.testing.assert_allclose(entropy, np.trapezoid(surprise, x), rtol=2e-4, err_msg=text)
    if "Student" not in text:
        np.testing.assert_allclose(apart, np.trapezoid(excess, x), rtol=1e-3, err_msg=text)


@pytest.mark.one_in(8)
@folded("text", CONTINUOUS, one_in=48)
def test_samples_have_the_distribution(text: str) -> None:
    x = _grid(text)
    own, _ = run_function(program(text), "m.of_f64", [x, A, B])
    density = np.exp(own)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(x))])
    (drawn,) = run_function(program(text), "m.drawn", [A, B, np.uint64(3)])
    ranks = np.interp(np.sort(drawn), x, below)
    gap = np.abs(ranks - (np.arange(drawn.size) + 0.5) / drawn.size).max()
    assert gap * np.sqrt(drawn.size) < 1.95, (text, gap)


@pytest.mark.one_in(12)
def test_counts_have_the_distribution() -> None:
    for mean in (0.3, 4.0, 25.0):
        (drawn,) = run_function(program("Poisson(b)"), "m.drawn", [A, np.float64(mean), np.uint64(4)])
        below = np.array([float(mp.gammainc(k + 1, mean, mp.inf, regularized=True)) for k in range(80)])
        shares = np.array([(drawn <= k).mean() for k in range(80)])
        assert np.abs(shares - below).max() * np.sqrt(drawn.size) < 1.95, mean


SLOPES = """
def gamma_slope(a: Tensor[N, f64], k: Key):
    return log_gamma_sample(a, key=k), grad(lambda a: sum(log_gamma_sample(a, key=k)))(a)

def angle_slope(a: Tensor[N, f64], k: Key):
    return von_mises_sample(a, key=k), grad(lambda a: sum(von_mises_sample(a, key=k)))(a)

def counts(a: Tensor[N, f64], k: Key):
    return poisson(a, key=k), sample(Dirichlet(a), key=k), grad(lambda a: sum(sample(Beta(a, 2.0 * a), key=k)))(a)

def mapped(a: Tensor[N, f64], k: Key):
    return vmap(lambda v: log_gamma_sample(v, key=k))(a)
"""


def _share(kappa: float, x: float) -> Any:
    """How much of von Mises's distribution is below x."""

    def density(t: Any) -> Any:
        return mp.exp(kappa * (mp.cos(t) - 1))

    return mp.quad(density, [-mp.pi, min(x, 0), x]) / mp.quad(density, [-mp.pi, 0, mp.pi])


@pytest.mark.one_in(48)
def test_slopes_are_those_of_quantiles() -> None:
    run = compiled_equals_oracle(SLOPES)
    sizes = np.array([0.01, 0.4, 0.99, 1.0, 2.5, 8.0, 60.0, 2000.0])
    logs, slopes = run("gamma_slope", sizes, np.uint64(7))
    with mp.workdps(40):
        for alpha, y, slope in zip(sizes, logs, slopes, strict=True):
            z = mp.exp(mp.mpf(float(y)))
            rise = mp.diff(lambda t, z=z: mp.gammainc(t, 0, z, regularized=True), mp.mpf(float(alpha)))
            exact = -rise / mp.exp(_gamma(z, mp.mpf(float(alpha)), mp.mpf(1))) / z
            assert abs(slope - exact) <= 1e-6 * abs(exact), (alpha, y, slope, exact)
    kappas = np.array([0.01, 0.5, 2.0, 30.0])
    angles, turns = run("angle_slope", kappas, np.uint64(2))
    for kappa, x, turn in zip(kappas, angles, turns, strict=True):
        slope = (_share(kappa * 1.0001, x) - _share(kappa * 0.9999, x)) / (kappa * 0.0002)
        density = mp.exp(kappa * mp.cos(x)) / (2 * mp.pi * mp.besseli(0, kappa))
        assert abs(turn + slope / density) <= 1e-4 * max(abs(turn), 1e-3), (kappa, x, turn)


@pytest.mark.one_in(48)
def test_no_element_depends_on_what_stands_beside_it() -> None:
    run = compiled_equals_oracle(SLOPES)
    one, two = np.array([0.5, 3.0, 20.0]), np.array([0.5, 0.01, 900.0])
    for name in ("gamma_slope", "angle_slope"):
        assert run(name, one, np.uint64(9))[0][0] == run(name, two, np.uint64(9))[0][0], name
    assert run("counts", one, np.uint64(9))[0][0] == run("counts", two, np.uint64(9))[0][0]
    assert np.isfinite(run("counts", one, np.uint64(9))[2]).all()
    assert np.isfinite(run("mapped", one, np.uint64(9))).all()


PLAIN: dict[str, Callable[[Any], Any]] = {
    "Normal(0.1, 1.7)": lambda x: _normal(x, mp.mpf(0.1), mp.mpf(1.7)),
    "StudentT(3, 0.1)": lambda x: _student(x, mp.mpf(0.1), mp.mpf(3)),
    "Poisson(3.3)": lambda x: x * mp.log(mp.mpf(3.3)) - mp.mpf(3.3) - mp.loggamma(x + 1),
}


def _plain(dtype: str) -> str:
    """The same distributions, with plain numbers and with tensors of what is computed in."""
    wide = "f64" if dtype == "f64" else "f32"
    lines = []
    for number, text in enumerate(PLAIN):
        name, numbers = text[:-1].split("(")
        cast = f"{name}({', '.join(f'cast({value}, {wide})' for value in numbers.split(','))})"
        lines += [f"def at{number}(x: Tensor[N, {dtype}]):"]
        lines += [f"    return log_prob({text}, x), log_prob({cast}, x)"]
    lines += [f"def slope(x: Tensor[N, {dtype}]):", "    return grad(lambda y: sum(log_prob(Normal(0.1, 1.7), y)))(x)"]
    lines += [f"def apart(x: Tensor[N, {wide}]):"]
    lines += ["    return kl(Normal(0.1, 1.7), Normal(x, 2)) - kl(Normal(x, 2), Normal(0.1, 1))"]
    return "\n".join(lines) + "\n"


@pytest.mark.one_in(24)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_plain_numbers_take_the_dtype_they_meet(dtype: str) -> None:
    forms = compile_to_forms(_plain(dtype))
    wide = np.float64 if dtype == "f64" else np.float32
    x = np.array([0.0, 1.0, 2.0, 5.0], ml_dtypes.bfloat16 if dtype == "bf16" else wide)
    for number, density in enumerate(PLAIN.values()):
        got, of_tensors = run_function(forms, f"m.at{number}", [x])
        assert got.dtype == wide
        np.testing.assert_array_equal(got, of_tensors)
        with mp.workdps(30):
            exact = [float(density(mp.mpf(float(v)))) for v in x]
        np.testing.assert_allclose(got, exact, rtol=8 * np.finfo(wide).eps)
    (slope,) = run_function(forms, "m.slope", [x])
    assert slope.dtype == x.dtype
    unit = 2.0**-8 if dtype == "bf16" else 4 * np.finfo(wide).eps
    np.testing.assert_allclose(slope.astype("f8"), (0.1 - x.astype("f8")) / 1.7**2, rtol=unit)
    (apart,) = run_function(forms, "m.apart", [x.astype(wide)])
    assert apart.dtype == wide
    d = (x.astype("f8") - 0.1) ** 2
    both = np.log(2 / 1.7) + (1.7**2 + d) / 8 - np.log(1 / 2) - (4 + d) / 2
    np.testing.assert_allclose(apart, both, rtol=64 * np.finfo(wide).eps)


def test_two_dtypes_are_told_as_such() -> None:
    """Not a branch for another distribution, which no run comes to."""
    text = "def f(x: Tensor[N, f64], m: Tensor[N, f32]):\n    return log_prob(Normal(m, 1.0), x)\n"
    (error,) = check_text(text).diagnostics
    assert "f64 - f32 needs a decision" in error.primary.text
