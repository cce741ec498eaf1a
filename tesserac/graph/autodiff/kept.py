"""What the turns of a loop keep for the way back: the least memory from which the rest is cheap to have again.

Enters: a loop that mixes values and tangents, and which operations of its body are linear. Leaves: the values that are
`stored` for every turn, and the operations that the linear part does `again`. See Note [What a loop keeps].
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tesserac.graph.autodiff.linear import tangent_count, used_values
from tesserac.graph.autodiff.mincut import FOREVER, Network
from tesserac.graph.dialect import PREFIX
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.registry import OPERATORS
from tesserac.types.dims import product
from tesserac.types.ty import TensorType

ROW_COST = 256
"""What keeping one more value costs beside its bytes: it is written by a launch of its own."""
_TYPICAL = 64
"""What a size is taken for that only the run knows."""


class Kept:
    def __init__(self, loop: Op, linear: Sequence[Op]) -> None:
        self._counter = str(loop.attrs.get("counter", ""))
        body = loop.body if loop.name == "form.loop" else loop.regions[1].block
        given = {v for inner in linear for v in inner.results} | set(body.args[-tangent_count(loop) :])
        inside = ({v for inner in body.ops for v in inner.results} | set(body.args)) - given
        needed = [v for v in dict.fromkeys(v for inner in linear for v in used_values(inner)) if v in inside]
        self._inside = inside
        stored = self._cheapest(needed)
        self.stored: list[Value] = [v for v in _in_order(body.args, body.ops) if v in stored]
        again = self._makers(needed, stored)
        self.again: list[Op] = [inner for inner in body.ops if inner in again]

    def _cheapest(self, needed: Sequence[Value]) -> set[Value]:
        """The cut of least cost between what a turn begins with and what its linear part needs."""
        network, seen, open_ = Network[Value](), set[Value](), list(needed)
        for value in needed:
            network.must_have(value)
        while open_:
            value = open_.pop()
            if value in seen:
                continue
            seen.add(value)
            network.add(value, self._cost(value))
            made = value.defining_op
            if made is None or not self._is_repeated(made):
                network.begin(value)
                continue
            operands = [v for v in used_values(made) if v in self._inside]
            for operand in operands:
                network.follows(operand, value)
            open_ += operands
        return network.cut()

    def _makers(self, needed: Sequence[Value], stored: set[Value]) -> set[Op]:
        found, open_ = set[Op](), [v for v in needed if v not in stored]
        while open_:
            made = open_.pop().defining_op
            assert made is not None, "what a turn begins with is stored where it is needed"
            if made not in found:
                found.add(made)
                open_ += [v for v in used_values(made) if v in self._inside and v not in stored]
        return found

    def _changes_shape(self, value: Value) -> bool:
        """Whether a value has no one place in every turn; an index, which has none in memory, counts as such."""
        return not isinstance(value.type, TensorType) or any(self._counter in dim.symbols() for dim in value.type.dims)

    def _cost(self, value: Value) -> int:
        if self._changes_shape(value):
            return FOREVER
        ty = tensor_type(value)
        sizes = {name: _TYPICAL for dim in ty.dims for name in dim.symbols()}
        return ROW_COST + product(ty.dims).evaluate(sizes) * ty.dtype.bytes

    def _is_repeated(self, made: Op) -> bool:
        """Whether an operation may be done twice: where it is cheap, and where its result cannot be kept."""
        return _is_cheap(made.name) or any(map(self._changes_shape, made.results))


def _in_order(args: Sequence[Value], ops: Sequence[Op]) -> list[Value]:
    return [*args, *(v for op in ops for v in op.results)]


@cache
def _is_cheap(name: str) -> bool:
    known = OPERATORS.get(name.removeprefix(PREFIX))
    return name == "graph.size" or (known is not None and known.again)


# Note [What a loop keeps]
# Going back through a loop needs what its turns computed: the factor of a tangent in `cos(x) * dx`. Such values are
# kept in stacks, one row per turn, so that memory grows with the number of turns (a checkpoint trades it for time). Not
# all of them are: what is pointwise in others, or a view, is computed again from these, in the launch that reads it.
# Products, sums and control flow are never done twice for this. Between what a turn begins with and what is needed the
# values to keep are a cut of least cost: bytes, and a little for each value, since writing it is a launch; among equal
# cuts the one nearest to what is needed. A value whose shape changes from turn to turn cannot be kept in rows: it is
# always computed again. What costs nothing (a constant, row i of an input of the loop) has no way from the beginning of
# a turn, and so is never cut.
