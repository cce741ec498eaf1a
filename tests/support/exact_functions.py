"""Functions of one point to any number of digits, the points where they are held to them, and how near is near."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import mpmath as mp
import numpy as np

from tests.support import sampling

Exact = Callable[[mp.mpf], mp.mpf]
TINY = mp.mpf(2) ** -90
"""Below this a function that is x near 0 is x to the last bit that any type has."""

DEEP = mp.mpf(10) ** 6
"""Below minus this an exponential is nothing in any type."""


HALF = mp.mpf(0.5)
SELU = mp.mpf("1.0507009873554804934193349852946"), mp.mpf("1.6732632423543772848170429916717")


def within(low: float, high: float, f: Exact) -> Exact:
    return lambda x: f(x) if low <= x <= high else mp.nan


def like_x(f: Exact) -> Exact:
    return lambda x: x if abs(x) < TINY else f(x)


def log_of(base: Exact) -> Exact:
    return lambda x: mp.nan if x < 0 else -mp.inf if x == 0 else base(x)


def _sigmoid(x: mp.mpf) -> mp.mpf:
    return 1 / (1 + mp.exp(-x))


def _tanhshrink(x: mp.mpf) -> mp.mpf:
    return x**3 / 3 * (1 - x**2 * 2 / 5) if abs(x) < TINY else x - mp.tanh(x)


def _softplus(x: mp.mpf) -> mp.mpf:
    return x if x > 1000 else mp.log1p(mp.exp(x)) if x > -100 else mp.exp(x)


def _log1mexp(x: mp.mpf) -> mp.mpf:
    return mp.nan if x < 0 else -mp.inf if x == 0 else mp.log(-mp.expm1(-x)) if x < 1 else mp.log1p(-mp.exp(-x))


def _squareplus(x: mp.mpf) -> mp.mpf:
    root = mp.sqrt(x * x + 4)
    return 2 / (root - x) if x < 0 else (x + root) / 2


FUNCTIONS: dict[str, Exact] = {
    "abs": abs,
    "acos": within(-1, 1, mp.acos),
    "acosh": within(1, math.inf, mp.acosh),
    "asin": within(-1, 1, mp.asin),
    "asinh": like_x(mp.asinh),
    "atan": mp.atan,
    "atanh": within(-1, 1, lambda x: x * mp.inf if abs(x) == 1 else like_x(mp.atanh)(x)),
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "ceil": mp.ceil,
    "celu": lambda x: x if x > 0 else mp.expm1(x),
    "copy": lambda x: x,
    "cos": lambda x: mp.cos(x) if mp.isfinite(x) else mp.nan,
    "cosh": mp.cosh,
    "degrees": lambda x: x * 180 / mp.pi,
    "elu": lambda x: x if x > 0 else mp.expm1(x),
    "erf": mp.erf,
    "erfc": lambda x: mp.erfc(x) if x < 1000 else mp.mpf(0),
    "exp": mp.exp,
    "exp2": lambda x: mp.power(2, x),
    "expm1": mp.expm1,
    "floor": mp.floor,
    "frac": lambda x: x - FUNCTIONS["trunc"](x) if mp.isfinite(x) else mp.nan,
    "gelu": lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2 if abs(x) < 1000 else max(x, mp.mpf(0)),
    "hardshrink": lambda x: x if abs(x) > HALF else mp.mpf(0),
    "hardsigmoid": lambda x: min(max(x + 3, mp.mpf(0)), mp.mpf(6)) / 6,
    "hardswish": lambda x: mp.mpf(0) if x < -3 else x * min(x + 3, mp.mpf(6)) / 6,
    "hardtanh": lambda x: min(max(x, mp.mpf(-1)), mp.mpf(1)),
    "leaky_relu": lambda x: x if x > 0 else x * mp.mpf("0.01"),
    "log": log_of(mp.log),
    "log10": log_of(mp.log10),
    "log1p": lambda x: mp.nan if x < -1 else -mp.inf if x == -1 else like_x(mp.log1p)(x),
    "log1mexp": _log1mexp,
    "log2": log_of(lambda x: mp.log(x, 2)),
    "logsigmoid": lambda x: -_softplus(-x),
    "mish": lambda x: x if x > 1000 else x * mp.tanh(_softplus(x)) if x > -DEEP else mp.mpf(0),
    "neg": lambda x: -x,
    "positive": lambda x: x,
    "radians": lambda x: x * mp.pi / 180,
    "reciprocal": lambda x: 1 / x,
    "relu": lambda x: max(x, mp.mpf(0)),
    "relu6": lambda x: min(max(x, mp.mpf(0)), mp.mpf(6)),
    "rint": mp.nint,
    "round": mp.nint,
    "rsqrt": lambda x: mp.nan if x < 0 else 1 / mp.sqrt(x),
    "selu": lambda x: SELU[0] * (x if x > 0 else SELU[1] * mp.expm1(x)),
    "shrink": lambda x: x if abs(x) > HALF else mp.mpf(0),
    "sigmoid": _sigmoid,
    "sign": mp.sign,
    "silu": lambda x: x * _sigmoid(x) if x > -DEEP else mp.mpf(0),
    "sin": lambda x: mp.sin(x) if mp.isfinite(x) else mp.nan,
    "sinh": mp.sinh,
    "softplus": _softplus,
    "softshrink": lambda x: x - mp.sign(x) * HALF if abs(x) > HALF else mp.mpf(0),
    "softsign": lambda x: x / (1 + abs(x)) if mp.isfinite(x) else mp.sign(x),
    "sqrt": within(0, math.inf, mp.sqrt),
    "square": lambda x: x * x,
    "squareplus": _squareplus,
    "tan": lambda x: mp.tan(x) if mp.isfinite(x) else mp.nan,
    "tanh": like_x(mp.tanh),
    "tanhshrink": _tanhshrink,
    "threshold": lambda x: x if x > 1 else mp.mpf(0),
    "trunc": lambda x: mp.floor(x) if x > 0 else mp.ceil(x),
    "xndtr": lambda x: FUNCTIONS["gelu"](x),
}

STEPS = {"ceil", "floor", "rint", "round", "sign", "trunc"}
"""Flat but for jumps, at which their derivative is 0 as well."""
POLES = {"reciprocal", "rsqrt"}

KINDS = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def info_of(dtype: str) -> ml_dtypes.finfo:
    return ml_dtypes.finfo(KINDS[dtype])


def exponents(dtype: str) -> tuple[int, int]:
    """Of the smallest subnormal and beyond the largest number."""
    info = info_of(dtype)
    low, high = (round(math.log2(float(v))) for v in (info.smallest_subnormal, info.max))
    return low, high


def points(dtype: str) -> np.ndarray:
    """Of both signs: powers of two over the whole range, what lies between, neighbours of where functions change."""
    kind, info = KINDS[dtype], info_of(dtype)
    low, high = exponents(dtype)
    step = max(1, (high - low) // (25 if sampling.thorough else 9))
    sizes = [math.ldexp(m, k) for k in range(low, high, step) for m in (1.0, 1.37)]
    edges = [kind(v) for v in (1, 3, 6, 11, 80, 88.5, 104, 4096, 8191)]
    sizes += [float(np.nextafter(e, kind(to))) for e in edges for to in (0, math.inf)] + [float(e) for e in edges]
    sizes += [0.0, float(info.max), math.inf]
    return np.array([side * v for v in sizes for side in (1.0, -1.0)] + [math.nan]).astype(kind)


def value(name: str, x: float) -> mp.mpf:
    if math.isnan(x):
        return mp.nan
    if name in POLES and x == 0.0:
        return mp.inf * math.copysign(1.0, x)
    return FUNCTIONS[name](mp.mpf(x))


def slopes(name: str, x: float, beyond: int) -> list[mp.mpf]:
    """From the left, from the right, and their mean, by differences in the precision at hand; at infinities what they
    tend to, as 2**beyond shows. None where the function has no value."""
    if mp.isnan(value(name, x)):
        return []
    if name in STEPS:
        return [mp.mpf(0)]
    if name in POLES and x == 0.0:
        return [-mp.inf]
    f, at = FUNCTIONS[name], mp.mpf(x) if math.isfinite(x) else mp.ldexp(math.copysign(1, x), beyond)
    step = mp.ldexp(abs(at) or 1, -mp.mp.prec // 2)
    below, here, above = f(at - step), f(at), f(at + step)
    sides = [side for side in ((here - below) / step, (above - here) / step) if not mp.isnan(side)]
    return [*sides, mp.fsum(sides) / len(sides)]


def is_near(found: float, exact: mp.mpf, info: ml_dtypes.finfo, units: int, least: float = 0.0) -> bool:
    """Within so many units in the last place, which are those of the smallest normal number below it, or of `least`."""
    if mp.isnan(exact) or math.isnan(found):
        return bool(mp.isnan(exact)) and math.isnan(found)
    unit = mp.mpf(float(info.eps)) * max(abs(exact), mp.mpf(float(info.smallest_normal)), mp.mpf(least))
    if math.isinf(found):
        return math.copysign(1.0, found) * exact > float(info.max) * (1 - units * float(info.eps))
    return bool(mp.isfinite(exact)) and abs(found - exact) <= units * unit
