"""Elementwise operators: one scalar primitive at every point, operands broadcast.

Enters: operand tensors. Leaves: a tensor of the broadcast shape. An elementwise operator computes in the
accumulation type and rounds once; it is its `primitive` in the body of one map.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.numerics import interval
from tesserac.numerics.interval import Interval, hull
from tesserac.ops.calculus import Writer, where_a_number
from tesserac.ops.complex_bodies import magnitude
from tesserac.ops.lowering import Scalars, pointwise, scalar_dtype
from tesserac.ops.registry import Array, Extent, Operator, register
from tesserac.ops.signature import ELEMENT_CLASSES, parse_signature
from tesserac.types.ty import TensorType

ONE_NUMBER = ("(x: N[*s]) -> N[*s]",)
ONE_FLOAT = ("(x: F[*s]) -> F[*s]",)
TWO_NUMBERS = ("(x: N[s...], y: N[s...]) -> N[s...]",)
TWO_REALS = ("(x: R[s...], y: R[s...]) -> R[s...]",)
ONE_ANALYTIC = ("(x: A[*s]) -> A[*s]",)
TWO_FLOATS = ("(x: F[s...], y: F[s...]) -> F[s...]",)
TWO_ANALYTIC = ("(x: A[s...], y: A[s...]) -> A[s...]",)
TWO_INTEGERS = ("(x: I[s...], y: I[s...]) -> I[s...]",)

HALF_OR_NAN = "where(result == result, 0.5, stop_gradient(result))"
"""What each of two operands has of the derivative where neither is the less."""

_CASE_SHAPES = {
    1: (("[3, 4]",), ("[]",), ("[0]",)),
    2: (("[3, 4]", "[3, 4]"), ("[3, 1]", "[1, 4]"), ("[2, 3]", "[3]")),
    3: (("[3, 4]", "[3, 4]", "[3, 4]"), ("[3, 1]", "[1, 4]", "[3, 4]"), ("[]", "[2, 3]", "[3]")),
}


@dataclass(frozen=True)
class Pointwise(Operator):
    """An operator without static attributes that computes each point from the operands' points."""

    again = True
    batching = "aligned"

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        operands = parse_signature(cls.signatures[0]).operands
        dtypes = ["i32" if o.pattern.element.variable in "IL" else "f32" for o in operands]
        shapes = _CASE_SHAPES[len(operands)]
        rows = [(cls(), tuple(map("".join, zip(dtypes, row, strict=True)))) for row in shapes]
        if all("c" in ELEMENT_CLASSES[o.pattern.element.variable] for o in operands):
            rows += [(cls(), tuple(f"c64{shape}" for shape in row)) for row in shapes]
            rows += [(cls(), tuple(f"c128{shape}" for shape in shapes[0]))]
        return rows


@dataclass(frozen=True)
class Elementwise(Pointwise):
    """A pointwise operator that is one scalar primitive, or on complex numbers a body of its own."""

    primitive: ClassVar[str]

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        is_complex = tensor_type(operands[0]).dtype.is_complex
        return pointwise(builder, operands, result, self.on_complex if is_complex else self._primitive)

    def _primitive(self, s: Scalars, args: list[Value]) -> Value:
        return s.primitive(self.primitive, *args)

    def on_complex(self, s: Scalars, args: list[Value]) -> Value:
        return self._primitive(s, args)


@register
class Add(Elementwise):
    """Sum, `x + y`.

    def f(x: Tensor[B, N, f32], bias: Tensor[N, f32]) -> Tensor[B, N, f32]:
        return x + bias
    """

    name, primitive, signatures = "add", "add", TWO_NUMBERS
    linear = "jointly"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return interval.add(*ranges)

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return write.unbroadcast(cotangent, tensor_type(operands[position]))

    def reference(self, *operands: Array) -> Array:
        return np.add(*operands)


@register
class Sub(Elementwise):
    """Difference, `x - y`.

    def f(x: Tensor[N, f32], y: Tensor[N, f32]) -> Tensor[N, f32]:
        return x - y
    """

    name, primitive, signatures = "sub", "sub", TWO_NUMBERS
    linear = "jointly"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return interval.sub(*ranges)

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        back = write("neg", cotangent) if position == 1 else cotangent
        return write.unbroadcast(back, tensor_type(operands[position]))

    def reference(self, *operands: Array) -> Array:
        return np.subtract(*operands)


