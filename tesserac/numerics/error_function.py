"""erf, and erfc and x times the normal distribution with a small relative error in their tails.

Enters: a draft and its input. Leaves: the value of the function.
"""

from __future__ import annotations

from tesserac.numerics.exponential_parts import exp_near
from tesserac.numerics.formats import fitted, format_of, parts
from tesserac.numerics.pairs import two_product
from tesserac.numerics.program import Draft, Ref

_NEAR = 0.875
_LIFT = 63
"""By how many powers of two bells of f32 and f64 are lifted above the subnormals: they are normal numbers then, and a
`near` quotient can take them down again."""


def erf(d: Draft, x: Ref) -> Ref:
    """x + x p(x**2) near zero, 1 - exp(-x (1 + q(x))) elsewhere; computed for |x| and given its sign."""
    size, one = d.step("abs", x), d.constant(1.0)
    near = d.fma(fitted(d, "erf_near", size * size), size, size)
    limit = d.constant(format_of(d.dtype).erf_limit)
    cut = d.select(limit < size, limit, size)
    exponent = -d.fma(fitted(d, "erf_far", cut), cut, cut)
    n = d.step("rint", exponent * d.constant(parts("log2e", d.dtype)[0]))
    high, low = parts("ln2", d.dtype)
    r = d.fma(n, d.constant(-low), d.fma(n, d.constant(-high), exponent))
    far = d.fma(-d.step("pow2", n), exp_near(d, r), one)
    return d.step("copysign", d.select(size < d.constant(_NEAR), near, far), x)


def erfc(d: Draft, x: Ref) -> Ref:
    """exp(-x*x) times a quotient of polynomials for |x|; its difference to 2 where x is negative. Nothing cancels, all
    coefficients are positive, and both polynomials are 1 at 0."""
    size = _cut(d, x, format_of(d.dtype).erfc_limit)
    more, power = _bell(d, size, 1.0)
    above, below = fitted(d, "erfc_above", size), fitted(d, "erfc_below", size)
    lifted = d.near_quotient(d.fma(above, more, above), below) * power
    down = 2.0**-_LIFT
    return d.select(
        x < d.constant(0.0),
        d.fma(lifted, d.constant(-down), d.constant(2.0)),
        lifted * d.constant(down),
    )


def xndtr(d: Draft, x: Ref) -> Ref:
    """x times the normal distribution at x: with t = |x| the positive part of x less t times the distribution at -t,
    which is exp(-t*t/2) times a quotient of polynomials. Nothing cancels, and a subnormal result is rounded once. The
    quotient takes the bell down. Below 0 the positive part is -0: the product there is no zero, so that the sign
    does not show, and a maximum that orders zeros gives this part in one instruction."""
    size, zero = _cut(d, x, format_of(d.dtype).ndtr_limit), d.constant(-0.0)
    more, power = _bell(d, size, 0.5)
    above, below = fitted(d, "ndtr_above", size, factor=-(2.0**-_LIFT)), fitted(d, "ndtr_below", size)
    share = d.near_quotient(d.fma(above, more, above), below)
    return d.fma(share, size * power, d.select(x < zero, zero, x))


def _cut(d: Draft, x: Ref, limit: float) -> Ref:
    """|x|, but no more than where the function is 0; NaN stays."""
    size, most = d.step("abs", x), d.constant(limit)
    return d.select(most < size, most, size)


def _bell(d: Draft, size: Ref, factor: float) -> tuple[Ref, Ref]:
    """exp(-factor * size**2) as a number near 1, less 1, and a power of two, which is lifted. The square is a pair: in
    the tail its rounding would show. Its multiple of log2(e) is rounded to a whole number by adding one so large that
    nothing else is left, in whose low bits the exponent of the power then stands."""
    high, low = (d.constant(-factor * part) for part in parts("log2e", d.dtype))
    square, rest = two_product(d, size, size)
    f = format_of(d.dtype)
    large = d.constant(1.5 * 2.0 ** (f.significand - 1) + f.highest_exponent + _LIFT)
    sum_ = d.fma(square, high, large)
    r = d.fma(rest, high, d.fma(square, low, d.fma(square, high, large - sum_)))
    more = r * d.fma(fitted(d, "exp2", r, stepwise=True), r, d.constant(parts("ln2", d.dtype)[0]))
    return more, d.step("exponent", sum_)
