"""Powers of floats with any exponent. Whole ones that are known while compiling are `power`, of `elementwise.py`.

Enters: float or complex tensors. Leaves: one of the same type, with the bits of `numerics/power.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tesserac.base.lazy import np
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import Writer
from tesserac.ops.complex_bodies import power
from tesserac.ops.elementwise import TWO_ANALYTIC, Elementwise
from tesserac.ops.lowering import Scalars
from tesserac.ops.registry import Array, register


@register
class Pow(Elementwise):
    """x to the power y; of a negative x only for whole y, else NaN. An exact result comes out exact. Of complex numbers
    it is exp(y * log(x)), and 1 where y is 0; of 0 it is 0 where y has a positive real part, else NaN.

    def f(x: Tensor[N, f32], y: Tensor[N, f32]) -> Tensor[N, f32]:
        return pow(x, y)
    """

    name, primitive, signatures = "pow", "pow", TWO_ANALYTIC
    pole = (0, 0.0)
    def on_complex(self, s: Scalars, args: list[Value]) -> Value:
        return power(s, *args)

    def derivative(
        self, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
    ) -> Value | None:
        """`dx * y * x**(y - 1) + dy * result * log(x)`; the first is 0 where y is, and the logarithm where x is
        and y is not negative."""
        (x, y), (dx, dy), ty = operands, tangents, tensor_type(result)
        by_x = None if dx is None else write("mul", dx, self._slope(write, x, y, result))
        if dy is None:
            return by_x
        zero, one = write.number(0.0, ty), write.number(1.0, ty)
        none = write("equal", x, zero)
        if not ty.dtype.is_complex:
            none = write("bitwise_and", none, write("less_equal", zero, y))
        base = write("where", none, one, x)
        return write.add(by_x, write("mul", dy, write("mul", result, write("log", base))))

    def _slope(self, write: Writer, x: Value, y: Value, result: Value) -> Value:
        """See Note [One power less]."""
        ty = tensor_type(result)
        zero, one = write.number(0.0, ty), write.number(1.0, ty)
        flat = write("equal", y, zero)
        if ty.dtype.is_complex:
            lower = write("pow", x, write("where", flat, one, write("sub", y, one)))
            return write("where", flat, zero, write("mul", y, lower))
        reach, size = math.frexp(ty.dtype.largest)[1] - 4, write("abs", result)
        inside = [write("less", write.number(2.0**-reach, ty), size), write("less", size, write.number(2.0**reach, ty))]
        plain = write("bitwise_and", write("not_equal", y, zero), write("bitwise_and", *inside))
        other = write("bitwise_or", flat, plain)
        lower = write("pow", x, write("where", other, one, write("sub", y, one)))
        lower = write("where", plain, write("div", result, write("where", plain, x, one)), lower)
        return write("where", flat, zero, write("mul", y, lower))

    def reference(self, *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.power(*operands)


# Note [One power less]
# x**(y - 1) is result / x where the result is no extreme number. y - 1 is rounded: beside a large y, in f16 from 2048,
# it is another whole number, perhaps an even one where y - 1 is odd, so that a negative x had a slope of the wrong
# sign; and its error is multiplied by log(x). Where the result is 0, infinite or nearly so the quotient loses more.
