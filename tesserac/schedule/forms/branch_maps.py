"""Maps that cost little more than reading them are computed inside the branches that need them.

    %a = form.map(%x);  %any = ... %a ...;  form.cond(%any) { ... %a ... } { ... %a ... }
becomes
    %a = form.map(%x);  %any = ... %a ...;  form.cond(%any) { %b = form.map(%x); ... %b ... } { %c = form.map(%x); ... }

Enters: a function of forms. Leaves: the same function, in place. A branch is no part of the launches around it, so
that what it takes from outside is in memory: a condition that looks at a tensor would write all that it shares with
the branches, which fusion takes into their own launches.
"""

from __future__ import annotations

from tesserac.ir.core import Block, Op, Value, clone_op
from tesserac.ir.forms import tensor_type
from tesserac.ir.passes import FORMS, function_pass
from tesserac.schedule.costs.cost import body_work

MOST_WORK = 8
"""Operations on an element, in all maps that lead to it."""
MOST_READ = 2
"""Tensors that they read."""


@function_pass(FORMS, FORMS, "branch_maps")
def branch_maps(func: Op) -> None:
    for cond in [op for op in func.walk() if op.name == "form.cond"]:
        for region in cond.regions:
            _compute_inside(cond, region.block)
    for op in reversed([op for op in func.walk() if op.name == "form.map"]):
        if not op.result.uses:
            op.erase()


def _compute_inside(cond: Op, block: Block) -> None:
    copies: dict[Value, Value] = {}
    for op in [inner for outer in block.ops for inner in outer.walk()]:
        for position, value in enumerate(op.operands):
            if value in copies or _is_cheap(value, cond):
                op.set_operand(position, _copy(value, cond, block, copies))


def _copy(value: Value, cond: Op, block: Block, copies: dict[Value, Value]) -> Value:
    """What is computed inside a branch for a value; maps come in the beginning, each behind those that it reads."""
    made = _map_beside(value, cond)
    if made is None:
        return value
    if value not in copies:
        for given in made.operands:
            _copy(given, cond, block, copies)
        copies[value] = block.insert(len(copies), clone_op(made, dict(copies))).result
    return copies[value]


def _is_cheap(value: Value, cond: Op) -> bool:
    maps = _maps_to(value, cond)
    if not maps or not (dims := tensor_type(value).dims):
        return False
    read = {given for made in maps for given in made.operands if given.defining_op not in maps}
    large = [tensor_type(given).dims for given in read if tensor_type(given).dims]
    return len(large) <= MOST_READ and all(own == dims for own in large) and sum(map(body_work, maps)) <= MOST_WORK


def _maps_to(value: Value, cond: Op) -> set[Op]:
    """The maps beside a branch that lead to a value."""
    made = _map_beside(value, cond)
    return {made}.union(*(_maps_to(given, cond) for given in made.operands)) if made else set()


def _map_beside(value: Value, cond: Op) -> Op | None:
    made = value.defining_op
    return made if made is not None and made.name == "form.map" and made.parent is cond.parent else None
