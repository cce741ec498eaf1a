"""Contractions: sums of products over shared dims.

Enters: two tensors. Leaves: their product, accumulated in the accumulation type by one ascending chain per segment, and
rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tesserac.ops.registry import Array, Operator, register


@register
class MatMul(Operator):
    """Matrix product, `x @ y`: leading dims broadcast; a vector is a row on the left, a column on the right.

    def f(a: Tensor[M, K, bf16 @accum(f32)], b: Tensor[K, N, bf16 @accum(f32)]) -> Tensor[M, N, bf16 @accum(f32)]:
        return a @ b
    """

    name = "matmul"
    mixes_fp8 = True
    signatures = (
        "(x: N[s..., m, k], y: N[s..., k, n]) -> dot(N)[s..., m, n]",
        "(x: N[*s, m, k], y: N[k]) -> dot(N)[*s, m]",
        "(x: N[k], y: N[*s, k, n]) -> dot(N)[*s, n]",
        "(x: N[k], y: N[k]) -> dot(N)[]",
    )

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        shapes = (
            ("f32[3, 4]", "f32[4, 5]"),
            ("f32[2, 3, 4]", "f32[4, 5]"),
            ("f32[2, 3, 4]", "f32[2, 4, 5]"),
            ("f32[3, 4]", "f32[4]"),
            ("f32[4]", "f32[4, 5]"),
            ("f32[4]", "f32[4]"),
        )
        return [(cls(), operands) for operands in shapes]

    def reference(self, *operands: Array) -> Array:
        return np.asarray(np.matmul(*operands))
