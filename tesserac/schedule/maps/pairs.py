"""Parts of complex numbers that a map reads or writes side by side: the launch says so.

    %re = schedule.box(%y) {offset = `0`};  %im = schedule.box(%y) {offset = `1`}
    schedule.launch(%z, %re, %im) {kind = "map"}
becomes
    schedule.launch(%z, %re, %im) {kind = "map", pairs = [[0, 0], [1, 2]]}

Its kernel then has one memory for both parts, with a first dim of 2, and a target sees that they lie beside each other:
vectors of both are one run. Enters: scheduled launches. Leaves: the same; only how memory is seen is other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tesserac.ir.core import Op, attr_tuple, tuple_of
from tesserac.ir.interleaved import TWO
from tesserac.ir.passes import SCHEDULE, function_pass
from tesserac.schedule.dialect import STEPS, launch_ins, launch_kind, launch_lengths, memory
from tesserac.schedule.model.space import Reach, computing, read_reach
from tesserac.types.dims import ONE, ZERO, Dim

PAIRS = "pairs"
"""The operands of a launch that hold first and second parts; an operand that it reads both of stands beside itself."""


@function_pass(SCHEDULE, SCHEDULE, "pairs")
def pairs(host: Op) -> None:
    for launch in host.walk():
        if launch.name == "schedule.launch" and launch_kind(launch) == "map" and not _is_of_several(launch):
            found = (*_read_pairs(launch), *_written_pairs(launch))
            if found:
                launch.attrs[PAIRS] = found


def _is_of_several(launch: Op) -> bool:
    """Whether it is over several tensors, or several iterations."""
    return bool(launch_lengths(launch)) or STEPS in launch.attrs


def launch_pairs(launch: Op) -> dict[int, int]:
    """For each operand that holds second parts the one that holds the first."""
    pairs = (tuple_of(pair, int) for pair in attr_tuple(launch, PAIRS, tuple)) if PAIRS in launch.attrs else ()
    return {second: first for first, second in pairs}


def has_steps_of_two(reach: Reach) -> bool:
    """Whether neighbours along an axis are what two parts of one number leave between them."""
    return TWO in reach.strides and not reach.panels and not reach.computed and not reach.digits


def _read_pairs(launch: Op) -> Iterator[tuple[int, int]]:
    offsets = defaultdict[tuple[int, tuple[Dim, ...]], set[Dim]](set)
    for op in computing(launch):
        for position in range(len(op.operands)):
            reach = read_reach(launch, op, position)
            if reach is not None and has_steps_of_two(reach):
                offsets[reach.operand, reach.strides].add(reach.offset)
    operands = {operand for (operand, _), found in offsets.items() if found >= {ZERO, ONE}}
    return ((operand, operand) for operand in sorted(operands))


def _written_pairs(launch: Op) -> Iterator[tuple[int, int]]:
    """Results that go to two boxes of one memory, of which the second begins one element behind the first."""
    first = len(launch_ins(launch))
    for number in range(first, len(launch.operands) - 1):
        one, other = (launch.operands[i].defining_op for i in (number, number + 1))
        if one is not None and other is not None and _is_behind(one, other):
            yield number, number + 1


def _is_behind(one: Op, other: Op) -> bool:
    if not one.name == other.name == "schedule.box" or one.operands != other.operands:
        return False
    begins = [box.attrs["offset"] for box in (one, other)]
    return memory(one.result) == memory(other.result) and TWO in memory(one.result).strides and begins == [ZERO, ONE]
