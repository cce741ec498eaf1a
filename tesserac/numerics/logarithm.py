"""Logarithms: log, log1p, log2, log10, and the log2 in twice the precision that pow needs.

Enters: a draft and its inputs. Leaves: the value of the function. A positive number is taken apart into m * 2**k with
m in [sqrt(1/2), sqrt(2)), so that f = m - 1 is exact and small where the logarithm is small.
"""

from __future__ import annotations

import math
from functools import cache

from tesserac.numerics.formats import fitted, format_of, parts
from tesserac.numerics.pairs import quick_sum, two_product, two_sum
from tesserac.numerics.program import Draft, Program, Ref
from tesserac.types.dtype import DType


def log(d: Draft, x: Ref) -> Ref:
    m, k = take_apart(d, x)
    return _with_corners(d, x, _log_sum(d, m - d.constant(1.0), k))


def log1p(d: Draft, x: Ref) -> Ref:
    """log(1 + x): what the rounding of 1 + x lost goes into f, which is x itself where k is 0. 1 + x is never
    subnormal. The sign is that of x, also of -0."""
    one, half = d.constant(1.0), d.constant(0.5)
    total, lost = two_sum(one, x)
    exponent, m = d.step("logb", total), d.step("significand", total)
    scaled = lost * d.step("pow2", -exponent)
    above = d.constant(_sqrt2(d)) < m
    f = d.select(above, d.fma(m, half, -one) + scaled * half, (m - one) + scaled)
    k = d.select(above, exponent + one, exponent)
    return d.step("copysign", _with_corners(d, total, _log_sum(d, f, k)), x)


def log2(d: Draft, x: Ref) -> Ref:
    """k + log2e (f - t), where f meets log2e in full; whole where x is a power of two."""
    m, k = take_apart(d, x)
    f = m - d.constant(1.0)
    high, low = map(d.constant, parts("log2e", d.dtype))
    half_square, rest = _square_and_rest(d, f)
    small = d.fma(f, low, (rest - half_square) * high)
    return _with_corners(d, x, d.fma(f, high, small) + k)


def log10(d: Draft, x: Ref) -> Ref:
    """k log10(2) + log10e (f - t), what both constants lack among the small terms."""
    m, k = take_apart(d, x)
    f = m - d.constant(1.0)
    high, low = map(d.constant, parts("log10e", d.dtype))
    two_high, two_low = map(d.constant, parts("log10_2", d.dtype))
    half_square, rest = _square_and_rest(d, f)
    small = d.fma(k, two_low, d.fma(f, low, (rest - half_square) * high))
    whole, lost = two_product(d, k, two_high)
    total, left = quick_sum(whole, f * high)
    missed = d.fma(f, high, -(f * high))
    far = total + (left + (lost + (missed + small)))
    near = d.fma(f, high, small)
    return _with_corners(d, x, d.select(d.step("eq", k, d.constant(0.0)), near, far))


def take_apart(d: Draft, x: Ref) -> tuple[Ref, Ref]:
    """m and k of a positive finite number; of others anything."""
    m, exponent = d.part(_fraction(d.dtype), x), d.part(_exponent(d.dtype), x)
    above = d.constant(_sqrt2(d)) < m
    return d.select(above, m * d.constant(0.5), m), d.select(above, exponent + d.constant(1.0), exponent)


EXPONENT, FRACTION = "exponent_of_number", "fraction_of_number"
"""Parts for which some machines have an instruction, of positive finite numbers, subnormal ones among them."""


@cache
def _exponent(dtype: DType) -> Program:
    d = Draft(dtype, 1)
    normal, subnormal = _normal(d)
    up = d.constant(-float(format_of(dtype).lowest_exponent))
    return d.finish(EXPONENT, d.step("logb", normal) - d.select(subnormal, up, d.constant(0.0)))


@cache
def _fraction(dtype: DType) -> Program:
    """In [1, 2)."""
    d = Draft(dtype, 1)
    return d.finish(FRACTION, d.step("significand", _normal(d)[0]))


def _normal(d: Draft) -> tuple[Ref, Ref]:
    """The input, if it is subnormal times a power of two; whether it is."""
    [x], lowest = d.inputs, format_of(d.dtype).lowest_exponent
    subnormal = x < d.constant(2.0**lowest)
    return d.select(subnormal, x * d.constant(2.0**-lowest), x), subnormal


def _sqrt2(d: Draft) -> float:
    """The square root of 2 to the precision of the dtype."""
    fraction, exponent = math.frexp(math.sqrt(2))
    return math.ldexp(round(math.ldexp(fraction, d.dtype.significand)), exponent - d.dtype.significand)


CORNERS = "corners_of_logarithm"


def _with_corners(d: Draft, x: Ref, finite: Ref) -> Ref:
    """-inf at 0, NaN below, inf and NaN as they are."""
    return d.part(_corners(d.dtype), x, finite)


@cache
def _corners(dtype: DType) -> Program:
    d = Draft(dtype, 2)
    x, finite = d.inputs
    zero = d.constant(0.0)
    result = d.select(x < d.constant(math.inf), finite, x)
    outside = d.select(d.step("eq", x, zero), d.constant(-math.inf), d.constant(math.nan))
    return d.finish(CORNERS, d.select(x <= zero, outside, result))


def _square_and_rest(d: Draft, f: Ref) -> tuple[Ref, Ref]:
    """h = f*f/2 and c such that log(1 + f) = f - (h - c): c = s (h + tail) with s = f / (2 + f)."""
    s = f / (d.constant(2.0) + f)
    z = s * s
    tail = z * fitted(d, "log", z)
    half_square = d.constant(0.5) * f * f
    return half_square, s * (half_square + tail)


def _log_sum(d: Draft, f: Ref, k: Ref) -> Ref:
    """log(1 + f) + k ln2."""
    high, low = map(d.constant, parts("ln2", d.dtype))
    half_square, rest = _square_and_rest(d, f)
    return d.fma(k, high, f - (half_square - d.fma(k, low, rest)))


def log2_pair(d: Draft, x: Ref) -> tuple[Ref, Ref]:
    """log2 of a positive finite number as high + low, relative error about 2**-34 (f64: 2**-65).

    With s = f / (2 + f) and z = s*s it is k + s (a + z (b + z q(z))); a and b are pairs, and so is all but q."""
    m, k = take_apart(d, x)
    s, s_low = _over_two_plus(d, m - d.constant(1.0))
    z = s * s
    z_low = d.fma(s + s, s_low, d.fma(s, s, -z))
    (a, a_low), (b, b_low) = (map(d.constant, parts(name, d.dtype)) for name in ("two_log2e", "third_of_two_log2e"))
    inner, inner_low = quick_sum(b, d.fma(z, fitted(d, "log2", z), b_low))
    w, w_low = two_product(d, z, inner)
    w_low = d.fma(z, inner_low, d.fma(z_low, inner, w_low))
    v, v_low = quick_sum(a, w)
    v_low = v_low + (w_low + a_low)
    t, t_low = two_product(d, s, v)
    t_low = d.fma(s_low, v, d.fma(s, v_low, t_low))
    total, lost = quick_sum(k, t)
    return total, lost + t_low


def _over_two_plus(d: Draft, f: Ref) -> tuple[Ref, Ref]:
    """f / (2 + f) as a pair, by one division."""
    two = d.constant(2.0)
    divisor = two + f
    divisor_low = f - (divisor - two)
    inverse = d.constant(1.0) / divisor
    s = f * inverse
    minus = -s
    return s, inverse * d.fma(minus, divisor_low, d.fma(minus, divisor, f))
