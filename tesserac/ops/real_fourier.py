"""The forms of a Fourier transform of real points, by half the work.

Enters: N real points, N a number. Leaves: the frequencies 0 to N / 2. Points in pairs are M = N / 2 complex ones, whose
spectrum Z holds that of the even points, E, and that of the odd ones, O: with w = exp(-2 pi i / N)
    E[k] = (Z[k] + conj(Z[M - k])) / 2,   i O[k] = (Z[k] - conj(Z[M - k])) / 2,   X[k] = E[k] + w^k O[k]
and X[0], X[M] are the sum and the difference of the parts of Z[0].
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import Slice, tensor_type
from tesserac.ops.butterflies import Butterfly
from tesserac.ops.fourier import Steps
from tesserac.ops.lowering import Scalars, assemble_form, map_form, pointwise, scalar_dtype, view_form
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.ty import TensorType


def half_spectrum(builder: Builder, x: Value, result: TensorType) -> Value | None:
    """None where N is odd, or N / 2 points are a convolution."""
    length = tensor_type(x).dims[-1].evaluate({})
    steps = Steps(builder, -1)
    found = steps.of_pairs(x, result.dtype) if length % 2 == 0 else None
    return None if found is None else _Halves(steps, found, length).spectrum(result)


@dataclass(frozen=True)
class _Halves:
    """`found` is the spectrum of the pairs."""

    steps: Steps
    found: Value
    length: int

    def spectrum(self, result: TensorType) -> Value:
        half, rank = self.length // 2, result.rank
        parts = [self._end("add"), self._end("sub"), self._between()]
        boxes = [Slice((*[ZERO] * (rank - 1), Dim.const(start)), (1,) * rank) for start in (0, half, 1)]
        return assemble_form(self.steps.builder, parts, result, boxes)

    def _end(self, name: str) -> Value:
        first = self._cut(0, 1, 1)

        def body(s: Scalars, args: list[Value]) -> Value:
            even, odd = s.parts(args[0])
            return s.complex(s.primitive(name, even, odd), s.constant(0, scalar_dtype(even)))

        return pointwise(self.steps.builder, (first,), tensor_type(first), body)

    def _between(self) -> Value:
        half = self.length // 2
        up, down = self._cut(1, half - 1, 1), self._cut(half - 1, half - 1, -1)
        ty = tensor_type(up)
        rank, count = ty.rank, ty.dims[-1]
        table = self.steps.roots(self.length, "product", (Dim.const(2), Dim.const(half)), ty)
        turns = view_form(self.steps.builder, table, TensorType((ONE, count), ty.dtype), Slice((ONE, ONE), (1, 1)))
        maps = [tuple(range(rank)), tuple(range(rank)), (None, rank - 1)]
        return map_form(self.steps.builder, (up, down, turns), ty, _joined, maps)

    def _cut(self, start: int, size: int, step: int) -> Value:
        batch = tensor_type(self.found).dims[:-1]
        return self.steps.cut(self.found, (*batch, Dim.const(size)), start, step)


def _joined(s: Scalars, args: list[Value]) -> Value:
    """A frequency of Z[k], Z[M - k] and w^k."""
    (a, b), (c, d), turn = map(s.parts, args)
    halved = s.constant(0.5, scalar_dtype(a))

    def half(name: str, x: Value, y: Value) -> Value:
        return s.primitive("mul", s.primitive(name, x, y), halved)

    butterfly = Butterfly(s, -1, scalar_dtype(a))
    odd = butterfly.quarter((half("sub", a, c), half("add", b, d)))
    return s.complex(*butterfly.add((half("add", a, c), half("sub", b, d)), butterfly.times(odd, turn)))
