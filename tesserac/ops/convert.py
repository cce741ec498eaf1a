"""Changes of dtype and policy.

Enters: a tensor. Leaves: the same values in another storage, rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.numerics.interval import Interval, truncated, values_of, within_range
from tesserac.ops.calculus import Writer
from tesserac.ops.lowering import Scalars, convert_form, map_form
from tesserac.ops.registry import Array, Extent, Operator, numpy_dtype, register
from tesserac.ops.unify import LostPart, Mismatch, OtherBits, SameSize
from tesserac.types.dtype import BF16, C64, C128, F32, F64, I16, I32, DType
from tesserac.types.policy import NO_POLICY, Policy
from tesserac.types.ty import TensorType


@register
@dataclass(frozen=True)
class Cast(Operator):
    """The values of x as another dtype: rounded to nearest even, float to integer saturating, NaN to 0; a real number
    becomes a complex one with an imaginary part of 0.

    def f(x: Tensor[N, f32]) -> Tensor[N, bf16]:
        return cast(x, bf16)
    """

    name = "cast"
    again = True
    batching = "leading"
    signatures = ("(x: E[*s], dtype: dtype) -> {dtype}[*s]",)
    linear = "jointly"

    dtype: DType
    policy: Policy = NO_POLICY

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        pairs = (
            (BF16, "f32[3, 4]"), (F32, "bf16[5]"), (I32, "f32[2, 3]"), (F32, "bool[4]"),
            (C64, "f32[3]"), (C128, "i32[2, 2]"), (C64, "c128[4]"),
        )  # fmt: skip
        return [(cls(dtype), (operand,)) for dtype, operand in pairs]

    def mismatch(self, operands: Sequence[TensorType], same: SameSize) -> Mismatch | None:
        loses = operands[0].dtype.is_complex and not self.dtype.is_complex
        return LostPart(0, self.dtype) if loses else None

    def storage(self) -> tuple[DType, Policy]:
        return self.dtype, self.policy

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        """Integers of a byte have a range that says something; of wider ones it is only what they could hold."""
        [x], source = ranges, operands[0].dtype
        if source.is_float and self.dtype.is_integer:
            return truncated(x, values_of(self.dtype))
        return within_range(x, values_of(source)) if source.is_integer and source.bits <= 8 else x

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return write.stored(cotangent, tensor_type(operands[0]))

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        target = numpy_dtype(self.dtype)
        if self.dtype.is_integer and x.dtype.kind == "f":
            limits = np.iinfo(target)
            x = np.clip(np.nan_to_num(x.astype(np.float64)), limits.min, limits.max)
        return x.astype(target)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return convert_form(builder, operands[0], result)


@register
@dataclass(frozen=True)
class Bitcast(Operator):
    """The bits of x, as they are stored, read as another dtype with as many: 1.0 in f32 is 0x3F800000 in i32. It has no
    derivative. `bitcast` of the library also takes dtypes of other sizes.

    def f(x: Tensor[N, f32]) -> Tensor[N, i32]:
        return op.bitcast_equal(x, i32)
    """

    name = "bitcast_equal"
    again = True
    batching = "leading"
    signatures = ("(x: B[*s], dtype: dtype) -> {dtype}[*s]",)
    differential = "0"

    dtype: DType
    policy: Policy = NO_POLICY

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        pairs = ((I32, "f32[3, 4]"), (F32, "i32[5]"), (I16, "bf16[2, 3]"), (F64, "u64[4]"), (I16, "f16[3]"))
        return [(cls(dtype), (operand,)) for dtype, operand in pairs]

    def mismatch(self, operands: Sequence[TensorType], same: SameSize) -> Mismatch | None:
        whole = self.dtype.kind not in "bc" and self.dtype.bits == operands[0].dtype.bits
        return None if whole else OtherBits(0, self.dtype)

    def storage(self) -> tuple[DType, Policy]:
        return self.dtype, self.policy

    def reference(self, *operands: Array) -> Array:
        return operands[0].view(numpy_dtype(self.dtype))

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        source = tensor_type(operands[0]).dtype

        def body(s: Scalars, args: list[Value]) -> Value:
            return s.bitcast(s.cast(args[0], source), self.dtype)

        return map_form(builder, operands, result, body)


@register
class Wide(Operator):
    """x in its accumulation type, where library functions compute before they round once.

    def f(x: Tensor[N, bf16 @accum(f32)]) -> Tensor[N, f32]:
        return wide(x)
    """

    name = "wide"
    again = True
    batching = "leading"
    signatures = ("(x: E[*s]) -> wide(E)[*s]",)
    linear = "jointly"

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls(), ("bf16 @accum(f32)[3, 4]",)), (cls(), ("f32[3]",))]

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return ranges[0]

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return write.stored(cotangent, tensor_type(operands[0]))

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return x.astype(np.float32) if x.dtype.itemsize < 4 else x

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return convert_form(builder, operands[0], result)


@register
class StopGradient(Operator):
    """x as a constant to differentiation: the value is the same, its derivative is 0. A struct, tuple or list is one
    whose tensors are constants all.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return grad(lambda v: sum(v * stop_gradient(v)))(x)
    """

    name = "stop_gradient"
    of_trees = True
    again = True
    batching = "leading"
    signatures = ("(x: E[*s]) -> E[*s]",)
    differential = "0"

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls(), ("f32[3, 4]",)), (cls(), ("i32[]",)), (cls(), ("c64[2]",))]

    def reference(self, *operands: Array) -> Array:
        return operands[0]

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return operands[0]
