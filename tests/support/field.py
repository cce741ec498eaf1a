"""Numbers of the field with p^2 elements, p = 2^31 - 1: exact, with a conjugation and with roots of unity.

p is 3 modulo 4, so that i * i = -1 makes complex numbers of pairs; and 2^31 divides p + 1, so that there are roots of
unity of order 2, 4, 8, ..., each the conjugate of its inverse, as of complex numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

P = 2**31 - 1


@dataclass(frozen=True)
class Number:
    re: int
    im: int = 0

    def __add__(self, other: Number | int) -> Number:
        right = _number(other)
        return Number((self.re + right.re) % P, (self.im + right.im) % P)

    def __neg__(self) -> Number:
        return Number(-self.re % P, -self.im % P)

    def __sub__(self, other: Number | int) -> Number:
        return self + -_number(other)

    def __mul__(self, other: Number | int) -> Number:
        right = _number(other)
        re, im = self.re * right.re - self.im * right.im, self.re * right.im + self.im * right.re
        return Number(re % P, im % P)

    __radd__ = __add__
    __rmul__ = __mul__

    def conjugate(self) -> Number:
        return Number(self.re, -self.im % P)

    def power(self, exponent: int) -> Number:
        result, base = Number(1), self
        while exponent:
            result = result * base if exponent % 2 else result
            base, exponent = base * base, exponent // 2
        return result


def _number(value: Number | int) -> Number:
    return value if isinstance(value, Number) else Number(value % P)


def root_of_unity(order: int) -> Number:
    """A number whose powers are 1 at multiples of the order alone; the order is a power of two."""
    for start in range(2, 50):
        found = Number(start, 1).power((P * P - 1) // order)
        if order == 1 or found.power(order // 2) == Number(P - 1):
            return found
    raise ValueError(f"no root of order {order}")


def random_numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    pairs = rng.integers(0, P, size=(*shape, 2))
    flat = [Number(int(a), int(b)) for a, b in pairs.reshape(-1, 2)]
    found = np.empty(len(flat), object)
    found[:] = flat
    return found.reshape(shape) if shape else flat[0]
