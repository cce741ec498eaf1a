"""Ranges of values: what every element of a tensor is known to lie between.

Enters: the ranges of operands. Leaves: the range of what an operation makes of them, as real numbers, and that range
once it is rounded to a dtype. An end that is infinite says that nothing is known of that side.

A range speaks of numbers only. `finite` says that no element is infinite, `nan` that some may be no number at all:
`exp(x)` of any finite x lies in [0, inf], may be infinite, and is never NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction

from tesserac.base.dataclass import dataclass
from tesserac.types.dtype import DType

INF = math.inf


@dataclass(frozen=True)
class Interval:
    """Elements between two ends, both included."""

    low: float
    high: float
    finite: bool = True
    nan: bool = False

    @property
    def is_bounded(self) -> bool:
        """Whether something is known of both sides."""
        return self.low > -INF and self.high < INF

    @property
    def magnitude(self) -> float:
        return max(abs(self.low), abs(self.high))

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high

    def within(self, low: float, high: float) -> bool:
        """Whether every element is a number between two ends."""
        return not self.nan and low <= self.low and self.high <= high and (self.finite or self.is_bounded)

    def __str__(self) -> str:
        return f"[{self.low:g}, {self.high:g}]"


ANYTHING = Interval(-INF, INF, finite=False, nan=True)
UNBOUNDED = Interval(-INF, INF)
"""A number of which nothing else is known: an argument of a call, taken to be finite."""
TRUTH = Interval(0.0, 1.0)
UNIT = Interval(-1.0, 1.0)


def point(value: float) -> Interval:
    return Interval(value, value, math.isfinite(value)) if not math.isnan(value) else ANYTHING


def hull(ranges: Iterable[Interval]) -> Interval:
    """The range of a value that is one of several."""
    known = list(ranges)
    low, high = min(r.low for r in known), max(r.high for r in known)
    return Interval(low, high, all(r.finite for r in known), any(r.nan for r in known))


def widened(before: Interval, after: Interval) -> Interval:
    """The range of what a loop carries: a side that moved in an iteration may move in every iteration."""
    low = before.low if after.low >= before.low else -INF
    high = before.high if after.high <= before.high else INF
    both = hull((before, after))
    return Interval(low, high, both.finite, both.nan)


# ---------------------------------------------------------------------------------------------------- arithmetic


def negate(x: Interval) -> Interval:
    return replace(x, low=-x.high, high=-x.low)


def add(x: Interval, y: Interval) -> Interval:
    cancels = not x.finite and not y.finite
    low, high = _sum(x.low, y.low, -INF), _sum(x.high, y.high, INF)
    return _computed(low, high, x.finite and y.finite, x.nan or y.nan or cancels)


def _computed(low: float, high: float, finite: bool, nan: bool) -> Interval:
    """What arithmetic makes: where nothing is known of a side, it may have overflowed there."""
    return Interval(low, high, finite and math.isfinite(low) and math.isfinite(high), nan)


def _sum(a: float, b: float, side: float) -> float:
    """The sum of two ends; where it is rounded, the next float on the outer side."""
    if not math.isfinite(a) or not math.isfinite(b):
        return side
    end = a + b
    exact = math.isfinite(end) and Fraction(a) + Fraction(b) == Fraction(end)
    return end if exact else math.nextafter(end, side)


def sub(x: Interval, y: Interval) -> Interval:
    return add(x, negate(y))


def mul(x: Interval, y: Interval) -> Interval:
    corners = [_times(a, b) for a in (x.low, x.high) for b in (y.low, y.high)]
    low, high = (_loose(min(corners), -INF), _loose(max(corners), INF))
    loses = (not x.finite and y.contains(0.0)) or (not y.finite and x.contains(0.0))
    return _computed(low, high, x.finite and y.finite, x.nan or y.nan or loses)


def _times(a: float, b: float) -> float:
    """An end times an end; nothing known of one side of a factor says nothing of the product, unless that is 0."""
    return 0.0 if a == 0.0 or b == 0.0 else a * b


def _loose(end: float, side: float) -> float:
    """An end that may have been rounded; whole numbers that floats hold exactly stay."""
    whole = math.isfinite(end) and end == int(end) and abs(end) < 2.0**53
    return end if whole or not math.isfinite(end) else math.nextafter(end, side)


def square(x: Interval) -> Interval:
    """x * x, which is never negative."""
    product = mul(x, x)
    low = 0.0 if x.contains(0.0) else product.low
    return replace(product, low=max(low, 0.0), nan=x.nan)


def power(x: Interval, exponent: int) -> Interval:
    """x multiplied by itself; of a negative exponent the reciprocal."""
    if exponent < 0:
        return div(point(1.0), power(x, -exponent))
    if exponent == 0:
        return point(1.0)
    half = square(power(x, exponent // 2)) if exponent > 1 else point(1.0)
    return mul(half, x) if exponent % 2 else half


def div(x: Interval, y: Interval) -> Interval:
    if y.contains(0.0):
        positive = x.low >= 0.0 and y.low >= 0.0
        nan = x.nan or y.nan or x.contains(0.0) or not (x.finite or y.finite)
        return Interval(0.0 if positive else -INF, INF, finite=False, nan=nan)
    corners = [_over(a, b) for a in (x.low, x.high) for b in (y.low, y.high)]
    nan = x.nan or y.nan or not (x.finite or y.finite)
    return _computed(_loose(min(corners), -INF), _loose(max(corners), INF), x.finite, nan)


def _over(a: float, b: float) -> float:
    if math.isinf(b):
        return 0.0 if math.isfinite(a) else math.copysign(INF, a * b)
    return a / b


def magnitude(x: Interval) -> Interval:
    low = 0.0 if x.contains(0.0) else min(abs(x.low), abs(x.high))
    return Interval(low, x.magnitude, x.finite, x.nan)


def maximum(x: Interval, y: Interval) -> Interval:
    return Interval(max(x.low, y.low), max(x.high, y.high), x.finite and y.finite, x.nan or y.nan)


def minimum(x: Interval, y: Interval) -> Interval:
    return Interval(min(x.low, y.low), min(x.high, y.high), x.finite and y.finite, x.nan or y.nan)


def total(x: Interval, count: Interval, significand: int) -> Interval:
    """The sum of as many values of a range, added up one by one with so many bits."""
    ends = [_times(end, number) for end in (x.low, x.high) for number in (count.low, count.high)]
    error = summing_error(x, count, significand)
    low, high = (-INF, INF) if error == INF else (min(ends) - error, max(ends) + error)
    return _computed(low, high, x.finite, x.nan)


def summing_error(x: Interval, count: Interval, significand: int) -> float:
    """What rounding can add to such a sum: nothing while the bounds of its partial sums are whole and held exactly."""
    largest = _times(x.magnitude, count.high)
    if largest == INF:
        return INF
    exact = all(float(end).is_integer() for end in (x.low, x.high)) and largest <= 2.0**significand
    return 0.0 if exact else largest * count.high * 2.0**-significand


def rising(x: Interval, function: Callable[[float], float], low: float, high: float, ulps: float) -> Interval:
    """A function that never falls, between `low` and `high`, computed with a relative error of at most `ulps`."""
    ends = [_limited(function, end, low, high) for end in (x.low, x.high)]
    slack = [abs(end) * ulps if math.isfinite(end) else 0.0 for end in ends]
    least, most = max(low, ends[0] - slack[0]), min(high, ends[1] + slack[1])
    return Interval(least, most, math.isfinite(most) and math.isfinite(least), x.nan)


def _limited(function: Callable[[float], float], end: float, low: float, high: float) -> float:
    if math.isinf(end):
        return high if end > 0 else low
    try:
        return function(end)
    except OverflowError:
        return high


def whole(x: Interval, function: Callable[[float], int]) -> Interval:
    """A rounding to whole numbers, exact at its ends."""
    low, high = (float(function(end)) if math.isfinite(end) else end for end in (x.low, x.high))
    return replace(x, low=low, high=high)


def truncated(x: Interval, held: Interval) -> Interval:
    """A float as an integer: towards zero, out of range the nearest end, NaN as 0. An unknown side stays one."""
    cut = whole(x, math.trunc)
    low, high = (end if math.isinf(end) else min(max(end, held.low), held.high) for end in (cut.low, cut.high))
    return Interval(min(low, 0.0), max(high, 0.0)) if x.nan else Interval(low, high)


# ------------------------------------------------------------------------------------------------------- storage


def values_of(dtype: DType) -> Interval:
    """What a dtype can hold, without infinities and NaN."""
    if dtype.kind == "b":
        return TRUTH
    lowest = 0.0 if dtype.kind == "u" else -dtype.largest - (1 if dtype.kind == "i" else 0)
    return Interval(lowest, dtype.largest)


def within_range(x: Interval, held: Interval) -> Interval:
    """A range with what its storage says of the sides of which nothing was known."""
    return replace(x, low=max(x.low, held.low), high=min(x.high, held.high))


def overflows(x: Interval, dtype: DType) -> bool:
    """Whether a bound that is known lies beyond what the dtype holds."""
    held = values_of(dtype)
    return (x.high < INF and x.high > held.high) or (x.low > -INF and x.low < held.low)


def stored(x: Interval, dtype: DType, *, saturate: bool) -> Interval:
    """The range once values are rounded to a dtype: clamped, infinite or wrapped where they do not fit."""
    if dtype.is_complex:
        return ANYTHING
    held = values_of(dtype)
    fits = x.finite and not overflows(x, dtype)
    if dtype.kind == "b":
        return within_range(x, TRUTH) if fits else TRUTH
    if not dtype.is_float:
        return replace(x, nan=False) if fits else Interval(0.0 if dtype.kind == "u" else -INF, INF)
    if saturate:
        low, high = max(x.low, held.low), min(x.high, held.high)
        return Interval(min(low, held.high), max(high, held.low), True, x.nan)
    low, high = _rounded(x.low, dtype, -1.0), _rounded(x.high, dtype, 1.0)
    return Interval(
        -INF if low < held.low else min(low, held.high), INF if high > held.high else max(high, held.low), fits, x.nan
    )


def _rounded(end: float, dtype: DType, side: float) -> float:
    """The nearest value of a float dtype: rounding never changes the order, so ends go to ends. Among the values next
    to 0, which have fewer bits, the outermost."""
    if not math.isfinite(end) or end == 0.0:
        return end
    smallest_normal = 8.0 / dtype.largest  # or a little more
    if abs(end) < smallest_normal:
        return 2.0 * math.copysign(smallest_normal, end) if end * side > 0 else 0.0
    if dtype.bits == 64:
        return end
    fraction, exponent = math.frexp(end)
    scale = 2.0**dtype.significand
    try:
        return math.ldexp(round(fraction * scale) / scale, exponent)
    except OverflowError:  # of what is beyond every narrower dtype, and rounds up beyond f64 too
        return math.copysign(INF, end)
