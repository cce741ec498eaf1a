"""Every function of one point, from the smallest subnormal to the largest number, at infinities and just outside its
domain, in every float type: held to exact values. A new function fails the first test until it is listed here."""

import math
import re
from collections.abc import Callable

import ml_dtypes
import mpmath as mp
import numpy as np
import pytest

from tesserac.base.resources import stdlib_files
from tesserac.ops.elementwise import ONE_ANALYTIC, ONE_FLOAT, ONE_NUMBER, Pointwise
from tesserac.ops.registry import OPERATORS
from tests.support.native_runs import compiled_equals_oracle

Exact = Callable[[mp.mpf], mp.mpf]
TINY = mp.mpf(2) ** -90
"""Below this a function that is x near 0 is x to the last bit that any type has."""


def within(low: float, high: float, f: Exact) -> Exact:
    return lambda x: f(x) if low <= x <= high else mp.nan


def like_x(f: Exact) -> Exact:
    return lambda x: x if abs(x) < TINY else f(x)


def log_of(base: Exact) -> Exact:
    return lambda x: mp.nan if x < 0 else -mp.inf if x == 0 else base(x)


def _sigmoid(x: mp.mpf) -> mp.mpf:
    return 1 / (1 + mp.exp(-x))


def _softplus(x: mp.mpf) -> mp.mpf:
    return x if x > 1000 else mp.log1p(mp.exp(x)) if x > -100 else mp.exp(x)


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
    "cos": lambda x: mp.cos(x) if mp.isfinite(x) else mp.nan,
    "cosh": mp.cosh,
    "elu": lambda x: x if x > 0 else mp.expm1(x),
    "erf": mp.erf,
    "erfc": lambda x: mp.erfc(x) if x < 1000 else mp.mpf(0),
    "exp": mp.exp,
    "exp2": lambda x: mp.power(2, x),
    "expm1": mp.expm1,
    "floor": mp.floor,
    "gelu": lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2 if abs(x) < 1000 else max(x, mp.mpf(0)),
    "hardsigmoid": lambda x: min(max(x + 3, mp.mpf(0)), mp.mpf(6)) / 6,
    "hardswish": lambda x: mp.mpf(0) if x < -3 else x * min(x + 3, mp.mpf(6)) / 6,
    "leaky_relu": lambda x: x if x > 0 else x * mp.mpf("0.01"),
    "log": log_of(mp.log),
    "log10": log_of(mp.log10),
    "log1p": lambda x: mp.nan if x < -1 else -mp.inf if x == -1 else like_x(mp.log1p)(x),
    "log2": log_of(lambda x: mp.log(x, 2)),
    "mish": lambda x: x if x > 1000 else x * mp.tanh(_softplus(x)),
    "neg": lambda x: -x,
    "reciprocal": lambda x: 1 / x,
    "relu": lambda x: max(x, mp.mpf(0)),
    "relu6": lambda x: min(max(x, mp.mpf(0)), mp.mpf(6)),
    "rint": mp.nint,
    "round": mp.nint,
    "rsqrt": lambda x: mp.nan if x < 0 else 1 / mp.sqrt(x),
    "sigmoid": _sigmoid,
    "sign": mp.sign,
    "silu": lambda x: x * _sigmoid(x),
    "sin": lambda x: mp.sin(x) if mp.isfinite(x) else mp.nan,
    "sinh": mp.sinh,
    "softplus": _softplus,
    "sqrt": within(0, math.inf, mp.sqrt),
    "square": lambda x: x * x,
    "tan": lambda x: mp.tan(x) if mp.isfinite(x) else mp.nan,
    "tanh": like_x(mp.tanh),
    "trunc": lambda x: mp.floor(x) if x > 0 else mp.ceil(x),
}
ELSEWHERE = {"exp_int", "exp_frac", "ones_like", "zeros_like"}
"""Constants, and halves of exp, which `test_numerics_elementary.py` holds to their rules."""
NO_LIMIT = {"silu", "mish", "gelu", "hardswish"}
"""At -inf these are x times 0, NaN as elsewhere."""
TAILS = {"gelu": 2000, "silu": 60, "mish": 60}
"""Units by which the far negative tail may be off: relative to a result that is next to nothing."""

