"""Reindexing along named axes: reversed, repeated, with unit dims taken out or put in, the diagonal.

Enters: a tensor. Leaves: the same elements elsewhere; all but the diagonal are views.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir import forms
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import Writer
from tesserac.ops.lowering import drop_unit_dims, map_form, view_form, without_axes
from tesserac.ops.registry import Array, Need, Operator, new_axis, register
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.ty import TensorType


@register
@dataclass(frozen=True)
class Flip(Operator):
    """x with the order along axes reversed.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, N, f32]:
        return flip(x, axis=N)
    """

    name = "flip"
    again = True
    batching = "shifted"
    signatures = ("(x: E[*s], axis: axes = None) -> E[*s]",)
    linear = "jointly"

    axes: tuple[int, ...]

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls((0,)), ("f32[5]",)), (cls((0, 2)), ("i32[2, 3, 4]",)), (cls((1,)), ("f32[3, 0]",))]

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return write.apply(self, (cotangent,))

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.flip(x, self.axes)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        starts = tuple(dim - 1 if axis in self.axes else ZERO for axis, dim in enumerate(result.dims))
        steps = tuple(-1 if axis in self.axes else 1 for axis in range(result.rank))
        return view_form(builder, operands[0], result, forms.Slice(starts, steps))


@register
@dataclass(frozen=True)
class Squeeze(Operator):
    """x without axes of size 1; without all those that its type says to be so where none is named.

    def f(x: Tensor[N, 1, f32]) -> Tensor[N, f32]:
        return squeeze(x, axis=1) + squeeze(x)
    """

    name = "squeeze"
    again = True
    batching = "shifted"
    signatures = ("(x: E[*s], axis: unit_axes = None) -> E[{dims}]",)
    linear = "jointly"

    axes: tuple[int, ...]

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls((1,)), ("f32[3, 1, 4]",)), (cls((0, 1)), ("f32[1, 1]",))]

    def needs(self, operands: tuple[TensorType, ...]) -> tuple[Need, ...]:
        dims = operands[0].dims
        return tuple(
            Need("equal", dims[axis], ONE, f"only a dim of 1 can be squeezed; axis {axis} has size {dims[axis]}")
            for axis in self.axes
        )

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return without_axes(operands[0].dims, self.axes)

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return write.reshape(cotangent, tensor_type(operands[0]).dims)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.squeeze(x, self.axes)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return drop_unit_dims(builder, operands[0], self.axes)


@register
@dataclass(frozen=True)
class Unsqueeze(Operator):
    """x with a new dim of 1 at `axis` of the result; a negative axis counts from its end.

    def f(x: Tensor[N, f32]) -> Tensor[N, 1, f32]:
        return unsqueeze(x, -1)
    """

    name = "unsqueeze"
    again = True
    batching = "shifted"
    signatures = ("(x: E[*s], axis: int) -> E[{dims}]",)
    linear = "jointly"

    axis: int

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls(axis), ("f32[3, 4]",)) for axis in (0, 1, -1)]

    def needs(self, operands: tuple[TensorType, ...]) -> tuple[Need, ...]:
        return new_axis(self.axis, operands[0].rank)

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        dims = operands[0].dims
        at = self.axis % (len(dims) + 1)
        return (*dims[:at], ONE, *dims[at:])

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return write.reshape(cotangent, tensor_type(operands[0]).dims)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.expand_dims(x, self.axis)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return view_form(builder, operands[0], result, forms.Reshape())


@register
@dataclass(frozen=True)
class Repeat(Operator):
    """Every element along an axis `times` times, one after the other.

    def f(x: Tensor[B, H, S, D, f32]) -> Tensor[B, 4 * H, S, D, f32]:
        return repeat(x, 4, axis=1)
    """

    name = "repeat"
    batching = "shifted"
    signatures = ("(x: E[*s], times: size, axis: axis) -> E[{dims}]",)
    others = {"times": ("repeats",)}
    linear = "jointly"

    times: Dim
    axis: int

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls(Dim.const(3), axis), ("f32[2, 4]",)) for axis in (0, 1)]

    def needs(self, operands: tuple[TensorType, ...]) -> tuple[Need, ...]:
        return (Need("at_least", self.times, ZERO, f"nothing can be repeated {self.times} times"),)

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        dims = operands[0].dims
        return (*dims[: self.axis], dims[self.axis] * self.times, *dims[self.axis + 1 :])

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        own, inner = tensor_type(operands[0]), self.axis + 1
        split = write.reshape(cotangent, (*own.dims[:inner], self.times, *own.dims[inner:]))
        return write.sum(split, (inner,))

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.repeat(x, self.times.evaluate({}), self.axis)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        ty, inner = tensor_type(operands[0]), self.axis + 1
        dims = (*ty.dims[:inner], self.times, *ty.dims[inner:])
        places = tuple(axis if axis < inner else axis + 1 for axis in range(ty.rank))
        spread = view_form(builder, operands[0], TensorType(dims, ty.dtype, ty.policy), forms.Broadcast(places))
        return view_form(builder, spread, result, forms.Reshape())


@register
@dataclass(frozen=True)
class Split(Operator):
    """The equal parts of x along an axis, as a tuple; `part` says which of them this is. Of a `Key` it is a tuple of
    keys, part i being `fold_in(x, i)`.

    def f(x: Tensor[B, 3 * D, f32]) -> Tensor[B, D, f32]:
        q, k, v = split(x, 3, axis=1)
        return q + k * v
    """

    name = "split"
    again = True
    batching = "shifted"
    signatures = ("(x: E[*s], parts: int, axis: axis = 0) -> E[{dims}]",)
    linear = "jointly"

    parts: int
    axis: int = 0
    part: int = 0

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls(2, 0, 1), ("f32[4, 3]",)), (cls(3, 1, 0), ("i32[2, 6]",)), (cls(1), ("f32[5]",))]

    def needs(self, operands: tuple[TensorType, ...]) -> tuple[Need, ...]:
        size = operands[0].dims[self.axis]
        return (Need("divides", Dim.const(self.parts), size, f"{size} does not split into {self.parts} equal parts"),)

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        dims = operands[0].dims
        return (*dims[: self.axis], dims[self.axis].exact_div(Dim.const(self.parts)), *dims[self.axis + 1 :])

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        own = tensor_type(operands[0])
        start = tensor_type(cotangent).dims[self.axis] * self.part
        starts = tuple(start if axis == self.axis else ZERO for axis in range(own.rank))
        return write("insert", write.zeros(own), cotangent, starts=starts, steps=(1,) * own.rank)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.split(x, self.parts, self.axis)[self.part]

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        start = result.dims[self.axis] * self.part
        starts = tuple(start if axis == self.axis else ZERO for axis in range(result.rank))
        return view_form(builder, operands[0], result, forms.Slice(starts, (1,) * result.rank))


@register
class Diagonal(Operator):
    """The diagonal of the last two dims, which have one size.

    def f(x: Tensor[N, N, f32]) -> Tensor[N, f32]:
        return diagonal(x)
    """

    name = "diagonal"
    more_options = dict.fromkeys(("offset", "axis1", "axis2", "dim1", "dim2"), "diagonal_of")
    batching = "leading"
    signatures = ("(x: E[*s, n, n]) -> E[*s, n]",)
    linear = "jointly"

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls(), ("f32[4, 4]",)), (cls(), ("i32[2, 3, 3]",))]

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        own = tensor_type(operands[0])
        row = write.reshape(cotangent, (*own.dims[:-1], ONE))
        return write.on_diagonal(write.expand(row, own.dims), (own.rank - 2, own.rank - 1))

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.diagonal(x, axis1=-2, axis2=-1)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        last = result.rank - 1
        return map_form(builder, operands, result, lambda s, args: args[0], [(*range(result.rank), last)])
