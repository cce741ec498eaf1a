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
from tesserac.ops.lowering import scan_form
from tesserac.ops.registry import Array, Operator, register
from tesserac.types.ty import TensorType


@dataclass(frozen=True)
class Cumulative(Operator):
    """A running fold; `kind` is that of the form, and a negative axis counts from the end."""

    kind: ClassVar[str]

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

    name, kind, accumulates = "cumsum", "sum", True
    signatures = ("(x: E[*s, n], axis: axis = -1) -> acc(E)[*s, n]",)
    not_differentiable = "its rule is not written yet"

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.cumsum(x, self.axis)


@register
class CumProd(Cumulative):
    """Running products; of bools and integers under 64 bits in 64 bits.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return cumprod(1.0 + x)
    """

    name, kind, accumulates = "cumprod", "prod", True
    signatures = ("(x: O[*s, n], axis: axis = -1) -> acc(O)[*s, n]",)
    not_differentiable = "its rule is not written yet"

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.cumprod(x, self.axis)


@register
class CumMax(Cumulative):
    """The largest so far; NaN wins.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, N, f32]:
        return cummax(x, axis=N)
    """

    name, kind = "cummax", "max"
    signatures = ("(x: R[*s, n], axis: axis = -1) -> R[*s, n]",)
    not_differentiable = "its rule is not written yet"

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.maximum.accumulate(x, self.axis)


@register
class CumMin(Cumulative):
    """The smallest so far; NaN wins.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, N, f32]:
        return cummin(x, axis=N)
    """

    name, kind = "cummin", "min"
    signatures = ("(x: R[*s, n], axis: axis = -1) -> R[*s, n]",)
    not_differentiable = "its rule is not written yet"

    def reference(self, *operands: Array) -> Array:
        [x] = operands
        return np.minimum.accumulate(x, self.axis)
