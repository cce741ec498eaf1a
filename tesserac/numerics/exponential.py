"""The exponential family: exp and its two halves, exp2, expm1, tanh. See Note [Exponents as floats].

Enters: a draft and its inputs. Leaves: the value of the function.
"""

from __future__ import annotations

from tesserac.numerics.formats import fitted, format_of, parts
from tesserac.numerics.program import Draft, Ref


def exp_int(d: Draft, x: Ref) -> Ref:
    """Two minima and a maximum: `upper` saturates overflow; `lower` is -largest, except -inf where x is -inf."""
    f = format_of(d.dtype)
    largest, lowest = d.constant(f.largest), d.constant(-f.largest)
    scaled = x * _log2e(d)
    upper = d.select(scaled < largest, scaled, largest)
    lower = d.select(x < lowest, x, lowest)
    return d.step("rint", d.select(lower < upper, upper, lower))


def _log2e(d: Draft) -> Ref:
    return d.constant(parts("log2e", d.dtype)[0])


def expm1_near(d: Draft, r: Ref) -> Ref:
    """exp(r) - 1 for abs(r) <= ln2 / 2, as r + r**2 q(r)."""
    square = r * r
    return d.fma(fitted(d, "exp", r), square, r)


def exp_near(d: Draft, r: Ref) -> Ref:
    """exp(r) for abs(r) <= ln2 / 2. Least is lost when the one is added last."""
    return d.constant(1.0) + expm1_near(d, r)


def exp_frac(d: Draft, x: Ref) -> Ref:
    huge = d.constant(format_of(d.dtype).frac_limit) <= d.step("abs", x)
    return d.select(huge, d.constant(1.0), exp_near(d, sub_ln2(d, x, exp_int(d, x))))


def scale(d: Draft, x: Ref, k: Ref) -> Ref:
    """x * 2**k for k in twice the range of exponents. Scaling by the rest comes first: it is exact, or the whole
    result is zero or infinite anyway, so only the second product rounds."""
    f = format_of(d.dtype)
    main = d.clamp(k, f.lowest_exponent, f.highest_exponent)
    rest = d.clamp(k - main, f.lowest_exponent, f.highest_exponent)
    return (x * d.step("pow2", rest)) * d.step("pow2", main)


def scale_down(d: Draft, x: Ref, k: Ref) -> Ref:
    """x * 2**k for an x near 1 and k from 0 down to just beyond the subnormals: one power of two suffices, kept
    normal by a factor that the last product takes away."""
    up = -format_of(d.dtype).lowest_exponent // 2
    return (x * d.step("pow2", k + d.constant(float(up)))) * d.constant(2.0**-up)


def exp_term(d: Draft, x: Ref, m: Ref) -> Ref:
    """The hot loop of the softmax family, hence shorter than its parts: the exponent is never positive, and where
    x * log2e overflows upwards the cut at 0 saturates."""
    f = format_of(d.dtype)
    lowest = d.constant(-f.largest)
    scaled, lower = x * _log2e(d), d.select(x < lowest, x, lowest)
    n = d.step("rint", d.select(lower < scaled, scaled, lower))
    huge = d.constant(f.frac_limit) <= d.step("abs", x)
    fraction = d.select(huge, d.constant(1.0), exp_near(d, sub_ln2(d, x, n)))
    return scale_down(d, fraction, d.clamp(n - m, f.lowest_exponent - d.dtype.significand - 2, 0.0))


def exp(d: Draft, x: Ref) -> Ref:
    """Beyond the cut results are 0 or inf; a NaN passes the cut and reaches the result through the polynomial."""
    f = format_of(d.dtype)
    cut = d.cut(x, f.exp_low, f.exp_high)
    n = d.step("rint", cut * _log2e(d))
    return scale(d, exp_near(d, sub_ln2(d, cut, n)), n)


def exp2_near(d: Draft, r: Ref) -> Ref:
    """2**r for abs(r) <= 1/2, as 1 + (r ln2 + r**2 q(r)). What is lost before the last addition is under half an ulp,
    so that a result which is a value of the dtype comes out exact."""
    high, low = map(d.constant, parts("ln2", d.dtype))
    square = r * r
    return d.constant(1.0) + d.fma(r, high, d.fma(fitted(d, "exp2", r), square, r * low))


def exp2(d: Draft, x: Ref) -> Ref:
    f = format_of(d.dtype)
    cut = d.cut(x, float(f.lowest_exponent - d.dtype.significand - 1), float(f.highest_exponent + 2))
    n = d.step("rint", cut)
    return scale(d, exp2_near(d, cut - n), n)


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


def sub_ln2(d: Draft, x: Ref, n: Ref) -> Ref:
    """x - n ln2. The first fma is exact where n is exp_int(x)."""
    high, low = parts("ln2", d.dtype)
    return d.fma(n, d.constant(-low), d.fma(n, d.constant(-high), x))


def add_ln2(d: Draft, x: Ref, n: Ref) -> Ref:
    """x + n ln2, the small product first."""
    high, low = parts("ln2", d.dtype)
    return d.fma(n, d.constant(high), d.fma(n, d.constant(low), x))


def tanh(d: Draft, x: Ref) -> Ref:
    """x + x**3 p(x**2) near zero, 1 - 2 / (exp(2x) + 1) elsewhere; computed for |x| and given its sign."""
    size, one, two = d.step("abs", x), d.constant(1.0), d.constant(2.0)
    square = size * size
    near = d.fma(fitted(d, "tanh", square), size * square, size)
    far = one - two / (exp(d, size + size) + one)
    return d.step("copysign", d.select(size < d.constant(0.625), near, far), x)


# Note [Exponents as floats]
# n = exp_int(x) is an integer held in the float type, so that a running maximum of n, a difference n - M and a
# masked -inf need no conversion. A finite x whose product with log2e overflows saturates, so that n - M is never
# inf - inf for finite rows. x = -inf keeps n = -inf: with M no lower than -largest, n - M = -inf and 2**(n - M) is
# +0, also in a row of only -inf. +inf and NaN need no care in n: NaN reaches the result through exp_frac, and a row
# with +inf is found from its maximum. exp_int never decreases, so max(exp_int(x)) = exp_int(max(x)).
