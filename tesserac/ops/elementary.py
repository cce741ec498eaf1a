"""Elementary functions of floats, point by point.

Enters: a float tensor. Leaves: one of the same type. The bits come from `numerics/elementary.py`, the same on every
target; `exp_int` and `exp_frac` are the two halves of exp from which the softmax family is built.
"""

from __future__ import annotations

import math

import numpy as np

from tesserac.ops.elementwise import ONE_FLOAT, TWO_FLOATS, Elementwise
from tesserac.ops.registry import Array, register


@register
class Exp(Elementwise):
    """e to the power x.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return exp(x)
    """

    name, primitive, signatures = "exp", "exp", ONE_FLOAT

    def reference(self, *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.exp(*operands)


@register
class ExpInt(Elementwise):
    """n = rint(x * log2(e)), a whole number held in the float type: `exp(x) = exp_frac(x) * 2^exp_int(x)`.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return ldexp(exp_frac(x), exp_int(x))
    """

    name, primitive, signatures = "exp_int", "exp_int", ONE_FLOAT

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

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        wide = x.astype(np.float64)
        return np.exp(wide - np.rint(wide * math.log2(math.e)) * math.log(2)).astype(x.dtype)


@register
class ExpTerm(Elementwise):
    """exp(x) * 2^-m for m >= exp_int(x), rounded once: a term of a softmax whose largest integer exponent is m.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return exp_term(x, exp_int(max(x)))
    """

    name, primitive, signatures = "exp_term", "exp_term", TWO_FLOATS

    def reference(self, *operands: Array) -> Array:
        x, m = (operand.astype(np.float64) for operand in operands)
        n = np.rint(x * math.log2(math.e))
        return (np.exp(x - n * math.log(2)) * np.exp2(np.rint(np.minimum(n - m, 0)))).astype(operands[0].dtype)


@register
class Ldexp(Elementwise):
    """x * 2^n for whole n held in the float type, rounded once.

    def f(x: Tensor[N, f32], n: Tensor[N, f32]) -> Tensor[N, f32]:
        return ldexp(x, rint(n))
    """

    name, primitive, signatures = "ldexp", "ldexp", TWO_FLOATS

    def reference(self, *operands: Array) -> Array:
        x, n = operands
        whole = np.rint(np.clip(np.nan_to_num(n.astype(np.float64)), -5000, 5000)).astype(np.int64)
        with np.errstate(all="ignore"):
            return np.ldexp(x.astype(np.float64), whole).astype(x.dtype)


@register
class SubLn2(Elementwise):
    """x - n * ln2 for whole n held in the float type: the logarithm of `x` without its power of two.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return sub_ln2(x, exp_int(x))
    """

    name, primitive, signatures = "sub_ln2", "sub_ln2", TWO_FLOATS

    def reference(self, *operands: Array) -> Array:
        x, n = (operand.astype(np.float64) for operand in operands)
        return (x - n * math.log(2)).astype(operands[0].dtype)


@register
class AddLn2(Elementwise):
    """x + n * ln2 for whole n held in the float type: the logarithm of `exp(x) * 2^n`.

    def f(x: Tensor[N, f32], n: Tensor[N, f32]) -> Tensor[N, f32]:
        return add_ln2(log(x), n)
    """

    name, primitive, signatures = "add_ln2", "add_ln2", TWO_FLOATS

    def reference(self, *operands: Array) -> Array:
        x, n = (operand.astype(np.float64) for operand in operands)
        return (x + n * math.log(2)).astype(operands[0].dtype)


@register
class Log(Elementwise):
    """Natural logarithm.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return log(x)
    """

    name, primitive, signatures = "log", "log", ONE_FLOAT

    def reference(self, *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.log(*operands)


@register
class Sqrt(Elementwise):
    """Correctly rounded square root.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return sqrt(x)
    """

    name, primitive, signatures = "sqrt", "sqrt", ONE_FLOAT

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

    def reference(self, *operands: Array) -> Array:
        return np.tanh(*operands)


@register
class Rint(Elementwise):
    """Nearest whole number, ties to even.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return rint(x)
    """

    name, primitive, signatures = "rint", "rint", ONE_FLOAT

    def reference(self, *operands: Array) -> Array:
        return np.rint(*operands)


@register
class Floor(Elementwise):
    """Largest whole number not above x.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return floor(x)
    """

    name, primitive, signatures = "floor", "floor", ONE_FLOAT

    def reference(self, *operands: Array) -> Array:
        return np.floor(*operands)


@register
class Ceil(Elementwise):
    """Smallest whole number not below x.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return ceil(x)
    """

    name, primitive, signatures = "ceil", "ceil", ONE_FLOAT

    def reference(self, *operands: Array) -> Array:
        return np.ceil(*operands)
