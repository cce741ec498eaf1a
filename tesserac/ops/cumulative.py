"""Running folds along an axis.

Enters: a tensor and one axis, the last unless said. Leaves: a tensor of the same dims; each element folds those up to
it, in the accumulation type and the canonical order, and is rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import Writer, exclusive_products, where_a_number
from tesserac.ops.lowering import scan_form
from tesserac.ops.registry import Array, Operator, register
from tesserac.types.dims import ONE
from tesserac.types.dtype import I64
from tesserac.types.ty import TensorType


@dataclass(frozen=True)
class Cumulative(Operator):
    """A running fold; `kind` is that of the form, and a negative axis counts from the end."""

    kind: ClassVar[str]
    batching = "shifted"

    axis: int = -1

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [
            (cls(1), ("f32[3, 4]",)),
            (cls(0), ("f32[3, 4]",)),
            (cls(), ("i32[2, 5]",)),
            (cls(1), ("f32[2, 7, 3]",)),
            (cls(), ("f32[0]",)),
        ]

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return scan_form(builder, operands[0], result, self.kind, self.axis % result.rank)


@register
class CumSum(Cumulative):
    """Running sums; of bools and integers under 64 bits in 64 bits.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, N, f32]:
        return cumsum(x, axis=N)
    """

    name, kind, accumulates, ordered = "cumsum", "sum", True, True
    signatures = ("(x: V[*s, n], axis: axis = -1) -> acc(V)[*s, n]",)
    linear = "jointly"

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        axis = self.axis % tensor_type(cotangent).rank
        turned = write("flip", cotangent, axes=(axis,))
        return write.stored(write("flip", write.apply(self, (turned,)), axes=(axis,)), tensor_type(operands[0]))

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.cumsum(x, self.axis)


@register
class CumProd(Cumulative):
    """Running products; of bools and integers under 64 bits in 64 bits. Of complex numbers each is that of `prod`.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return cumprod(1.0 + x)
    """

    name, kind, accumulates, ordered = "cumprod", "prod", True, True
    signatures = ("(x: V[*s, n], axis: axis = -1) -> acc(V)[*s, n]",)

    def derivative(
        self, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
    ) -> Value | None:
        """The product up to k changes with factor i by the product of the others up to k: those before i, times those
        from behind i to k. Nothing is divided, so that zeros are factors like others; it costs the square of the size.
        """
        ([x], [dx]), ty = (operands, tangents), tensor_type(operands[0])
        assert dx is not None
        last, size = ty.rank - 1, ty.dims[self.axis % ty.rank]
        order = [*(axis for axis in range(ty.rank) if axis != self.axis % ty.rank), self.axis % ty.rank]
        x, dx = write.permute(x, order), write.permute(dx, order)
        change = write("mul", dx, exclusive_products(write, x))
        dims = (*tensor_type(x).dims[:-1], size, size)
        i, k = (write.places(dims, axis) for axis in (last, last + 1))
        row = write.reshape(x, (*dims[:-2], ONE, size))
        factors = write("where", write("less", i, k), row, write.number(1.0, ty))
        between = write("cumprod", factors)
        between = write("where", write("less_equal", i, k), between, write.number(0.0, ty))
        letters = "abcdefgh"[:last]
        total = write("einsum", change, between, equation=f"{letters}i,{letters}ik->{letters}k")
        return write.permute(total, [order.index(axis) for axis in range(ty.rank)])

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.cumprod(x, self.axis)


class CumExtreme(Cumulative):
    """A running extreme."""

    def derivative(
        self, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
    ) -> Value | None:
        """The tangent at the last place that gave the extreme; from a NaN on it is NaN."""
        ([x], [dx]), axis = (operands, tangents), self.axis % tensor_type(result).rank
        assert dx is not None
        here = write.places(tensor_type(x).dims, axis)
        inner = write("less", *((x, result) if self.kind == "max" else (result, x)))
        found = write("where", inner, write.full(0, TensorType((), I64)), here)
        chosen = write("take_along_axis", dx, write("cummax", found, axis=axis), axis=axis)
        return write("mul", chosen, where_a_number(write, write.number(1.0, tensor_type(x)), result))


@register
class CumMax(CumExtreme):
    """The largest so far; NaN wins. Its derivative is that of the last of equal ones, NaN where the result is.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, N, f32]:
        return cummax(x, axis=N)
    """

    name, kind = "cummax", "max"
    signatures = ("(x: R[*s, n], axis: axis = -1) -> R[*s, n]",)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.maximum.accumulate(x, self.axis)


@register
class CumMin(CumExtreme):
    """The smallest so far; NaN wins. Its derivative is that of the last of equal ones, NaN where the result is.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, N, f32]:
        return cummin(x, axis=N)
    """

    name, kind = "cummin", "min"
    signatures = ("(x: R[*s, n], axis: axis = -1) -> R[*s, n]",)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.minimum.accumulate(x, self.axis)
