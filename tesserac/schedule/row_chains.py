"""Chains of launches of lines on a processor: one row of the data goes through all of them while it is in the caches.

    launch lines %x -> %w     space [B, 64]        blocks of 2 and 64       program p: rows 2 p, 2 p + 1
    launch lines %w -> %y     space [B, 8, 16]     blocks of 2, 8 and 16    program p: the same rows; {follows = 2048}

Enters: chains (`line_chains.py`) whose first axes are the same rows in every launch, as those of many Fourier
transforms side by side. Leaves: launches of which a program has whole rows, the same in all, and all but the first with
`follows`: the elements that a program has of the memory before it. Programs of the launches may then run in turn, each
on one thread, and what lies between need not leave its cache (`target/cpu/chains.py`). The bits are those of launches
that run one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from tesserac.ir.core import Op
from tesserac.ir.forms import tensor_type
from tesserac.ir.lines import line_length, lines_out
from tesserac.schedule.dialect import FOLLOWS, launch_loops, launch_outs, launch_space
from tesserac.schedule.line_chains import MOST, Link, chains_of
from tesserac.schedule.primitives.merge import merge
from tesserac.schedule.primitives.merge import refusal as merge_refusal
from tesserac.schedule.primitives.split import split
from tesserac.schedule.reason import because
from tesserac.schedule.space import computing, reaches, read_reach, write_reach
from tesserac.types.dims import ONE, Dim, product

PROGRAM = 4096
"""Numbers of a program, about: they and those of three steps stay in the second cache, and a program of a few short
rows is worth what starting it takes."""


def schedule_row_chains(host: Op) -> set[Op]:
    """Schedules the launches of all such chains of a host program; gives them."""
    done: set[Op] = set()
    for chain in chains_of(host):
        rows, launches = _rows(chain), [link.launch for link in chain]
        elements = _row_elements(launches, rows) if rows and not _takes_argument(launches[-1]) else None
        if elements is not None and all(_merges(launch, rows) for launch in launches):
            _schedule(launches, rows, elements)
            done |= set(launches)
    return done


def _rows(chain: Sequence[Link]) -> int:
    """How many of the first axes are the same rows in all launches, if what else there is of a row is little."""
    rows = 0
    while all(_is_row(link, rows) for link in chain):
        rows += 1
    sizes = [_numbers_of_row(link.launch, rows) for link in chain]
    several = product(launch_space(chain[0].launch)[:rows]) != ONE
    return rows if several and all(size is not None and size <= MOST for size in sizes) else 0


def _is_row(link: Link, axis: int) -> bool:
    space = launch_space(link.launch)
    return axis < len(space) and (space[axis] == ONE or link.axes.get(axis) == axis)


def _numbers_of_row(launch: Op, rows: int) -> int | None:
    (op,) = computing(launch)
    inner = [size.constant for size in launch_space(launch)[rows:]]
    line = line_length(tensor_type(op.result), lines_out(op))
    return None if None in inner else line * prod(size for size in inner if size is not None)


def _takes_argument(launch: Op) -> bool:
    """Whether the result lies in the memory of an argument, of which another program may read a row that is written."""
    made = launch_outs(launch)[0].defining_op
    while made is not None and made.name in ("schedule.box", "schedule.parts"):
        made = made.operands[0].defining_op
    return made is None or "of" in made.attrs


def _row_elements(launches: Sequence[Op], rows: int) -> int | None:
    """How far apart rows are in the memory between launches, if that is one number in all of it."""
    axes, strides = tuple(range(rows)), set[Dim | None]()
    for writer, launch in pairwise(launches):
        (op,) = computing(launch)
        strides.add(write_reach(writer, 0).stride(axes, launch_space(writer)))
        for position in range(len(op.operands)):
            reach = read_reach(launch, op, position)
            if reach is not None and launch.operands[reach.operand] is launch_outs(writer)[0]:
                strides.add(reach.stride(axes, launch_space(launch)))
    (first, *others) = strides
    return None if others or first is None else first.constant


def _schedule(launches: Sequence[Op], rows: int, elements: int) -> None:
    numbers = max(_numbers_of_row(launch, rows) or 0 for launch in launches)
    block = max(1, PROGRAM // numbers)
    for launch in launches:
        for _ in range(rows - 1):
            merge(launch, 0)
        _merge_behind(launch)
        split(launch, 0, block)
        for number, loop in list(enumerate(launch_loops(launch)))[1:]:
            if loop.size != ONE:
                split(launch, number, 1 << max(0, loop.size.evaluate({}) - 1).bit_length())
        because(launch, "a program takes its rows through all steps of this chain")
    for launch in launches[1:]:
        launch.attrs[FOLLOWS] = Dim.const(block * elements)


def _merges(launch: Op, rows: int) -> bool:
    """Whether all of the first axes can be walked as one."""
    found = reaches(launch)
    as_one = all(reach.stride(tuple(range(rows)), launch_space(launch)) is not None for reach in found)
    return as_one and all(merge_refusal(launch, loop, found) is None for loop in range(rows - 1))


def _merge_behind(launch: Op) -> None:
    """Walks neighbouring loops behind the rows as one wherever memory allows."""
    loop, found = 1, reaches(launch)
    while loop + 1 < len(launch_loops(launch)):
        if merge_refusal(launch, loop, found) is None:
            merge(launch, loop)
        else:
            loop += 1
