"""Buffers that share memory: workspace slots by liveness.

Enters: a host program whose workspace buffers have a slot each. Leaves: buffers whose lives do not overlap in one slot,
so that a chain of launches needs two slots, whatever its length. Sizes are symbols: a slot is as large as the largest
of its buffers, and a buffer takes a free slot of its own size first.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.passes import SCHEDULE, function_pass
from tesserac.ir.types import MemRefType
from tesserac.schedule.dialect import BESIDE, FOLLOWS, ROWS, memory, written

LOOPS = ("schedule.loop", "schedule.while")


@dataclass
class _Life:
    """First and last place in program order where a buffer holds something."""

    buffer: Op
    first: int
    last: int


@dataclass
class _Slot:
    free_from: int
    types: set[MemRefType]


@function_pass(SCHEDULE, SCHEDULE, "assign_slots")
def assign_slots(host: Op) -> None:
    slots: list[_Slot] = []
    for life in sorted(lives(host), key=lambda x: x.first):
        ty = memory(life.buffer.result)
        number = _free_slot(slots, life.first, ty)
        slots[number].free_from = life.last + 1
        slots[number].types.add(ty)
        life.buffer.attrs["slot"] = number


def _free_slot(slots: list[_Slot], place: int, ty: MemRefType) -> int:
    free = [i for i, slot in enumerate(slots) if slot.free_from <= place]
    same = [i for i in free if ty in slots[i].types]
    if same or free:
        return (same or free)[0]
    slots.append(_Slot(0, set()))
    return len(slots) - 1


def lives(host: Op) -> list[_Life]:
    places: dict[Op, tuple[int, int]] = {}
    _number(host.body, 0, places)
    found: list[_Life] = []
    for op in host.body.ops:
        if op.name == "schedule.buffer" and op.attrs["role"] == "workspace":
            spans = [_span(user, op.result, places) for user in _users(op.result)]
            if spans:
                found.append(_Life(op, min(a for a, _ in spans), max(b for _, b in spans)))
    _live_together(host, {life.buffer: life for life in found})
    return found


def _live_together(host: Op, lives: dict[Op, _Life]) -> None:
    """Buffers that change hands live as long as each other: either may hold what the other's name stands for."""
    pairs = [[value.defining_op for value in op.operands] for op in host.walk() if op.name == "schedule.swap"]
    for _ in pairs:
        for pair in pairs:
            both = [lives[buffer] for buffer in pair if buffer is not None and buffer in lives]
            if not both:
                continue  # registers keep their places
            first, last = min(life.first for life in both), max(life.last for life in both)
            for life in both:
                life.first, life.last = first, last


def _users(buffer: Value) -> list[Op]:
    """Operations that touch a buffer, also by another name for it or a part of it."""
    users: list[Op] = []
    for user, _ in buffer.uses:
        users += [user, *_users(user.result)] if user.name in ("schedule.box", "schedule.parts") else [user]
    return users


def _number(block: Block, start: int, places: dict[Op, tuple[int, int]]) -> int:
    """Numbers operations in program order; one with regions spans all inside it. Launches that run in turn have one
    number: what the first reads and the last writes is there at once."""
    for op in block.ops:
        first = start - 1 if FOLLOWS in op.attrs else start
        start = first + 1
        for region in op.regions if op.name != "schedule.launch" else ():
            start = _number(region.block, start, places)
        places[op] = (first, start - 1 if op.regions else first)
    return start


def _span(user: Op, buffer: Value, places: dict[Op, tuple[int, int]]) -> tuple[int, int]:
    """Where a use keeps the buffer alive: a value that enters a loop lives as long as the loop. So does all that a loop
    over rows touches: a row may be in another iteration than the next one; and what runs beside something else."""
    first, last = places[user]
    outer = user
    while (block := outer.parent) is not None and (around := block.parent_op) is not None:
        whole = ROWS in around.attrs or around.name == BESIDE
        if whole or (around.name in LOOPS and not _begins_inside(around, buffer, places)):
            first, last = min(first, places[around][0]), max(last, places[around][1])
        outer = around
    return first, last


def _begins_inside(loop: Op, buffer: Value, places: dict[Op, tuple[int, int]]) -> bool:
    """Whether each round writes the buffer before it reads it, and nothing outside touches it."""
    low, high = places[loop]
    users = sorted(set(_users(buffer)), key=lambda u: places[u][0])
    inside = all(low <= places[u][0] <= high for u in users)
    if any(u.name == "schedule.swap" and u.parent is not None and u.parent.parent_op is loop for u in users):
        return False  # the next round reads it under another name
    return inside and buffer in written(users[0])
