"""Contractions: sums of products over shared dims.

Enters: two tensors. Leaves: their product, accumulated in the accumulation type by one ascending chain per segment, and
rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.lazy import np
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.numerics.interval import Interval, mul, total
from tesserac.ops.batching import aligned, mapped_whole
from tesserac.ops.calculus import Writer
from tesserac.ops.lowering import contract_form, drop_unit_dims, sum_of_products
from tesserac.ops.registry import Array, Extent, Operator, register
from tesserac.types.dims import ONE
from tesserac.types.policy import compute_dtype
from tesserac.types.ty import TensorType


@register
class MatMul(Operator):
    """Matrix product, `x @ y`: leading dims broadcast; a vector is a row on the left, a column on the right.

    def f(a: Tensor[M, K, bf16 @accum(f32)], b: Tensor[K, N, bf16 @accum(f32)]) -> Tensor[M, N, bf16 @accum(f32)]:
        return a @ b
    """

    name = "matmul"
    linear = "each"
    mixes_fp8 = True
    accumulates = True
    more_options = {"epilogue": "gemm", "bias": "gemm", "residual": "gemm"}
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
            ("c64[2, 3, 4]", "c64[4, 5]"),
            ("c64[3, 4]", "c64[4]"),
            ("c128[4]", "c128[4]"),
        )
        return [(cls(), operands) for operands in shapes]

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        [x, y] = ranges
        accum = compute_dtype(operands[0].dtype, operands[0].policy)
        return total(mul(x, y), extent(operands[0].dims[-1]), accum.significand)

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        """A contraction of the cotangent with the other operand, over all that the operand does not have."""
        terms = _letters([tensor_type(v) for v in operands], tensor_type(cotangent))
        own, other = tensor_type(operands[position]), operands[1 - position]
        kept = "".join(x for x in terms[position] if x in terms[1 - position] + terms[2])
        back = write("einsum", cotangent, other, equation=f"{terms[2]},{terms[1 - position]}->{kept}")
        return write.stored(write.reshape(back, own.dims), own)

    def batched(self, write: Writer, operands: Sequence[Value], mapped: Sequence[bool]) -> Value:
        """One product, or one contraction where the mapped dim stands beside a vector. Two vectors stay a sum of
        products, hence both are mapped then."""
        ranks = [tensor_type(v).rank - has_dim for v, has_dim in zip(operands, mapped, strict=True)]
        if min(ranks) > 1:
            return write.apply(self, aligned(write, operands, mapped, inner=2))
        if max(ranks) == 1:
            return write("einsum", *mapped_whole(write, operands, mapped), equation="zk,zk->z")
        batch = _BATCH[: max(ranks) - 2]
        terms = [batch + "mk", "k"] if ranks[1] == 1 else ["k", batch + "kn"]
        own = ["z" * has_dim + term for has_dim, term in zip(mapped, terms, strict=True)]
        return write("einsum", *operands, equation=f"{own[0]},{own[1]}->z{batch}{'m' if ranks[1] == 1 else 'n'}")

    def reference(self, *operands: Array) -> Array:
        return np.asarray(np.matmul(*operands))

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        x, y = operands
        left, right = tensor_type(x), tensor_type(y)
        if left.rank == right.rank == 1:
            return sum_of_products(builder, x, y, result, (0,))
        inner = result.rank
        row = (inner - 2 if right.rank > 1 else inner - 1,) if left.rank > 1 else ()
        column = (inner - 1,) if right.rank > 1 else ()
        batch = inner - len(row) - len(column)
        x, left_batch = _batch_indices(builder, x, max(left.rank - 2, 0), result, batch)
        y, right_batch = _batch_indices(builder, y, max(right.rank - 2, 0), result, batch)
        return contract_form(builder, x, y, result, (*left_batch, *row, inner), (*right_batch, inner, *column))


def _batch_indices(
    builder: Builder, operand: Value, own: int, result: TensorType, batch: int
) -> tuple[Value, tuple[int, ...]]:
    """The operand without leading dims that stretch, and the indices of those it keeps."""
    offset = batch - own
    dims = tensor_type(operand).dims
    stretched = [axis for axis in range(own) if dims[axis] == ONE != result.dims[offset + axis]]
    kept = tuple(offset + axis for axis in range(own) if axis not in stretched)
    return drop_unit_dims(builder, operand, stretched), kept


def _letters(operands: Sequence[TensorType], result: TensorType) -> tuple[str, str, str]:
    """The product as an einsum: letters of both operands and the result. A dim that stretches has one of its own."""
    ranks = [ty.rank for ty in operands]
    rows, columns = "m" * (ranks[0] > 1), "n" * (ranks[1] > 1)
    batch = _BATCH[: result.rank - len(rows + columns)]
    terms = []
    for ty, inner, stretched in zip(operands, (rows + "k", "k" + columns), _STRETCHED, strict=True):
        own = batch[len(batch) - max(ty.rank - 2, 0) :]
        dims = zip(own, ty.dims, result.dims[len(batch) - len(own) :], strict=False)
        leading = [stretched[at] if dim == ONE != whole else x for at, (x, dim, whole) in enumerate(dims)]
        terms.append("".join(leading) + inner)
    return terms[0], terms[1], batch + rows + columns


_BATCH = "abcdefghij"
_STRETCHED = ("ABCDEFGHIJ", "QRSTUVWXYZ")
