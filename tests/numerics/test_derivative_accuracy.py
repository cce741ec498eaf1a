"""Derivatives of elementary functions are as accurate as `docs/differentiation.md` says, for arguments of any size: in
f64 against mpmath, in f32 against f64. Forward and reverse mode are both held to it."""

from __future__ import annotations

import functools
from collections.abc import Callable

import mpmath
import numpy as np
import pytest

from tesserac.ir.forms import tensor_type
from tests.support.derivative_runs import Derivatives
from tests.support.source_support import body_of, check_text, graph_of, library

Real = mpmath.mpf
Exact = Callable[[Real], Real]
SATURATED = 1e4
"""Beyond it what saturates is at its limit, and mpmath takes very long to say so."""


def logistic(x: Real) -> Real:
    return 1 / (1 + mpmath.exp(-x))


def gaussian(x: Real) -> Real:
    return 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x)


def gelu(x: Real) -> Real:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2 + x * mpmath.npdf(x)


def gelu_by_tanh(x: Real) -> Real:
    scale = Real(0.7978845608028654)
    inner, slope = scale * (x + Real(0.044715) * x**3), scale * (1 + 3 * Real(0.044715) * x * x)
    return (1 + mpmath.tanh(inner)) / 2 + x * mpmath.sech(inner) ** 2 * slope / 2


def mish(x: Real) -> Real:
    inner = mpmath.log1p(mpmath.exp(x))
    return mpmath.tanh(inner) + x * mpmath.sech(inner) ** 2 * logistic(x)


ANALYTIC: dict[str, Exact] = {
    "exp(x)": mpmath.exp,
    "exp2(x)": lambda x: mpmath.log(2) * Real(2) ** x,
    "expm1(x)": mpmath.exp,
    "log(x)": lambda x: 1 / x,
    "log2(x)": lambda x: 1 / (x * mpmath.log(2)),
    "log10(x)": lambda x: 1 / (x * mpmath.log(10)),
    "log1p(x)": lambda x: 1 / (1 + x),
    "sqrt(x)": lambda x: 1 / (2 * mpmath.sqrt(x)),
    "rsqrt(x)": lambda x: -1 / (2 * x * mpmath.sqrt(x)),
    "sin(x)": mpmath.cos,
    "cos(x)": lambda x: -mpmath.sin(x),
    "atan(x)": lambda x: 1 / (1 + x * x),
    "pow(x, 2.5)": lambda x: Real(2.5) * x ** Real(1.5),
    "pow(2.5, x)": lambda x: mpmath.log(2.5) * Real(2.5) ** x,
    "3.0 / x": lambda x: -3 / x**2,
    "x ** 3": lambda x: 3 * x * x,
    "x ** -2": lambda x: -2 / x**3,
}
COMPOSED: dict[str, Exact] = {
    "tan(x)": lambda x: mpmath.sec(x) ** 2,
    "asin(x)": lambda x: 1 / mpmath.sqrt(1 - x * x),
    "acos(x)": lambda x: -1 / mpmath.sqrt(1 - x * x),
    "sinh(x)": mpmath.cosh,
    "cosh(x)": mpmath.sinh,
    "asinh(x)": lambda x: 1 / mpmath.sqrt(1 + x * x),
    "acosh(x)": lambda x: 1 / mpmath.sqrt(x * x - 1),
    "atanh(x)": lambda x: 1 / (1 - x * x),
    "cbrt(x)": lambda x: 1 / (3 * mpmath.cbrt(abs(x)) ** 2),
    "hypot(x, 3.0 + 0.0 * x)": lambda x: x / mpmath.sqrt(x * x + 9),
    "atan2(x, 3.0 + 0.0 * x)": lambda x: 3 / (x * x + 9),
    "norm(stack([x, 0.0 * x + 3.0]), axis=0)": lambda x: x / mpmath.sqrt(x * x + 9),
    "sigmoid(x)": lambda x: logistic(x) * logistic(-x),
    "softplus(x)": logistic,
    "elu(x)": lambda x: mpmath.exp(min(x, 0)),
    "logsumexp(stack([x, 0.0 * x]), axis=0)": logistic,
}
BELLS: dict[str, Exact] = {"erf(x)": gaussian, "erfc(x)": lambda x: -gaussian(x)}
DIFFERENCES: dict[str, Exact] = {
    "tanh(x)": lambda x: mpmath.sech(x) ** 2,
    "silu(x)": lambda x: logistic(x) * (1 + x * logistic(-x)),
    "mish(x)": mish,
    "gelu(x)": gelu,
    'gelu(x, approximate="tanh")': gelu_by_tanh,
    "softmax(stack([x, 0.0 * x]), axis=0)[0]": lambda x: logistic(x) * logistic(-x),
    "log_softmax(stack([x, 0.0 * x]), axis=0)[0]": lambda x: logistic(-x),
    "cross_entropy(stack([x, 0.0 * x], axis=1), cast(0.0 * x, i32))": lambda x: -logistic(-x),
}
WHERE_DEFINED = {
    "log(x)": (0.0, np.inf), "log2(x)": (0.0, np.inf), "log10(x)": (0.0, np.inf), "log1p(x)": (-1.0, np.inf),
    "sqrt(x)": (0.0, np.inf), "rsqrt(x)": (0.0, np.inf), "pow(x, 2.5)": (0.0, np.inf), "asin(x)": (-1.0, 1.0),
    "acos(x)": (-1.0, 1.0), "atanh(x)": (-1.0, 1.0), "acosh(x)": (1.0, np.inf),
}  # fmt: skip