KINDS = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


_SETTING = r"(?:, \w+: (?:float|str) = [^)]*)?"
_POINTWISE = rf"^def ([a-z]\w*)\(x: Tensor\[\.\.\.\]{_SETTING}\) -> Tensor\[\.\.\., x\.dtype\]"


def library_names() -> set[str]:
    """The library's functions of one tensor, and settings, that give one of its shape and dtype."""
    files = {path: text for path, text in stdlib_files().items() if path.startswith("math/") or "activation" in path}
    return {name for text in files.values() for name in re.findall(_POINTWISE, text, re.MULTILINE)}


def test_every_function_of_one_point_is_here() -> None:
    kinds = (ONE_ANALYTIC, ONE_FLOAT, ONE_NUMBER)
    pointwise = (n for n, operator in OPERATORS.items() if issubclass(operator, Pointwise))
    operators = {n for n in pointwise if OPERATORS[n].signatures in kinds}
    assert operators | library_names() | {"abs"} == set(FUNCTIONS) | ELSEWHERE


def points(dtype: str) -> np.ndarray:
    """Of both signs: powers of two over the whole range, what lies between, neighbours of where functions change."""
    kind, info = KINDS[dtype], ml_dtypes.finfo(KINDS[dtype])
    low, high = (round(math.log2(float(v))) for v in (info.smallest_subnormal, info.max))
    sizes = [math.ldexp(m, k) for k in range(low, high, max(1, (high - low) // 25)) for m in (1.0, 1.37)]
    edges = [kind(v) for v in (1, 3, 6, 11, 80, 88.5, 4096, 8191)]
    sizes += [float(np.nextafter(e, kind(to))) for e in edges for to in (0, math.inf)] + [float(e) for e in edges]
    sizes += [0.0, float(info.max), math.inf]
    return np.array([side * v for v in sizes for side in (1.0, -1.0)] + [math.nan]).astype(kind)


def value(name: str, x: float) -> mp.mpf:
    if math.isnan(x) or (name in NO_LIMIT and x == -math.inf):
        return mp.nan
    if name in ("reciprocal", "rsqrt") and x == 0.0:
        return mp.inf * math.copysign(1.0, x)
    return FUNCTIONS[name](mp.mpf(x))


@pytest.mark.parametrize("dtype", KINDS)
def test_functions_are_right_at_every_magnitude(dtype: str) -> None:
    calls = ", ".join(f"{name}(x)" if name != "neg" else "-x" for name in FUNCTIONS)
    run = compiled_equals_oracle(f"def f(x: Tensor[N, {dtype}]):\n    return {calls}\n")
    x, info = points(dtype), ml_dtypes.finfo(KINDS[dtype])
    with mp.workprec(1300 if dtype == "f64" else 300):
        for name, found in zip(FUNCTIONS, run("f", x), strict=True):
            for place, result in zip(x.tolist(), np.asarray(found, np.float64).tolist(), strict=True):
                exact = value(name, float(place))
                assert is_near(result, exact, info, TAILS.get(name, 5)), (name, place, result, mp.nstr(exact))


def is_near(found: float, exact: mp.mpf, info: ml_dtypes.finfo, units: int) -> bool:
    """Within so many units in the last place, which are those of the smallest normal number below it."""
    if mp.isnan(exact) or math.isnan(found):
        return bool(mp.isnan(exact)) and math.isnan(found)
    unit = mp.mpf(float(info.eps)) * max(abs(exact), mp.mpf(float(info.smallest_normal)))
    if math.isinf(found):
        return math.copysign(1.0, found) * exact > float(info.max) * (1 - units * float(info.eps))
    return bool(mp.isfinite(exact)) and abs(found - exact) <= units * unit
