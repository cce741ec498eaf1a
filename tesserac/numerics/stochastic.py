"""Stochastic rounding as a straight-line program: up or down by a number that is drawn elsewhere.

Enters: a value x, and r from 0 up to 1. Leaves: of the two values of a narrow format beside x the farther from zero
where r is less than the part of a unit that is cut off, else the nearer one. So with an evenly distributed r the mean
of the results is x. A value of the format stays; infinities and NaN stay; beyond the largest value of the format
results go on in its steps, and become what it makes of an overflow when they are stored.
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.numerics.formats import format_of
from tesserac.numerics.narrow import LOWEST_EXPONENT
from tesserac.numerics.program import Draft, Ref
from tesserac.types.dtype import BF16, F16, FP8_E4M3, FP8_E5M2, DType

ROUNDED_AT_RANDOM = (BF16, F16, FP8_E4M3, FP8_E5M2)
"""The formats that have such a program."""


def program_name(dtype: DType) -> str:
    return f"stochastic_{dtype.name}"


def rounding_to(dtype: DType) -> Callable[[Draft, Ref, Ref], Ref]:
    fraction, lowest = dtype.significand - 1, LOWEST_EXPONENT[dtype.numpy_name]

    def rounded(d: Draft, x: Ref, r: Ref) -> Ref:
        size, smallest = d.step("abs", x), d.constant(2.0**lowest)
        is_small = size < smallest
        normal = d.select(is_small, smallest, size)
        units = d.select(
            is_small,
            size * d.constant(2.0**-lowest) * d.constant(2.0**fraction),  # 2^-lowest * 2^fraction can be too large
            d.step("significand", normal) * d.constant(2.0**fraction),
        )
        count = _count(d, units, r)
        result = d.select(
            is_small,
            count * d.constant(2.0 ** (lowest - fraction)),
            count * d.constant(2.0**-fraction) * d.step("pow2", d.step("logb", normal)),
        )
        is_finite = size <= d.constant(format_of(d.dtype).largest)
        return d.select(is_finite, d.step("copysign", result, x), x)

    return rounded


def _count(d: Draft, units: Ref, r: Ref) -> Ref:
    """Whole units: the rest of them, which is exact, is the chance of one more."""
    one, zero = d.constant(1.0), d.constant(0.0)
    nearest = d.step("rint", units)
    whole = nearest - d.select(units < nearest, one, zero)
    return whole + d.select(r < units - whole, one, zero)
