"""What control flow keeps for the way back: the least memory from which the rest is cheap to have again.

Enters: the body of a loop or branch, its tangents, and what keeping a value costs. Leaves: the operations that are
`linear`, the values of the body that are `stored`, and the operations that the linear part does `again`. See Note [What
is kept].
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache

from tesserac.graph.autodiff.linear import linear_ops, used_values
from tesserac.graph.autodiff.mincut import FOREVER, Network
from tesserac.graph.dialect import PREFIX
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.registry import OPERATORS
from tesserac.types.dims import Dim, product
from tesserac.types.extents import Bounds, largest
from tesserac.types.ty import TensorType

ROW_COST = 256
"""What keeping one more value costs beside its bytes: it is written by a launch of its own."""
_TYPICAL = 1 << 14
"""What a size is taken for that only the run knows: so large that many elements are kept rather than the tensor that
they are read from."""
_LOOPS = ("form.loop", "form.while")
Cost = Callable[[Value], int | None]
"""Of keeping a value of a body; None for one that cannot be kept: it is always made again."""


class Residuals:
    def __init__(self, control: Op, body: Block, tangents: Collection[Value], cost: Cost) -> None:
        """What is from outside all loops costs nothing."""
        ops, known = body.ops[:-1], set(tangents)
        self.linear: list[Op] = linear_ops(ops, known)
        made = [v for v in (*body.args, *(v for op in ops for v in op.results)) if v not in known]
        self._cost, self._ops = cost, set(ops)
        self._around = {v for v in _from_loops_around(control, ops) if v not in known}
        self._inside = {*self._around, *made}
        needed = [v for v in dict.fromkeys(v for op in self.linear for v in used_values(op)) if v in self._inside]
        stored = self._cheapest(needed)
        self.stored: list[Value] = [v for v in made if v in stored]
        again = self._makers(needed, stored)
        self.again: list[Op] = [op for op in ops if op in again]

    def _cheapest(self, needed: Sequence[Value]) -> set[Value]:
        """The cut of least cost between what a body begins with and what its linear part needs."""
        network, seen, open_ = Network[Value](), set[Value](), list(needed)
        for value in needed:
            network.must_have(value)
        while open_:
            value = open_.pop()
            if value in seen:
                continue
            seen.add(value)
            cost = ROW_COST + bytes_of(tensor_type(value)) if value in self._around else self._cost(value)
            network.add(value, FOREVER if cost is None else cost)
            made = self._maker(value)
            if made is None:
                network.begin(value)
                continue
            operands = [v for v in used_values(made) if v in self._inside]
            for operand in operands:
                network.follows(operand, value)
            open_ += operands
        return network.cut()

    def _maker(self, value: Value) -> Op | None:
        """What makes a value, if it may do so twice: where it is cheap, and where its result cannot be kept."""
        made = value.defining_op
        if made is None or made not in self._ops:
            return None
        return made if _is_cheap(made.name) or any(self._cost(v) is None for v in made.results) else None

    def _makers(self, needed: Sequence[Value], stored: set[Value]) -> set[Op]:
        found, open_ = set[Op](), [v for v in needed if v not in stored]
        while open_:
            made = open_.pop().defining_op
            assert made is not None, "what a body begins with is stored where it is needed"
            if made not in found:
                found.add(made)
                open_ += [v for v in used_values(made) if v in self._inside and v not in stored]
        return found


def _from_loops_around(control: Op, ops: Sequence[Op]) -> list[Value]:
    """The tensors that the body of control flow reads from outside it, and a loop makes anew each time."""
    used = dict.fromkeys(v for op in ops for v in used_values(op) if isinstance(v.type, TensorType))
    around = {value: _makers_around(value) for value in used}
    return [v for v in used if control not in around[v] and any(op.name in _LOOPS for op in around[v])]


def _makers_around(value: Value) -> list[Op]:
    """The operations inside which a value is made."""
    found: list[Op] = []
    block = value.owner.parent if isinstance(value.owner, Op) else value.owner
    while block is not None and (op := block.parent_op) is not None:
        found.append(op)
        block = op.parent
    return found


@cache
def _is_cheap(name: str) -> bool:
    known = OPERATORS.get(name.removeprefix(PREFIX))
    return name == "graph.size" or (known is not None and known.again)


# -------------------------------------------------------------------------------------------------------- costs


def room_for(value: Value, bounds: Bounds) -> TensorType | None:
    """A tensor that holds the value in every iteration of the loops whose counters stand in its sizes; None if there is
    no such, or the value is an index, which has no place in memory."""
    if not isinstance(value.type, TensorType):
        return None
    dims = [largest(dim, bounds) for dim in value.type.dims]
    if any(dim is None for dim in dims):
        return None
    return TensorType(tuple(dim for dim in dims if dim is not None), value.type.dtype, value.type.policy)


def bytes_of(type_: TensorType) -> int:
    return typical(product(type_.dims)) * type_.dtype.bytes


def typical(size: Dim) -> int:
    """What a size is taken for; at least 1, so that nothing is kept for free."""
    return max(1, size.evaluate(dict.fromkeys(size.symbols(), _TYPICAL)))


# Note [What is kept]
# Going back through a loop needs what its iterations computed: the factor of a tangent in `cos(x) * dx`. Such values
# are kept in stacks, one row per iteration, so that memory grows with their number (a checkpoint trades it for time).
# Not all of them are: what is pointwise in others, or a view, is computed again from these, in the launch that reads
# it. Products, sums and control flow are never done twice for this. Between what an iteration begins with and what is
# needed the values to keep are a cut of least cost: bytes, and a little for each value, since writing it is a launch;
# among equal cuts the one nearest to what is needed. A value whose shape changes has rows that are long enough for all
# iterations; where nobody knows how long that is, it is computed again. What costs nothing (a constant, row i of an
# input of the loop) has no way from the beginning of an iteration, and so is never cut.
#
# What a body reads from around it is there anyway, unless it stands in a loop itself, which then would have to keep it:
# of a tensor that a loop carries, and a branch or a loop inside reads one element of, that gives out the element. A row
# of an inner loop counts as often as the loop runs.
