"""Branches that sizes decide are taken by the host: nothing has to compute the flag, and nobody waits for it.

    %small = form.map() { N <= 256 };  form.cond(%small) {...} {...}
becomes
    schedule.select() {predicates = [#predicate<kind="at_least", left=`256 - N`, right=`0`>]} {...} {...}

Enters: a block of forms. Leaves: the same block, in which conditions that are comparisons of sizes say so instead of
reading a flag.
"""

from __future__ import annotations

from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import SIZED
from tesserac.ir.types import ScalarType
from tesserac.schedule.dialect import Predicate
from tesserac.types.dims import ZERO, Dim

SIZES = "sizes"
"""The attribute of a condition: the predicate that decides it. It reads no flag then."""


def decide_by_sizes(block: Block) -> None:
    for op in list(block.ops):
        if op.name != "form.cond" or SIZED not in op.attrs or not op.operands:
            continue
        slack = _slack(op.operands[0].defining_op)
        if slack is not None:
            op.attrs[SIZES] = Predicate("at_least", slack, ZERO)
            flag = op.operands[0].defining_op
            op.set_operands([])
            _drop(flag)


def _drop(op: Op | None) -> None:
    """What made a flag that nobody reads."""
    if op is None or op.name != "form.map" or any(value.uses for value in op.results):
        return
    makers = [value.defining_op for value in op.operands]
    op.erase()
    for maker in dict.fromkeys(makers):
        _drop(maker)


def _slack(op: Op | None) -> Dim | None:
    """A size that is at least 0 where the flag that a map computes holds."""
    return None if op is None or op.name != "form.map" else _condition(op.body.terminator.operands[0], op)


_ORDERED = {"scalar.le": (0, 1, 0), "scalar.lt": (0, 1, 1), "scalar.ge": (1, 0, 0), "scalar.gt": (1, 0, 1)}
"""Which operand is the smaller one, which the larger, and by how much at least."""


def _condition(value: Value, form: Op) -> Dim | None:
    made = value.defining_op
    if made is None:
        return _slack(form.operands[form.body.args.index(value)].defining_op)
    if made.name in ("scalar.and", "scalar.bitwise_and"):
        sides = [_condition(operand, form) for operand in made.operands]
        return None if sides[0] is None or sides[1] is None else sides[0].min(sides[1])
    if made.name not in _ORDERED:
        return None
    small, large, apart = _ORDERED[made.name]
    low, high = (_size(made.operands[place], form) for place in (small, large))
    return None if low is None or high is None else high - low - apart


def _size(value: Value, form: Op) -> Dim | None:
    """An integer that sizes make."""
    made = value.defining_op
    if made is None:
        source = form.operands[form.body.args.index(value)].defining_op
        return _size(source.body.terminator.operands[0], source) if source and source.name == "form.map" else None
    match made.name:
        case "scalar.dim":
            dim = made.attrs["dim"]
            return dim if isinstance(dim, Dim) else None
        case "scalar.constant":
            number = made.attrs["value"]
            return Dim.const(number) if type(number) is int else None
        case "scalar.cast":
            return _size(made.operands[0], form) if _is_wide(made) else None
        case "scalar.add" | "scalar.sub":
            left, right = (_size(operand, form) for operand in made.operands)
            if left is None or right is None:
                return None
            return left + right if made.name == "scalar.add" else left - right
    return None


def _is_wide(cast: Op) -> bool:
    """Whether a cast keeps every size."""
    types = [value.type for value in (*cast.operands, *cast.results)]
    return all(isinstance(ty, ScalarType) and ty.dtype.is_integer and ty.dtype.bits == 64 for ty in types)
