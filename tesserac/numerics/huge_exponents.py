"""exp_int and exp_frac of huge numbers: whole exponents that a float holds only coarsely. See Note [Huge exponents].

Enters: a dtype. Leaves: the programs that steps `when` of `exponential.py` jump to, for |x| from `frac_limit` on.
"""

from __future__ import annotations

import math

from tesserac.numerics.exponential_parts import exp_near, scale, sub_ln2
from tesserac.numerics.formats import format_of, parts
from tesserac.numerics.program import Draft, Program, Ref
from tesserac.types.dtype import DType


def _exponent(d: Draft, x: Ref) -> tuple[Ref, Ref]:
    """n and the rest r; n never decreases, and two numbers that share it have rests of opposite signs."""
    far = d.constant(2.0 ** _far(d.dtype)) <= d.step("abs", x)
    high, low = map(d.constant, parts("log2e", d.dtype))
    shift = d.step("copysign", d.constant(_shift(d.dtype)), x)
    n = d.select(far, x + shift, d.step("rint", d.fma(x, high, x * low)))
    r = d.select(far, (x - n) + shift, sub_ln2(d, x, n))
    return n, r


def _fraction(d: Draft, r: Ref) -> Ref:
    """exp of a rest, cut where another number's term no longer shows beside it; NaN stays."""
    limit = _widest(d.dtype) * 355.0 / 512.0
    cut = d.cut(r, -limit, limit)
    n = d.step("rint", cut * d.constant(parts("log2e", d.dtype)[0]))
    return exp_near(d, sub_ln2(d, cut, n)) * d.step("pow2", n)


def _far(dtype: DType) -> int:
    """From this power of two on n is x and a shift: a product with log2e might overflow, and need not be exact."""
    return format_of(dtype).highest_exponent - dtype.significand - 3


def _shift(dtype: DType) -> float:
    """What continues x log2e at the border. An odd multiple of half the last place of x, lest a sum be a tie: then each
    n has at most two x."""
    last = 2.0 ** (_far(dtype) - dtype.significand + 1)
    return (math.ceil((math.log2(math.e) - 1.0) * 2.0**dtype.significand / 2.0) + 0.5) * last


def _widest(dtype: DType) -> int:
    """exp of a rest lies between 2**-w and 2**w."""
    return (format_of(dtype).highest_exponent + 1) // 2


def huge_int(dtype: DType) -> Program:
    """-inf stays, +inf and NaN count as the largest."""
    d = Draft(dtype, 1)
    n, _ = _exponent(d, d.inputs[0])
    largest = d.constant(format_of(dtype).largest)
    return d.finish("huge_exp_int", d.select(n < largest, n, largest))


def huge_frac(dtype: DType) -> Program:
    """1 of infinities."""
    d = Draft(dtype, 1)
    [x] = d.inputs
    is_finite = d.step("abs", x) <= d.constant(format_of(dtype).largest)
    return d.finish("huge_exp_frac", d.select(is_finite, _fraction(d, _exponent(d, x)[1]), d.constant(1.0)))


def huge_term(dtype: DType, bias: int) -> Program:
    """A term of x and a huge m, as `exponential.exp_term` has it. x may be infinite, and its rest is then no number; a
    number that is not huge has the exponent and the rest of such. NaN of a NaN."""
    d = Draft(dtype, 2)
    x, m = d.inputs
    f, size = format_of(dtype), d.step("abs", x)
    n, r = _exponent(d, x)
    is_infinite = d.constant(f.largest) < size
    fraction = _fraction(d, d.select(is_infinite, d.constant(0.0), r))
    is_near, whole = size < d.constant(f.frac_limit), d.step("rint", x * d.constant(parts("log2e", dtype)[0]))
    n = d.select(is_near, whole, n)
    fraction = d.select(is_near, exp_near(d, sub_ln2(d, x, whole)), fraction)
    k = d.select(n < m, n - m, d.constant(0.0))
    term = scale(d, fraction, k + d.constant(float(bias)))
    return d.finish(f"huge_exp_term_{bias}", d.select(m <= d.constant(math.inf), term, m))


# Note [Huge exponents]
# From 2**20 on (f64: 2**49) n = x log2e, rounded to the format, is no nearest whole number any more. The rest r = x - n
# ln2 grows with the last place of n, and exp(r) * 2**n is still exp(x): terms of a row are right as long as exp(r) is a
# normal number. |r| reaches 64 ln2 at 2**30 (f64: 512 ln2 at 2**63). There two different x are at least 64 (512) apart,
# above it 128 (1024), so that the lesser's term is nothing beside the greater's. All that is left to do is to tell them
# apart: two x may have one n, but then their rests have opposite signs; so r is cut to +-64 ln2 (512 ln2), which leaves
# 2**-120 (2**-990) of the lesser one. Up to the border 2**100 (2**967) n follows x log2e. Above that it is x + c, since
# a product could overflow; c is the distance at the border, and vanishes beside the largest numbers.
