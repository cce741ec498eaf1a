"""Where an operator that has no matrix is applied: what goes into it, and what comes out.

    %1 = graph.operator_in(%x, %p) {flags = ["unitary", "real"], kind = "permutation(0)", ...}
    ...                                                     how the library applies it
    %y = graph.operator_out(%4, %p) {flags = ["unitary", "real"], kind = "permutation(0)", ...}

Enters: a vector, and the parts of the operator. Leaves: the same vector; what stands between the two is one
application, so that laws see it as a whole after inlining, in derivatives, maps and loops. Cotangents go the other way:
what comes out of an operator goes into its adjoint. They are gone before operators become forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import eq
from typing import ClassVar

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.numerics.interval import Interval
from tesserac.ops.batching import mapped_whole
from tesserac.ops.calculus import Writer
from tesserac.ops.held import FLAGS, UNITARY
from tesserac.ops.registry import Array, Extent, Operator, register
from tesserac.ops.unify import Mismatch, SameSize, UnknownWord
from tesserac.types.dims import Dim
from tesserac.types.ty import TensorType

REAL = "real"
"""The flag of an operator that takes real vectors to real ones: its transpose is its adjoint."""


@dataclass(frozen=True)
class Side(Operator):
    """One end of an application. `kind` says how the operator is made of its parts, by their numbers, and of `sizes`;
    `turned` whether it is the adjoint of that that is applied, and `inverse` whether it is the inverse."""

    surface = False
    again = True
    signatures = ("(x: A[*s], *parts: E[{dims}]) -> A[*s]",)
    other: ClassVar[type[Side]]

    kind: str
    sizes: tuple[Dim, ...]
    flags: tuple[str, ...]
    turned: bool
    inverse: bool

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [
            (cls("permutation(0)", (), (UNITARY, REAL), turned=False, inverse=False), ("f32[4]", "i64[4]")),
            (cls("sparse(0, 1, 2)", (Dim.const(3),), (), turned=True, inverse=False),
             ("c64[3, 2]", "c64[5]", "i64[5]", "i64[5]")),
        ]  # fmt: skip

    def infer(self, operands: Sequence[TensorType], same: SameSize = eq) -> TensorType:
        """Parts may be anything."""
        if (fault := self.mismatch(operands, same)) is not None:
            raise fault
        return operands[0]

    def mismatch(self, operands: Sequence[TensorType], same: SameSize) -> Mismatch | None:
        unknown = [flag for flag in self.flags if flag not in (REAL, *FLAGS)]
        return UnknownWord(unknown[0] if unknown else "kind") if unknown or not self.kind else None

    def bounds(self, ranges: Sequence[Interval], operands: Sequence[TensorType], extent: Extent) -> Interval:
        return ranges[0]

    def derivative(
        self, write: Writer, operands: Sequence[Value], result: Value, tangents: Sequence[Value | None]
    ) -> Value | None:
        """An operator that does not change takes tangents as it takes vectors. Where it does, there is more than that
        between the two ends."""
        if tangents[0] is None or any(tangent is not None for tangent in tangents[1:]):
            return tangents[0]
        return write.apply(self, (tangents[0], *operands[1:]))

    def is_linear_in(self, position: int) -> bool:
        return position == 0

    def transpose(self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int) -> Value | None:
        """Without conjugation: only of real numbers that is the adjoint."""
        if REAL not in self.flags:
            return cotangent
        back = self.other(self.kind, self.sizes, self.flags, turned=not self.turned, inverse=self.inverse)
        return write.apply(back, (cotangent, *operands[1:]))

    def batched(self, write: Writer, operands: Sequence[Value], mapped: Sequence[bool]) -> Value:
        """One operator for all elements stays one; of many nothing is said."""
        if mapped[0] and not any(mapped[1:]):
            return write.apply(self, operands)
        return mapped_whole(write, operands, mapped)[0]

    def reference(self, *operands: Array) -> Array:
        return operands[0]

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return operands[0]


@register
@dataclass(frozen=True)
class OperatorIn(Side):
    """What an operator without a matrix is applied to.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return op.permutation(flip(arange(N))) @ x
    """

    name = "operator_in"


@register
@dataclass(frozen=True)
class OperatorOut(Side):
    """What an operator without a matrix gives.

    def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
        return op.permutation(flip(arange(N))).H @ x
    """

    name = "operator_out"
    other = OperatorIn


OperatorIn.other = OperatorOut
