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
from tesserac.ops.lowering import view_form
from tesserac.ops.registry import Array, Need, Operator, register
from tesserac.types.dims import ONE, Dim
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
    signatures = ("(x: E[*s], size: size, axis: axis, stride: int = 1, dilation: int = 1) -> E[{dims}]",)
    not_differentiable = "its rule is not written yet"

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

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        reach = self._reach().evaluate({})
        view = np.lib.stride_tricks.sliding_window_view(x, reach, self.axis)
        return np.moveaxis(np.moveaxis(view, self.axis, 0)[:: self.stride], 0, self.axis)[..., :: self.dilation]

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return view_form(builder, operands[0], result, forms.Window(self.axis, self.stride, self.dilation))
