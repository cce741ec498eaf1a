"""Chains of launches of lines on a processor whose rows do not fit into its caches: columns go through all of them.

    launch lines %x -> %w    space [B, 16, 4096]    blocks of 1, 16 and 64   program p: columns from 64 p
    launch lines %w -> %y    space [B, 4096, 16]    blocks of 1, 64 and 16   program p: the same; {follows = 64}

Enters: chains (`line_chains.py`) with an axis that goes through all of their launches and is neither rows nor mixed
with any other, as that which comes after a group of steps of a long Fourier transform, or came before it. Leaves:
launches of which a program has some neighbours along it, as many as stay in the second cache with all that belongs to
them, and what `row_chains.py` leaves; memory between them is packed (`packed_columns.py`). So memory is read and
written once for a group of steps, not once for each.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op
from tesserac.schedule.chains.line_chains import Link, chains_of, columns_of, together_of
from tesserac.schedule.chains.packed_columns import Packed, packed_reach
from tesserac.schedule.chains.row_chains import (
    buffer_of,
    memory_between,
    merges,
    name_before,
    run_in_turn,
    takes_argument,
)
from tesserac.schedule.costs.cost import element_bytes, power_of_two_below
from tesserac.schedule.dialect import MOVES, PACKS, launch_loops, launch_outs, launch_space, memory
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.space import Reach, reaches
from tesserac.schedule.primitives.merge import merge
from tesserac.schedule.primitives.split import split
from tesserac.types.dims import ONE, ZERO, Dim, product

CACHE_SHARE = 2
"""What goes from one launch to the next may fill one in so many bytes of the second cache."""
LONG = 4
"""Times the second cache that a row has to be: 2^18 points of c64 beside 1 MiB gain nothing, 2^19 a sixth; beside 2 MiB
2^20 gain a quarter on one thread, on 16 they are level."""
NARROWEST, WIDEST, PARTS = 8, 64, 16
"""Columns of a program: a line of memory at least, and no more than leaves some for so many programs. Long runs are
read ahead by the machine, short ones are waited for."""


@dataclass(frozen=True)
class _Columns:
    """The axis of the first launch that is cut, how many first axes of all are rows, and the columns of a program."""

    axis: int
    rows: int
    block: int


def schedule_column_chains(host: Op, machine: Machine, done: set[Op]) -> set[Op]:
    """Schedules the launches of all such chains that are not done; gives them."""
    found: set[Op] = set()
    for chain in chains_of(host):
        launches = [link.launch for link in chain]
        columns = None if done & set(launches) else _columns(chain, machine)
        packs = [] if columns is None else [_packs(link, columns, launches) for link in chain]
        known = [pack for pack in packs if pack is not None]
        if columns is not None and len(known) == len(chain):
            _schedule(chain, columns, known)
            found |= set(launches)
    return found


def _columns(chain: Sequence[Link], machine: Machine) -> _Columns | None:
    """None where what else goes through are not rows, or a program would need memory of another."""
    axis, rows, first = columns_of(chain), len(chain[0].axes) - 1, chain[0].launch
    size = None if axis is None else launch_space(first)[axis].constant
    if axis is None or size is None or takes_argument(chain[-1].launch):
        return None
    apart = all(_row_axes(link, axis) == list(range(rows)) and merges(link.launch, rows) for link in chain)
    column = max(together_of(link) or 0 for link in chain) * element_bytes(memory(launch_outs(first)[0]).dtype)
    room = machine.second_bytes // (CACHE_SHARE * column)
    block = power_of_two_below(min(room, size & -size, size // PARTS), 1, WIDEST)
    is_long = column * size >= LONG * machine.second_bytes
    return _Columns(axis, rows, block) if apart and is_long and block >= NARROWEST else None


def _row_axes(link: Link, column: int) -> list[int]:
    return sorted(axis for first, axis in link.axes.items() if first != column)


def _packs(link: Link, columns: _Columns, launches: Sequence[Op]) -> tuple[Packed | None, ...] | None:
    """For each operand that is memory between the launches, how it is packed; none where it cannot be."""
    launch, between, found = link.launch, memory_between(launches), dict[int, Packed]()
    for reach in reaches(launch):
        if buffer_of(launch.operands[reach.operand]) not in between:
            continue
        packed = _packed(launch, reach, link.axes[columns.axis], columns)
        if packed is None or found.setdefault(reach.operand, packed) != packed:
            return None
        if packed_reach(reach, packed) is None:
            return None
    return tuple(found.get(place) for place in range(len(launch.operands)))


def _packed(launch: Op, reach: Reach, column: int, columns: _Columns) -> Packed | None:
    space = launch_space(launch)
    whole = product(memory(launch.operands[reach.operand]).dims)
    row = reach.stride(tuple(range(columns.rows)), space) if columns.rows else whole
    run = (reach.strides[column] * space[column]).constant
    if row is None or row.constant is None or not run or row.constant % run:
        return None
    rows = row * product(space[: columns.rows])
    return Packed(columns.rows, rows, row.constant, run, run // space[column].evaluate({}) * columns.block)


def _schedule(chain: Sequence[Link], columns: _Columns, packs: Sequence[tuple[Packed | None, ...]]) -> None:
    launches = [link.launch for link in chain]
    name_before(launches)
    for link, packed in zip(chain, packs, strict=True):
        launch, own = link.launch, link.axes[columns.axis]
        if any(packed):
            launch.attrs[PACKS] = packed
        launch.attrs[MOVES] = tuple(_move(launch, place, one) for place, one in enumerate(packed))
        for _ in range(columns.rows - 1):
            merge(launch, 0)
        for number, loop in enumerate(launch_loops(launch)):
            if own in loop.axes:
                split(launch, number, columns.block)
            elif loop.size != ONE and not (columns.rows and number == 0):
                split(launch, number, 1 << max(0, loop.size.evaluate({}) - 1).bit_length())
        because(launch, "a program takes its columns through all steps of this chain")
    run_in_turn(launches, launch_space(launches[0])[columns.axis].ceil_div(columns.block), 1)


def _move(launch: Op, place: int, packed: Packed | None) -> tuple[Dim, Dim, Dim]:
    if packed is None:
        return ZERO, ZERO, ZERO
    parts = product(memory(launch.operands[place]).dims).exact_div(packed.rows)
    return ZERO, Dim.const(packed.part), parts * packed.region
