"""Tensors put together: side by side, in a new dim, inside a frame, turned round.

Enters: tensors of one element type. Leaves: one tensor in which each is a box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir import forms
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.numerics.interval import Interval, hull, point
from tesserac.ops.calculus import Writer
from tesserac.ops.lowering import assemble_form, map_form, view_form
from tesserac.ops.registry import Array, Extent, Need, Operator, new_axis, register
from tesserac.ops.unify import BroadcastMismatch, Mismatch, Place, RankMismatch, SameSize
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.policy import compute_dtype
from tesserac.types.ty import TensorType


def _along(rank: int, axis: int, start: Dim) -> forms.Slice:
    """The box that begins at `start` of one axis."""
    return forms.Slice(tuple(start if a == axis else ZERO for a in range(rank)), (1,) * rank)


def _side_by_side(builder: Builder, parts: Sequence[Value], result: TensorType, axis: int) -> Value:
    boxes: list[forms.Slice] = []
    start = ZERO
    for part in parts:
        boxes.append(_along(result.rank, axis, start))
        start = start + tensor_type(part).dims[axis]
    return assemble_form(builder, parts, result, boxes)


@register
@dataclass(frozen=True)
class Concat(Operator):
    """Tensors one behind the other along an axis.

    def f(x: Tensor[N, D, f32], y: Tensor[M, D, f32]) -> Tensor[M + N, D, f32]:
        return concat([x, y], axis=0)
    """

    name = "concat"
    batching = "shifted"
    signatures = ("(*tensors: E[{dims}], axis: axis = 0) -> E[{dims}]",)
    linear = "jointly"

    axis: int = 0

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [
            (cls(0), ("f32[3, 4]", "f32[2, 4]")),
            (cls(1), ("i32[3, 1]", "i32[3, 2]", "i32[3, 0]")),
            (cls(0), ("bf16 @accum(f32)[5]",)),
            (cls(1), ("c64[2, 3]", "c64[2, 1]")),
        ]

    def mismatch(self, operands: Sequence[TensorType], same: SameSize) -> Mismatch | None:
        return _other_shape(operands, same, self.axis)

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        dims = list(operands[0].dims)
        for ty in operands[1:]:
            dims[self.axis] = dims[self.axis] + ty.dims[self.axis]
        return tuple(dims)

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        before = sum((tensor_type(v).dims[self.axis] for v in operands[:position]), ZERO)
        sizes = tensor_type(operands[position]).dims
        starts = tuple(before if axis == self.axis else ZERO for axis in range(len(sizes)))
        return write("cut", cotangent, starts=starts, sizes=sizes, steps=(1,) * len(sizes))

    def reference(self, *operands: Array) -> Array:
        return np.concatenate(operands, self.axis)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return _side_by_side(builder, operands, result, self.axis)


def _other_shape(operands: Sequence[TensorType], same: SameSize, free: int | None) -> Mismatch | None:
    """All must have the dims of the first, but along the axis that is free."""
    for position, ty in enumerate(operands):
        if ty.rank != operands[0].rank:
            return RankMismatch(position)
        for axis, (left, right) in enumerate(zip(operands[0].dims, ty.dims, strict=True)):
            if axis != free and not same(left, right):
                return BroadcastMismatch(Place(0, axis), Place(position, axis))
    return None


@register
@dataclass(frozen=True)
class Stack(Operator):
    """Tensors of one shape side by side in a new dim, at `axis` of the result.

    def f(x: Tensor[N, f32], y: Tensor[N, f32]) -> Tensor[N, 2, f32]:
        return stack([x, y], axis=-1)
    """

    name = "stack"
    batching = "shifted"
    signatures = ("(*tensors: E[{dims}], axis: int = 0) -> E[{dims}]",)
    linear = "jointly"

    axis: int = 0

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls(axis), ("f32[3, 4]",) * 3) for axis in (0, 1, -1)] + [(cls(0), ("i32[]", "i32[]"))]

    def mismatch(self, operands: Sequence[TensorType], same: SameSize) -> Mismatch | None:
        return _other_shape(operands, same, None)

    def needs(self, operands: tuple[TensorType, ...]) -> tuple[Need, ...]:
        return new_axis(self.axis, operands[0].rank)

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return _with_dim(operands[0].dims, self.axis, Dim.const(len(operands)))

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        own = tensor_type(operands[position])
        axis = self.axis % (own.rank + 1)
        sizes = (*own.dims[:axis], ONE, *own.dims[axis:])
        starts = tuple(Dim.const(position) if at == axis else ZERO for at in range(len(sizes)))
        return write.reshape(write("cut", cotangent, starts=starts, sizes=sizes, steps=(1,) * len(sizes)), own.dims)

    def reference(self, *operands: Array) -> Array:
        return np.stack(operands, self.axis)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        parts: list[Value] = []
        for value in operands:
            ty = tensor_type(value)
            thin = TensorType(_with_dim(ty.dims, self.axis, ONE), ty.dtype, ty.policy)
            parts.append(view_form(builder, value, thin, forms.Reshape()))
        return _side_by_side(builder, parts, result, self.axis % result.rank)


def _with_dim(dims: tuple[Dim, ...], axis: int, size: Dim) -> tuple[Dim, ...]:
    at = axis % (len(dims) + 1)
    return (*dims[:at], size, *dims[at:])


@register
@dataclass(frozen=True)
class Pad(Operator):
    """x inside a frame of one number: `before` and `after` say how wide it is along an axis.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, N + 3, f32]:
        return pad(x, 1, 2, axis=N, value=0.5)
    """

    name = "pad"
    batching = "shifted"
    signatures = ("(x: E[*s], before: size, after: size, axis: axis, value: number = 0) -> E[{dims}]",)

    before: Dim
    after: Dim
    axis: int
    value: int | float = 0

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        one, two = Dim.const(1), Dim.const(2)
        return [
            (cls(one, two, 0), ("f32[3]",)),
            (cls(ZERO, two, 1, 0.5), ("f32[3, 4]",)),
            (cls(two, ZERO, 0, 7), ("i32[0, 3]",)),
        ]

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return hull((ranges[0], point(self.value)))

    def needs(self, operands: tuple[TensorType, ...]) -> tuple[Need, ...]:
        widths = (self.before, self.after)
        return tuple(Need("at_least", w, ZERO, f"a frame cannot be {w} wide; a slice cuts") for w in widths)

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        dims = list(operands[0].dims)
        dims[self.axis] = dims[self.axis] + self.before + self.after
        return tuple(dims)

    def derivative(
        self, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
    ) -> Value | None:
        """`dx` inside a frame of zeros."""
        [dx] = tangents
        assert dx is not None
        return write.apply(replace(self, value=0), (dx,))

    def is_linear_in(self, position: int) -> bool:
        return self.value == 0

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        own = tensor_type(operands[0])
        starts = tuple(self.before if axis == self.axis else ZERO for axis in range(own.rank))
        return write("cut", cotangent, starts=starts, sizes=own.dims, steps=(1,) * own.rank)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        widths = [(0, 0)] * x.ndim
        widths[self.axis] = (self.before.evaluate({}), self.after.evaluate({}))
        return np.pad(x, widths, constant_values=self.value)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        [x] = operands
        parts = [self._fill(builder, result, self.before), x, self._fill(builder, result, self.after)]
        wide = [part for part in parts if tensor_type(part).dims[self.axis] != ZERO or part is x]
        return _side_by_side(builder, wide, result, self.axis)

    def _fill(self, builder: Builder, result: TensorType, width: Dim) -> Value:
        dims = tuple(width if axis == self.axis else dim for axis, dim in enumerate(result.dims))
        dtype = compute_dtype(result.dtype, result.policy)
        ty = TensorType(dims, result.dtype, result.policy)
        return map_form(builder, (), ty, lambda s, args: s.constant(self.value, dtype))


@register
@dataclass(frozen=True)
class Roll(Operator):
    """x turned round along an axis: element i goes to i + shift, and what falls off the end comes in at the front.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, N, f32]:
        return roll(x, 1, axis=N)
    """

    name = "roll"
    batching = "shifted"
    signatures = ("(x: E[*s], shift: size, axis: axis) -> E[*s]",)
    linear = "jointly"

    shift: Dim
    axis: int

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        shifts = [(cls(Dim.const(n), 0), ("f32[5]",)) for n in (0, 2, -1, 7)]
        return [*shifts, (cls(Dim.const(1), 1), ("i32[2, 3]",)), (cls(Dim.const(1), 0), ("f32[0, 3]",))]

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return write("roll", cotangent, shift=ZERO - self.shift, axis=self.axis)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.roll(x, self.shift.evaluate({}), self.axis)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        size = result.dims[self.axis]
        front = self.shift.mod(size.max(ONE))  # of an empty dim nothing is turned round
        pieces = ((size - front, front), (ZERO, size - front))
        parts = [self._piece(builder, operands[0], start, length) for start, length in pieces]
        return _side_by_side(builder, parts, result, self.axis)

    def _piece(self, builder: Builder, x: Value, start: Dim, length: Dim) -> Value:
        ty = tensor_type(x)
        dims = tuple(length if axis == self.axis else dim for axis, dim in enumerate(ty.dims))
        return view_form(builder, x, TensorType(dims, ty.dtype, ty.policy), _along(ty.rank, self.axis, start))
