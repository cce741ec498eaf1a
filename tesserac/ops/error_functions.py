"""The error function's family, point by point.

Enters: a float tensor. Leaves: one of the same type. The bits come from `numerics/error_function.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tesserac.base.lazy import np
from tesserac.numerics.interval import INF, Interval, negate, rising
from tesserac.ops.elementary import relative_error
from tesserac.ops.elementwise import ONE_FLOAT, Elementwise
from tesserac.ops.registry import Array, Extent, register
from tesserac.types.ty import TensorType


def _each(function: Callable[[float], float], x: Array) -> Array:
    """A function of Python's floats at every point."""
    values: Array = np.vectorize(function, otypes=[np.float64])(x)
    return values.astype(x.dtype)


@register
class Erf(Elementwise):
    """Error function, 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return erf(x)
    """

    name, primitive, signatures = "erf", "erf", ONE_FLOAT
    differential = "1.1283791670955126 * exp(-(x * x)) * dx"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return rising(ranges[0], math.erf, -1.0, 1.0, relative_error(operands[0]))

    def reference(self, *operands: Array) -> Array:
        return _each(math.erf, operands[0])


@register
class Erfc(Elementwise):
    """1 - erf(x) with a small relative error also where it is tiny.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return erfc(x)
    """

    name, primitive, signatures = "erfc", "erfc", ONE_FLOAT
    differential = "-(1.1283791670955126 * exp(-(x * x)) * dx)"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return rising(negate(ranges[0]), lambda x: math.erfc(-x), 0.0, 2.0, relative_error(operands[0]))

    def reference(self, *operands: Array) -> Array:
        return _each(math.erfc, operands[0])


@register
class Xndtr(Elementwise):
    """x times the normal distribution at x, with a small relative error also where that is tiny: `gelu` is this.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return xndtr(x)
    """

    name, primitive, signatures = "xndtr", "xndtr", ONE_FLOAT
    differential = (  # the density is 0 long before x is infinite
        "(0.5 * erfc(-0.7071067811865476 * x)"
        " + where(x * x < 10000, x, 0) * (0.3989422804014327 * exp(-0.5 * (x * x)))) * dx"
    )

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        [x] = ranges
        error = relative_error(operands[0])
        lowest = -0.17 if x.low < 0.0 else 0.0
        return Interval(lowest, max(x.high, 0.0) * (1.0 + error), x.finite, x.nan)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        tail = _each(lambda v: abs(v) * math.erfc(abs(v) * math.sqrt(0.5)) / 2 if abs(v) < INF else 0.0, x)
        return np.maximum(x, 0) - tail
