"""Systems of one matrix, which one elimination solves: their right sides stand side by side, and pivots do not depend
on them.

    x = solve(a, b); y = solve(a, c); z = inv(a)   is   solve(a, [b, c, I]), of which each has its columns

Enters: calls that may be such systems. Leaves: those that are one, where that stands, its right side, and the parts of
its solution. Every column has the bits that it has alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.graph.algebra.costs import total
from tesserac.graph.algebra.known import move_before, needed_before
from tesserac.graph.dialect import PREFIX
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import Writer
from tesserac.ops.shape import Slice
from tesserac.types.dims import ONE, ZERO, Dim

PERMUTE = PREFIX + "permute"


@dataclass(frozen=True, eq=False)
class Joint:
    """`at` is the first operation that reads the matrix, so that a determinant finds the right side of all."""

    systems: Sequence[Op]
    at: Op

    def columns(self) -> Dim:
        return total(map(_columns, self.systems))

    def right_side(self, write: Writer) -> Value:
        for side in _sides(self.systems):
            move_before(needed_before(side, self.at) or (), self.at)
        return write("concat", *(_side(write, op) for op in self.systems), axis=1)

    def take_apart(self, write: Writer, solved: Value) -> None:
        """Gives each system its columns of the solution, in its own shape."""
        start, rows = ZERO, tensor_type(solved).dims[0]
        for op in self.systems:
            part = write.apply(Slice((ZERO, start), (rows, _columns(op)), (1, 1)), (solved,))
            op.result.replace_all_uses(write.reshape(part, tensor_type(op.result).dims))
            start = start + _columns(op)
        for op in self.systems:
            op.erase()


def joint_systems(systems: Sequence[Op], readers: Sequence[Op], alike: Sequence[Hashable]) -> Iterator[Joint]:
    """Of systems in the order of the program; `readers` are all operations that need an elimination, `alike` is what
    systems must have in common."""
    groups: dict[Hashable, list[Op]] = {}
    for op, common in zip(systems, alike, strict=True):
        groups.setdefault((matrix_of(op), op.parent, common), []).append(op)
    for group in groups.values():
        first = group[0]
        ready = [op for op in group if _may_stand_before([op], first)]
        sides = {tuple(op.operands) for op in ready}  # a system that is written twice is merged with itself later
        if len(sides) < 2 or ready[0] is not first:
            continue
        earlier = (op for op in readers if matrix_of(op) == matrix_of(first) and op.parent is first.parent)
        at = next(earlier, first)
        yield Joint(ready, at if _may_stand_before(ready, at) else first)


def matrix_of(op: Op) -> tuple[Value, bool]:
    """The matrix of a system, and whether it is turned first, as it is for each system on its own."""
    made = op.operands[0].defining_op
    if made is not None and made.name == PERMUTE and made.attrs["order"] == (1, 0):
        return made.operands[0], True
    return op.operands[0], False


def _may_stand_before(systems: Sequence[Op], at: Op) -> bool:
    return all(needed_before(side, at) is not None for side in _sides(systems))


def _sides(systems: Sequence[Op]) -> list[Value]:
    return [side for op in systems for side in op.operands[1:]]


def _side(write: Writer, op: Op) -> Value:
    """An inverse has the identity on its right."""
    matrix = tensor_type(op.operands[0])
    if len(op.operands) == 1:
        return write("eye", size=matrix.dims[0], dtype=matrix.dtype, policy=matrix.policy)
    side = op.operands[1]
    return side if tensor_type(side).rank == 2 else write.reshape(side, (*tensor_type(side).dims, ONE))


def _columns(op: Op) -> Dim:
    type_ = tensor_type(op.operands[-1])
    return ONE if type_.rank == 1 else type_.dims[1]
