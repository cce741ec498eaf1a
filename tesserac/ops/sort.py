"""The order of elements along an axis. Everything else about sorting is the library's, in `stdlib/math/sort.tess`.

Enters: a tensor and one axis, the last unless said. Leaves: the places of its elements in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ops.lowering import sort_form
from tesserac.ops.registry import Array, Operator, register
from tesserac.types.ty import TensorType


@register
@dataclass(frozen=True)
class ArgSort(Operator):
    """The places of the elements in ascending order. Equal ones, as -0 and +0 are, stay in the order of their places,
    also with `descending=True`; NaN comes last either way.

    def f(x: Tensor[B, N, f32]) -> Tensor[B, N, i64]:
        return argsort(x, axis=N)
    """

    name = "argsort"
    more_options = dict.fromkeys(("kind", "stable"), "argsort_by_kind")
    batching = "shifted"
    signatures = ("(x: O[*s, n], axis: axis = -1, descending: bool = False) -> i64[*s, n]",)

    axis: int = -1
    descending: bool = False

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [
            (cls(), ("f32[3, 40]",)),
            (cls(0), ("i32[40, 3]",)),
            (cls(1, True), ("u8[2, 70, 3]",)),
            (cls(), ("bool[100]",)),
            (cls(0, True), ("bf16 @accum(f32)[50, 2]",)),
            (cls(), ("f64[2, 0]",)),
        ]

    def reference(self, *operands: Array) -> Array:
        """By ranks, so that the direction is a sign."""
        [x] = operands
        _, ranks = np.unique(x, return_inverse=True)
        ranks = ranks.reshape(x.shape)
        return np.argsort(-ranks if self.descending else ranks, axis=self.axis, kind="stable").astype(np.int64)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return sort_form(builder, operands[0], result, self.axis % result.rank, self.descending)
