"""The exponential family: exp and its two halves, exp2, expm1, tanh. See Note [Exponents as floats].

Enters: a draft and its inputs. Leaves: the value of the function.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.numerics.exponential_parts import exp2_near, exp_near, expm1_near, scaled, sub_ln2
from tesserac.numerics.formats import fitted, format_of, parts
from tesserac.numerics.huge_exponents import huge_frac, huge_int, huge_term
from tesserac.numerics.program import POW2, Draft, Ref

LIFT = 32
"""The exponent that terms of attention carry, lest small ones underflow."""
TERM_LIFT = 2.0 ** (LIFT + 1)
"""What a power of two below 1 lacks to such a term."""


def exp_int(d: Draft, x: Ref) -> Ref:
    return d.when(_is_huge_or_nan(d, x), huge_int(d.dtype), [x], _whole(d, x))


def _is_huge_or_nan(d: Draft, x: Ref) -> Ref:
    size, limit = d.step("abs", x), d.constant(format_of(d.dtype).frac_limit)
    return limit <= d.select(size < limit, size, limit)


def _whole(d: Draft, x: Ref) -> Ref:
    return d.step("rint", x * _log2e(d))


def _log2e(d: Draft) -> Ref:
    return d.constant(parts("log2e", d.dtype)[0])


def exp_frac(d: Draft, x: Ref) -> Ref:
    huge = d.constant(format_of(d.dtype).frac_limit) <= d.step("abs", x)
    return d.when(huge, huge_frac(d.dtype), [x], exp_near(d, sub_ln2(d, x, _whole(d, x))))


def exp_term(d: Draft, x: Ref, m: Ref) -> Ref:
    return _term(d, x, m, 0)


def exp_lifted(d: Draft, x: Ref, m: Ref) -> Ref:
    return _term(d, x, m, LIFT)


def _term(d: Draft, x: Ref, m: Ref, bias: int) -> Ref:
    """The hot loop of the softmax family, hence shorter than its parts, with all that m alone decides apart from x: a
    row has one m. The exponent is never positive, one power of two suffices, kept normal by a factor that the last
    product takes away. What is so small that it is 0 is cut to the first exponent of that kind, also -inf: the power of
    it has the bits of 0, while a product that becomes too small costs some processors a hundred cycles. Only where m is
    huge, in a row of huge numbers, the long program runs, and of NaN, whose bits differ among machines and must not
    become a power."""
    f = format_of(d.dtype)
    up = d.dtype.significand + 2
    least = d.constant(float(f.lowest_exponent - 1 - up - bias))
    low = (m + least) * d.constant(parts("ln2", d.dtype)[0])
    cut = d.select(x < low, low, x)
    n = _whole(d, cut)
    fraction = exp_near(d, sub_ln2(d, cut, n))
    power = d.step("exponent", d.select(n < m, n, m) + (d.constant(POW2[d.dtype.bits] + float(bias + up)) - m))
    term = (fraction * power) * d.constant(2.0**-up)
    return d.when(_is_huge_or_nan(d, m), huge_term(d.dtype, bias), [x, m], term)


def exp_scaled(d: Draft, x: Ref, m: Ref) -> Ref:
    """A term relative to an even m that is known to be larger: n is rounded by a sum whose last bits are its exponent,
    and as m is even, ties are those of `rint`. Nothing is cut, and nothing may be subnormal."""
    bias = d.constant(POW2[d.dtype.bits] - 1.0) - m
    biased = x * _log2e(d) + bias
    power = d.step("exponent", biased)
    return d.fma(expm1_near(d, sub_ln2(d, x, biased - bias)), power, power)


def exp(d: Draft, x: Ref) -> Ref:
    """Beyond the cut results are 0 or inf; a NaN passes the cut and reaches the result through the polynomial."""
    f = format_of(d.dtype)
    cut = d.cut(x, f.exp_low, f.exp_high)
    n = d.step("rint", cut * _log2e(d))
    return scaled(d, exp_near(d, sub_ln2(d, cut, n)), n)


def exp2(d: Draft, x: Ref) -> Ref:
    f = format_of(d.dtype)
    cut = d.cut(x, float(f.lowest_exponent - d.dtype.significand - 1), float(f.highest_exponent + 2))
    n = d.step("rint", cut)
    return scaled(d, exp2_near(d, cut - n), n)


def expm1(d: Draft, x: Ref) -> Ref:
    """2**n p + (2**n - 1) with p = exp(r) - 1, all of it halved lest 2**n overflow. Where x is tiny it is the result,
    also of -0 and of subnormals, which halves would lose."""
    half, two = d.constant(0.5), d.constant(2.0)
    low = -float(d.dtype.significand)  # e**low is too small to show beside -1
    cut = d.cut(x, low, format_of(d.dtype).exp_high)
    n = d.step("rint", cut * _log2e(d))
    power = d.step("pow2", n - d.constant(1.0))
    large = two * d.fma(power, expm1_near(d, sub_ln2(d, cut, n)), power - half)
    tiny = d.step("abs", x) < d.constant(2.0 ** -(d.dtype.significand + 1))
    return d.select(tiny, x, large)


_TANH_LIMIT = 20.0
"""From here on it is 1 in every type."""
TANH_NEAR = 0.359375
"""Below it a polynomial is nearer than the quotient."""


def tanh(d: Draft, x: Ref) -> Ref:
    """x + x**3 p(x**2) near zero, a quotient elsewhere; for |x|, and given its sign."""
    size, near_limit = d.step("abs", x), d.constant(TANH_NEAR)
    square = size * size
    near = d.fma(fitted(d, "tanh", square, stepwise=True), size * square, size)
    far = tanh_quotient(d, size, [2.0 ** (k + 1) * c for k, c in enumerate(parts("exp", d.dtype))])
    return d.step("copysign", d.select(size < near_limit, near, far), x)


def tanh_quotient(d: Draft, size: Ref, terms: Sequence[float]) -> Ref:
    """tanh of x >= 0 as h / (h + 1) with h = (exp(2x) - 1) / 2, where `terms` are those of (exp(2r) / 2 - 1 / 2 - r) /
    r**2. 2**n is found as in `_bell` of `error_function.py`. One part of ln2 is enough: the larger n, the less shows
    what the other would add. Powers of two are in the coefficients, lest x be doubled."""
    limit, half, f = d.constant(_TANH_LIMIT), d.constant(0.5), format_of(d.dtype)
    cut = d.select(limit < size, limit, size)
    large = d.constant(1.5 * 2.0 ** (f.significand - 1) + f.highest_exponent)
    sum_ = d.fma(cut, d.constant(2.0 * parts("log2e", d.dtype)[0]), large)
    r = d.fma(sum_ - large, d.constant(-0.5 * parts("ln2", d.dtype)[0]), cut)
    power = d.step("exponent", sum_)
    h = d.fma(power, d.fma(d.polynomial(terms, r), r * r, r), d.fma(power, half, -half))
    return d.near_quotient(h, h + d.constant(1.0))


# Note [Exponents as floats]
# n = exp_int(x) is an integer held in the float type, so that a running maximum of n, a difference n - M and a
# masked -inf need no conversion. A finite x has a finite n (see Note [Huge exponents]), so that n - M is never
# inf - inf for finite rows. x = -inf keeps n = -inf: with M no lower than -largest, n - M = -inf and 2**(n - M) is
# +0, also in a row of only -inf. +inf and NaN need no care in n: NaN reaches the result through exp_frac, and a row
# with +inf is found from its maximum. exp_int never decreases, so max(exp_int(x)) = exp_int(max(x)).
