"""The two halves of exp, from which the softmax family is built, and products with powers of two.

Enters: float tensors. Leaves: one of the same type. exp(x) = exp_frac(x) * 2^exp_int(x), see `numerics/exponential.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tesserac.base.lazy import np
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.numerics.exponential import LIFT
from tesserac.ops.calculus import Writer
from tesserac.ops.elementwise import ONE_FLOAT, TWO_FLOATS, Elementwise
from tesserac.ops.registry import Array, register


@register
class ExpInt(Elementwise):
    """n = rint(x * log2(e)), a whole number held in the float type: `exp(x) = exp_frac(x) * 2^exp_int(x)`.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return ldexp(exp_frac(x), exp_int(x))
    """

    name, primitive, signatures = "exp_int", "exp_int", ONE_FLOAT
    differential = "0"

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.rint(x.astype(np.float64) * math.log2(math.e)).astype(x.dtype)


@register
class ExpFrac(Elementwise):
    """exp(x - n * ln2) for n = exp_int(x): what is left of exp(x) beside its power of two.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return exp_frac(x)
    """

    name, primitive, signatures = "exp_frac", "exp_frac", ONE_FLOAT
    differential = "result * dx"

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        wide = x.astype(np.float64)
        return np.exp(wide - np.rint(wide * math.log2(math.e)) * math.log(2)).astype(x.dtype)


@register
class ExpTerm(Elementwise):
    """exp(x) * 2^-m for whole m >= exp_int(x), rounded once: a term of a softmax whose largest integer exponent is m.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return exp_term(x, exp_int(max(x)))
    """

    name, primitive, signatures = "exp_term", "exp_term", TWO_FLOATS
    differential = "result * dx"
    whole = (1,)

    def reference(self, *operands: Array) -> Array:
        x, m = (operand.astype(np.float64) for operand in operands)
        n = np.rint(x * math.log2(math.e))
        term = np.exp(x - n * math.log(2)) * np.exp2(np.minimum(n - m, 0) + self.lift)
        return np.asarray(term, operands[0].dtype)


@register
class ExpLifted(ExpTerm):
    """exp(x) * 2^(32 - m) for whole m >= exp_int(x), rounded once: a term of attention, where only quotients of sums
    count: 2^32 cancels, and keeps small terms from underflowing. It is beyond what f16 and fp8 hold.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return exp_lifted(x, exp_int(max(x)))
    """

    name, primitive, signatures = "exp_lifted", "exp_lifted", TWO_FLOATS
    lift = LIFT


@register
class Ldexp(Elementwise):
    """x * 2^n for whole n, integers or held in the float type, rounded once. Being whole, n has no derivative.

    def f(x: Tensor[N, f32], n: Tensor[N, f32]) -> Tensor[N, f32]:
        return ldexp(x, rint(n))
    """

    name, primitive, signatures = "ldexp", "ldexp", TWO_FLOATS
    of_integers = "ldexp_by_integers"
    differential = "ldexp(dx, y)"
    whole = (1,)

    def is_linear_in(self, position: int) -> bool:
        return position == 0

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return write.unbroadcast(write("ldexp", cotangent, operands[1]), tensor_type(operands[0]))

    def reference(self, *operands: Array) -> Array:
        x, n = operands
        whole = np.rint(np.clip(np.nan_to_num(n.astype(np.float64)), -5000, 5000)).astype(np.int64)
        with np.errstate(all="ignore"):
            return np.ldexp(x.astype(np.float64), whole).astype(x.dtype)
