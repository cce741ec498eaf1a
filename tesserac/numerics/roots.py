"""Roots of unity: cos and sin of 2 pi e / n for whole e and n, each the nearest float.

Enters: an order n and exponents e. Leaves: arrays of f64. Angles are reduced as integers, to an eighth of a turn, and
the values are computed with integers of 120 bits: the same on every machine, and exact to the last place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import isqrt, ldexp

from tesserac.base.lazy import np
from tesserac.numerics.exact import Array

BITS = 120
"""Fixed point: an integer x stands for x / 2**BITS."""
_TWO_PI = 0x6487ED5110B4611A62633145C06E0E6

Point = tuple[int, int]
"""A cosine and a sine, in fixed point."""


def roots(order: int, exponents: Array) -> tuple[Array, Array]:
    """(cos, sin) of 2 pi e / order for every exponent e."""
    turn, quarter_rest = np.divmod(4 * (exponents.astype(np.int64) % order), order)
    past_diagonal = 2 * quarter_rest > order
    eighth = np.where(past_diagonal, order - quarter_rest, quarter_rest)
    needed, place = np.unique(eighth, return_inverse=True)
    points = np.array(_eighths(order, needed.tolist()), np.float64).reshape(-1, 2)[place.reshape(eighth.shape)]
    cos, sin = (np.where(past_diagonal, points[..., 1 - i], points[..., i]) for i in (0, 1))
    return _turned(turn, cos, sin), _turned((turn + 3) % 4, cos, sin)


def _turned(quarters: Array, cos: Array, sin: Array) -> Array:
    """The cosine after so many quarter turns."""
    return np.choose(quarters, [cos, -sin, -cos, sin]) + 0.0


def _eighths(order: int, numerators: Sequence[int]) -> list[tuple[float, float]]:
    """(cos, sin) of 2 pi e / (4 order): a coarse angle and a fine one, each computed once, and one product."""
    step = isqrt(max(numerators, default=0)) + 1

    @cache
    def point(numerator: int) -> Point:
        return _point(_TWO_PI * numerator // (4 * order))

    found = []
    for numerator in numerators:
        fine = numerator % step
        (a, b), (c, d) = point(numerator - fine), point(fine)
        parts = (a * c - b * d) >> BITS, (a * d + b * c) >> BITS
        found.append((ldexp(parts[0], -BITS), ldexp(parts[1], -BITS)))
    return found


def _point(angle: int) -> Point:
    """Taylor's series of an angle below 1."""
    sums, term, count = [0, 0, 0, 0], 1 << BITS, 0
    while term:
        sums[count % 4] += term
        count += 1
        term = (term * angle >> BITS) // count
    return sums[0] - sums[2], sums[1] - sums[3]
