"""Results in the memory of arguments that the caller gives away.

    %y = schedule.buffer() {role = "output", slot = 0, of = 1}        is the memory of the second argument

Enters: the host program of a function with all its launches. Leaves: the same program, right although such a result and
its argument are one memory. It is where nothing reads the argument any more once the result is written, or where the
launch that writes an element reads just that element; a launch that comes too early for this is moved behind the last
reader. Otherwise the result is computed in workspace, and copied at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tesserac.ir.core import Block, Op, Value, tuple_of
from tesserac.schedule.dialect import launch_kind, launch_outs, written
from tesserac.schedule.forms.updates import ancestor
from tesserac.schedule.host.program import HostProgram
from tesserac.schedule.model.space import computing, read_reach, write_reach
from tesserac.types.dims import ZERO

FRESH = -1
PARTS = ("schedule.box", "schedule.parts")
"""Other names for memory, or for a part of it."""
ELEMENTWISE = ("map", "contract")
"""Launches that compute an element of every result before they write the first."""


def donated(func: Op) -> dict[int, int]:
    """The arguments whose memory results take, by the position of the result."""
    given = tuple_of(func.attrs.get("donated", ()), int)
    return {position: place for position, place in enumerate(given) if place != FRESH}


def settle(program: HostProgram, block: Block, given: Mapping[int, int]) -> None:
    """Makes every result that takes an argument's memory right."""
    pairs = {program.results[position]: block.args[place] for position, place in given.items()}
    settled = _Settled(block, pairs)
    late = [result for result, argument in pairs.items() if not settled.is_right(result, argument)]
    for result in late:
        _copy_at_the_end(program, result)


def _copy_at_the_end(program: HostProgram, result: Value) -> None:
    """Has a result computed in workspace; its own memory is written when nothing reads it any more."""
    aside = program.workspace_like(result)
    for user, position in list(result.uses):
        user.set_operand(position, aside)
    program.copy_memory(aside, result)


class _Settled:
    """The program, with `pairs` of results and the arguments that they share memory with."""

    def __init__(self, block: Block, pairs: Mapping[Value, Value]) -> None:
        self.block = block
        self.pairs = pairs

    def is_right(self, result: Value, argument: Value) -> bool:
        """Whether the result may be written where its argument lies; a launch is moved where that helps."""
        writers = [op for op in _users(result) if op.name == "schedule.launch" and self._writes(op, result)]
        if not writers:
            return True  # it is the argument, changed in place
        first = min(writers, key=self._place)
        readers = [op for op in _users(argument) if op is not first]
        if first in _users(argument) and not reads_as_it_writes(first, argument, result):
            return False
        last = max(readers, key=self._place, default=first)
        if self._place(last) <= self._place(first):
            return True
        return len(writers) == 1 and self._move_behind(first, last)

    def _place(self, op: Op) -> int:
        around = ancestor(op, self.block)
        assert around is not None, "all of a host program stands in its body"
        return self.block.place(around)

    def _memory(self, value: Value) -> Value:
        """What a name stands for: a buffer, or the argument that gives its memory."""
        value = _named(value)
        return self.pairs.get(value, value)

    def _writes(self, launch: Op, result: Value) -> bool:
        return any(_named(out) is result for out in launch_outs(launch))

    def _move_behind(self, launch: Op, last: Op) -> bool:
        """Moves a launch behind another operation, if nothing between them needs what it writes or changes what it
        reads."""
        if launch.parent is not self.block:
            return False
        start, end = self._place(launch), self._place(last)
        between = [inner for op in self.block.ops[start + 1 : end + 1] for inner in (op, *op.walk())]
        names = {_named(out) for out in launch_outs(launch)}
        needed = {self._memory(v) for v in launch.operands}
        for op in between:
            if names & set(map(_named, op.operands)) or needed & self._written(op):
                return False
        launch.detach()
        self.block.insert(end, launch)
        return True

    def _written(self, op: Op) -> set[Value]:
        outs = op.operands if op.name == "schedule.swap" else written(op)
        return {self._memory(v) for v in outs}


def _named(value: Value) -> Value:
    """The buffer or argument that a value is, or is a part of."""
    while (made := value.defining_op) is not None and made.name in PARTS:
        value = made.operands[0]
    return value


def _users(mem: Value) -> list[Op]:
    """Operations that read or write memory, also by another name. What reads panels may read, in the variant for few
    rows, the memory that they are made from."""
    found: list[Op] = []
    for user, _ in mem.uses:
        found += _users(user.result) if user.name in PARTS else [user]
        if user.name == "schedule.launch" and launch_kind(user) == "pack" and mem not in launch_outs(user):
            found += [reader for panels in launch_outs(user) for reader in _users(panels)]
    return [op for op in dict.fromkeys(found) if op.name != "schedule.return"]


def reads_as_it_writes(launch: Op, argument: Value, result: Value) -> bool:
    """Whether a launch reads, of the argument, the element that it writes at that moment, and not after it."""
    outs = list(launch_outs(launch))
    if result not in outs:
        return False
    number = outs.index(result)
    written = write_reach(launch, number)
    reading: list[Op] = []
    for op in computing(launch):
        for position in range(len(op.operands)):
            reach = read_reach(launch, op, position)
            if reach is None or _named(launch.operands[reach.operand]) is not argument:
                continue
            same = reach.offset == ZERO and reach.strides == written.strides
            if not same or reach.computed or reach.panels or launch.operands[reach.operand] is not argument:
                return False
            reading.append(op)
    if launch_kind(launch) in ELEMENTWISE:
        return True
    return launch_kind(launch) == "rows" and all(set(_yielded(op)) <= {number} for op in reading)


def _yielded(op: Op) -> Iterator[int]:
    """The results that need an element of what `op` reads when they are written; a sum of them is done by then."""
    if op.name == "form.reduce":
        return
    for user, position in op.result.uses:
        if user.name == "form.yield":
            yield position
        else:
            yield from _yielded(user)
