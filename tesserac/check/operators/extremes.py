"""`min` and `max` of several numbers, as in Python; of a tensor they are reductions.

Enters: checked arguments. Leaves: the numbers folded from the left, known while compiling where all of them are.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.check.model import typed
from tesserac.check.operators.apply import apply_operator
from tesserac.check.state.arguments import Arg, Callee
from tesserac.check.state.body import Body
from tesserac.ops.elementwise import Maximum, Minimum
from tesserac.ops.registry import Operator
from tesserac.types.ty import FloatType, IntType, RunIntType, TensorType, Type

EXTREMES: dict[str, Operator] = {"max": Maximum(), "min": Minimum()}


def are_numbers(args: Sequence[Arg]) -> bool:
    """Whether these are several numbers, as in `min(N, 64)` and `max(x[i], 0.0, best)`."""
    return len(args) > 1 and all(arg.name is None and _is_number(arg.value.type) for arg in args)


def _is_number(type_: Type) -> bool:
    one = isinstance(type_, TensorType) and not type_.dims and not type_.is_scaled
    return one or isinstance(type_, IntType | RunIntType | FloatType)


def extreme(body: Body, name: str, args: Sequence[Arg], callee: Callee) -> typed.Expr:
    first, *others = (arg.value for arg in args)
    for other in others:
        first = apply_operator(body, EXTREMES[name], [first, other], callee.at, callee.span)
    return first
