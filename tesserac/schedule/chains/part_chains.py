"""Parts of one tensor, row by row: a program of a processor writes its rows of all parts, one part after the other.

    launch map %x -> %y[:, :1024]     space [M, 1024]     blocks of 2 and 1024     program p: rows 2p, 2p + 1
    launch map %z -> %y[:, 1024:]     space [M, 1024]     blocks of 2 and 1024     the same rows; {follows = 1}

Enters: maps that follow each other and write boxes of one buffer which none of them reads, as the parts of what is put
together or framed. Leaves: launches whose programs have the same rows and run in turn (`row_chains.py`): nobody waits
between two parts, and lines of the cache that two parts share are written while they are there. The bits are those of
launches that run one after the other: what a row has is written by one program of each, in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import takewhile
from math import prod

from tesserac.ir.core import Block, Op, Value
from tesserac.schedule.chains.row_chains import NAMES, buffer_of, merges, name_before, run_in_turn, takes_argument
from tesserac.schedule.dialect import MOVES, launch_kind, launch_loops, launch_outs, launch_space
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.space import computing, write_reach
from tesserac.schedule.primitives.merge import merge
from tesserac.schedule.primitives.split import split
from tesserac.types.dims import ONE, ZERO, Dim

ELEMENTS = 2048
"""Those that a program writes, about, of all parts together."""
MOST = 1 << 14
"""Those of one row of all parts, at most: what a program reads and writes stays in the second cache."""


def schedule_part_chains(host: Op) -> set[Op]:
    """Schedules the maps of all such chains of a host program; gives them."""
    done: set[Op] = set()
    for block in _blocks(host):
        for chain in _chains(block):
            rows = _rows(chain)
            if rows:
                _schedule(chain, rows)
                done |= set(chain)
    return done


def _blocks(op: Op) -> Iterator[Block]:
    for region in op.regions if op.name != "schedule.launch" else ():
        yield region.block
        for inner in region.block.ops:
            yield from _blocks(inner)


def _chains(block: Block) -> Iterator[list[Op]]:
    """Maps that follow each other and write one buffer, as many as there are."""
    ops = [op for op in block.ops if op.name not in NAMES]
    place = 0
    while place < len(ops):
        chain = list(takewhile(partial(_is_part, ops[place]), ops[place:]))
        if len(chain) > 1:
            yield chain
        place += max(len(chain), 1)


def _is_part(first: Op, op: Op) -> bool:
    """Whether a launch is a plain map into the buffer of another one, which it does not read."""
    if op.name != "schedule.launch" or launch_kind(op) != "map" or len(launch_outs(op)) != 1:
        return False
    held = _whole(op)
    plain = all(form.name == "form.map" for form in computing(op)) and not takes_argument(op)
    return plain and held is _whole(first) and all(buffer_of(read) is not held for read in op.operands[:-1])


def _whole(launch: Op) -> Value | None:
    return buffer_of(launch_outs(launch)[0]) if launch.name == "schedule.launch" and launch_outs(launch) else None


def _rows(chain: Sequence[Op]) -> int:
    """How many of the first axes are the same rows in all parts, walked as one; 0 where a row of all is not short."""
    rows = 0
    while all(_is_same_axis(launch, chain[0], rows) for launch in chain):
        rows += 1
    while rows and not all(merges(launch, rows) for launch in chain):
        rows -= 1
    within = all(_stays_in_row(launch, rows) for launch in chain) if rows else False
    return rows if within and sum(_inner(launch, rows) for launch in chain) <= MOST else 0


def _is_same_axis(launch: Op, first: Op, axis: int) -> bool:
    """Whether an axis is walked as in the first part, in memory too; the last one is what a row is of."""
    spaces = [launch_space(launch), launch_space(first)]
    if axis + 1 >= min(map(len, spaces)) or spaces[0][axis] != spaces[1][axis]:
        return False
    return write_reach(launch, 0).strides[axis] == write_reach(first, 0).strides[axis]


def _stays_in_row(launch: Op, rows: int) -> bool:
    """Whether all that a part has of a row lies in it: rows of one part are then never those of another."""
    space, strides = launch_space(launch), write_reach(launch, 0).strides
    row, start = strides[rows - 1].constant, _start(launch)
    steps = [(size.constant, stride.constant) for size, stride in zip(space[rows:], strides[rows:], strict=True)]
    if not row or start is None or any(size is None or step is None or step < 0 for size, step in steps):
        return False
    last = start + sum((size - 1) * step for size, step in steps if size and step)
    return all(size for size, _ in steps) and last < row


def _start(launch: Op) -> int | None:
    """The place of a part in its buffer, counted in elements, if it is known."""
    value, start = launch_outs(launch)[0], ZERO
    while (made := value.defining_op) is not None and made.name == "schedule.box":
        offset = made.attrs["offset"]
        assert isinstance(offset, Dim)
        value, start = made.operands[0], start + offset
    return start.constant if made is not None and made.name == "schedule.buffer" else None


def _inner(launch: Op, rows: int) -> int:
    return prod(size.evaluate({}) for size in launch_space(launch)[rows:])


def _schedule(chain: Sequence[Op], rows: int) -> None:
    elements = sum(_inner(launch, rows) for launch in chain)
    together = 1 << max(0, (ELEMENTS // elements).bit_length() - 1)
    name_before(chain)
    for launch in chain:
        for _ in range(rows - 1):
            merge(launch, 0)
        for number, loop in list(enumerate(launch_loops(launch))):
            block = together if number == 0 else 1 << max(0, loop.size.evaluate({}) - 1).bit_length()
            if loop.size != ONE and block > 1:
                split(launch, number, block)
        launch.attrs[MOVES] = ((ZERO, ZERO, ZERO),) * len(launch.operands)
        because(launch, f"a program writes its rows of all {len(chain)} parts")
    run_in_turn(chain, ONE, 1)
