"""Pieces of the exponential family: exp near zero, products with powers of two, multiples of ln2.

Enters: a draft and values of it. Leaves: one value.
"""

from __future__ import annotations

from functools import cache

from tesserac.numerics.formats import fitted, format_of, parts
from tesserac.numerics.program import Draft, Program, Ref
from tesserac.types.dtype import DType


def expm1_near(d: Draft, r: Ref) -> Ref:
    """exp(r) - 1 for abs(r) <= ln2 / 2, as r + r**2 q(r)."""
    square = r * r
    return d.fma(fitted(d, "exp", r), square, r)


def exp_near(d: Draft, r: Ref) -> Ref:
    """exp(r) for abs(r) <= ln2 / 2. Least is lost when the one is added last."""
    return d.constant(1.0) + expm1_near(d, r)


def exp2_near(d: Draft, r: Ref) -> Ref:
    """2**r for abs(r) <= 1/2, as 1 + (r ln2 + r**2 q(r)). What is lost before the last addition is under half an ulp,
    so that a result which is a value of the dtype comes out exact."""
    high, low = map(d.constant, parts("ln2", d.dtype))
    square = r * r
    return d.constant(1.0) + d.fma(r, high, d.fma(fitted(d, "exp2", r), square, r * low))


def sub_ln2(d: Draft, x: Ref, n: Ref) -> Ref:
    """x - n ln2. The first fma is exact where n is exp_int(x)."""
    high, low = parts("ln2", d.dtype)
    return d.fma(n, d.constant(-low), d.fma(n, d.constant(-high), x))


def scale(d: Draft, x: Ref, k: Ref) -> Ref:
    """x * 2**k for k in twice the range of exponents. Scaling by the rest comes first: it is exact, or the whole
    result is zero or infinite anyway, so only the second product rounds."""
    f = format_of(d.dtype)
    main = d.clamp(k, f.lowest_exponent, f.highest_exponent)
    rest = d.clamp(k - main, f.lowest_exponent, f.highest_exponent)
    return (x * d.step("pow2", rest)) * d.step("pow2", main)


SCALED = "scaled"


@cache
def _scaled(dtype: DType) -> Program:
    d = Draft(dtype, 2)
    return d.finish(SCALED, scale(d, *d.inputs))


def scaled(d: Draft, x: Ref, k: Ref) -> Ref:
    """`scale` of a whole k, or of NaN by NaN: x * 2**k rounded once, for which some machines have an instruction."""
    return d.part(_scaled(d.dtype), x, k)


def ldexp(d: Draft, x: Ref, k: Ref) -> Ref:
    """x * 2**k for any k: three factors reach from beyond the largest number to below the smallest, and back. As in
    `scale` only the last product rounds, or the result is zero or infinite anyway."""
    f = format_of(d.dtype)
    powers: list[Ref] = []
    for _ in range(3):
        power = d.clamp(k, f.lowest_exponent, f.highest_exponent)
        powers.append(d.step("pow2", power))
        k = k - power
    main, rest, first = powers
    return ((x * first) * rest) * main


def scale_down(d: Draft, x: Ref, k: Ref) -> Ref:
    """x * 2**k for an x near 1 and k from 0 down to just beyond the subnormals: one power of two suffices, kept
    normal by a factor that the last product takes away."""
    up = -format_of(d.dtype).lowest_exponent // 2
    return (x * d.step("pow2", k + d.constant(float(up)))) * d.constant(2.0**-up)
