"""Discrete Fourier transforms over the last dim.

Enters: a tensor whose last dim, the length N, is a number by the time code is made (see `Operator.demands`). Leaves:
its spectrum. Everything that depends on N alone (the plan, the roots of unity) is decided or computed while compiling.
See Note [The plan of a transform] in `fourier.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import Slice, tensor_type
from tesserac.ops.calculus import Writer
from tesserac.ops.fourier import Steps
from tesserac.ops.lowering import convert_form, view_form
from tesserac.ops.real_fourier import half_spectrum
from tesserac.ops.registry import Array, Need, Operator, register
from tesserac.ops.unify import KindMismatch, Mismatch, SameSize
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.dtype import complex_of
from tesserac.types.ty import TensorType


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
        return Steps(builder, self.sign, self._factor(result)).transform(convert_form(builder, operands[0], result))

    def _factor(self, result: TensorType) -> float:
        """Of every frequency."""
        return 1.0


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

    def _factor(self, result: TensorType) -> float:
        return 1 / result.dims[-1].evaluate({})


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
        if (half := half_spectrum(builder, operands[0], result)) is not None:
            return half
        whole = TensorType(tensor_type(operands[0]).dims, result.dtype)
        spectrum = super().lower(builder, operands, whole)
        cut = Slice((ZERO,) * result.rank, (1,) * result.rank)
        return view_form(builder, spectrum, result, cut)


def _like(x: Array, spectrum: Array) -> Array:
    return spectrum.astype(np.complex64 if x.dtype.itemsize == 4 * (1 + (x.dtype.kind == "c")) else np.complex128)
