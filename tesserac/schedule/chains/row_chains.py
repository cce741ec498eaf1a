"""Chains of launches of lines on a processor: one row of the data goes through all of them while it is in the caches.

    launch lines %x -> %w     space [B, 64]        blocks of 1 and 64       program p: row p
    launch lines %w -> %y     space [B, 8, 16]     blocks of 1, 8 and 16    program p: the same row; {follows = 1}

Enters: chains (`line_chains.py`) whose first axes are the same rows in every launch, as those of many Fourier
transforms side by side, with the launches of lines around them that alone write what the first reads, or read what the
last wrote. Leaves: launches of which a program has a whole row, the same in all. Programs of the launches may then run
in turn, each on one thread, and what lies between need not leave its cache (`target/cpu/host/chains.py`). The bits are
those of launches that run one after the other. Attributes say how: `follows`, of all but the first, how many programs
a row has, `together` how many are worth what starting them takes; for each operand `moves` how many elements further a
kernel looks for what lies between in the next row and in the next program, and how many a program has, and `packs`
where those of a program lie together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from math import prod

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.lines import line_length, lines_out
from tesserac.schedule.chains.line_chains import MOST, Link, chains_of
from tesserac.schedule.dialect import (
    FOLLOWS,
    MOVES,
    TOGETHER,
    launch_kind,
    launch_loops,
    launch_outs,
    launch_space,
)
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.space import Reach, computing, reaches, write_reach
from tesserac.schedule.primitives.merge import merge
from tesserac.schedule.primitives.merge import refusal as merge_refusal
from tesserac.schedule.primitives.split import split
from tesserac.types.dims import ONE, ZERO, Dim, product

TOGETHER_NUMBERS = 2048
"""Numbers of programs that run together, about: they and those of three steps stay in the second cache."""
NAMES = ("schedule.buffer", "schedule.box", "schedule.parts")
"""What says where memory is, and does nothing."""


def schedule_row_chains(host: Op) -> set[Op]:
    """Schedules the launches of all such chains of a host program; gives them."""
    done: set[Op] = set()
    chains = chains_of(host)
    chained = {link.launch for chain in chains for link in chain}
    for chain in chains:
        found = next(filter(_goes_by_rows, (_with_neighbours(chain, chained), chain)), [])
        if found:
            _schedule(found)
            done |= {link.launch for link in found}
    return done


def _goes_by_rows(links: Sequence[Link]) -> bool:
    """Whether rows go through all launches, each apart from the others."""
    rows, launches = _rows(links), [link.launch for link in links]
    between = memory_between(launches)
    taken = any(takes_argument(launch) for launch in launches if buffer_of(launch_outs(launch)[0]) not in between)
    apart = rows and not taken and _row_elements(launches, rows, between) is not None
    return bool(apart) and all(merges(launch, rows) for launch in launches)


def _with_neighbours(chain: Sequence[Link], chained: set[Op]) -> list[Link]:
    """A chain with the launches right before it that each write a part of what it reads, and right behind it that all
    read what it wrote, if nobody else does. None of them is in a chain of its own."""
    first, last = chain[0].launch, chain[-1].launch
    made, read = buffer_of(launch_outs(last)[0]), [buffer_of(v) for v in first.operands]
    readers = list(takewhile(lambda op: made in map(buffer_of, op.operands), _lines_after(last, chained)))
    writers = list(takewhile(lambda op: buffer_of(launch_outs(op)[0]) in read, _lines_before(first, chained)))
    links = list(chain)
    if readers and _users(made) == {last, *readers}:
        links += [Link(op, _same_axes(last, op)) for op in readers]
    held = buffer_of(launch_outs(writers[0])[0]) if writers else made
    if writers and _users(held) == {first, *writers}:
        links = [*(Link(op, _same_axes(op, first)) for op in reversed(writers)), *links]
    return links


def _lines_after(launch: Op, chained: set[Op]) -> Iterator[Op]:
    block = launch.parent
    assert block is not None
    return _lines_of(block.ops[block.place(launch) + 1 :], chained)


def _lines_before(launch: Op, chained: set[Op]) -> Iterator[Op]:
    block = launch.parent
    assert block is not None
    return _lines_of(reversed(block.ops[: block.place(launch)]), chained)


def _lines_of(ops: Iterable[Op], chained: set[Op]) -> Iterator[Op]:
    """The launches of lines that come first; names of memory do not count."""
    launches = (op for op in ops if op.name not in NAMES)
    lines = takewhile(lambda op: op.name == "schedule.launch" and launch_kind(op) == "lines", launches)
    return takewhile(lambda op: op not in chained, lines)


def buffer_of(value: Value) -> Value:
    """The memory that a value is, or is a part of."""
    made = value.defining_op
    while made is not None and made.name in ("schedule.box", "schedule.parts"):
        value = made.operands[0]
        made = value.defining_op
    return value


def _users(buffer: Value) -> set[Op]:
    """Who reads or writes memory, or a part of it."""
    direct = {user for user, _ in buffer.uses}
    named = {user for user in direct if user.name in ("schedule.box", "schedule.parts")}
    return (direct - named).union(*(_users(user.result) for user in named))


def _same_axes(writer: Op, reader: Op) -> dict[int, int]:
    """Those along which one walks the memory as the other does."""
    held, wrote = buffer_of(launch_outs(writer)[0]), write_reach(writer, 0)
    read = [reach for reach in reaches(reader)[: -len(launch_outs(reader))] if _reads(reader, reach) is held]
    sizes = enumerate(zip(launch_space(writer), launch_space(reader), strict=False))
    same = [axis for axis, (here, there) in sizes if here == there]
    return {axis: axis for axis in same if all(reach.strides[axis] == wrote.strides[axis] for reach in read)}


def _reads(launch: Op, reach: Reach) -> Value:
    return buffer_of(launch.operands[reach.operand])


def memory_between(launches: Sequence[Op]) -> set[Value]:
    """Memory that some of the launches write and others read, and nobody else."""
    outs = {buffer_of(launch_outs(launch)[0]) for launch in launches}
    return {held for held in outs if _is_workspace(held) and len(_users(held)) > 1 and _users(held) <= set(launches)}


def _is_workspace(value: Value) -> bool:
    made = value.defining_op
    return made is not None and made.name == "schedule.buffer" and made.attrs["role"] == "workspace"


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


def takes_argument(launch: Op) -> bool:
    """Whether the result lies in the memory of an argument, of which another program may read a row that is written."""
    made = launch_outs(launch)[0].defining_op
    while made is not None and made.name in ("schedule.box", "schedule.parts"):
        made = made.operands[0].defining_op
    return made is None or "of" in made.attrs


def _row_elements(launches: Sequence[Op], rows: int, between: set[Value]) -> int | None:
    """How far apart rows are in the memory between launches, if that is one number in all of it."""
    axes, strides = tuple(range(rows)), set[Dim | None]()
    for launch in launches:
        *read, wrote = reaches(launch)
        found = [reach for reach in read if _reads(launch, reach) in between]
        if buffer_of(launch_outs(launch)[0]) in between:
            found.append(wrote)
        strides |= {reach.stride(axes, launch_space(launch)) for reach in found}
    (first, *others) = strides
    return None if others or first is None else first.constant


def _schedule(links: Sequence[Link]) -> None:
    rows, launches = _rows(links), [link.launch for link in links]
    between = memory_between(launches)
    elements = _row_elements(launches, rows, between)
    assert elements is not None, "rows are apart"
    name_before(launches)
    numbers = max(_numbers_of_row(launch, rows) or 0 for launch in launches)
    together = max(1, TOGETHER_NUMBERS // numbers)
    for launch in launches:
        for _ in range(rows - 1):
            merge(launch, 0)
        _merge_behind(launch)
        for number, loop in list(enumerate(launch_loops(launch)))[1:]:
            if loop.size != ONE:
                split(launch, number, 1 << max(0, loop.size.evaluate({}) - 1).bit_length())
        moves = (Dim.const(elements) if buffer_of(v) in between else ZERO for v in launch.operands)
        launch.attrs[MOVES] = tuple((move, ZERO, move) for move in moves)
        because(launch, "a program takes its rows through all steps of this chain")
    run_in_turn(launches, ONE, together)


def run_in_turn(launches: Sequence[Op], of_row: Dim, together: int) -> None:
    """So many programs of all launches at a time, of which a row has so many."""
    for launch in launches[1:]:
        launch.attrs[FOLLOWS], launch.attrs[TOGETHER] = of_row, together


def name_before(launches: Sequence[Op]) -> None:
    """Names of memory stand before all launches of a chain, which then follow each other."""
    block = launches[0].parent
    assert block is not None
    for op in block.ops[block.place(launches[0]) : block.place(launches[-1])]:
        if op.name in NAMES:
            op.detach()
            Builder.before(launches[0]).add(op)


def merges(launch: Op, rows: int) -> bool:
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
