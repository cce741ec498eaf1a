"""What control flow carries: memory that passes from one round to the next without being copied.

Enters: a loop or a condition of forms, and the host program so far. Leaves: buffers for what it gives. A value that
nothing reads later hands its memory over; at the end of a round, memory changes hands by `schedule.swap`:

    form.yield(%y)      becomes      schedule.swap(%carried, %y)      and the next round reads %y under the other name
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tesserac.graph.substitute import mentions
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.kernels import KERNEL
from tesserac.ir.rewrite import is_pure
from tesserac.schedule.dialect import memory
from tesserac.schedule.forms.normal import COMPUTED, WRITTEN_ONCE
from tesserac.schedule.forms.updates import ancestor, before_updates, is_local, readers
from tesserac.schedule.forms.views import copy_of, squeeze
from tesserac.schedule.host.program import HostProgram, memory_of
from tesserac.schedule.model.access import keeps_memory, view_source

BEGINS = "a loop changes the tensor, and what it began with is read later or belongs to others"
JOINS = "a branch gives it, and it goes where the other branch has its own"
COND = "form.cond"
WRITE_ONCE = (*WRITTEN_ONCE, COND)
"""What writes each of its results to one memory."""
GOES_ON = "it is carried on, and stands in memory that is not free for it"


def first_buffers(program: HostProgram, op: Op, inits: Sequence[Value], owned: Collection[Value]) -> list[Value]:
    """A buffer per carried value, holding what it starts from: its own where the loop is the last to read it."""
    buffers: list[Value] = []
    for value, result in zip(inits, op.results, strict=True):
        if value.defining_op is not None and value.defining_op.name == "form.empty":
            buffers.append(program.workspace(tensor_type(value), result.name))
        elif inits.count(value) == 1 and _dies_at(program, value, op, owned) and not _is_read_inside(value, op):
            buffers.append(program.memory[value])
        else:
            buffers.append(program.workspace(tensor_type(value), result.name))
            program.copy(value, buffers[-1], op, BEGINS)
    return buffers


def compute_views(cond: Op) -> None:
    """Has branches compute what they give of a tensor from around as a part of it or in another order: it is read at
    its place in the branch, so that the tensor may be overwritten behind it."""
    for region in cond.regions:
        block = region.block
        for position, value in enumerate(block.terminator.operands):
            base, views = view_source(value)
            if views and not is_local(base, block) and not _is_program_of(base, block):
                own = [view for view in views if view.parent is block]
                before = block.ops[block.ops.index(own[-1]) + 1] if own else block.ops[0]
                copy = copy_of(Builder.before(before), value)
                block.terminator.set_operand(position, copy.result)
                squeeze(copy)


def _is_program_of(value: Value, block: Block) -> bool:
    """Whether a tile program of a block gives a value."""
    made = value.defining_op
    return made is not None and made.name == KERNEL and made.parent is block


def place_branch(program: HostProgram, block: Block, places: Sequence[Value | None]) -> None:
    """Has what a branch computes be written where the condition gives it, if that is memory of its own."""
    for value, mem in zip(block.terminator.operands, places, strict=True):
        made = _maker(program, block, value)
        if made is not None and mem is not None:
            program.place(made, value, mem)


def place_carried(program: HostProgram, block: Block) -> None:
    """Has what a body computes, and carries on under other names of its dims, be written to memory of that type, which
    may change hands."""
    for value in block.terminator.operands:
        made = _maker(program, block, value)
        if made is not None and value not in made.results:
            program.place(made, value, program.workspace(tensor_type(value), value.name))


def _maker(program: HostProgram, block: Block, value: Value) -> Op | None:
    """What computes, in the block, a value that it yields once, as it is or with other dims."""
    base, views = view_source(value)
    made = base.defining_op
    if made is None or made.parent is not block or base in program.updates.update_of:
        return None
    if made.name not in (*COMPUTED, KERNEL, COND) or (made.name == COND and views):
        return None
    once = block.terminator.operands.count(value) == 1 and not (made.name in WRITE_ONCE and _is_wanted(program, base))
    return made if once and all(map(keeps_memory, views)) else None


def _is_wanted(program: HostProgram, value: Value) -> bool:
    """Whether it is said already where a value is to be written."""
    assert value.defining_op is not None
    return any(view_source(seen)[0] is value for seen, _ in program.wanted.get(value.defining_op, []))


def handed_over(program: HostProgram, cond: Op, position: int, owned: Collection[Value]) -> Value | None:
    """A value from outside that a branch gives, as it is or updated, if both may overwrite it to give another."""
    ends = [region.block.terminator for region in cond.regions]
    for end in ends:
        value = before_updates(end.operands[position])
        if value not in program.memory or not _dies_at(program, value, cond, owned):
            continue
        elsewhere = [n for user, n in readers(value) if user in ends and n != position]
        if not elsewhere and memory(program.memory[value]) == memory_of(tensor_type(cond.results[position])):
            return value
    return None


def give(program: HostProgram, branch: Block, given: Sequence[Value]) -> None:
    """At the end of a branch: what it yields goes where the condition gives it; first aside, out of memory that another
    value goes to."""
    end = branch.terminator
    moves: list[tuple[Value, Value]] = []
    for value, mem in zip(end.operands, given, strict=True):
        found = program.memory.get(view_source(value)[0])
        if value.defining_op is not None and value.defining_op.name == "form.empty":
            continue  # nobody reads what it holds
        if program.memory.get(value) is not mem:
            moves.append((_aside(program, value, end) if found in given else value, mem))
    for value, mem in moves:
        program.copy(value, mem, end, JOINS)
    program.builder.op("schedule.end")


def _aside(program: HostProgram, value: Value, before: Op) -> Value:
    return program.copy(value, program.workspace(tensor_type(value), value.name), before, GOES_ON)


def _dies_at(program: HostProgram, value: Value, op: Op, owned: Collection[Value]) -> bool:
    """Whether a value has workspace of its own that is free once `op` has run."""
    block, mem = op.parent, program.memory.get(value)
    assert block is not None
    if mem is None or not _is_workspace(mem) or value in program.updates.update_of:
        return False
    if value not in owned and not is_local(value, block):
        return False
    places = {other: number for number, other in enumerate(block.ops)}
    around = (ancestor(user, block) for user, _ in readers(value))
    return all(other is None or places[other] <= places[op] for other in around)


def _is_workspace(mem: Value) -> bool:
    made = mem.defining_op
    return made is not None and made.name == "schedule.buffer" and made.attrs["role"] == "workspace"


def _is_read_inside(value: Value, op: Op) -> bool:
    return any(user is not op and ancestor(user, op.parent) is op for user, _ in readers(value))


def idle_branch(loop: Op) -> Block | None:
    """The branch that leaves all that a loop carries as it is, where an iteration is only that branch or another, and
    what it carries decides between them: then all later iterations come to it too. So does a `break`."""
    body, end = loop.body, loop.body.terminator
    conds = [op for op in body.ops if op.name == "form.cond"]
    if len(conds) != 1:
        return None
    counter, index = str(loop.attrs["counter"]), body.args[0]
    tests = [op for op in body.ops if op not in (conds[0], end)]
    if any(not is_pure(op) or index in op.operands or mentions(op, counter) for op in tests):
        return None
    for block in (region.block for region in conds[0].regions):
        given = dict(zip(conds[0].results, block.terminator.operands, strict=True))
        if len(block.ops) == 1 and [given.get(value, value) for value in end.operands] == body.args[1:]:
            return block
    return None


def carry_on(program: HostProgram, body: Block, carried: Sequence[Value]) -> None:
    """At the end of a body: what it yields becomes what the next round carries."""
    end = body.terminator
    held: list[Value] = []
    for value, mem in zip(end.operands, carried, strict=True):
        held.append(_held(program, value, mem, body, [*held], carried))
    for position, mem in enumerate(carried):
        other = held[position]
        if other is not mem:
            program.builder.op("schedule.swap", (mem, other))
            held = [other if h is mem else mem if h is other else h for h in held]
    program.builder.op("schedule.end")


def _held(
    program: HostProgram, value: Value, mem: Value, body: Block, taken: Sequence[Value], carried: Sequence[Value]
) -> Value:
    """Memory that holds a yielded value and may change hands: its own, or that of a copy."""
    base, views = view_source(value)
    if value in program.placed:
        return program.memory[value]
    found = program.memory[base]
    ours = found in carried or (is_local(base, body) and _is_workspace(found))
    if ours and not views and found not in taken and memory(found) == memory(mem):
        return found
    return program.memory[_aside(program, value, body.terminator)]
