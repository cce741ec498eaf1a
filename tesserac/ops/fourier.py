"""The forms of a Fourier transform over one dim, whose length is a number.

Enters: complex points. Leaves: their spectrum, in steps of short transforms (`butterflies.py`), or as a convolution.
See Note [The plan of a transform].
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate, combinations, pairwise
from math import prod

from tesserac.base.dataclass import dataclass
from tesserac.ir import forms
from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Value
from tesserac.ir.forms import Slice, tensor_type
from tesserac.ir.lines import CODELET, LINES
from tesserac.ir.table import Number, Roots
from tesserac.ops.butterflies import FACTOR, PRIMES, RADICES, ROOTS, WORK, Step
from tesserac.ops.lowering import (
    DimMap,
    Scalars,
    assemble_form,
    contract_form,
    fill,
    map_form,
    pointwise,
    scalar_dtype,
    view_form,
)
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.dtype import DType, component
from tesserac.types.ty import TensorType

LARGEST_PRIME = 61
"""A length with a larger prime factor is transformed as a convolution."""
PASS = 2.0
"""What it costs a point to be read and written once more, in the units of `WORK`."""
TOGETHER = 4096
"""Points that go through several steps together in a long transform."""
_ODD_PARTS = (1, 3, 5, 9, 15)
"""Of the lengths of convolutions."""


def plan(length: int) -> tuple[int, ...] | None:
    """The radices of a transform, first step first; None where it is a convolution."""
    primes = prime_factors(length)
    if primes and primes[0] > LARGEST_PRIME:
        return None
    long = [p for p in primes if p not in PRIMES]
    return tuple(sorted((*long, *_cheapest(length // prod(long))[1]), reverse=True))


@cache
def _cheapest(length: int) -> tuple[float, tuple[int, ...]]:
    """The radices whose product is a length, and what they cost a point."""
    if length == 1:
        return 0.0, ()
    ways = ((_cheapest(length // radix), radix) for radix in RADICES if length % radix == 0)
    return min((cost + PASS + WORK[radix], tuple(sorted((*rest, radix)))) for (cost, rest), radix in ways)


def is_in_steps(length: int) -> bool:
    """Whether butterflies alone transform so many points, at least two."""
    radices = plan(length)
    return bool(radices) and all(radix in RADICES for radix in radices or ())


def prime_factors(number: int) -> list[int]:
    """In descending order."""
    factors: list[int] = []
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return sorted([*factors, number] if number > 1 else factors, reverse=True)


def convolution_length(length: int) -> int:
    """The least length with small factors in which a chirp of so many points does not meet itself."""
    least = 2 * length - 1
    return min(odd << max(0, -(-least // odd) - 1).bit_length() for odd in _ODD_PARTS)


@dataclass(frozen=True)
class Steps:
    """Writes the forms of transforms with one sign; each frequency is multiplied by `factor` in the end. Behind the dim
    that is transformed, those `beside` it go through all steps. See Note [Transforms side by side]."""

    builder: Builder
    sign: int
    factor: float = 1.0
    beside: tuple[Dim, ...] = ()

    @property
    def axis(self) -> int:
        """The dim that is transformed, from the right."""
        return -1 - len(self.beside)

    def transform(self, x: Value) -> Value:
        length = self.length(x)
        radices = plan(length)
        if radices is None:
            assert not self.beside, "a convolution goes over the last dim"
            return self._convolved(x, length)
        return self._in_turn(x, tensor_type(x).dims, _passes(radices)) if radices else self._scaled(x)

    def length(self, x: Value) -> int:
        length = tensor_type(x).dims[self.axis].constant
        assert length is not None, "a demanded size is a number before operators are lowered"
        return length

    def of_pairs(self, x: Value, dtype: DType) -> Value:
        """The transform of numbers whose parts are neighbours among real points, in steps all of them."""
        batch, half = tensor_type(x).dims[: self.axis], self.length(x) // 2
        first, *later = _passes(plan(half) or ())
        sizes = map(_dim, (first.radix, *first.left, *first.done, 2))
        pairs = self._reshaped(x, (*batch, *sizes, *self.beside))
        return self._in_turn(self._step(pairs, first, dtype), (*batch, _dim(half), *self.beside), later)

    def to_pairs(self, x: Value, result: TensorType) -> Value:
        """The inverse of `of_pairs`: the parts of each number found are neighbours among real points."""
        batch = tensor_type(x).dims[: self.axis]
        *before, last = _passes(plan(self.length(x)) or ())
        sizes = map(_dim, (last.radix, *last.left, *last.done))
        turned = self._reshaped(self._in_turn(x, tensor_type(x).dims, before), (*batch, *sizes, *self.beside))
        return self._reshaped(self._step(turned, last, result.dtype), result.dims)

    def _in_turn(self, x: Value, dims: tuple[Dim, ...], passes: Sequence[_Pass]) -> Value:
        """Between the steps a tensor is [..., points still to be transformed, frequencies done, ...]."""
        batch = dims[: self.axis]
        for one in passes:
            if one.radix in RADICES:
                sizes = map(_dim, (one.radix, *one.left, *one.done))
                x = self._step(self._reshaped(x, (*batch, *sizes, *self.beside)), one, tensor_type(x).dtype)
            else:
                assert not self.beside, "a product goes over the last dim"
                sizes = map(_dim, (one.radix, prod(one.left), prod(one.done)))
                x = self._long_step(self._reshaped(x, (*batch, *sizes)))
        return self._reshaped(x, dims)

    # ------------------------------------------------------------------------------------------------- one step

    def _step(self, x: Value, one: _Pass, dtype: DType) -> Value:
        """[..., points, left, done] to [..., left, frequency, done], turned for the next step. The numbers read may be
        real ones of which two in a dim behind are one, and so may those written."""
        given = tensor_type(x)
        reads_pairs, writes_pairs = not given.dtype.is_complex, not dtype.is_complex
        ty = TensorType(given.dims, dtype if reads_pairs else given.dtype)
        batch = ty.dims[: self.axis - len(one.left) - len(one.done) - reads_pairs]
        here, left, done, beside = _places(batch, one, self.beside)
        reads: DimMap = (*here, None, *left, *done, *([None] * reads_pairs), *beside)
        writes: DimMap = (*here, *left, None, *done, *([None] * writes_pairs), *beside)
        sizes = map(_dim, (*one.left, one.radix, *one.done, *([2] * writes_pairs)))
        result = TensorType((*batch, *sizes, *self.beside), dtype)
        last, part = prod(one.left) == 1, component(ty.dtype)
        second = ROOTS if not last else FACTOR if self.factor != 1.0 else ""
        step = Step(one.radix, self.sign, part, second, reads_pairs, writes_pairs)
        operands, maps = [x], [reads]
        if second == ROOTS:
            order = one.radix * prod(one.left)
            table = self.roots(order, "product", (_dim(one.radix), _dim(prod(one.left))), ty)
            operands.append(self._reshaped(table, tuple(map(_dim, (one.radix, *one.left)))))
            maps.append((None, *left))
        elif second == FACTOR:
            number: dict[str, Attr] = {"table": Number(self.factor)}
            operands.append(self.builder.value("form.table", (), TensorType((ONE,), part), number))
            maps.append((None,))
        attrs: dict[str, Attr] = {"maps": tuple(maps), "out": writes, CODELET: step}
        return self.builder.value(LINES, operands, result, attrs)

    def _long_step(self, x: Value) -> Value:
        """A step by a product with the roots of 1: of a prime that has no butterfly."""
        ty = tensor_type(x)
        *batch, points, left, done = ty.dims
        axis, rank = len(batch), ty.rank
        order = (*range(axis), axis + 1, axis + 2, axis)
        rows = view_form(
            self.builder, x, TensorType((*batch, left, done, points), ty.dtype), forms.Permute(order)
        )
        result = TensorType((*batch, left, points, done), ty.dtype)
        roots = self.roots(points.evaluate({}), "product", (points, points), ty)
        lhs = (*range(axis), axis, axis + 2, rank)
        found = contract_form(self.builder, rows, roots, result, lhs, (rank, axis + 1))
        if left == ONE:
            return self._scaled(found)
        turns = self.roots(points.evaluate({}) * left.evaluate({}), "product", (left, points), ty)
        maps = (tuple(range(rank)), (axis, axis + 1))
        return map_form(self.builder, (found, turns), result, lambda s, args: s.primitive("mul", *args), maps)

    # ---------------------------------------------------------------------------------------------- convolution

    def _convolved(self, x: Value, length: int) -> Value:
        """Bluestein: k n = (k^2 + n^2 - (k - n)^2) / 2 makes the transform a convolution with a chirp, which has a
        length that steps can transform."""
        ty = tensor_type(x)
        padded = convolution_length(length)
        chirp = self.roots(2 * length, "square", (_dim(length),), ty)
        turned = Steps(self.builder, -self.sign).roots(2 * length, "square", (_dim(length),), ty)
        response = self._spread(turned, length, padded)
        signal = self._padded(self._times(x, chirp), padded)
        spectrum = self._times(Steps(self.builder, -1).transform(signal), Steps(self.builder, -1).transform(response))
        back = Steps(self.builder, 1, 1 / padded).transform(spectrum)
        taken = self.cut(back, length, 0, 1)
        return self._scaled(self._times(taken, chirp))

    def _spread(self, chirp: Value, length: int, padded: int) -> Value:
        """The chirp forwards from the start and backwards from the end, zeros between."""
        ty = tensor_type(chirp)
        whole = TensorType((_dim(padded),), ty.dtype)
        tail = self.cut(chirp, length - 1, length - 1, -1)
        boxes = [Slice((_dim(start),), (1,)) for start in (0, 0, padded - length + 1)]
        return assemble_form(self.builder, (fill(self.builder, whole, 0), chirp, tail), whole, boxes)

    def _padded(self, x: Value, padded: int) -> Value:
        ty = tensor_type(x)
        whole = TensorType((*ty.dims[:-1], _dim(padded)), ty.dtype)
        corner = Slice((ZERO,) * ty.rank, (1,) * ty.rank)
        return assemble_form(self.builder, (fill(self.builder, whole, 0), x), whole, [corner, corner])

    # ------------------------------------------------------------------------------------------------ small forms

    def cut(self, x: Value, size: int, start: int, step: int) -> Value:
        """Some of the dim that is transformed."""
        ty = tensor_type(x)
        dims, starts, steps = list(ty.dims), [ZERO] * ty.rank, [1] * ty.rank
        dims[self.axis], starts[self.axis], steps[self.axis] = _dim(size), _dim(start), step
        return view_form(self.builder, x, TensorType(tuple(dims), ty.dtype), Slice(tuple(starts), tuple(steps)))

    def _times(self, x: Value, y: Value) -> Value:
        return pointwise(self.builder, (x, y), tensor_type(x), lambda s, args: s.primitive("mul", *args))

    def _scaled(self, x: Value) -> Value:
        if self.factor == 1.0:
            return x

        def body(s: Scalars, args: list[Value]) -> Value:
            return s.primitive("mul", args[0], s.constant(self.factor, scalar_dtype(args[0])))

        return pointwise(self.builder, (x,), tensor_type(x), body)

    def roots(self, order: int, exponents: str, dims: Sequence[Dim], like: TensorType) -> Value:
        table = Roots(order, exponents, ("cos", "sin" if self.sign > 0 else "-sin"))
        return self.builder.value("form.table", (), TensorType(tuple(dims), like.dtype), {"table": table})

    def _reshaped(self, x: Value, dims: tuple[Dim, ...]) -> Value:
        ty = tensor_type(x)
        if ty.dims == dims:
            return x
        return view_form(self.builder, x, TensorType(dims, ty.dtype, ty.policy), forms.Reshape())


def _dim(size: int) -> Dim:
    return Dim.const(size)


@dataclass(frozen=True)
class _Pass:
    """A step: how many points of what is `left` it transforms beside those that are `done`, in dims that go through
    several steps. See Note [Steps that go together]."""

    radix: int
    left: tuple[int, ...]
    done: tuple[int, ...]


def _places(batch: Sequence[Dim], one: _Pass, beside: Sequence[Dim]) -> tuple[DimMap, DimMap, DimMap, DimMap]:
    """The dims of the space of a step: before what is transformed, left, done, and beside it."""
    places: list[int | None] = [*range(len(batch))]
    for size in (*map(_dim, (*one.left, *one.done)), *beside):
        places.append(None if size == ONE else sum(place is not None for place in places))
    ends = [0, *accumulate(map(len, (batch, one.left, one.done, beside)))]
    here, left, done, rest = (tuple(places[start:end]) for start, end in pairwise(ends))
    return here, left, done, rest


def _passes(radices: Sequence[int]) -> list[_Pass]:
    passes: list[_Pass] = []
    groups = _together(radices)
    for number, group in enumerate(groups):
        before, after = (prod(map(prod, part)) for part in (groups[:number], groups[number + 1 :]))
        for place, radix in enumerate(group):
            rest, found = prod(group[place + 1 :]), prod(group[:place])
            left, done = (tuple(n for n in pair if n > 1) or (1,) for pair in ((rest, after), (found, before)))
            passes.append(_Pass(radix, left, done))
    return passes


def _together(radices: Sequence[int]) -> list[Sequence[int]]:
    """Steps that follow each other, in as few groups of at most `TOGETHER` points as there can be, and as even ones."""
    for cuts in range(len(radices)):
        ways = [
            [radices[i:j] for i, j in pairwise((0, *places, len(radices)))]
            for places in combinations(range(1, len(radices)), cuts)
        ]
        best = min(ways, key=lambda groups: max(map(prod, groups)))
        if max(map(prod, best)) <= TOGETHER or cuts + 1 == len(radices):
            return best
    return []


# Note [The plan of a transform]
# The plan is a function of N alone, so the bits are too. With N = r m, n = m n1 + n2 and k = k1 + r k2,
#     X[k1 + r k2] = sum over n2 of w(n2 k2 / m) * w(n2 k1 / N) * (sum over n1 of x[n1, n2] * w(n1 k1 / r))
# where w(t) = exp(-2 pi i t),
# that is: m transforms of r points, a turn of each result by a root of a table, and r transforms of m points, the next
# step. Frequencies found first vary fastest in the end, so each step leaves its new index before those: the result
# comes out in order, without a shuffle at the end (Stockham). The largest radix comes first, because from then on a
# step walks at least so many neighbours in memory.
#
# Note [Steps that go together]
# Of a long transform the first steps only mix points whose numbers agree in their last digits, and the last steps only
# frequencies that agree in their first ones. So a group of steps has a dim that goes through all of them: what comes
# after the group in what is left, and what came before it in what is done. A program that has a part of it takes its
# numbers through all steps of the group without going back to memory (`schedule/chains/line_chains.py`). Memory and
# bits are those of steps with one dim each, which is how schedules walk them that gain nothing from it.
#
# Note [Transforms side by side]
# A transform over another dim than the last goes over the memory as it lies: what comes behind the dim is behind what
# is done, in every step. Neighbours in memory are then points of different transforms, which a vector takes through a
# step without a shuffle, and nothing is transposed. `lying.py` finds where an operand is a view of such memory.
#
# Note [Few radices, many lengths]
# A step is one launch: a point of its space reads r numbers, transforms them in registers, turns them and writes r
# numbers (`ir/lines.py`). Radices up to 16 hold in the registers there are; more of them in one step would save passes
# over memory, but spill. What a step computes is a codelet (`butterflies.py`): its code knows no length, is made once
# for a machine, and is given sizes, strides and roots by each transform (`tile/launches/sized_lines.py`). A prime
# above 13 has too many products for a butterfly, and is a matrix product with the roots of 1. Above 61 a convolution
# is cheaper (Bluestein).
# Errors stay below those of a sum in any order: see docs/language.md for the bound.
