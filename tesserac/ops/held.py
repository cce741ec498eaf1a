"""Matrices of which something is known that their numbers do not show: how an operator is held, and its flags.

Enters: the matrix of an operator. Leaves: the same matrix, with its kind and its flags beside it, for the laws of
linear algebra; `generalize` takes it away.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.numerics.interval import Interval
from tesserac.ops.calculus import Writer
from tesserac.ops.registry import Array, Extent, Operator, register
from tesserac.ops.unify import DimMismatch, Mismatch, Place, SameSize, UnknownWord
from tesserac.types.ty import TensorType

UNITARY, ISOMETRY, SELF_ADJOINT, PSD = "unitary", "isometry", "self_adjoint", "psd"
FLAGS = (UNITARY, ISOMETRY, SELF_ADJOINT, PSD)
"""What may be known: U.H @ U and U @ U.H are the identity, or only the first; A.H is A; no eigenvalue is negative."""
OF_SQUARES = frozenset((UNITARY, SELF_ADJOINT, PSD))


@register
@dataclass(frozen=True)
class Held(Operator):
    """The matrix x of an operator, or a batch of them: `kind` says what the operator is made of, as
    `kronecker(dense, diag)`, and `flags` what is promised or proven of it. The numbers are those of x; what is known of
    them is not known of their tangents.

    def f(m: Tensor[N, N, f32], x: Tensor[N, f32]) -> Tensor[N, f32]:
        return op.dense(m + m.T, self_adjoint=True) @ x
    """

    name = "operator"
    surface = False
    again = True
    batching = "leading"
    signatures = ("(x: A[*s, m, n]) -> A[*s, m, n]",)

    kind: str
    flags: tuple[str, ...]

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [
            (cls("dense", (UNITARY, SELF_ADJOINT)), ("f32[3, 3]",)),
            (cls("projector", (ISOMETRY,)), ("c64[2, 4, 3]",)),
        ]

    def mismatch(self, operands: Sequence[TensorType], same: SameSize) -> Mismatch | None:
        """A word that nobody knows, or a flag that what is not square cannot have."""
        unknown = [flag for flag in self.flags if flag not in FLAGS]
        if unknown or not self.kind:
            return UnknownWord(unknown[0] if unknown else self.kind)
        rank = operands[0].rank
        if rank < 2 or not OF_SQUARES.intersection(self.flags):
            return None
        rows, columns = operands[0].dims[-2:]
        differ = rows.constant is not None and columns.constant is not None and rows != columns
        return DimMismatch(Place(0, rank - 2), Place(0, rank - 1)) if differ or not same(rows, columns) else None

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return ranges[0]

    def derivative(
        self, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
    ) -> Value | None:
        return tangents[0]

    def reference(self, *operands: Array) -> Array:
        return operands[0]

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return operands[0]
