"""Derivatives in Graph IR: operations whose region is the function to differentiate.

graph.jvp(x..., dx...) {wrt} { ^(x...): ... form.yield(y...) } : y..., dy...
    Forward mode. `wrt` are the arguments that have tangents, in the order of `dx`; there is a `dy` for each float or
    complex `y`.
graph.vjp(x..., ct..., cx...) {wrt, aux, absent, begun} { ^(x...): ... form.yield(y...) } : y..., cx...
    Reverse mode. There is a `ct` for each float or complex `y` but the last `aux`, a `cx` for each argument of `wrt`.
    `absent` are those of `ct` that are zero and go nowhere, `begun` those of `wrt` whose `cx` go on from an operand.
graph.input(x) : x
    The value of an argument inside a region, while that is taken apart: one value may be two arguments, of which one
    has tangents.
graph.tangent() : dx
    The tangent of an argument while what is linear in it is not yet transposed. Also one that is zero, where the rule
    of a function is given one for each argument: what comes back to it nobody asks for.

graph.held(x...)
    Uses values that nothing else may use yet.
graph.checkpoint() {replay} { ^(): ... form.yield(y...) } : y...
    What is inside, which reverse mode computes again instead of keeping values of it. `replay` says that this is where
    it is computed again; then it shall not be merged with where it was computed first.
graph.iterations(n, dx...) {rows} { ^(iteration, dx...): ... form.yield(dx...) } : dx...
    The linear part of a `while` of n iterations, `rows` at most, while it is not yet transposed.

Attributes of loops that reverse mode reads: `rows` is how many iterations there are at most, whatever the loops around
it do; `every`, `slots` and `max_steps` are what the program says of memory. One that it writes says `backward`.

The pass `autodiff` leaves none of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.core import Op, Value, define_op
from tesserac.ir.forms import indices, tensor_type
from tesserac.ir.types import TensorType
from tesserac.ir.verify import require
from tesserac.ops.calculus import is_smooth

JVP, VJP, TANGENT = "graph.jvp", "graph.vjp", "graph.tangent"
CHECKPOINT, ITERATIONS = "graph.checkpoint", "graph.iterations"
TANGENTS = "tangents"
"""How many of the results of control flow are tangents, the last ones."""
ROWS, EVERY, SLOTS, MAX_STEPS = "rows", "every", "slots", "max_steps"
BACKWARD = "backward"
AUX = "aux"
ABSENT, BEGUN = "absent", "begun"
"""Attributes of a `graph.vjp` in the function of a derivative (`called.py`)."""


def smooth(values: Sequence[Value]) -> list[Value]:
    """Those that have tangents."""
    return [value for value in values if is_smooth(tensor_type(value))]


def pulled(op: Op) -> list[Value]:
    """The results of the function of a `graph.vjp` that have cotangents."""
    outputs, aux = op.body.terminator.operands, op.attrs.get(AUX, 0)
    assert isinstance(aux, int)
    return smooth(outputs[: len(outputs) - aux])


def begun_places(op: Op) -> tuple[int, ...]:
    """Which arguments of `wrt` have cotangents that a `graph.vjp` goes on from."""
    return indices(op, BEGUN) if BEGUN in op.attrs else ()


def primal_operands(op: Op) -> tuple[Value, ...]:
    """The arguments of the function that a derivative is of."""
    return op.operands[: len(op.body.args)]


def _verify_derivative(op: Op) -> None:
    args, wrt = op.body.args, indices(op, "wrt")
    require(all(isinstance(v.type, TensorType) for v in op.operands), "works on tensors", op)
    require([v.type for v in primal_operands(op)] == [a.type for a in args], "needs one value per argument", op)
    require(all(0 <= place < len(args) and smooth([args[place]]) for place in wrt), "bad `wrt`", op)
    outputs = list(op.body.terminator.operands)
    inputs = [args[place] for place in wrt]
    begun = [inputs[place] for place in begun_places(op)]
    given, found = (inputs, smooth(outputs)) if op.name == JVP else ([*pulled(op), *begun], inputs)
    require([v.type for v in op.operands[len(args) :]] == [v.type for v in given], "needs what goes in", op)
    require([v.type for v in op.results] == [v.type for v in (*outputs, *found)], "gives what comes out", op)


def _verify_input(op: Op) -> None:
    require(len(op.operands) == 1 and op.operands[0].type == op.result.type, "is its operand", op)


def _verify_checkpoint(op: Op) -> None:
    require(not op.operands and not op.body.args, "takes nothing", op)
    require([v.type for v in op.results] == [v.type for v in op.body.terminator.operands], "gives what it yields", op)


define_op(JVP, pure=True, verify=_verify_derivative)
define_op(VJP, pure=True, verify=_verify_derivative)
define_op(CHECKPOINT, pure=True, verify=_verify_checkpoint)
define_op(ITERATIONS, pure=True)
define_op("graph.input", pure=True, verify=_verify_input)
define_op(TANGENT, pure=True)
define_op("graph.held", pure=False)
