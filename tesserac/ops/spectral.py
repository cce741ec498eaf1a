"""Discrete Fourier transforms over the last dim.

Enters: a tensor whose last dim, the length N, is a number by the time code is made (see `Operator.demands`). Leaves:
its spectrum. Everything that depends on N alone (the plan, the roots of unity) is decided or computed while compiling.
See Note [The plan of a transform].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir import forms
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import Slice, tensor_type
from tesserac.ir.table import Roots
from tesserac.ops.calculus import Writer
from tesserac.ops.lowering import (
    Scalars,
    assemble_form,
    contract_form,
    convert_form,
    fill,
    map_form,
    pointwise,
    scalar_dtype,
    view_form,
)
from tesserac.ops.registry import Array, Need, Operator, register
from tesserac.ops.unify import KindMismatch, Mismatch, SameSize
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.dtype import complex_of
from tesserac.types.ty import TensorType

LARGEST_RADIX = 16
"""Prime factors are gathered up to this; a larger prime is a radix of its own."""
LARGEST_PRIME = 61
"""A length with a larger prime factor is transformed as a convolution."""


def plan(length: int) -> tuple[int, ...] | None:
    """The radices of a transform, first step first; None where it is a convolution."""
    radices: list[int] = []
    for prime in prime_factors(length):
        if prime > LARGEST_PRIME:
            return None
        if radices and radices[-1] * prime <= LARGEST_RADIX:
            radices[-1] *= prime
        else:
            radices.append(prime)
    return tuple(sorted(radices, reverse=True))


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


@dataclass(frozen=True)
class Transform(Operator):
    """`sign` is that of the exponent."""

    sign: ClassVar[int]
    batching = "leading"

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        types = ("c64[3, 8]", "c128[60]", "f32[2, 32]", "c64[2, 1]", "c64[0, 6]", "c128[67]", "f64[2, 3, 5]")
        return [(cls(), (text,)) for text in types]

    def mismatch(self, operands: Sequence[TensorType], same: SameSize) -> Mismatch | None:
        dtype = operands[0].dtype
        return KindMismatch(0, "wc") if complex_of(dtype) is None and not dtype.is_complex else None

    def needs(self, operands: tuple[TensorType, ...]) -> tuple[Need, ...]:
        length = operands[0].dims[-1]
        return (Need("at_least", length, ONE, f"`{self.name}` of {length} points"),)

    def demands(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return (operands[0].dims[-1],)

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        """The matrix of a transform is symmetric."""
        return write.stored(write.apply(self, (cotangent,)), tensor_type(operands[0]))

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return _Steps(builder, self.sign).transform(convert_form(builder, operands[0], result))


@register
class Fft(Transform):
    """The discrete Fourier transform over the last dim: X[k] = sum of x[n] exp(-2 pi i k n / N).

    def f(x: Tensor[B, 256, c64]) -> Tensor[B, 256, c64]:
        return fft(x)
    """

    name, sign = "fft", -1
    signatures = ("(x: A[*s, n]) -> complex(A)[*s, n]",)
    linear = "jointly"

    def reference(self, *operands: Array) -> Array:
        return _like(operands[0], np.fft.fft(operands[0]))


@register
class Ifft(Transform):
    """The inverse of `fft`: x[n] = 1/N sum of X[k] exp(2 pi i k n / N).

    def f(x: Tensor[B, 256, c64]) -> Tensor[B, 256, c64]:
        return ifft(fft(x))
    """

    name, sign = "ifft", 1
    signatures = ("(x: A[*s, n]) -> complex(A)[*s, n]",)
    linear = "jointly"

    def reference(self, *operands: Array) -> Array:
        return _like(operands[0], np.fft.ifft(operands[0]))

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        total = super().lower(builder, operands, result)
        return pointwise(
            builder,
            (total,),
            result,
            lambda s, args: s.primitive("div", args[0], s.dim(result.dims[-1], scalar_dtype(args[0]))),
        )


@register
class Rfft(Transform):
    """`fft` of real points: the frequencies 0 to N // 2; the others are their conjugates.

    def f(x: Tensor[B, 256, f32]) -> Tensor[B, 129, c64]:
        return rfft(x)
    """

    name, sign = "rfft", -1
    signatures = ("(x: F[*s, n]) -> complex(F)[{dims}]",)
    linear = "jointly"

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        types = ("f32[3, 8]", "f64[60]", "f32[2, 1]", "f32[0, 6]", "f64[67]", "f32[2, 15]")
        return [(cls(), (text,)) for text in types]

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        *batch, length = operands[0].dims
        return (*batch, length.floor_div(2) + 1)

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        """The frequencies that are left out have no cotangent."""
        own, ty = tensor_type(operands[0]), tensor_type(cotangent)
        zeros = write.zeros(TensorType(own.dims, ty.dtype, ty.policy))
        whole = write("insert", zeros, cotangent, starts=(ZERO,) * own.rank, steps=(1,) * own.rank)
        return write.stored(write("fft", whole), own)

    def reference(self, *operands: Array) -> Array:
        return _like(operands[0], np.fft.rfft(operands[0]))

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        whole = TensorType(tensor_type(operands[0]).dims, result.dtype)
        spectrum = super().lower(builder, operands, whole)
        cut = Slice((ZERO,) * result.rank, (1,) * result.rank)
        return view_form(builder, spectrum, result, cut)


def _like(x: Array, spectrum: Array) -> Array:
    return spectrum.astype(np.complex64 if x.dtype.itemsize == 4 * (1 + (x.dtype.kind == "c")) else np.complex128)


@dataclass(frozen=True)
class _Steps:
    """Writes the forms of transforms with one sign."""

    builder: Builder
    sign: int

    def transform(self, x: Value) -> Value:
        length = tensor_type(x).dims[-1].constant
        assert length is not None, "a demanded size is a number before operators are lowered"
        radices = plan(length)
        return self._convolved(x, length) if radices is None else self._in_steps(x, length, radices)

    def _in_steps(self, x: Value, length: int, radices: Sequence[int]) -> Value:
        """Between the steps a tensor is [..., points still to be transformed, *frequencies done, the last first]."""
        ty = tensor_type(x)
        first, left = ty.rank - 1, length
        for radix in radices:
            left //= radix
            dims = tensor_type(x).dims
            x = self._reshaped(x, (*dims[:first], _dim(radix), _dim(left), *dims[first + 1 :]))
            x = self._short_transforms(x, first)
            if left > 1:
                x = self._turned(x, first, left * radix)
        return self._reshaped(x, ty.dims)

    def _short_transforms(self, x: Value, axis: int) -> Value:
        """[..., points, left, *done] to [..., left, frequency, *done], by a product with the roots of 1."""
        rank = tensor_type(x).rank
        order = (*range(axis), *range(axis + 1, rank), axis)
        ty = tensor_type(x)
        rows = TensorType(tuple(ty.dims[i] for i in order), ty.dtype)
        points = ty.dims[axis]
        radix = points.evaluate({})
        x = view_form(self.builder, x, rows, forms.Permute(order))
        done = tuple(range(axis + 2, rank))
        result = TensorType((*ty.dims[:axis], ty.dims[axis + 1], points, *ty.dims[axis + 2 :]), ty.dtype)
        roots = self._roots(radix, "product", (points, points), ty)
        return contract_form(self.builder, x, roots, result, (*range(axis), axis, *done, rank), (rank, axis + 1))

    def _turned(self, x: Value, axis: int, order: int) -> Value:
        """Each frequency of the short transforms turned by where its points stand."""
        ty = tensor_type(x)
        roots = self._roots(order, "product", ty.dims[axis : axis + 2], ty)
        maps = (tuple(range(ty.rank)), (axis, axis + 1))
        return map_form(self.builder, (x, roots), ty, lambda s, args: s.primitive("mul", *args), maps)

    def _convolved(self, x: Value, length: int) -> Value:
        """Bluestein: k n = (k^2 + n^2 - (k - n)^2) / 2 makes the transform a convolution with a chirp, which has a
        length that steps can transform."""
        ty = tensor_type(x)
        padded = 1 << (2 * length - 2).bit_length()
        chirp = self._roots(2 * length, "square", (_dim(length),), ty)
        turned = _Steps(self.builder, -self.sign)._roots(2 * length, "square", (_dim(length),), ty)
        response = self._spread(turned, length, padded)
        signal = self._padded(self._times(x, chirp), padded)
        spectrum = self._times(_Steps(self.builder, -1).transform(signal), _Steps(self.builder, -1).transform(response))
        back = _Steps(self.builder, 1).transform(spectrum)
        taken = self._cut(back, ty.dims, 0, 1)
        return self._times(self._scaled(taken, padded), chirp)

    def _spread(self, chirp: Value, length: int, padded: int) -> Value:
        """The chirp forwards from the start and backwards from the end, zeros between."""
        ty = tensor_type(chirp)
        whole = TensorType((_dim(padded),), ty.dtype)
        tail = self._cut(chirp, (_dim(length - 1),), length - 1, -1)
        boxes = [Slice((_dim(start),), (1,)) for start in (0, 0, padded - length + 1)]
        return assemble_form(self.builder, (fill(self.builder, whole, 0), chirp, tail), whole, boxes)

    def _padded(self, x: Value, padded: int) -> Value:
        ty = tensor_type(x)
        whole = TensorType((*ty.dims[:-1], _dim(padded)), ty.dtype)
        corner = Slice((ZERO,) * ty.rank, (1,) * ty.rank)
        return assemble_form(self.builder, (fill(self.builder, whole, 0), x), whole, [corner, corner])

    def _cut(self, x: Value, dims: Sequence[Dim], start: int, step: int) -> Value:
        ty = tensor_type(x)
        others = ty.rank - 1
        cut = Slice((*[ZERO] * others, _dim(start)), (*[1] * others, step))
        return view_form(self.builder, x, TensorType(tuple(dims), ty.dtype), cut)

    def _times(self, x: Value, y: Value) -> Value:
        return pointwise(self.builder, (x, y), tensor_type(x), lambda s, args: s.primitive("mul", *args))

    def _scaled(self, x: Value, padded: int) -> Value:
        def body(s: Scalars, args: list[Value]) -> Value:
            return s.primitive("mul", args[0], s.constant(1 / padded, scalar_dtype(args[0])))

        return pointwise(self.builder, (x,), tensor_type(x), body)

    def _roots(self, order: int, exponents: str, dims: Sequence[Dim], like: TensorType) -> Value:
        table = Roots(order, exponents, ("cos", "sin" if self.sign > 0 else "-sin"))
        return self.builder.value("form.table", (), TensorType(tuple(dims), like.dtype), {"table": table})

    def _reshaped(self, x: Value, dims: tuple[Dim, ...]) -> Value:
        ty = tensor_type(x)
        return view_form(self.builder, x, TensorType(dims, ty.dtype, ty.policy), forms.Reshape())


def _dim(size: int) -> Dim:
    return Dim.const(size)


# Note [The plan of a transform]
# The plan is a function of N alone, so the bits are too. N is cut into radices of at most 16 (a prime up to 61 may be
# one by itself), largest first. With N = r m, n = m n1 + n2 and k = k1 + r k2,
#     X[k1 + r k2] = sum over n2 of w(n2 k2 / m) * w(n2 k1 / N) * (sum over n1 of x[n1, n2] * w(n1 k1 / r))
# where w(t) = exp(-2 pi i t),
# that is: m transforms of r points, which are a contraction with a table of roots; a turn of each result, by another
# table; and r transforms of m points, the next step. Frequencies found first vary fastest in the end, so each step
# leaves its new index before those: the result comes out in order, without a shuffle at the end.
# Short transforms as contractions are the products that the CPU is good at, and they fuse with nothing: a step is one
# product and one map, whatever its radix, hence compiling takes the same time for any N. Their chains of 2 r terms keep
# the error within a few units of the largest |X|: see docs/language.md for the bound.
