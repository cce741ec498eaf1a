"""Complex numbers: made from two parts, and taken apart again.

Enters: tensors of floats or of complex numbers. Leaves: the other kind. c64 has parts of f32, c128 of f64.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.lazy import np
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import Writer
from tesserac.ops.elementwise import Pointwise
from tesserac.ops.lowering import Scalars, pointwise, scalar_dtype
from tesserac.ops.registry import Array, Operator, register
from tesserac.ops.unify import KindMismatch, Mismatch, SameSize
from tesserac.types.dtype import complex_of
from tesserac.types.ty import TensorType


@register
class Complex(Pointwise):
    """The complex numbers with these real and imaginary parts, of f32 or f64; of two plain numbers a c64, beside f64 or
    c128 a c128.

    def f(x: Tensor[N, f32], y: Tensor[N, f32]) -> Tensor[N, c64]:
        return complex(x, y)
    """

    name = "complex"
    signatures = ("(real: F[s...], imag: F[s...]) -> complex(F)[s...]",)
    linear = "jointly"

    def mismatch(self, operands: Sequence[TensorType], same: SameSize) -> Mismatch | None:
        return KindMismatch(0, "w") if complex_of(operands[0].dtype) is None else None

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        """Without conjugation: the product of i y with u + i v has the real part -v y."""
        part = write("real", cotangent) if position == 0 else write("neg", write("imag", cotangent))
        return write.unbroadcast(part, tensor_type(operands[position]))

    def reference(self, *operands: Array) -> Array:
        real, imag = operands
        return np.asarray(real + 1j * imag, np.complex64 if real.dtype == np.float32 else np.complex128)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return pointwise(builder, operands, result, lambda s, args: s.complex(*args))


class _Part(Pointwise):
    """One number from a complex one; a real number is a complex one without an imaginary part."""

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls(), (text,)) for text in ("c64[3, 4]", "c128[5]", "f32[4]", "c64[]", "c64[0, 2]")]

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        if not tensor_type(operands[0]).dtype.is_complex:
            return self.of_real(builder, operands[0])
        return pointwise(builder, operands, result, lambda s, args: self.of_parts(s, *s.parts(args[0])))

    def of_parts(self, s: Scalars, real: Value, imag: Value) -> Value:
        raise NotImplementedError(self.name)

    def of_real(self, builder: Builder, x: Value) -> Value:
        """Nothing is done to what is real, so that code for both kinds of numbers costs real ones nothing."""
        return x


@register
class Real(_Part):
    """The real part, also `z.real`; of a real tensor itself.

    def f(z: Tensor[N, c64]) -> Tensor[N, f32]:
        return real(z)
    """

    name = "real"
    signatures = ("(z: N[*s]) -> real(N)[*s]",)
    linear = "jointly"

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        if not tensor_type(operands[0]).dtype.is_complex:
            return cotangent
        return write("complex", cotangent, write.number(0.0, tensor_type(cotangent)))

    def reference(self, *operands: Array) -> Array:
        return np.real(*operands)

    def of_parts(self, s: Scalars, real: Value, imag: Value) -> Value:
        return real


@register
class Imag(_Part):
    """The imaginary part, also `z.imag`; of a real tensor zeros.

    def f(z: Tensor[N, c64]) -> Tensor[N, f32]:
        return z.imag
    """

    name = "imag"
    signatures = ("(z: N[*s]) -> real(N)[*s]",)
    linear = "jointly"

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        if not tensor_type(operands[0]).dtype.is_complex:
            return None
        return write("complex", write.number(0.0, tensor_type(cotangent)), write("neg", cotangent))

    def reference(self, *operands: Array) -> Array:
        return np.imag(*operands)

    def of_parts(self, s: Scalars, real: Value, imag: Value) -> Value:
        return imag

    def of_real(self, builder: Builder, x: Value) -> Value:
        return pointwise(builder, (x,), tensor_type(x), lambda s, args: s.constant(0, scalar_dtype(args[0])))


@register
class Conj(_Part):
    """The complex conjugate: the imaginary part with its sign flipped. `z.H` is the conjugate transpose.

    def f(z: Tensor[N, c64]) -> Tensor[f32]:
        return real(sum(z * conj(z)))
    """

    name = "conj"
    signatures = ("(z: N[*s]) -> N[*s]",)
    linear = "jointly"

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return write("conj", cotangent)

    def reference(self, *operands: Array) -> Array:
        return np.conj(*operands)

    def of_parts(self, s: Scalars, real: Value, imag: Value) -> Value:
        return s.complex(real, s.primitive("neg", imag))
