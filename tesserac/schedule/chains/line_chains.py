"""Chains of launches of lines: blocks with which one program takes a part of the data through all of them.

    launch lines %x -> %w     space [B, 64]           blocks of 1 and 64      program b: row b
    launch lines %w -> %y     space [B, 8, 16]        blocks of 1, 8 and 16   program b: row b

Enters: launches that follow each other, of which each alone reads what the one before wrote, as the steps of a Fourier
transform do. Leaves: the same launches with blocks that agree: an axis that goes through all of them unchanged is cut,
every other is whole. What lies between can then stay near the program that made it (`tile/gpu/kernels/join_lines.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.lines import line_length, lines_out
from tesserac.schedule.costs.cost import element_bytes, power_of_two_below
from tesserac.schedule.dialect import launch_kind, launch_loops, launch_outs, launch_space, memory
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.space import Reach, computing, reaches, write_reach
from tesserac.schedule.primitives.bind import bind
from tesserac.schedule.primitives.merge import merge
from tesserac.schedule.primitives.merge import refusal as merge_refusal
from tesserac.schedule.primitives.split import split
from tesserac.types.dims import ONE, Dim

MOST = 8192
"""Numbers that go together through a chain, at most, on a CPU."""
MOST_NEAR, PADDED = 128 << 10, 16 / 15
"""Bytes that a program of a GPU keeps near itself between the steps of a chain, at most, and the room they take."""
PROGRAM = 2048
"""Numbers of a program, about."""
THREAD, SHARED = 32, 16
"""Those of a thread, and where a program takes several rows: with more warps, some have their numbers while others wait
for memory."""
SECTOR = 32
"""Bytes that memory moves at once."""
WARP, MOST_WARPS = 32, 32


@dataclass(frozen=True)
class Link:
    """A launch of a chain, and which of its axes goes on as each of those of the first that go through."""

    launch: Op
    axes: dict[int, int]


def schedule_chains(host: Op, machine: Machine) -> set[Op]:
    """Schedules the launches of all chains of a host program for a GPU; gives them."""
    done: set[Op] = set()
    near = power_of_two_below(machine.near_bytes / PADDED, 1, MOST_NEAR)
    for chain in chains_of(host, near):
        _schedule(chain, near)
        done |= {link.launch for link in chain}
    return done


def chains_of(host: Op, near: int | None = None) -> list[list[Link]]:
    """All chains of a host program, of which so many bytes go together where that is said."""
    return [chain for block in _blocks(host) for chain in _chains(block, near)]


def _blocks(host: Op) -> Iterator[Block]:
    for op in host.walk():
        yield from (region.block for region in op.regions if op.name != "schedule.launch")


def _chains(block: Block, near: int | None) -> Iterator[list[Link]]:
    chain: list[Link] = []
    for op in block.ops:
        longer = _longer(chain, op, near)
        if longer is None:
            if len(chain) > 1:
                yield chain
            longer = [_first(op)] if _is_lines(op) else []
        chain = longer
    assert len(chain) < 2, "a block ends in something else"


def _is_lines(op: Op) -> bool:
    return op.name == "schedule.launch" and launch_kind(op) == "lines"


def _first(launch: Op) -> Link:
    return Link(launch, {axis: axis for axis, size in enumerate(launch_space(launch)) if size != ONE})


def _longer(chain: list[Link], op: Op, near: int | None) -> list[Link] | None:
    """The chain with one more launch, if there is anything to gain."""
    if not chain or not _is_lines(op):
        return None
    last = chain[-1].launch
    held = launch_outs(last)[0]
    if {user for user, _ in held.uses} != {last, op} or not _is_workspace(held):
        return None
    going = _going_on(last, op)
    axes = {first: going[axis] for first, axis in chain[-1].axes.items() if axis in going}
    kept = [Link(link.launch, {a: b for a, b in link.axes.items() if a in axes}) for link in chain]
    longer = [*kept, Link(op, axes)]
    together, most = [together_of(link) for link in longer], MOST if near is None else near // _size(held)
    return longer if all(size is not None and size <= most for size in together) else None


def _size(held: Value) -> int:
    return element_bytes(memory(held).dtype)


def _is_workspace(value: Value) -> bool:
    made = value.defining_op
    return made is not None and made.name == "schedule.buffer" and made.attrs["role"] == "workspace"


def _going_on(writer: Op, reader: Op) -> dict[int, int]:
    """The axes along which the reader walks the memory as the writer did."""
    held = launch_outs(writer)[0]
    wrote = write_reach(writer, 0)
    read = [reach for reach in _reads(reader) if reader.operands[reach.operand] is held]
    found: dict[int, int] = {}
    for axis, size in enumerate(launch_space(writer)):
        for other, same in enumerate(launch_space(reader)):
            if size == same != ONE and all(reach.strides[other] == wrote.strides[axis] for reach in read):
                found[axis] = other
    return found


def _reads(launch: Op) -> list[Reach]:
    return reaches(launch)[: -len(launch_outs(launch))]


def together_of(link: Link) -> int | None:
    """How many numbers of the result depend on each other, where that is known."""
    (op,) = computing(link.launch)
    sizes = [size.constant for axis, size in enumerate(launch_space(link.launch)) if axis not in link.axes.values()]
    line = line_length(tensor_type(op.result), lines_out(op))
    return None if None in sizes else line * prod(size for size in sizes if size is not None)


def _schedule(chain: list[Link], near: int) -> None:
    together = max(_padded(link) for link in chain)
    first = chain[0]
    space, size = launch_space(first.launch), _size(launch_outs(first.launch)[0])
    columns = columns_of(chain)
    least = 1 if columns is None else SECTOR // size
    beside = columns if columns is not None else next(iter(first.axes), None)
    block = power_of_two_below(PROGRAM / together, max(1, min(least, near // size // together)), PROGRAM)
    if beside is not None and space[beside].constant is not None:
        block = min(block, _power(space[beside]))
    thread = SHARED if columns is None and block > 1 else THREAD
    warps = min(MOST_WARPS, -(-together * block // (thread * WARP)))
    for link in chain:
        _cut(link, beside, block, warps)


def columns_of(chain: Sequence[Link]) -> int | None:
    """An axis that goes through, of which neighbours are neighbours in memory on one end of the chain."""
    (first, *_, last) = chain
    for axis in reversed(list(first.axes)):
        read = [reach.strides[axis].constant for reach in _reads(first.launch)]
        wrote = write_reach(last.launch, 0).strides[last.axes[axis]].constant
        if any(stride in (1, 2) for stride in (*read[:1], wrote)):
            return axis
    return None


def _padded(link: Link) -> int:
    (op,) = computing(link.launch)
    inner = [size for axis, size in enumerate(launch_space(link.launch)) if axis not in link.axes.values()]
    return line_length(tensor_type(op.result), lines_out(op)) * prod(map(_power, inner))


def _power(size: Dim) -> int:
    return 1 << max(0, size.evaluate({}) - 1).bit_length()


def _cut(link: Link, beside: int | None, block: int, warps: int) -> None:
    launch, through = link.launch, set(link.axes.values())
    cut = None if beside is None else link.axes[beside]
    _merge_through(launch, through)
    for number, loop in enumerate(launch_loops(launch)):
        if cut is not None and cut in loop.axes:
            split(launch, number, block)
        elif not through & set(loop.axes) and loop.size != ONE:
            split(launch, number, _power(loop.size))
    bind(launch, warps, "uniform")
    because(launch, "a program takes its part of the data through all steps of this chain")


def _merge_through(launch: Op, through: set[int]) -> None:
    """Neighbouring axes that go through are one."""
    loop, found = 0, reaches(launch)
    while loop + 1 < len(launch_loops(launch)):
        both = launch_loops(launch)[loop : loop + 2]
        if all(through & set(each.axes) for each in both) and merge_refusal(launch, loop, found) is None:
            merge(launch, loop)
        else:
            loop += 1
