"""Operands of products that a loop lays out in each iteration though none changes them: laid out once, before it.

    schedule.loop(%low, %high) {
        schedule.launch(%w, %panels) {kind = "pack"};  schedule.launch(%x, %panels, %y) {kind = "contract"} }
becomes
    schedule.launch(%w, %panels) {kind = "pack"}
    schedule.loop(%low, %high) { schedule.launch(%x, %panels, %y) {kind = "contract"} }

Enters: scheduled launches. Leaves: the same, in another order; so nothing of it shows in a result. What stands where an
operand may be frozen (`host/frozen_operands.py`) is laid out in vain where it is: so only a small one, for a loop of
many iterations.
"""

from __future__ import annotations

from tesserac.graph.substitute import mentions
from tesserac.ir.core import Op, Value
from tesserac.ir.index import constant_index
from tesserac.ir.passes import SCHEDULE, function_pass
from tesserac.schedule.dialect import KEPT, launch_ins, launch_kind, launch_outs, launch_space, written
from tesserac.schedule.host.frozen_operands import PARTS
from tesserac.schedule.model.reason import because
from tesserac.types.dims import product

MANY_ITERATIONS, SMALL_PACK = 16, 1 << 20
"""Of a loop, and elements of an operand, for which laying it out in vain is next to nothing."""


@function_pass(SCHEDULE, SCHEDULE, "invariant_packs")
def invariant_packs(host: Op) -> None:
    """Inner loops first: what leaves one may leave the next."""
    for loop in reversed([op for op in host.walk() if op.name == "schedule.loop"]):
        for pack in _packs(loop):
            if _is_worth_it(loop, pack) and _is_invariant(loop, pack):
                pack.detach()
                assert loop.parent is not None
                loop.parent.insert(loop.parent.place(loop), pack)
                because(pack, "once for all iterations of a loop")


def _packs(loop: Op) -> list[Op]:
    """Launches that lay operands out in each iteration, or in each for which no pack is kept."""
    blocks = [loop.body, *(op.regions[2].block for op in loop.body.ops if op.name == KEPT)]
    return [op for block in blocks for op in block.ops if op.name == "schedule.launch" and launch_kind(op) == "pack"]


def _is_worth_it(loop: Op, pack: Op) -> bool:
    if pack.parent is loop.body:
        return True
    low, high = map(constant_index, loop.operands)
    elements = product(launch_space(pack)).constant
    many = low is not None and high is not None and high - low >= MANY_ITERATIONS
    return many and elements is not None and elements <= SMALL_PACK


def _is_invariant(loop: Op, pack: Op) -> bool:
    """Whether every iteration reads the same, and nothing else writes what the launch writes."""
    inside, changed = set(loop.walk()), _changed(loop, pack)
    sources, (panels,) = list(map(_whole, launch_ins(pack))), launch_outs(pack)
    named_inside = any(value.defining_op in inside for value in pack.operands)
    makers = [value.defining_op for value in changed]
    shared = any("of" in maker.attrs for maker in makers if maker is not None)
    read_outside = any(user not in inside for user, _ in panels.uses)
    fixed = not (mentions(pack, str(loop.attrs["counter"])) or named_inside or shared or read_outside)
    return fixed and not changed & {*sources, panels}


def _changed(loop: Op, pack: Op) -> set[Value]:
    """Memory that iterations write or exchange, but for what the launch itself writes."""
    found = {value for op in loop.walk() if op is not pack for value in written(op)}
    found |= {value for op in loop.walk() if op.name == "schedule.swap" for value in op.operands}
    return set(map(_whole, found))


def _whole(value: Value) -> Value:
    """The memory that another name, or a part of it, is of."""
    while (made := value.defining_op) is not None and made.name in PARTS:
        value = made.operands[0]
    return value

