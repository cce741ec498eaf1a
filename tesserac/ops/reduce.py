"""Reductions over axes.

Enters: a tensor and the axes to fold. Leaves: the tensor without them, or with 1 in their place when `keep`. They
accumulate in the accumulation type in the canonical order, and round once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import Broadcast, tensor_type
from tesserac.numerics.interval import INF, UNBOUNDED, Interval, summing_error, total
from tesserac.ops.calculus import Writer, exclusive_products, where_a_number
from tesserac.ops.lowering import Scalars, map_form, reduce_form, scalar_dtype, view_form, widen, without_axes
from tesserac.ops.registry import Array, Extent, Operator, register
from tesserac.ops.signature import ELEMENT_CLASSES, parse_signature
from tesserac.types.dims import ONE, Dim, product
from tesserac.types.policy import compute_dtype
from tesserac.types.ty import TensorType


def _bits(operand: TensorType) -> int:
    """How many bits a running sum has."""
    return compute_dtype(operand.dtype, operand.policy).significand


@dataclass(frozen=True)
class Reduction(Operator):
    """A fold over `axes`, which count from 0 and are sorted. `kind` is that of the form."""

    kind: ClassVar[str]
    batching = "shifted"
    accumulates = True

    axes: tuple[int, ...]
    keep: bool = False

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        long = "c64[3, 700]" if cls.kind == "sum" else "c64[3, 13]"  # a product of many is too large
        return [
            (cls((1,)), ("f32[3, 4]",)),
            (cls((0, 2)), ("f32[2, 3, 4]",)),
            (cls((1,), keep=True), ("f32[2, 3, 4]",)),
            (cls((0,)), ("i32[5]",) if cls.name != "mean" else ("f32[5]",)),
            *([(cls((1,)), (long,)), (cls((0,)), ("c128[5, 3]",))] if cls.takes_complex() else []),
        ]

    @classmethod
    def takes_complex(cls) -> bool:
        [operand] = parse_signature(cls.signatures[0]).operands
        return "c" in ELEMENT_CLASSES[operand.pattern.element.variable]

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        dims = operands[0].dims
        if self.keep:
            return tuple(ONE if axis in self.axes else dim for axis, dim in enumerate(dims))
        return without_axes(dims, self.axes)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        [x] = operands
        folded_type = TensorType(without_axes(tensor_type(x).dims, self.axes), result.dtype, result.policy)
        folded = reduce_form(builder, x, folded_type, self.kind, self.axes)
        if not self.keep:
            return folded
        return view_form(builder, folded, result, Broadcast(self.kept_places(tensor_type(x).rank)))

    def spread(self, write: Writer, value: Value, operand: TensorType) -> Value:
        """One value per fold, back at every element that was folded."""
        ones = [ONE if axis in self.axes else dim for axis, dim in enumerate(operand.dims)]
        return write.expand(write.reshape(value, ones), operand.dims)

    def _count(self, operand: TensorType, extent: Extent) -> Interval:
        """How many elements are folded into one."""
        return extent(product(operand.dims[axis] for axis in self.axes))

    def kept_places(self, rank: int) -> tuple[int, ...]:
        """Where the dims that are left stand in the result."""
        kept = [axis for axis in range(rank) if axis not in self.axes]
        return tuple(kept) if self.keep else tuple(range(len(kept)))


@register
class Sum(Reduction):
    """Sum over axes; of bools and integers under 64 bits in 64 bits.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, f32]:
        return sum(x, axis=N)
    """

    name, kind = "sum", "sum"
    more_options = dict.fromkeys(("where", "initial", "dtype"), "sum_where")
    signatures = ("(x: V[*s], axis: axes = None, keep: bool = False) -> acc(V)[{dims}]",)
    linear = "jointly"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return total(ranges[0], self._count(operands[0], extent), _bits(operands[0]))

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return self.spread(write, cotangent, tensor_type(operands[0]))

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.asarray(np.sum(x, axis=self.axes, keepdims=self.keep))


@register
class Mean(Reduction):
    """Sum over axes divided by the number of elements, rounded once; of integers in f64.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, f32]:
        return mean(x, axis=-1)
    """

    name, kind = "mean", "sum"
    more_options = dict.fromkeys(("where", "dtype"), "mean_where")
    of_integers = "mean_where"
    signatures = ("(x: A[*s], axis: axes = None, keep: bool = False) -> A[{dims}]",)
    linear = "jointly"

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        [x], count = ranges, self._count(operands[0], extent)
        if x.is_bounded:
            error = summing_error(x, count, _bits(operands[0]))
            x = replace(x, low=x.low - error, high=x.high + error) if error < INF else UNBOUNDED
        return replace(x, finite=x.is_bounded and count.low > 0, nan=x.nan or count.low == 0)

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        operand = tensor_type(operands[0])
        count = write.size(product(operand.dims[axis] for axis in self.axes), tensor_type(cotangent))
        return self.spread(write, write("div", cotangent, count), operand)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.asarray(np.mean(x, axis=self.axes, keepdims=self.keep))

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        """The sum stays in the accumulation type until it is divided, so that only the quotient rounds."""
        dims = tensor_type(operands[0]).dims
        count = product(dims[axis] for axis in self.axes)
        x = widen(builder, operands[0])
        total_type = TensorType(without_axes(dims, self.axes), tensor_type(x).dtype)
        total = reduce_form(builder, x, total_type, self.kind, self.axes)

        def divide(s: Scalars, args: list[Value]) -> Value:
            return s.primitive("div", args[0], s.dim(count, scalar_dtype(args[0])))

        return map_form(builder, (total,), result, divide, [self.kept_places(len(dims))])


@register
class Prod(Reduction):
    """Product over axes; of bools and integers under 64 bits in 64 bits. Complex factors are cut from the
    start at lengths 2^k, k rising, as the binary digits of their number say, and each cut is halved.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, f32]:
        return prod(x, axis=1)
    """

    name, kind = "prod", "prod"
    more_options = dict.fromkeys(("where", "initial", "dtype"), "prod_where")
    signatures = ("(x: V[*s], axis: axes = None, keep: bool = False) -> acc(V)[{dims}]",)

    def derivative(
        self, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
    ) -> Value | None:
        """Each factor changes it by the product of the others, before and behind it. Nothing is divided, so that zeros
        are factors like others."""
        [x], [dx] = operands, tangents
        assert dx is not None
        ty = tensor_type(x)
        kept = [axis for axis in range(ty.rank) if axis not in self.axes]
        dims = [ty.dims[axis] for axis in kept]
        rows = (*dims, product(ty.dims[axis] for axis in self.axes))
        x, dx = (write.reshape(write.permute(v, [*kept, *self.axes]), rows) for v in (x, dx))
        turned = exclusive_products(write, write("flip", x, axes=(len(dims),)))
        others = write("mul", exclusive_products(write, x), write("flip", turned, axes=(len(dims),)))
        return write.reshape(write.sum(write("mul", dx, others), (len(dims),)), tensor_type(result).dims)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.asarray(np.prod(x, axis=self.axes, keepdims=self.keep))


class Extreme(Reduction):
    """The largest or the smallest."""

    accumulates = False

    def derivative(
        self, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
    ) -> Value | None:
        """The mean over the elements that are the extreme, 0 of nothing; NaN of all where one is NaN."""
        [x], [dx] = operands, tangents
        assert dx is not None
        ty, dims = tensor_type(x), tensor_type(result).dims
        one, zero = write.number(1.0, ty), write.number(0.0, ty)
        extreme = self.spread(write, result, ty)
        inner = write("less", *((x, extreme) if self.kind == "max" else (extreme, x)))
        count, change = (
            write.reshape(write.sum(write("where", inner, zero, value), self.axes), dims) for value in (one, dx)
        )
        return write("div", change, where_a_number(write, write("maximum", count, one), result))


@register
class Max(Extreme):
    """The largest over axes; NaN wins; of nothing the type's lowest. Equal ones share the derivative equally; where the
    result is NaN, so is the derivative.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, 1, f32]:
        return max(x, axis=N, keep=True)
    """

    name, kind = "max", "max"
    more_options = dict.fromkeys(("where", "initial"), "max_where")
    signatures = ("(x: R[*s], axis: axes = None, keep: bool = False) -> R[{dims}]",)

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        [x] = ranges
        return x if self._count(operands[0], extent).low > 0 else replace(x, low=-INF, finite=False)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.asarray(np.max(x, axis=self.axes, keepdims=self.keep))


@register
class Min(Extreme):
    """The smallest over axes; NaN wins; of nothing the type's highest. Equal ones share the derivative equally; where
    the result is NaN, so is the derivative.

    def f(x: Tensor[B, N, f32]) -> Tensor[f32]:
        return min(x)
    """

    name, kind = "min", "min"
    more_options = dict.fromkeys(("where", "initial"), "min_where")
    signatures = ("(x: R[*s], axis: axes = None, keep: bool = False) -> R[{dims}]",)

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        [x] = ranges
        return x if self._count(operands[0], extent).low > 0 else replace(x, high=INF, finite=False)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.asarray(np.min(x, axis=self.axes, keepdims=self.keep))
