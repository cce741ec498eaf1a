"""Comparisons, bitwise logic and shifts, point by point.

Enters: operand tensors. Leaves: bool tensors, or for `& | ^ ~ << >>` the type of the operands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tesserac.base.lazy import np
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.numerics.exact import shift_left, shift_right
from tesserac.ops.elementwise import TWO_INTEGERS, Elementwise, Pointwise
from tesserac.ops.lowering import Scalars, pointwise, scalar_dtype
from tesserac.ops.registry import Array, register
from tesserac.types.ty import TensorType

_ANY = ("(x: V[s...], y: V[s...]) -> bool[s...]",)
_ORDERED = ("(x: R[s...], y: R[s...]) -> bool[s...]",)
_TWO_LOGICAL = ("(x: L[s...], y: L[s...]) -> L[s...]",)
_ONE_LOGICAL = ("(x: L[*s]) -> L[*s]",)


@register
class Equal(Elementwise):
    """`x == y`, point by point; false with NaN.

    def f(x: Tensor[N, i32]) -> Tensor[N, bool]:
        return x == 3
    """

    name, primitive, signatures = "equal", "eq", _ANY

    def reference(self, *operands: Array) -> Array:
        return np.equal(*operands)


@register
class NotEqual(Pointwise):
    """`x != y`, point by point; true with NaN. The negation of `eq`.

    def f(x: Tensor[N, i32]) -> Tensor[N, bool]:
        return x != 3
    """

    name, signatures = "not_equal", _ANY

    def reference(self, *operands: Array) -> Array:
        return np.not_equal(*operands)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return pointwise(builder, operands, result, lambda s, args: s.primitive("not", s.primitive("eq", *args)))


@register
class Less(Elementwise):
    """`x < y`, point by point; `x > y` is this with the operands exchanged.

    def f(x: Tensor[N, f32]) -> Tensor[N, bool]:
        return x < 0.0
    """

    name, primitive, signatures = "less", "lt", _ORDERED

    def reference(self, *operands: Array) -> Array:
        return np.less(*operands)


@register
class LessEqual(Elementwise):
    """`x <= y`, point by point; `x >= y` is this with the operands exchanged.

    def f(x: Tensor[N, f32]) -> Tensor[N, bool]:
        return x <= 0.0
    """

    name, primitive, signatures = "less_equal", "le", _ORDERED

    def reference(self, *operands: Array) -> Array:
        return np.less_equal(*operands)


@register
class BitAnd(Elementwise):
    """`x & y`: both, of bools; bitwise, of integers.

    def f(x: Tensor[N, f32]) -> Tensor[N, bool]:
        return (x > 0.0) & (x < 1.0)
    """

    name, primitive, signatures = "bitwise_and", "and", _TWO_LOGICAL

    def reference(self, *operands: Array) -> Array:
        return np.bitwise_and(*operands)


@register
class BitOr(Elementwise):
    """`x | y`: either, of bools; bitwise, of integers.

    def f(x: Tensor[N, f32]) -> Tensor[N, bool]:
        return (x < 0.0) | (x > 1.0)
    """

    name, primitive, signatures = "bitwise_or", "or", _TWO_LOGICAL

    def reference(self, *operands: Array) -> Array:
        return np.bitwise_or(*operands)


@register
class BitXor(Elementwise):
    """`x ^ y`: exactly one, of bools; bitwise, of integers.

    def f(x: Tensor[N, i32], y: Tensor[N, i32]) -> Tensor[N, i32]:
        return x ^ y
    """

    name, primitive, signatures = "bitwise_xor", "xor", _TWO_LOGICAL

    def reference(self, *operands: Array) -> Array:
        return np.bitwise_xor(*operands)


@register
class BitNot(Elementwise):
    """`~x`: negation, of bools; complement, of integers.

    def f(x: Tensor[N, bool]) -> Tensor[N, bool]:
        return ~x
    """

    name, primitive, signatures = "bitwise_not", "not", _ONE_LOGICAL

    def reference(self, *operands: Array) -> Array:
        return np.bitwise_not(*operands)


@register
class LeftShift(Elementwise):
    """`x << y`, x times 2 to the power y, wrapping; 0 where y is negative or no less than the bits of x.

    def f(x: Tensor[N, u32]) -> Tensor[N, u32]:
        return x << 3
    """

    name, primitive, signatures = "left_shift", "shl", TWO_INTEGERS

    def reference(self, *operands: Array) -> Array:
        return shift_left(*operands)


@register
class RightShift(Elementwise):
    """`x >> y`, x over 2 to the power y, rounded down; as far as it goes where y is negative or no less than the bits
    of x.

    def f(x: Tensor[N, u32]) -> Tensor[N, u32]:
        return x >> 3
    """

    name, primitive, signatures = "right_shift", "shr", TWO_INTEGERS

    def reference(self, *operands: Array) -> Array:
        return shift_right(*operands)


@register
class IsFinite(Pointwise):
    """Whether x is neither infinite nor NaN: `abs(x) < inf`.

    def f(x: Tensor[N, f32]) -> Tensor[N, bool]:
        return isfinite(x)
    """

    name, signatures = "isfinite", ("(x: F[*s]) -> bool[*s]",)

    def reference(self, *operands: Array) -> Array:
        return np.isfinite(*operands)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        def body(s: Scalars, args: list[Value]) -> Value:
            [x] = args
            return s.primitive("lt", s.primitive("abs", x), s.constant(math.inf, scalar_dtype(x)))

        return pointwise(builder, operands, result, body)
