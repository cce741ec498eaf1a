"""Short Fourier transforms of scalars, written out: what one step of a transform computes at a point.

Enters: r complex numbers as pairs of real scalars, and the sign of the exponent. Leaves: their r frequencies. A prime r
takes its points in pairs j and r - j, whose sum meets only cosines and whose difference only sines; a composite one is
short transforms of short transforms. The roots in between are constants; those that need no product have none.
See Note [Few radices, many lengths] in `fourier.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir.attributes import register_attribute
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Value
from tesserac.ir.types import ScalarType
from tesserac.numerics.narrow import convert
from tesserac.numerics.roots import roots
from tesserac.ops.lowering import Scalars
from tesserac.types.dtype import DType, complex_of

Parts: TypeAlias = tuple[Value, Value]
"""The real and the imaginary part of one number."""

INNER = {4: (2, 2), 6: (3, 2), 8: (4, 2), 9: (3, 3), 10: (5, 2), 12: (4, 3), 15: (5, 3), 16: (4, 4)}
"""How a composite radix is cut; 4 has no product inside either way."""
PRIMES = (2, 3, 5, 7, 11, 13)
RADICES = tuple(sorted((*PRIMES, *INNER)))


WORK = {2: 1, 3: 1.7, 4: 1.5, 5: 2.6, 6: 2.2, 7: 3.6, 8: 2.2, 9: 2.9, 10: 3.1, 11: 6, 12: 2.7, 13: 7, 15: 3.6, 16: 3}
"""What a step of each radix computes for a point, beside that of two."""
OPERATIONS = 5
"""About what that is, with a turn."""


@dataclass(frozen=True)
class Step:
    """What a step of a transform computes at a point: short lines of `radix` numbers, in the component `dtype`. All but
    the last step turn what they found by roots, which are their second operand; the last may multiply by a number,
    which is its second. Numbers may be read, and written, as pairs of real ones."""

    radix: int
    sign: int
    dtype: DType
    second: str = ""  # `roots` or `factor`
    reads_pairs: bool = False
    writes_pairs: bool = False

    @property
    def work(self) -> int:
        return int(OPERATIONS * self.radix * WORK[self.radix])

    def block(self) -> Block:
        return _block_of(self)

    def compute(self, s: Scalars, numbers: Sequence[Parts], second: Sequence[Value]) -> list[Parts]:
        butterfly = Butterfly(s, self.sign, self.dtype)
        found = butterfly.transform(numbers)
        if self.second == ROOTS:
            found[1:] = [butterfly.times(f, s.parts(turn)) for f, turn in zip(found[1:], second[1:], strict=True)]
        elif self.second == FACTOR:
            found = [butterfly.scaled(f, second[0]) for f in found]
        return found


ROOTS, FACTOR = "roots", "factor"


@lru_cache(64)
def _block_of(step: Step) -> Block:
    number, part = ScalarType(_complex(step.dtype)), ScalarType(step.dtype)
    block = Block([part] * (2 * step.radix) if step.reads_pairs else [number] * step.radix)
    given = list(block.args)
    behind = {ROOTS: [number] * step.radix, FACTOR: [part], "": []}[step.second]
    second = [block.add_arg(type_) for type_ in behind]
    builder = Builder(block)
    s = Scalars(builder)
    numbers = list(zip(given[::2], given[1::2], strict=True)) if step.reads_pairs else list(map(s.parts, given))
    found = step.compute(s, numbers, second)
    written = [part for f in found for part in f] if step.writes_pairs else [s.complex(*f) for f in found]
    builder.op("form.yield", written)
    return block


def _complex(dtype: DType) -> DType:
    found = complex_of(dtype)
    assert found is not None, "parts are floats"
    return found


register_attribute("step", Step)


@dataclass(frozen=True)
class Butterfly:
    """`sign` is that of the exponent, `dtype` that of the parts."""

    s: Scalars
    sign: int
    dtype: DType

    def transform(self, points: Sequence[Parts]) -> list[Parts]:
        radix = len(points)
        if radix == 1:
            return list(points)
        if radix == 2:
            return [self.add(points[0], points[1]), self.sub(points[0], points[1])]
        return self._prime(points) if radix in PRIMES else self._composite(points, *INNER[radix])

    def _prime(self, points: Sequence[Parts]) -> list[Parts]:
        radix, first = len(points), points[0]
        pairs = [(points[j], points[radix - j]) for j in range(1, radix // 2 + 1)]
        sums = [self.add(a, b) for a, b in pairs]
        differences = [self.sub(a, b) for a, b in pairs]
        zero = first
        for both in sums:
            zero = self.add(zero, both)
        found = {0: zero}
        for k in range(1, radix // 2 + 1):
            cos, sin = self._constants(radix, [j * k for j in range(1, radix // 2 + 1)])
            even = self._sum(first, sums, cos)
            odd = self.quarter(self._sum(None, differences, sin))
            found[k], found[radix - k] = self.add(even, odd), self.sub(even, odd)
        return [found[k] for k in range(radix)]

    def _sum(self, first: Parts | None, numbers: Sequence[Parts], factors: Sequence[float]) -> Parts:
        """`first` and the numbers times real factors, as one chain."""
        total = first
        for number, factor in zip(numbers, factors, strict=True):
            constant = self.s.constant(factor, self.dtype)
            if total is None:
                total = self._each("mul", number, (constant, constant))
            else:
                total = self._each("fma", number, (constant, constant), total)
        assert total is not None
        return total

    def _composite(self, points: Sequence[Parts], outer: int, inner: int) -> list[Parts]:
        """With n = inner n1 + n2 and k = k1 + outer k2, as in the steps of a long transform."""
        radix = outer * inner
        columns = [self.transform(points[n2::inner]) for n2 in range(inner)]
        found: dict[int, Parts] = {}
        for k1 in range(outer):
            turned = [self._turned(columns[n2][k1], n2 * k1, radix) for n2 in range(inner)]
            for k2, value in enumerate(self.transform(turned)):
                found[k1 + outer * k2] = value
        return [found[k] for k in range(radix)]

    def _turned(self, value: Parts, exponent: int, order: int) -> Parts:
        """Times the root exp(sign 2 pi i exponent / order)."""
        quarters, rest = divmod(4 * exponent, order)
        for _ in range(quarters):
            value = self.quarter(value)
        if rest == 0:
            return value
        (cos,), (sin,) = self._constants(4 * order, [rest])
        if 2 * rest == order:
            return self._eighth(value, cos)
        return self.times(value, (self.s.constant(cos, self.dtype), self.s.constant(self.sign * sin, self.dtype)))

    def _eighth(self, value: Parts, cos: float) -> Parts:
        """(x + i y) (1 + sign i) sqrt(1/2)."""
        x, y = value
        half = self.s.constant(cos, self.dtype)
        both, apart = self.s.primitive("add", x, y), self.s.primitive("sub", x, y)
        turned = (apart, both) if self.sign > 0 else (both, self.s.primitive("neg", apart))
        return self._each("mul", turned, (half, half))

    def quarter(self, value: Parts) -> Parts:
        """Times sign i, which moves no bit but signs."""
        x, y = value
        return (self.s.primitive("neg", y), x) if self.sign > 0 else (y, self.s.primitive("neg", x))

    def times(self, value: Parts, factor: Parts) -> Parts:
        (x, y), (c, d) = value, factor
        real = self.s.primitive("fma", self.s.primitive("neg", y), d, self.s.primitive("mul", x, c))
        imag = self.s.primitive("fma", y, c, self.s.primitive("mul", x, d))
        return real, imag

    def scaled(self, value: Parts, factor: Value) -> Parts:
        return self._each("mul", value, (factor, factor))

    def add(self, a: Parts, b: Parts) -> Parts:
        return self._each("add", a, b)

    def sub(self, a: Parts, b: Parts) -> Parts:
        return self._each("sub", a, b)

    def _each(self, name: str, *numbers: Parts) -> Parts:
        real, imag = (self.s.primitive(name, *(number[part] for number in numbers)) for part in (0, 1))
        return real, imag

    def _constants(self, order: int, exponents: Sequence[int]) -> tuple[list[float], list[float]]:
        """Cosines and sines of positive angles, as numbers of the dtype."""
        cos, sin = roots(order, np.array(exponents))
        return [self._rounded(c) for c in cos], [self._rounded(c) for c in sin]

    def _rounded(self, number: float) -> float:
        return float(convert(np.asarray(number, np.float64), self.dtype))
