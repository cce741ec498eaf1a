"""The forms of a Fourier transform of real points, and of its inverse, by half the work.

Enters: N real points, N a number, or the frequencies 0 to N / 2. Leaves: the other. Points in pairs are M = N / 2
complex ones, whose spectrum Z holds that of the even points, E, and that of the odd ones, O: with w = exp(-2 pi i / N)
    E[k] = (Z[k] + conj(Z[M - k])) / 2,   i O[k] = (Z[k] - conj(Z[M - k])) / 2,   X[k] = E[k] + w^k O[k]
and X[0], X[M] are the sum and the difference of the parts of Z[0]. Backwards,
    E[k] = (X[k] + conj(X[M - k])) / 2,   O[k] = (X[k] - conj(X[M - k])) / 2 w^-k,   Z[k] = E[k] + i O[k]
and the parts of Z[0] are half the sum and half the difference of the real parts of X[0] and X[M].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Value
from tesserac.ir.forms import Slice, tensor_type
from tesserac.ops.butterflies import Butterfly, Parts
from tesserac.ops.fourier import Steps
from tesserac.ops.lowering import LineBody, Scalars, assemble_form, lines_form, pointwise, scalar_dtype, view_form
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.ty import TensorType

Numbers: TypeAlias = list[list[Value]]
"""Of each operand the one that a point reads."""


def half_spectrum(steps: Steps, x: Value, result: TensorType) -> Value:
    """Of N points, of which N / 2 are transformed in steps."""
    half = steps.length(x) // 2
    ends = _Ends(steps, steps.of_pairs(x, result.dtype), half)
    first, last = (ends.of((0,), _end(name)) for name in ("add", "sub"))
    return ends.assembled([(first, 0), (last, half), (ends.between(_apart), 1)], result)


def from_half_spectrum(steps: Steps, z: Value, result: TensorType) -> Value:
    """The points of a spectrum: the inverse of `half_spectrum`, whose factor is 1 / N: nothing is halved before."""
    half = steps.length(z) - 1
    ends = _Ends(steps, z, half)
    dims = list(tensor_type(z).dims)
    dims[steps.axis] = Dim.const(half)
    whole = TensorType(tuple(dims), tensor_type(z).dtype)
    together = ends.assembled([(ends.of((0, half), _both_ends), 0), (ends.between(_joined), 1)], whole)
    return steps.to_pairs(together, result)


def from_whole_spectrum(steps: Steps, z: Value, result: TensorType) -> Value:
    """The same with the other frequencies, which are conjugates, where they are not found by halves."""
    ty, size = tensor_type(z), result.dims[-1].evaluate({})
    count = size - ty.dims[-1].evaluate({})
    negative = steps.cut(z, count, count, -1)
    conjugates = pointwise(steps.builder, (negative,), tensor_type(negative), _conjugate)
    boxes = [Slice((*[ZERO] * (ty.rank - 1), place), (1,) * ty.rank) for place in (ZERO, ty.dims[-1])]
    whole = assemble_form(steps.builder, (z, conjugates), TensorType(result.dims, ty.dtype), boxes)
    return pointwise(steps.builder, (steps.transform(whole),), result, lambda s, args: s.parts(args[0])[0])


def _conjugate(s: Scalars, args: list[Value]) -> Value:
    real, imag = s.parts(args[0])
    return s.complex(real, s.primitive("neg", imag))


@dataclass(frozen=True)
class _Ends:
    """Takes frequencies k and M - k together; `found` is a spectrum, `half` is M."""

    steps: Steps
    found: Value
    half: int

    def of(self, places: Sequence[int], body: LineBody) -> Value:
        """One number of those at some places."""
        return self._lines([self.steps.cut(self.found, 1, place, 1) for place in places], body)

    def between(self, body: LineBody) -> Value:
        """Of k, M - k and the root of k, for all k between."""
        count = self.half - 1
        up, down = self.steps.cut(self.found, count, 1, 1), self.steps.cut(self.found, count, count, -1)
        ty = tensor_type(up)
        table = self.steps.roots(2 * self.half, "product", (Dim.const(2), Dim.const(self.half)), ty)
        turns = TensorType((ONE, Dim.const(count)), ty.dtype)
        return self._lines([up, down], body, view_form(self.steps.builder, table, turns, Slice((ONE, ONE), (1, 1))))

    def assembled(self, parts: Sequence[tuple[Value, int]], result: TensorType) -> Value:
        """Of numbers that begin at some places."""
        starts = [[ZERO] * result.rank for _ in parts]
        for each, (_, place) in zip(starts, parts, strict=True):
            each[self.steps.axis] = Dim.const(place)
        boxes = [Slice(tuple(each), (1,) * result.rank) for each in starts]
        return assemble_form(self.steps.builder, [part for part, _ in parts], result, boxes)

    def _lines(self, numbers: Sequence[Value], body: LineBody, *roots: Value) -> Value:
        """Both parts of a number are found at once."""
        ty = tensor_type(numbers[0])
        own = tuple(range(ty.rank))
        maps = [*[own] * len(numbers), *[(None, own[self.steps.axis])] * len(roots)]
        return lines_form(self.steps.builder, (*numbers, *roots), maps, ty, own, body)


def _end(name: str) -> LineBody:
    def body(s: Scalars, args: Numbers) -> list[Value]:
        ((only,),) = args
        even, odd = s.parts(only)
        return [s.complex(s.primitive(name, even, odd), s.constant(0, scalar_dtype(even)))]

    return body


def _both_ends(s: Scalars, args: Numbers) -> list[Value]:
    (first, _), (last, _) = (s.parts(number) for (number,) in args)
    return [s.complex(s.primitive("add", first, last), s.primitive("sub", first, last))]


def _apart(s: Scalars, args: Numbers) -> list[Value]:
    """A frequency of Z[k], Z[M - k] and w^k."""
    up, down, turn = (s.parts(number) for (number,) in args)
    halved = s.constant(0.5, scalar_dtype(up[0]))
    even, odd = ([s.primitive("mul", part, halved) for part in both] for both in _sum_and_difference(s, up, down))
    butterfly = Butterfly(s, -1, scalar_dtype(up[0]))
    turned = butterfly.times(butterfly.quarter((odd[0], odd[1])), turn)
    return [s.complex(*butterfly.add((even[0], even[1]), turned))]


def _joined(s: Scalars, args: Numbers) -> list[Value]:
    """2 Z[k] of X[k], X[M - k] and w^-k."""
    up, down, turn = (s.parts(number) for (number,) in args)
    even, odd = _sum_and_difference(s, up, down)
    butterfly = Butterfly(s, 1, scalar_dtype(up[0]))
    return [s.complex(*butterfly.add(even, butterfly.quarter(butterfly.times(odd, turn))))]


def _sum_and_difference(s: Scalars, up: Parts, down: Parts) -> tuple[Parts, Parts]:
    """Of a number and the conjugate of another."""
    (a, b), (c, d) = up, down
    added = s.primitive("add", a, c), s.primitive("sub", b, d)
    return added, (s.primitive("sub", a, c), s.primitive("add", b, d))
