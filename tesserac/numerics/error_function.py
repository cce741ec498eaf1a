"""erf, and erfc with a small relative error in its tail.

Enters: a draft and its input. Leaves: the value of the function.
"""

from __future__ import annotations

from tesserac.numerics.exponential_parts import exp_near, scale_down
from tesserac.numerics.formats import fitted, format_of, parts
from tesserac.numerics.pairs import two_product
from tesserac.numerics.program import Draft, Ref

_NEAR = 0.875
_MIDDLE = 3.0


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
    """exp(-x*x) / (1 + x p(q)) with q = (x - 3) / (x + 3) for |x|; its difference to 2 where x is negative.

    x*x is a pair: in the tail its rounding would show. Nothing cancels, and the denominator is 1 at 0."""
    limit, one, middle = d.constant(format_of(d.dtype).erfc_limit), d.constant(1.0), d.constant(_MIDDLE)
    size = d.step("abs", x)
    size = d.select(limit < size, limit, size)
    q = d.near_quotient(size - middle, size + middle)
    denominator = d.fma(fitted(d, "erfc", q), size, one)
    square, square_low = two_product(d, size, size)
    n = d.step("rint", square * d.constant(-parts("log2e", d.dtype)[0]))
    high, low = parts("ln2", d.dtype)
    r = d.fma(n, d.constant(-high), -square) - d.fma(n, d.constant(low), square_low)
    tail = scale_down(d, d.near_quotient(exp_near(d, r), denominator), n)
    return d.select(x < d.constant(0.0), d.constant(2.0) - tail, tail)
