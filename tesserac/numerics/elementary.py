"""Elementary functions, once for all targets, as straight-line programs for f32 and f64.

Enters: a name and a dtype. Leaves: a `Program`. Bounds, in units in the last place of the result, all tested:

| function | bound         | corner cases                                                                          |
|----------|---------------|---------------------------------------------------------------------------------------|
| exp      | 1.1           | NaN stays, -inf gives 0, overflow gives inf, subnormal results are rounded once       |
| exp_int  | an integer    | rint(x * log2e); a finite x saturates, -inf stays, +inf and NaN count as the largest  |
| exp_frac | 1.1           | exp(x - exp_int(x) * ln2), the bound for abs(x) <= 2**14 (f64: 2**43); NaN stays;     |
|          |               | 1 where abs(x) >= 2**22 (f64: 2**51)                                                  |
| exp_term | rounded once  | ldexp(exp_frac(x), min(exp_int(x) - m, 0)): a term of a softmax with maximum m        |
| ldexp    | rounded once  | x * 2**k; k is an integer, cut to [-252, 254] (f64: [-2044, 2046]), NaN to the lowest |
| sub_ln2  | two roundings | x - n ln2, as fma(n, -ln2_low, fma(n, -ln2_high, x))                                  |
| add_ln2  | two roundings | x + n ln2, as fma(n, ln2_high, fma(n, ln2_low, x))                                    |
| log      | 1.0           | 0 gives -inf, below gives NaN                                                         |
| tanh     | 1.5           | odd, also for -0                                                                      |
| rsqrt    | two roundings | 1 / sqrt(x); -0 gives -inf                                                            |

`exp(x)` has the same bits as `ldexp(exp_frac(x), exp_int(x))`: a softmax by integer exponents and a plain exp agree.
See Note [Exponents as floats].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tesserac.numerics import coefficients
from tesserac.numerics.program import Draft, Program, Ref
from tesserac.types.dtype import F32, F64, DType


@dataclass(frozen=True)
class _Format:
    """Constants of one dtype. `ln2_high + ln2_low` is ln 2 to twice its precision."""

    log2e: float
    ln2_high: float
    ln2_low: float
    lowest_exponent: int
    highest_exponent: int
    largest: float
    frac_limit: float
    exp_low: float
    exp_high: float
    exp: tuple[float, ...]
    log: tuple[float, ...]
    tanh: tuple[float, ...]


_FORMATS = {
    F32: _Format(
        log2e=1.4426950216293335,
        ln2_high=0.6931471824645996,
        ln2_low=-1.9046542121259336e-09,
        lowest_exponent=-126,
        highest_exponent=127,
        largest=F32.largest,
        frac_limit=2.0**22,
        exp_low=-104.0,
        exp_high=89.0,
        exp=coefficients.EXP_F32,
        log=coefficients.LOG_F32,
        tanh=coefficients.TANH_F32,
    ),
    F64: _Format(
        log2e=1.4426950408889634,
        ln2_high=0.6931471805599453,
        ln2_low=2.3190468138462996e-17,
        lowest_exponent=-1022,
        highest_exponent=1023,
        largest=F64.largest,
        frac_limit=2.0**51,
        exp_low=-746.0,
        exp_high=710.0,
        exp=coefficients.EXP_F64,
        log=coefficients.LOG_F64,
        tanh=coefficients.TANH_F64,
    ),
}


def ln2_parts(dtype: DType) -> tuple[float, float]:
    """ln 2 as an unevaluated sum of two values of the dtype: the constants of sub_ln2 and add_ln2."""
    return _FORMATS[dtype].ln2_high, _FORMATS[dtype].ln2_low


def _exp_int(d: Draft, x: Ref) -> Ref:
    """Two minima and a maximum: `upper` saturates overflow; `lower` is -largest, except -inf where x is -inf."""
    f = _FORMATS[d.dtype]
    largest, lowest = d.constant(f.largest), d.constant(-f.largest)
    scaled = x * d.constant(f.log2e)
    upper = d.select(scaled < largest, scaled, largest)
    lower = d.select(x < lowest, x, lowest)
    return d.step("rint", d.select(lower < upper, upper, lower))


def _exp_reduced(d: Draft, x: Ref, n: Ref) -> Ref:
    """exp(x - n ln2); 1 + (r + r**2 q(r)) loses least when the one is added last."""
    r = _sub_ln2(d, x, n)
    square = r * r
    return d.constant(1.0) + d.fma(d.polynomial(_FORMATS[d.dtype].exp, r), square, r)


def _exp_frac(d: Draft, x: Ref) -> Ref:
    huge = d.constant(_FORMATS[d.dtype].frac_limit) <= d.step("abs", x)
    return d.select(huge, d.constant(1.0), _exp_reduced(d, x, _exp_int(d, x)))


def _scale(d: Draft, x: Ref, k: Ref) -> Ref:
    """x * 2**k for k in twice the range of exponents. Scaling by the rest comes first: it is exact, or the whole
    result is zero or infinite anyway, so only the second product rounds."""
    f = _FORMATS[d.dtype]
    main = d.clamp(k, f.lowest_exponent, f.highest_exponent)
    rest = d.clamp(k - main, f.lowest_exponent, f.highest_exponent)
    return (x * d.step("pow2", rest)) * d.step("pow2", main)


def _exp_term(d: Draft, x: Ref, m: Ref) -> Ref:
    """The hot loop of the softmax family, hence shorter than its parts: the exponent is never positive, so one power
    of two suffices, kept normal by a factor that the last product takes away; and where x * log2e overflows upwards
    the cut at 0 saturates."""
    f = _FORMATS[d.dtype]
    one, lowest = d.constant(1.0), d.constant(-f.largest)
    scaled, lower = x * d.constant(f.log2e), d.select(x < lowest, x, lowest)
    n = d.step("rint", d.select(lower < scaled, scaled, lower))
    huge = d.constant(f.frac_limit) <= d.step("abs", x)
    fraction = d.select(huge, one, _exp_reduced(d, x, n))
    k = d.clamp(n - m, f.lowest_exponent - d.dtype.significand - 2, 0.0)
    up = -f.lowest_exponent // 2
    power = d.step("pow2", k + d.constant(float(up)))
    return (fraction * power) * d.constant(2.0**-up)


def _exp(d: Draft, x: Ref) -> Ref:
    """Beyond the cut results are 0 or inf; a NaN passes the cut and reaches the result through the polynomial."""
    f = _FORMATS[d.dtype]
    low, high = d.constant(f.exp_low), d.constant(f.exp_high)
    cut = d.select(x < low, low, x)
    cut = d.select(high < cut, high, cut)
    n = d.step("rint", cut * d.constant(f.log2e))
    return _scale(d, _exp_reduced(d, cut, n), n)


def _sub_ln2(d: Draft, x: Ref, n: Ref) -> Ref:
    """x - n ln2. The first fma is exact where n is exp_int(x)."""
    f = _FORMATS[d.dtype]
    return d.fma(n, d.constant(-f.ln2_low), d.fma(n, d.constant(-f.ln2_high), x))


def _add_ln2(d: Draft, x: Ref, n: Ref) -> Ref:
    """x + n ln2, the small product first."""
    f = _FORMATS[d.dtype]
    return d.fma(n, d.constant(f.ln2_high), d.fma(n, d.constant(f.ln2_low), x))


def _log(d: Draft, x: Ref) -> Ref:
    """x = m * 2**k with m in [sqrt(1/2), sqrt(2)); f = m - 1 is exact; log(m) = f - f*f/2 + s * (f*f/2 + tail)."""
    f = _FORMATS[d.dtype]
    zero, one, half = d.constant(0.0), d.constant(1.0), d.constant(0.5)
    smallest_normal = d.constant(2.0**f.lowest_exponent)
    up = d.constant(-float(f.lowest_exponent))
    subnormal = x < smallest_normal
    normal = d.select(subnormal, x * d.constant(2.0**-f.lowest_exponent), x)
    exponent = d.step("logb", normal) - d.select(subnormal, up, zero)
    m = d.step("significand", normal)
    above = d.constant(_round(math.sqrt(2), d.dtype)) < m
    m, k = d.select(above, m * half, m), d.select(above, exponent + one, exponent)
    finite = _log_sum(d, m - one, k)
    result = d.select(x < d.constant(math.inf), finite, x)
    outside = d.select(d.step("eq", x, zero), d.constant(-math.inf), d.constant(math.nan))
    return d.select(x <= zero, outside, result)


def _log_sum(d: Draft, f: Ref, k: Ref) -> Ref:
    constants = _FORMATS[d.dtype]
    s = f / (d.constant(2.0) + f)
    z = s * s
    tail = z * d.polynomial(constants.log, z)
    half_square = d.constant(0.5) * f * f
    low = d.fma(k, d.constant(constants.ln2_low), s * (half_square + tail))
    return d.fma(k, d.constant(constants.ln2_high), f - (half_square - low))


def _tanh(d: Draft, x: Ref) -> Ref:
    """x + x**3 p(x**2) near zero, 1 - 2 / (exp(2x) + 1) elsewhere; computed for |x| and given its sign."""
    size, one, two = d.step("abs", x), d.constant(1.0), d.constant(2.0)
    square = size * size
    near = d.fma(d.polynomial(_FORMATS[d.dtype].tanh, square), size * square, size)
    far = one - two / (_exp(d, size + size) + one)
    return d.step("copysign", d.select(size < d.constant(0.625), near, far), x)


def _rsqrt(d: Draft, x: Ref) -> Ref:
    return d.constant(1.0) / d.step("sqrt", x)


def _round(value: float, dtype: DType) -> float:
    """`value` to the precision of the dtype."""
    fraction, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(fraction, dtype.significand)), exponent - dtype.significand)


_FUNCTIONS: dict[str, tuple[int, Callable[..., Ref]]] = {
    "exp": (1, _exp),
    "exp_int": (1, _exp_int),
    "exp_frac": (1, _exp_frac),
    "exp_term": (2, _exp_term),
    "ldexp": (2, _scale),
    "sub_ln2": (2, _sub_ln2),
    "add_ln2": (2, _add_ln2),
    "log": (1, _log),
    "tanh": (1, _tanh),
    "rsqrt": (1, _rsqrt),
}
ELEMENTARY = tuple(_FUNCTIONS)
"""The functions that have a program; every other scalar primitive is one operation of a machine."""


@cache
def program(name: str, dtype: DType) -> Program:
    """The program of an elementary function for f32 or f64. Narrower types compute in f32 and round."""
    arity, function = _FUNCTIONS[name]
    draft = Draft(dtype, arity)
    return draft.finish(name, function(draft, *draft.inputs))


# Note [Exponents as floats]
# n = exp_int(x) is an integer held in the float type, so that a running maximum of n, a difference n - M and a
# masked -inf need no conversion. A finite x whose product with log2e overflows saturates, so that n - M is never
# inf - inf for finite rows. x = -inf keeps n = -inf: with M no lower than -largest, n - M = -inf and 2**(n - M) is
# +0, also in a row of only -inf. +inf and NaN need no care in n: NaN reaches the result through exp_frac, and a row
# with +inf is found from its maximum. exp_int never decreases, so max(exp_int(x)) = exp_int(max(x)).
