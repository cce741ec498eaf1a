"""Reindexing: the same elements under other dims.

Enters: a tensor. Leaves: a view of it. Which reshapes a program may write is the checker's business.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir import forms
from tesserac.ir.boxes import Box, lies_inside
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import Writer
from tesserac.ops.lowering import broadcast_map, seen_as, view_form
from tesserac.ops.registry import Array, Operator, register
from tesserac.types.dims import ONE, Dim, product
from tesserac.types.ty import TensorType


def _sizes(dims: tuple[Dim, ...]) -> tuple[int, ...]:
    return tuple(dim.evaluate({}) for dim in dims)


def _const(*values: int) -> tuple[Dim, ...]:
    return tuple(Dim.const(value) for value in values)


@register
@dataclass(frozen=True)
class Permute(Operator):
    """Dims in another order: result dim i is operand dim `order[i]`.

    def f(x: Tensor[B, S, H, D, f32]) -> Tensor[B, H, S, D, f32]:
        return permute(x, (0, 2, 1, 3))
    """

    name = "permute"
    again = True
    batching = "shifted"
    signatures = ("(x: E[*s], order: order) -> E[{dims}]",)
    others = {"order": ("dims", "axes")}
    linear = "jointly"

    order: tuple[int, ...]

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls((1, 0)), ("f32[3, 4]",)), (cls((2, 0, 1)), ("f32[2, 3, 4]",)), (cls(()), ("f32[]",))]

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return tuple(operands[0].dims[axis] for axis in self.order)

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return write.permute(cotangent, [self.order.index(axis) for axis in range(len(self.order))])

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.transpose(x, self.order)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return view_form(builder, operands[0], result, forms.Permute(self.order))


@register
@dataclass(frozen=True)
class Reshape(Operator):
    """Neighbouring dims split and merged, in order.

    def f(x: Tensor[B, S, D, f32]) -> Tensor[B * S, D, f32]:
        return reshape(x, (B * S, D))
    """

    name = "reshape"
    again = True
    batching = "shifted"
    signatures = ("(x: E[*s], shape: dims) -> E[{dims}]",)
    linear = "jointly"

    shape: tuple[Dim, ...]

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        shapes = (_const(12), _const(3, 2, 2), _const(1, 3, 4))
        return [(cls(shape), ("f32[3, 4]",)) for shape in shapes]

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return self.shape

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return write.reshape(cotangent, tensor_type(operands[0]).dims)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return x.reshape(_sizes(self.shape))

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        x, whole = operands[0], product(result.dims)
        ty = forms.tensor_type(x)
        if product(ty.dims) != whole:  # a fact makes them equal
            flat = TensorType((product(ty.dims),), ty.dtype, ty.policy)
            x = seen_as(builder, view_form(builder, x, flat, forms.Reshape()), (whole,))
        return view_form(builder, x, result, forms.Reshape())


@register
@dataclass(frozen=True)
class Expand(Operator):
    """x broadcast to a shape.

    def f(x: Tensor[N, f32]) -> Tensor[4, N, f32]:
        return expand(x, (4, N))
    """

    name = "expand"
    again = True
    signatures = ("(x: E[*s], shape: dims) -> E[{dims}]",)
    linear = "jointly"

    shape: tuple[Dim, ...]

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls(_const(3, 4)), (operand,)) for operand in ("f32[4]", "f32[3, 1]", "f32[]")]

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return self.shape

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        return write.unbroadcast(cotangent, tensor_type(operands[0]))

    def batched(self, write: Writer, operands: Sequence[Value], mapped: Sequence[bool]) -> Value:
        first, *rest = tensor_type(operands[0]).dims
        ones = [ONE] * (len(self.shape) - len(rest))
        return write.expand(write.reshape(operands[0], (first, *ones, *rest)), (first, *self.shape))

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.broadcast_to(x, _sizes(self.shape))

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        places = broadcast_map(forms.tensor_type(operands[0]).dims, result.dims)
        operand = seen_as(builder, operands[0], [ONE if p is None else result.dims[p] for p in places])
        return view_form(builder, operand, result, forms.Broadcast(places))


@register
@dataclass(frozen=True)
class Slice(Operator):
    """A box of x, `x[a:b:step]`: element i of a dim is element `start + i * step` of the operand's.

    def f(x: Tensor[N, D, f32]) -> Tensor[N - 1, D, f32] where N >= 1:
        return x[1:]
    """

    name, surface = "cut", False
    again = True
    batching = "shifted"
    signatures = ("(x: E[*s]) -> E[{dims}]",)
    linear = "jointly"

    starts: tuple[Dim, ...]
    sizes: tuple[Dim, ...]
    steps: tuple[int, ...]

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [
            (cls(_const(1, 0), _const(2, 4), (1, 1)), ("f32[3, 4]",)),
            (cls(_const(0, 1), _const(3, 2), (1, 2)), ("f32[3, 5]",)),
            (cls(_const(4), _const(5), (-1,)), ("f32[5]",)),
        ]

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return self.sizes

    def may_fail(self, operands: tuple[TensorType, ...]) -> bool:
        """A box that is not proved to lie inside may be one that only its place in the program makes sure of."""
        return not lies_inside(Box(forms.Slice(self.starts, self.steps), self.sizes), operands[0].dims)

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        """Zeros with the box put back; one that runs backwards is turned round first."""
        backwards = tuple(axis for axis, step in enumerate(self.steps) if step < 0)
        rows = zip(self.starts, self.sizes, self.steps, strict=True)
        starts = tuple(start + (size - 1) * step if step < 0 else start for start, size, step in rows)
        turned = write("flip", cotangent, axes=backwards) if backwards else cotangent
        zeros = write.zeros(tensor_type(operands[0]))
        return write("insert", zeros, turned, starts=starts, steps=tuple(map(abs, self.steps)))

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        boxes = zip(_sizes(self.starts), _sizes(self.sizes), self.steps, strict=True)
        return x[np.ix_(*(np.arange(size) * step + start for start, size, step in boxes))]

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        if operands[0].type == result and all(step == 1 for step in self.steps):
            return operands[0]  # all of it: starts are 0
        return view_form(builder, operands[0], result, forms.Slice(self.starts, self.steps))
