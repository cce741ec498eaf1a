"""Shorter programs for `with numerics(fast):`, the same on every target as all programs are.

Enters: a draft and its inputs. Leaves: a value near that of the function. Bounds, relative, of f32, all tested; in f64
they are the functions themselves:

| function        | bound                      | corner cases                                                         |
|-----------------|----------------------------|----------------------------------------------------------------------|
| exp_fast        | 2**-18 + abs(x) * 2**-23   | below 2**-125 it is 0; NaN, infinities and overflow as of exp        |
| exp2_fast       | 2**-18                     | the same                                                             |
| exp_term_fast   | 2**-18 + abs(x) * 2**-23   | below 2**-126 it is 0; rows of huge numbers as of exp_term           |
| exp_lifted_fast | the same                   | the same                                                             |
| tanh_fast       | 2**-20                     | odd, also for -0                                                     |
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.numerics import exponential
from tesserac.numerics.formats import format_of, parts
from tesserac.numerics.huge_exponents import huge_term
from tesserac.numerics.program import Draft, Ref
from tesserac.types.dtype import F32

SUFFIX = "_fast"
"""What is added to the name of a function for its shorter program."""
TWICE_EXP2 = (1.9999985694885254, 1.3862435817718506, 0.480494886636734, 0.11183571815490723, 0.019140202552080154)
"""Twice 2**r for abs(r) <= 1/2 to a relative error of 2**-18.5: the polynomial of degree 4 of which the largest is
least."""


TANH_TERMS = (0.9999827742576599, 0.6666582226753235, 0.3351936340332031, 0.1339968889951706)
"""(exp(2r) / 2 - 1 / 2 - r) / r**2 for abs(r) <= ln2 / 4, so that exp(2r) is right to 2**-23.3; of degree 2 it would be
2**-17.5, and of a quotient near 1/5 not half of that is left."""


def _exp_fast(d: Draft, x: Ref) -> Ref:
    if d.dtype != F32:
        return exponential.exp(d, x)
    return _exp2_fast(d, x * d.constant(parts("log2e", d.dtype)[0]))


def _exp2_fast(d: Draft, x: Ref) -> Ref:
    """2**x as twice 2**(n - 1) times a polynomial of degree 4, whose coefficients hold the two; n = -126 gives 0."""
    if d.dtype != F32:
        return exponential.exp2(d, x)
    f = format_of(d.dtype)
    cut = d.cut(x, float(f.lowest_exponent), f.highest_exponent + 1.25)  # beyond 2**128 it is inf
    n = d.step("rint", cut)
    power = d.step("pow2", n - d.constant(1.0))
    return power * d.polynomial(TWICE_EXP2, cut - n)


def _term(bias: int, exact: Callable[..., Ref]) -> Callable[..., Ref]:
    """A term of a softmax: its exponent is never positive, so that one power of two suffices. Rows of huge numbers take
    the long program."""

    def term(d: Draft, x: Ref, m: Ref) -> Ref:
        if d.dtype != F32:
            return exact(d, x, m)
        f = format_of(d.dtype)
        limit, size, top = d.constant(f.frac_limit), d.step("abs", x), d.step("abs", m)
        scaled = x * d.constant(parts("log2e", d.dtype)[0])
        n = d.step("rint", scaled)
        k = d.clamp(n - m, float(f.lowest_exponent - bias - 1), 0.0)
        power = d.step("pow2", k + d.constant(float(bias)))
        near = d.select(size < limit, scaled - n, d.constant(0.0))
        value = power * (d.constant(0.5) * d.polynomial(TWICE_EXP2, near))
        both = d.select(size < top, size, top)
        return d.when(limit <= both, huge_term(d.dtype, bias), [x, m], value)

    return term


def _tanh_fast(d: Draft, x: Ref) -> Ref:
    """The quotient alone, which is good to a few units near 0 too."""
    if d.dtype != F32:
        return exponential.tanh(d, x)
    return d.step("copysign", exponential.tanh_quotient(d, d.step("abs", x), TANH_TERMS), x)


APPROXIMATE: dict[str, tuple[int, Callable[..., Ref]]] = {
    "exp_fast": (1, _exp_fast),
    "exp2_fast": (1, _exp2_fast),
    "exp_term_fast": (2, _term(0, exponential.exp_term)),
    "exp_lifted_fast": (2, _term(exponential.LIFT, exponential.exp_lifted)),
    "tanh_fast": (1, _tanh_fast),
}
