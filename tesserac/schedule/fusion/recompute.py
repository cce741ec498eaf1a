"""Large maps that other launches read are computed again there, from what is in memory anyway.

    launch A: %p = map(%x, %row), ... reduce(%p)          launch A: %p = map(%x, %row), ... reduce(%p)
    launch B: map(%p, %c)                        ->       launch B: map(%x, %row, %c)

Enters: a block of forms, and the groups that they would be. Leaves: the same block, in place, in which such readers
compute the map themselves, where that moves fewer bytes; the groups are then to be found anew. Inside one launch a map
is in registers, and stays as it is. Only what is too large to stay near is worth it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.core import Op, Value, clone_op
from tesserac.ir.forms import tensor_type
from tesserac.schedule.costs.cost import LAUNCH_BYTES, MAX_WORK, body_work, element_bytes, nominal
from tesserac.schedule.fusion.fuse import MAX_BODY
from tesserac.schedule.fusion.group import Group
from tesserac.schedule.machine import Machine
from tesserac.schedule.primitives.fuse import fuse, refusal
from tesserac.types.dims import product

FEW = 16
"""What a map reads is little where it is at most such a part of what it gives."""


def compute_again(steps: Sequence[Group | Op], machine: Machine) -> None:
    groups = [step for step in steps if isinstance(step, Group)]
    number = {op: place for place, group in enumerate(groups) for op in group.ops}
    for op in number:
        if op.name == "form.map" and _pays(op, number, machine):
            _give(op, number)


def _bytes(value: Value, machine: Machine) -> int:
    ty = tensor_type(value)
    return nominal(product(ty.dims), machine) * element_bytes(ty.dtype)


def _pays(made: Op, number: dict[Op, int], machine: Machine) -> bool:
    """All who read it elsewhere could compute it, and what they would read instead is less than it is."""
    elsewhere = [user for user, _ in made.result.uses if number.get(user) != number[made]]
    size = _bytes(made.result, machine)
    if not elsewhere or size < LAUNCH_BYTES or not all(_takes(user, made, number) for user in elsewhere):
        return False
    launches = len({number[user] for user in elsewhere})
    read = 0
    for value in dict.fromkeys(made.operands):
        own = _bytes(value, machine)
        inside = value.defining_op is not None and number.get(value.defining_op) == number[made]
        if inside and own * FEW > size:
            return False  # it would have to be written then
        read += own
    elements = nominal(product(tensor_type(made.result).dims), machine)
    work = elements * body_work(made) // machine.flops_per_byte
    return launches * (read + work) < (launches + 1) * size


def _takes(user: Op, made: Op, number: dict[Op, int]) -> bool:
    """Whether a form can compute a map that it reads, rather than read it from memory."""
    if user not in number or user.parent is not made.parent:
        return False
    if user.name == "form.reduce":
        return True
    if user.name != "form.map" or refusal(user, made) is not None:
        return False
    small = len(user.body.ops) + len(made.body.ops) <= MAX_BODY
    return small and body_work(user) + body_work(made) <= MAX_WORK


def _give(made: Op, number: dict[Op, int]) -> None:
    copies: dict[int, Op] = {}
    for user in dict.fromkeys(user for user, _ in made.result.uses):
        if number.get(user) == number[made]:
            continue
        if user.name == "form.map":
            fuse(user, made)
            continue
        place = number[user]
        if place not in copies:
            assert user.parent is not None
            copies[place] = user.parent.insert(user.parent.place(user), clone_op(made, {}))
        user.set_operand(0, copies[place].result)
    if not made.result.uses:
        made.erase()
