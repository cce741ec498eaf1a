"""Roots of unity: cos and sin of 2 pi e / n for whole e and n, each the nearest float.

Enters: an order n and exponents e. Leaves: arrays of f64. Angles are reduced as integers, to an eighth of a turn, and
a few of them are computed with integers of 120 bits, more as products of two of these, the others as products of two of
those with twice the digits of f64: the same on every machine, and exact to the last place.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, isqrt, ldexp
from typing import Any

from tesserac.base.lazy import np
from tesserac.numerics.exact import Array

BITS = 120
"""Fixed point: an integer x stands for x / 2**BITS."""
_TWO_PI = 0x6487ED5110B4611A62633145C06E0E6

Point = tuple[int, int]
"""A cosine and a sine, in fixed point."""
Double = tuple[Array, Array]
"""Floats, and what they lack: together twice as many digits."""


def roots(order: int, exponents: Array) -> tuple[Array, Array]:
    """(cos, sin) of 2 pi e / order for every exponent e."""
    turn, quarter_rest = np.divmod(4 * (exponents.astype(np.int64) % order), order)
    past_diagonal = 2 * quarter_rest > order
    eighth = np.where(past_diagonal, order - quarter_rest, quarter_rest)
    needed, place = _distinct(eighth, gcd(4, order))
    cosines, sines = _eighths(order, needed)
    cos, sin = cosines[place], sines[place]
    is_swapped = past_diagonal ^ (turn % 2 == 1)
    across, up = np.where(is_swapped, sin, cos), np.where(is_swapped, cos, sin)
    return _signed(across, (turn == 1) | (turn == 2)), _signed(up, turn >= 2)


def root_products(order: int, rows: int, columns: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """(cos, sin) of 2 pi i j / order for i < rows and j < columns, which NumPy rounds to `dtype`. Of many, those of an
    eighth of a turn are computed; the others are found by their places alone."""
    if order % 8 or rows * columns > order or order < MANY:
        i, j = np.ogrid[:rows, :columns]
        cos, sin = roots(order, i * j)
        return cos.astype(dtype), sin.astype(dtype)
    cos, sin = _turn(order, dtype)
    found = np.empty((2, rows, columns), dtype)
    for part, whole in zip(found, (cos, sin), strict=True):
        part[0] = whole[0]
        for row in range(1, rows):
            part[row] = whole[: row * columns : row]
    return found[0], found[1]


MANY = 1 << 12
"""Roots from which on it takes long to find the place of each by its number."""


def _turn(order: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """All roots of an order that eight divides."""
    cos, sin = (part.astype(dtype) for part in _first_eighth(order))
    right, up = (np.concatenate([a[:-1], b[:0:-1]]) for a, b in ((cos, sin), (sin, cos)))
    across = np.concatenate([right, -up, -right, up]) + 0.0
    return across, np.concatenate([up, right, -up, -right]) + 0.0


def _distinct(numbers: Array, factor: int) -> tuple[Array, Array]:
    """Multiples of a factor without repetition, or all up to the largest where that is not many more; and the place of
    each number among them."""
    largest = int(numbers.max(initial=0))
    if largest // factor <= 2 * numbers.size:
        return np.arange(0, largest + 1, factor), numbers // factor
    needed, place = np.unique(numbers, return_inverse=True)
    return needed, place.reshape(numbers.shape)


def _signed(numbers: Array, is_negative: Array) -> Array:
    """Without a negative zero."""
    return np.negative(numbers, out=numbers, where=is_negative) + 0.0


def _eighths(order: int, numerators: Array) -> tuple[Array, Array]:
    """(cos, sin) of 2 pi e / (4 order): a coarse angle and a fine one, each computed once, and one product."""
    step = isqrt(int(numerators.max(initial=0))) + 1
    coarse, fine = np.divmod(numerators, step)
    return _rotated(_points(order, coarse, step), _points(order, fine, 1))


def _first_eighth(order: int) -> tuple[Array, Array]:
    """(cos, sin) of 2 pi k / order for every k up to an eighth of it: rows of coarse angles and columns of fine ones,
    of whose products each number is one."""
    count = order // 8 + 1
    step = isqrt(count - 1) + 1
    coarse, fine = np.arange(-(-count // step)), np.arange(step)
    (a, b), (c, d) = _points(order, coarse, 4 * step), _points(order, fine, 4)
    cos, sin = _rotated([(high[:, None], low[:, None]) for high, low in (a, b)], [c, d])
    return cos.reshape(-1)[:count], sin.reshape(-1)[:count]


def _rotated(point: Sequence[Double], by: Sequence[Double]) -> tuple[Array, Array]:
    """The nearest floats to cosine and sine of the sum of two angles."""
    (a, b), (c, d) = point, by
    cos = _sum(_product(a, c), _negative(_product(b, d)))
    sin = _sum(_product(a, d), _product(b, c))
    return cos[0] + cos[1], sin[0] + sin[1]


def _points(order: int, numerators: Array, step: int) -> tuple[Double, Double]:
    """Cosines and sines of few angles, each as a float and what it lacks."""
    needed, place = _distinct(numerators, 1)
    points = _multiples(_TWO_PI * step, 4 * order, needed.tolist())
    cos, sin = ([_double(point[i]) for point in points] for i in (0, 1))
    (high, low), (up, down) = (np.array(part, np.float64).reshape(-1, 2).T[:, place] for part in (cos, sin))
    return (high, low), (up, down)


def _multiples(angle: int, divisor: int, numbers: list[int]) -> list[Point]:
    """The points of multiples of angle / divisor, as products of two: a square root of as many are computed."""
    step = isqrt(max(numbers, default=0)) + 1
    pairs = [divmod(number, step) for number in numbers]
    coarse = {i: _point(angle * step * i // divisor) for i in {i for i, _ in pairs}}
    fine = {j: _point(angle * j // divisor) for j in {j for _, j in pairs}}
    return [_turned(coarse[i], fine[j]) for i, j in pairs]


def _turned(point: Point, by: Point) -> Point:
    (a, b), (c, d) = point, by
    return a * c - b * d >> BITS, a * d + b * c >> BITS


def _double(number: int) -> tuple[float, float]:
    high = ldexp(number, -BITS)
    return high, ldexp(number - int(high * 2.0**BITS), -BITS)


def _product(x: Double, y: Double) -> Double:
    """Of two floats with what they lack: exact to 2**-104 of it, by Dekker's halves."""
    (a, a_low), (b, b_low) = x, y
    whole = a * b
    (p, q), (r, s) = _halves(a), _halves(b)
    return whole, ((p * r - whole) + p * s + q * r) + q * s + (a * b_low + a_low * b)


def _sum(x: Double, y: Double) -> Double:
    (a, a_low), (b, b_low) = x, y
    whole = a + b
    moved = whole - a
    low = (a - (whole - moved)) + (b - moved) + (a_low + b_low)
    return whole, low


def _negative(x: Double) -> Double:
    return -x[0], -x[1]


def _halves(x: Array) -> tuple[Array, Array]:
    """Two floats of 26 bits each."""
    far = x * (2.0**27 + 1)
    high = far - (far - x)
    return high, x - high


def _point(angle: int) -> Point:
    """Taylor's series of an angle below 1."""
    sums, term, count = [0, 0, 0, 0], 1 << BITS, 0
    while term:
        sums[count % 4] += term
        count += 1
        term = (term * angle >> BITS) // count
    return sums[0] - sums[2], sums[1] - sums[3]
