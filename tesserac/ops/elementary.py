"""Elementary functions of floats, point by point.

Enters: float tensors. Leaves: one of the same type. The bits come from `numerics/elementary.py`, the same on every
target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from tesserac.base.lazy import np
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.numerics.interval import INF, UNIT, Interval, div, maximum, point, rising, whole
from tesserac.ops.calculus import Writer
from tesserac.ops.complex_bodies import exponential, logarithm, square_root
from tesserac.ops.elementwise import ONE_ANALYTIC, ONE_FLOAT, TWO_FLOATS, Elementwise
from tesserac.ops.lowering import Scalars
from tesserac.ops.registry import Array, Extent, register
from tesserac.types.dtype import DType
from tesserac.types.policy import compute_dtype
from tesserac.types.ty import TensorType


def relative_error(operand: TensorType) -> float:
    """More than the relative error of these functions: 8 units in the last place of what they compute in."""
    return 2.0 ** (4 - compute_dtype(operand.dtype, operand.policy).significand)


def _logarithm(x: Interval, function: Callable[[float], float], pole: float, error: float) -> Interval:
    """A logarithm, which is -inf at its pole and NaN below; its error near 0 is absolute."""
    inside = maximum(x, point(pole))
    known = rising(inside, lambda v: function(v) if v > pole else -INF, -INF, INF, error)
    low, high = known.low - error, known.high + error
    return Interval(low, high, x.low > pole and x.finite, x.nan or x.low < pole)


@register
class Exp(Elementwise):
    """e to the power x.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return exp(x)
    """

    name, primitive, signatures = "exp", "exp", ONE_ANALYTIC
    differential = "result * dx"

    def on_complex(self, s: Scalars, args: list[Value]) -> Value:
        return exponential(s, *args)

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        [x] = ranges
        return rising(x, math.exp, 0.0, 1.0 if x.high <= 0.0 else INF, relative_error(operands[0]))

    def largest_argument(self, dtype: DType) -> float | None:
        return math.log(dtype.largest)

    def reference(self, *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.exp(*operands)


@register
class Exp2(Elementwise):
    """2 to the power x; exact for whole x.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return exp2(x)
    """

    name, primitive, signatures = "exp2", "exp2", ONE_FLOAT
    differential = "result * 0.6931471805599453 * dx"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return rising(ranges[0], lambda x: 2.0**x, 0.0, INF, relative_error(operands[0]))

    def largest_argument(self, dtype: DType) -> float | None:
        return math.log2(dtype.largest)

    def reference(self, *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.exp2(*operands)


@register
class Expm1(Elementwise):
    """exp(x) - 1, accurate also where x is small.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return expm1(x)
    """

    name, primitive, signatures = "expm1", "expm1", ONE_FLOAT
    differential = "exp(x) * dx"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return rising(ranges[0], math.expm1, -1.0, INF, relative_error(operands[0]))

    def largest_argument(self, dtype: DType) -> float | None:
        return math.log(dtype.largest)

    def reference(self, *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.expm1(*operands)


@register
class Log(Elementwise):
    """Natural logarithm; of a complex number the one with an imaginary part from -pi to pi.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return log(x)
    """

    name, primitive, signatures = "log", "log", ONE_ANALYTIC
    pole = (0, 0.0)
    differential = "dx / x"

    def on_complex(self, s: Scalars, args: list[Value]) -> Value:
        return logarithm(s, *args)

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return _logarithm(ranges[0], math.log, 0.0, relative_error(operands[0]))

    def reference(self, *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.log(*operands)


@register
class Log2(Elementwise):
    """Logarithm to base 2; exact for powers of two.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return log2(x)
    """

    name, primitive, signatures = "log2", "log2", ONE_FLOAT
    pole = (0, 0.0)
    differential = "dx / (x * 0.6931471805599453)"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return _logarithm(ranges[0], math.log2, 0.0, relative_error(operands[0]))

    def reference(self, *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.log2(*operands)


@register
class Log10(Elementwise):
    """Logarithm to base 10; exact for powers of ten.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return log10(x)
    """

    name, primitive, signatures = "log10", "log10", ONE_FLOAT
    pole = (0, 0.0)
    differential = "dx * 0.4342944819032518 / x"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return _logarithm(ranges[0], math.log10, 0.0, relative_error(operands[0]))

    def reference(self, *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.log10(*operands)


@register
class Log1p(Elementwise):
    """log(1 + x), accurate also where x is small.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return log1p(x)
    """

    name, primitive, signatures = "log1p", "log1p", ONE_FLOAT
    pole = (0, -1.0)
    differential = "dx / (x + 1)"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return _logarithm(ranges[0], math.log1p, -1.0, relative_error(operands[0]))

    def reference(self, *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.log1p(*operands)


@register
class Sqrt(Elementwise):
    """Correctly rounded square root; of a complex number the one with a real part of at least 0. Its derivative at 0 is
    infinite.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return sqrt(x)
    """

    name, primitive, signatures = "sqrt", "sqrt", ONE_ANALYTIC
    differential = "dx / (result + result)"

    def on_complex(self, s: Scalars, args: list[Value]) -> Value:
        return square_root(s, *args)

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        [x] = ranges
        root = rising(maximum(x, point(0.0)), math.sqrt, 0.0, INF, relative_error(operands[0]))
        return replace(root, finite=x.finite, nan=x.nan or x.low < 0.0)

    def reference(self, *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.sqrt(*operands)


@register
class Rsqrt(Elementwise):
    """1 / sqrt(x).

    def f(x: Tensor[B, D, f32]) -> Tensor[B, D, f32]:
        return x * rsqrt(float(D))
    """

    name, primitive, signatures = "rsqrt", "rsqrt", ONE_FLOAT
    pole = (0, 0.0)
    differential = "-(dx * (result / (x + x)))"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        [x] = ranges
        root = rising(maximum(x, point(0.0)), math.sqrt, 0.0, INF, relative_error(operands[0]))
        return replace(div(point(1.0), root), nan=x.nan or x.low < 0.0)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        with np.errstate(all="ignore"):
            return 1 / np.sqrt(x)


@register
class Tanh(Elementwise):
    """Hyperbolic tangent.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return tanh(x)
    """

    name, primitive, signatures = "tanh", "tanh", ONE_FLOAT
    differential = "(1 - result * result) * dx"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return rising(ranges[0], math.tanh, -1.0, 1.0, relative_error(operands[0]))

    def reference(self, *operands: Array) -> Array:
        return np.tanh(*operands)


@register
class Sin(Elementwise):
    """Sine of radians, for every finite x.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return sin(x)
    """

    name, primitive, signatures = "sin", "sin", ONE_FLOAT
    differential = "cos(x) * dx"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return replace(UNIT, nan=ranges[0].nan or not ranges[0].finite)

    def reference(self, *operands: Array) -> Array:
        return np.sin(*operands)


@register
class Cos(Elementwise):
    """Cosine of radians, for every finite x.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return cos(x)
    """

    name, primitive, signatures = "cos", "cos", ONE_FLOAT
    differential = "-(sin(x) * dx)"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return replace(UNIT, nan=ranges[0].nan or not ranges[0].finite)

    def reference(self, *operands: Array) -> Array:
        return np.cos(*operands)


@register
class Atan(Elementwise):
    """The angle in radians, from -pi/2 to pi/2, whose tangent is x.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return atan(x)
    """

    name, primitive, signatures = "atan", "atan", ONE_FLOAT
    differential = (  # squares of far numbers may overflow, though the slope is one that the type has
        "dx / where(abs(x) < 16, 1, x)"
        " / where(abs(x) < 16, 1 + x * x, x + 1 / where(abs(x) < 16, 1, x))"
    )

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        limit = math.pi / 2 * (1 + relative_error(operands[0]))
        return rising(ranges[0], math.atan, -limit, limit, relative_error(operands[0]))

    def reference(self, *operands: Array) -> Array:
        return np.arctan(*operands)


@register
class Atan2(Elementwise):
    """The angle in radians, from -pi to pi, of the point (x, y); y comes first.

    def f(y: Tensor[N, f32], x: Tensor[N, f32]) -> Tensor[N, f32]:
        return atan2(y, x)
    """

    name, primitive, signatures = "atan2", "atan2", TWO_FLOATS

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        limit = math.pi * (1 + relative_error(operands[0]))
        return Interval(-limit, limit, True, any(each.nan for each in ranges))

    def derivative(
        self, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
    ) -> Value | None:
        """`(dx * y - dy * x) / (x * x + y * y)`, scaled so that squares do not overflow; 0 where both are 0 or one is
        infinite."""
        (x, y), (dx, dy), ty = operands, tangents, tensor_type(result)
        zero, one = write.number(0.0, ty), write.number(1.0, ty)
        largest = write("stop_gradient", write("maximum", write("abs", x), write("abs", y)))
        infinite = write("equal", largest, write.number(math.inf, ty))
        flat = write("bitwise_or", write("equal", largest, zero), infinite)
        size = write("where", flat, one, largest)
        u, v = (write("where", flat, zero, write("div", side, size)) for side in (x, y))
        square = write("mul", size, write("add", write("mul", u, u), write("mul", v, v)))
        square = write("where", flat, one, square)
        by_x = None if dx is None else write("mul", dx, write("div", v, square))
        by_y = None if dy is None else write("neg", write("mul", dy, write("div", u, square)))
        return write.add(by_x, by_y)

    def reference(self, *operands: Array) -> Array:
        return np.arctan2(*operands)


@register
class Rint(Elementwise):
    """Nearest whole number, ties to even.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return rint(x)
    """

    name, primitive, signatures = "rint", "rint", ONE_FLOAT
    differential = "0"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return whole(ranges[0], round)

    def reference(self, *operands: Array) -> Array:
        return np.rint(*operands)


@register
class Floor(Elementwise):
    """Largest whole number not above x.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return floor(x)
    """

    name, primitive, signatures = "floor", "floor", ONE_FLOAT
    differential = "0"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return whole(ranges[0], math.floor)

    def reference(self, *operands: Array) -> Array:
        return np.floor(*operands)


@register
class Ceil(Elementwise):
    """Smallest whole number not below x.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return ceil(x)
    """

    name, primitive, signatures = "ceil", "ceil", ONE_FLOAT
    differential = "0"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return whole(ranges[0], math.ceil)

    def reference(self, *operands: Array) -> Array:
        return np.ceil(*operands)