def points(expression: str, dtype: type[np.floating]) -> np.ndarray:
    """Of all sizes that the dtype holds, more of those that matter, and those near 1, of both signs."""
    most = int(np.log10(np.finfo(dtype).max)) - 8
    near = 1 + np.outer([1, -1], 2.0 ** -np.arange(2, np.finfo(dtype).nmant, 6)).ravel()
    sizes = np.concatenate([10.0 ** np.linspace(-most, most, 25), 10.0 ** np.linspace(-9, 3, 37), near])
    low, high = WHERE_DEFINED.get(expression, (-np.inf, np.inf))
    x = np.concatenate([sizes, -sizes]).astype(dtype)
    return x[(x > low) & (x < high)]


@functools.cache
def derivatives(expression: str, dtype: str) -> Derivatives:
    text = f"def f(x: Tensor[N, {dtype}]) -> Tensor[N, {dtype}]:\n    return {expression}\n"
    function = graph_of(check_text(text, "m", library()))
    beside = [other for other in function.parent.ops if other is not function] if function.parent else []
    types = [tensor_type(v) for v in function.body.args]
    return Derivatives(body_of(function), types, beside=beside, verify=False)


def both_modes(expression: str, x: np.ndarray) -> list[np.ndarray]:
    one = [np.ones_like(x)]
    [forward], [back] = derivatives(expression, f"f{8 * x.itemsize}").first([x], one, one)
    return [forward, back]


def exact_slopes(expression: str, exact: Exact, x: np.ndarray) -> list[Real]:
    bounded = expression in DIFFERENCES or expression in BELLS
    with mpmath.workdps(50):
        return [exact(Real(float(np.clip(v, -SATURATED, SATURATED) if bounded else v))) for v in x]


TABLES = [(ANALYTIC, 4.0, 0.0), (COMPOSED, 8.0, 0.0), (BELLS, 4.0, 2.0)]
RELATIVE = [pytest.param(e, f, *bound, id=e) for table, *bound in TABLES for e, f in table.items()]


@pytest.mark.one_in(24)
@pytest.mark.parametrize(("expression", "exact", "ulps", "per_square"), RELATIVE)
def test_relative_bounds(expression: str, exact: Exact, ulps: float, per_square: float) -> None:
    x = points(expression, np.float64)
    wanted = exact_slopes(expression, exact, x)
    for found in both_modes(expression, x):
        for at, got, right in zip(x, found, wanted, strict=True):
            _close(float(at), float(got), right, ulps + per_square * min(abs(float(at)), SATURATED) ** 2)
    single = points(expression, np.float32)
    wide = both_modes(expression, single.astype(np.float64))[0]
    for found in both_modes(expression, single):
        units = ulps + per_square * np.minimum(np.abs(single), SATURATED) ** 2
        allowed = units * (2.0**-24 * np.abs(wide) + 2.0**-126)
        with np.errstate(over="ignore"):
            fits = (np.abs(found - wide) <= allowed) | (found == wide.astype(np.float32))
        assert fits.all(), (single[~fits], found[~fits], wide[~fits])


def _close(at: float, got: float, right: Real, ulps: float) -> None:
    """What is less than every normal number may be 0."""
    if abs(right) > np.finfo(np.float64).max:
        assert abs(got) == np.inf, (at, got, right)
        return
    assert abs(Real(got) - right) <= ulps * (Real(2) ** -53 * abs(right) + Real(2) ** -1022), (at, got, right)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("expression", "exact"), [pytest.param(e, f, id=e) for e, f in DIFFERENCES.items()])
def test_absolute_bounds(expression: str, exact: Exact) -> None:
    for dtype, unit in ((np.float64, 2.0**-53), (np.float32, 2.0**-24)):
        x = points(expression, dtype)
        wanted = np.array([float(slope) for slope in exact_slopes(expression, exact, x)])
        for found in both_modes(expression, x):
            assert np.all(np.abs(found - wanted) <= 8 * unit), x[np.argmax(np.abs(found - wanted))]
