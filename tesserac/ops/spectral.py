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
from tesserac.ops.fourier import Steps, is_in_steps
from tesserac.ops.lowering import convert_form, view_form
from tesserac.ops.lying import as_seen, lying
from tesserac.ops.real_fourier import from_half_spectrum, from_whole_spectrum, half_spectrum
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
        found = lying(operands[0]) if is_in_steps(result.dims[-1].evaluate({})) else as_seen(operands[0])
        points = convert_form(builder, found.value, found.type_of(result))
        steps = Steps(builder, self.sign, self._factor(result), found.beside)
        return found.seen(builder, steps.transform(points), result)

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
        length = tensor_type(operands[0]).dims[-1].evaluate({})
        if length % 2 == 0 and is_in_steps(length // 2):
            found = lying(operands[0])
            half = half_spectrum(Steps(builder, -1, beside=found.beside), found.value, found.type_of(result))
            return found.seen(builder, half, result)
        whole = TensorType(tensor_type(operands[0]).dims, result.dtype)
        spectrum = super().lower(builder, operands, whole)
        cut = Slice((ZERO,) * result.rank, (1,) * result.rank)
        return view_form(builder, spectrum, result, cut)


@register
@dataclass(frozen=True)
class Irfft(Transform):
    """The inverse of `rfft`: `size` real points from the frequencies 0 to size // 2. The imaginary parts of the first,
    and for an even size of the last, are not looked at.

    def f(z: Tensor[B, 129, c64]) -> Tensor[B, 256, f32]:
        return irfft(z, 256)
    """

    name, sign = "irfft", 1
    signatures = ("(z: C[*s, m], size: size) -> real(C)[{dims}]",)
    linear = "jointly"

    size: Dim

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        types = {"c64[3, 5]": 8, "c128[31]": 60, "c64[2, 1]": 1, "c64[0, 4]": 6, "c128[34]": 67, "c64[2, 8]": 15}
        return [(cls(Dim.const(size)), (text,)) for text, size in types.items()]

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return (*operands[0].dims[:-1], self.size)

    def needs(self, operands: tuple[TensorType, ...]) -> tuple[Need, ...]:
        found, needed = operands[0].dims[-1], self.size.floor_div(2) + 1
        return (
            Need("at_least", self.size, ONE, f"`irfft` of {self.size} points"),
            Need("equal", found, needed, f"{self.size} points have {needed} frequencies, not {found}"),
        )

    def demands(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return (self.size, operands[0].dims[-1])

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        """Every frequency but the first and, of an even size, the last stands for its conjugate too."""
        own = tensor_type(operands[0])
        part = tensor_type(cotangent)
        spectrum = write("conj", write("rfft", write("div", cotangent, write.size(self.size, part))))
        starts, steps = (*[ZERO] * (own.rank - 1), ONE), (1,) * own.rank
        sizes = (*own.dims[:-1], (self.size - 1).floor_div(2))
        inner = write("cut", spectrum, starts=starts, sizes=sizes, steps=steps)
        twice = write("insert", write.zeros(tensor_type(spectrum)), inner, starts=starts, steps=steps)
        return write.stored(write("add", spectrum, twice), own)

    def reference(self, *operands: Array) -> Array:
        return np.fft.irfft(operands[0], self.size.evaluate({})).astype(operands[0].real.dtype)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        size = self.size.evaluate({})
        if size % 2 == 0 and is_in_steps(size // 2):
            found = lying(operands[0])
            steps = Steps(builder, 1, 1 / size, found.beside)
            return found.seen(builder, from_half_spectrum(steps, found.value, found.type_of(result)), result)
        return from_whole_spectrum(Steps(builder, 1, 1 / size), operands[0], result)


def _like(x: Array, spectrum: Array) -> Array:
    return spectrum.astype(np.complex64 if x.dtype.itemsize == 4 * (1 + (x.dtype.kind == "c")) else np.complex128)