@register
class Mul(Elementwise):
    """Product, `x * y`.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return x * 2.0
    """

    name, primitive, signatures = "mul", "mul", TWO_NUMBERS
    linear = "each"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return interval.mul(*ranges)

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return write.unbroadcast(write("mul", cotangent, operands[1 - position]), tensor_type(operands[position]))

    def reference(self, *operands: Array) -> Array:
        return np.multiply(*operands)


@register
class Fma(Elementwise):
    """Fused multiply-add, `x * y + z` with one rounding.

    def f(x: Tensor[N, f32], y: Tensor[N, f32]) -> Tensor[N, f32]:
        return fma(x, y, -x)
    """

    name, primitive = "fma", "fma"
    signatures = ("(x: F[s...], y: F[s...], z: F[s...]) -> F[s...]",)
    differential = "dx * y + x * dy + dz"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return interval.add(interval.mul(*ranges[:2]), ranges[2])

    def reference(self, *operands: Array) -> Array:
        x, y, z = operands
        return np.add(np.multiply(x, y), z)


@register
class Div(Elementwise):
    """Correctly rounded quotient, `x / y`; of integer tensors use `//`. Of complex numbers by Smith's method, which
    overflows only where the quotient does.

    def f(x: Tensor[N, f32], y: Tensor[N, f32]) -> Tensor[N, f32]:
        return x / y
    """

    name, primitive, signatures = "div", "div", TWO_ANALYTIC
    pole = (1, 0.0)
    differential = "(dx - result * dy) / y"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return interval.div(*ranges)

    def is_linear_in(self, position: int) -> bool:
        return position == 0

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return write.unbroadcast(write("div", cotangent, operands[1]), tensor_type(operands[0]))

    def reference(self, *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.divide(*operands)


@register
class FloorDiv(Elementwise):
    """Integer quotient rounded down, `x // y`; by zero it is 0.

    def f(x: Tensor[N, i32]) -> Tensor[N, i32]:
        return x // 2
    """

    name, primitive, signatures = "floor_div", "floor_div", TWO_INTEGERS

    def reference(self, *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.floor_divide(*operands)


@register
class Mod(Elementwise):
    """Rest of `//`, `x % y`, with the sign of the divisor; by zero it is 0.

    def f(x: Tensor[N, i32]) -> Tensor[N, i32]:
        return x % 3
    """

    name, primitive, signatures = "mod", "mod", TWO_INTEGERS

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        y = ranges[1]
        return Interval(min(y.low, 0.0), max(y.high, 0.0))

    def reference(self, *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.remainder(*operands)


@register
class Neg(Elementwise):
    """Sign flipped, `-x`.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return -x
    """

    name, primitive, signatures = "neg", "neg", ONE_NUMBER
    linear = "jointly"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return interval.negate(*ranges)

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return write("neg", cotangent)

    def reference(self, *operands: Array) -> Array:
        return np.negative(*operands)


def _direction(write: Writer, z: Value, length: Value) -> list[Value]:
    """The parts of z over its length, also of one so short that 1 / length overflows; 0 at 0. One infinite part is the
    direction by itself, two are a diagonal, as they are for atan2."""
    ty = tensor_type(length)
    parts = [write(name, z) for name in ("real", "imag")]
    sizes = [write("abs", part) for part in parts]
    zero, one, diagonal, infinity = (write.number(v, ty) for v in (0.0, 1.0, math.sqrt(0.5), math.inf))
    infinite = write("equal", length, infinity)
    divisor = write("where", write("equal", length, zero), one, length)
    most = write("where", write("equal", *sizes), diagonal, one)

    def of(part: Value, size: Value) -> Value:
        end = write("minimum", write("maximum", part, write("neg", most)), most)
        far = write("where", write("equal", size, infinity), end, zero)
        return write("where", infinite, far, write("div", part, divisor))

    return [of(part, size) for part, size in zip(parts, sizes, strict=True)]


@register
class Abs(Elementwise):
    """Magnitude; of a complex number its distance from 0, a float.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return abs(x)
    """

    name, primitive, signatures = "abs", "abs", ("(x: N[*s]) -> real(N)[*s]",)

    def on_complex(self, s: Scalars, args: list[Value]) -> Value:
        return magnitude(s, *args)

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return interval.magnitude(*ranges)

    def derivative(
        self, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
    ) -> Value | None:
        """`dx` where x is positive, `-dx` where it is negative, 0 at 0, NaN at NaN; of a complex number the change
        along its direction, `real(conj(x / abs(x)) * dx)`."""
        [x], [dx] = operands, tangents
        assert dx is not None
        zero = write.number(0.0, tensor_type(result))
        if tensor_type(x).dtype.is_complex:
            parts = zip(_direction(write, x, result), ("real", "imag"), strict=True)
            along = write("add", *(write("mul", part, write(name, dx)) for part, name in parts))
            return write("where", write("equal", result, zero), zero, along)
        flat = write("mul", dx, where_a_number(write, zero, x))
        rising = write("where", write("less", zero, x), dx, flat)
        return write("where", write("less", x, zero), write("neg", dx), rising)

    def reference(self, *operands: Array) -> Array:
        return np.abs(*operands)


@register
class Maximum(Elementwise):
    """The larger of two, point by point; NaN wins. Where they are equal, each has half of the derivative; where the
    result is NaN, so is the derivative.

    def relu(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return maximum(x, 0.0)
    """

    name, primitive, signatures = "maximum", "max", TWO_REALS
    differential = f"where(y < x, dx, where(x < y, dy, (dx + dy) * {HALF_OR_NAN}))"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return interval.maximum(*ranges)

    def reference(self, *operands: Array) -> Array:
        return np.maximum(*operands)


@register
class Minimum(Elementwise):
    """The smaller of two, point by point; NaN wins. Where they are equal, each has half of the derivative; where the
    result is NaN, so is the derivative.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return minimum(x, 1.0)
    """

    name, primitive, signatures = "minimum", "min", TWO_REALS
    differential = f"where(x < y, dx, where(y < x, dy, (dx + dy) * {HALF_OR_NAN}))"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return interval.minimum(*ranges)

    def reference(self, *operands: Array) -> Array:
        return np.minimum(*operands)


@register
@dataclass(frozen=True)
class Power(Operator):
    """A whole power, `x ** 2`; a negative one only of floats. `power(x, y)` is `x ** y` of any other y, too.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return x ** 2
    """

    name = "power"
    again = True
    batching = "leading"
    signatures = ("(x: N[*s], exponent: int) -> N[*s]",)

    exponent: int

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls(exponent), (x,)) for exponent in (0, 1, 2, 3, -1) for x in ("f32[3, 4]", "c64[5]")]

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return interval.power(ranges[0], self.exponent)

    def derivative(
        self, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
    ) -> Value | None:
        """`n * x**(n - 1) * dx` for the exponent n; 0 where n is."""
        [x], [dx] = operands, tangents
        assert dx is not None
        if self.exponent == 0:
            return None
        slope = write("power", x, exponent=self.exponent - 1)
        return write("mul", write("mul", slope, write.number(self.exponent, tensor_type(x))), dx)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        with np.errstate(all="ignore"):
            return x**self.exponent

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return pointwise(builder, operands, result, lambda s, args: self._power(s, args[0]))

    def _power(self, s: Scalars, x: Value) -> Value:
        """Squares and products, lowest bit of the exponent first; a negative power is a reciprocal at the end."""
        dtype = scalar_dtype(x)
        power, left = s.constant(1, dtype), abs(self.exponent)
        started = False
        while left:
            if left & 1:
                power, started = (s.primitive("mul", power, x) if started else x), True
            left >>= 1
            x = s.primitive("mul", x, x) if left else x
        return s.primitive("div", s.constant(1, dtype), power) if self.exponent < 0 else power


@register
class Where(Operator):
    """`x` where `c` holds, else `y`.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return where(x > 0.0, x, 0.0)
    """

    name = "where"
    again = True
    batching = "aligned"
    signatures = ("(c: bool[s...], x: E[s...], y: E[s...]) -> E[s...]",)
    others = {"c": ("condition",), "x": ("input",), "y": ("other",)}
    linear = "jointly"

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [
            (cls(), ("bool[3, 4]", "f32[3, 4]", "f32[3, 4]")),
            (cls(), ("bool[3, 1]", "f32[3, 4]", "f32[4]")),
            (cls(), ("bool[3, 1]", "c64[3, 4]", "c64[4]")),
        ]

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        condition, x, y = ranges
        if condition.low == condition.high:
            return x if condition.low else y
        return hull((x, y))

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        zero = write.number(0.0, tensor_type(cotangent))
        chosen = (cotangent, zero) if position == 1 else (zero, cotangent)
        return write.unbroadcast(write("where", operands[0], *chosen), tensor_type(operands[position]))

    def reference(self, *operands: Array) -> Array:
        return np.where(*operands)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return pointwise(builder, operands, result, lambda s, args: s.select(*args))
