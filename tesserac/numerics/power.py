"""pow(x, y) = 2**(y * log2(x)) with the logarithm and the product in twice the precision, and IEEE's special cases.

Enters: a draft and its two inputs. Leaves: the value of the function.
"""

from __future__ import annotations

import math

from tesserac.numerics.exponential_parts import exp2_near, scaled
from tesserac.numerics.formats import format_of
from tesserac.numerics.logarithm import log2_pair
from tesserac.numerics.pairs import two_product
from tesserac.numerics.program import Draft, Ref


def power(d: Draft, x: Ref, y: Ref) -> Ref:
    """1 where y is 0 or x is 1, also with a NaN; a negative x gives the sign of odd y, and NaN for y with a
    fraction; 0 and inf go the way of their logarithms."""
    zero, one, nan, infinity = (d.constant(v) for v in (0.0, 1.0, math.nan, math.inf))
    size = d.step("abs", x)
    magnitude = d.select(d.step("eq", size, one), one, _of_positive(d, size, y))
    whole, odd = _whole_and_odd(d, y)
    signed = d.select(odd, d.step("copysign", magnitude, x), magnitude)
    of_negative = d.select(whole, signed, d.select(size < infinity, nan, signed))
    result = d.select(x < zero, of_negative, signed)
    result = d.select(d.step("eq", y, zero), one, result)
    return d.select(d.step("eq", x, one), one, result)


def _of_positive(d: Draft, x: Ref, y: Ref) -> Ref:
    """Where the product is outside of what 2** can give, its low part, which may then be NaN, does not matter."""
    f = format_of(d.dtype)
    low, high = f.lowest_exponent - d.dtype.significand - 2, f.highest_exponent + 2
    finite, finite_low = log2_pair(d, x)
    logarithm = d.select(d.constant(0.0) < x, finite, d.constant(-math.inf))
    logarithm = d.select(x < d.constant(math.inf), logarithm, x)
    product, product_low = two_product(d, y, logarithm)
    product_low = d.fma(y, finite_low, product_low)
    inside = d.step("abs", product) < d.constant(float(2 * high))
    cut = d.cut(product, float(low), float(high))
    n = d.step("rint", cut)
    r = (cut - n) + d.select(inside, product_low, d.constant(0.0))
    return scaled(d, exp2_near(d, r), n)


def _whole_and_odd(d: Draft, y: Ref) -> tuple[Ref, Ref]:
    """Whether y is a whole number, as every large one and an infinite one is, and whether that is odd."""
    half = y * d.constant(0.5)
    whole = d.step("eq", d.step("rint", y), y)
    doubled = d.step("rint", half) - half  # +-1/2 for odd y, 0 for even y, NaN for infinite y
    return whole, d.step("eq", d.step("abs", doubled), d.constant(0.5))
