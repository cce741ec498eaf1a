"""Sliding windows: what convolutions and pooling read.

Enters: a tensor. Leaves: a view of it with one dim more, in which windows overlap without being copied.
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
from tesserac.ops.lowering import view_form
from tesserac.ops.registry import Array, Need, Operator, register
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.ty import TensorType


@register
@dataclass(frozen=True)
class Windows(Operator):
    """Windows of `size` elements along an axis, which then counts them; the last dim walks inside a window. Windows
    begin `stride` elements apart, and their elements lie `dilation` apart. Windows along several axes are windows of
    windows.

    def moving_mean(x: Tensor[B, N, f32]) -> Tensor[B, N - 2, f32] where N >= 3:
        return mean(windows(x, 3, axis=N), axis=-1)
    """

    name = "windows"
    batching = "shifted"
    signatures = ("(x: E[*s], size: size, axis: axis, stride: int = 1, dilation: int = 1) -> E[{dims}]",)
    linear = "jointly"

    size: Dim
    axis: int
    stride: int = 1
    dilation: int = 1

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        three = Dim.const(3)
        return [
            (cls(three, 1), ("f32[2, 9]",)),
            (cls(three, 0, 2), ("i32[8, 2]",)),
            (cls(Dim.const(2), 1, 3, 4), ("bf16 @accum(f32)[2, 12, 3]",)),
            (cls(ONE, 0, 5), ("f32[11]",)),
            (cls(Dim.const(6), 1, 2), ("f64[2, 11, 3]",)),
        ]

    def needs(self, operands: tuple[TensorType, ...]) -> tuple[Need, ...]:
        whole = operands[0].dims[self.axis]
        return (
            Need("at_least", Dim.const(self.stride), ONE, f"windows cannot be {self.stride} apart"),
            Need("at_least", Dim.const(self.dilation), ONE, f"elements of a window cannot be {self.dilation} apart"),
            Need("at_least", self.size, ONE, f"a window cannot have {self.size} elements"),
            Need("at_least", whole, self._reach(), f"a window over {self._reach()} elements does not fit into {whole}"),
        )

    def _reach(self) -> Dim:
        """From the first element of a window to the last, both counted."""
        return (self.size - 1) * self.dilation + 1

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        dims = list(operands[0].dims)
        if self.stride < 1:
            return (*dims, self.size)  # `needs` refuses it
        dims[self.axis] = (dims[self.axis] - self._reach()).floor_div(self.stride) + 1
        return (*dims, self.size)

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        """What overlaps is summed. See Note [Windows go back as windows]."""
        own = tensor_type(operands[0])
        if self.dilation == 1 and self.size == Dim.const(self.stride):
            return self._side_by_side(write, cotangent, own)
        if (count := self._strides_in_a_window()) is not None:
            return self._by_strides(write, cotangent, own, count)
        last = own.rank
        flipped = write("flip", cotangent, axes=(last,))
        spaced = self.spaced(write, flipped, self.axis, own.dims[self.axis], own)
        again = write("windows", spaced, size=self.size, axis=self.axis, dilation=self.dilation)
        return write.sum(write("diagonal", again), (last,))

    def spaced(self, write: Writer, value: Value, axis: int, size: Dim, like: TensorType) -> Value:
        """What has one element per window, spaced out by the stride, between zeros: windows of it are as many as a dim
        of `size` has elements."""
        dims, reach = tensor_type(value).dims, self._reach()
        whole = tuple(size + reach - 1 if place == axis else dim for place, dim in enumerate(dims))
        starts = tuple(reach - 1 if place == axis else ZERO for place in range(len(dims)))
        steps = tuple(self.stride if place == axis else 1 for place in range(len(dims)))
        zeros = write.zeros(TensorType(whole, like.dtype, like.policy))
        return write("insert", zeros, value, starts=starts, steps=steps)

    def _side_by_side(self, write: Writer, cotangent: Value, own: TensorType) -> Value:
        """Windows that touch are the dim in pieces."""
        last, inner = own.rank, self.axis + 1
        pieces = write.permute(cotangent, [*range(inner), last, *range(inner, last)])
        count = tensor_type(cotangent).dims[self.axis] * self.size
        return self._with_rest(write, write.reshape(pieces, self._joined(own, count)), own)

    def _strides_in_a_window(self) -> int | None:
        """How many, where windows overlap and begin and end where others do."""
        size = self.size.constant
        whole = size is not None and self.dilation == 1 < self.stride < size and size % self.stride == 0
        return size // self.stride if whole and size is not None else None

    def _by_strides(self, write: Writer, cotangent: Value, own: TensorType, count: int) -> Value:
        """The dim in pieces of a stride: windows of pieces, one piece apart. See Note [Windows go back as windows]."""
        last, inner = own.rank, self.axis + 1
        dims, stride, some = tensor_type(cotangent).dims, Dim.const(self.stride), Windows(Dim.const(count), self.axis)
        pieces = dims[self.axis] + count - 1
        cut = write.reshape(cotangent, (*dims[:last], some.size, stride))
        spaced = some.spaced(write, cut, self.axis, pieces, own)  # as it lies, so that whole pieces are copied
        flipped = write("flip", spaced, axes=(last,))
        turned = write.permute(flipped, [*range(inner), last + 1, *range(inner, last), last])
        again = write("windows", turned, size=some.size, axis=self.axis)
        found = write.sum(write("diagonal", again), (last + 1,))
        return self._with_rest(write, write.reshape(found, self._joined(own, pieces * stride)), own)

    def _joined(self, own: TensorType, size: Dim) -> tuple[Dim, ...]:
        return (*own.dims[: self.axis], size, *own.dims[self.axis + 1 :])

    def _with_rest(self, write: Writer, joined: Value, own: TensorType) -> Value:
        """Behind the windows may be a rest that none has seen."""
        if tensor_type(joined).dims == own.dims:
            return joined
        return write("insert", write.zeros(own), joined, starts=(ZERO,) * own.rank, steps=(1,) * own.rank)

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        reach = self._reach().evaluate({})
        view = np.lib.stride_tricks.sliding_window_view(x, reach, self.axis)
        return np.moveaxis(np.moveaxis(view, self.axis, 0)[:: self.stride], 0, self.axis)[..., :: self.dilation]

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return view_form(builder, operands[0], result, forms.Window(self.axis, self.stride, self.dilation))


# Note [Windows go back as windows]
# Element l of x stands at place k of the window that begins at l - k * dilation, so its cotangent is a sum over k. With
# the cotangents of all windows spaced out by the stride, between zeros, these are read by windows again: the sum runs
# over the diagonal of the two dims that walk inside windows, one of them backwards. This is a view, a map and a sum: it
# fuses, and no element is put anywhere twice. Between windows that are a stride apart most of what is summed are zeros.
# Where a window is a number of strides long, the dim in pieces of a stride has windows that are one piece apart: no
# zeros lie between, and an element is a sum of as many numbers as windows overlap.
