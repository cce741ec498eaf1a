"""Schedules of sorts. A program has one row; of rows that are long and few there is a variant in which threads sort
parts of a row, and merge ranges of what they sorted.

    schedule.launch {kind = "sort"}
becomes, on a CPU,
    schedule.select() {predicates = [N >= 65536]} { schedule.launch {kind = "sort", division} } { schedule.launch }

How long a part is depends on the number of threads: one has all of a row. The order of a row is one whichever way it is
found, so no result differs between the variants.
"""

from __future__ import annotations

from tesserac.ir.core import Op, clone_op
from tesserac.schedule.dialect import Predicate, launch_loops
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.cuts import CUT, Cut
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.select import select
from tesserac.schedule.primitives.bind import bind
from tesserac.types.dims import ONE, Dim, product

WARPS = 32
"""Those of a program that sorts a row on a GPU: as many as a block may have."""
UNIT = 4096
"""A part has whole units: it is much more work than to find where its range begins in all other parts."""
LEAST_PARTS = 16
"""Units that a row has at least, and four times as many as there are rows, where it is cut."""
MOST, WHOLE = 1 << 32, 1 << 40
"""Elements of a row whose places half of a word counts; more than a row ever has."""


def schedule_sort(launch: Op, machine: Machine) -> None:
    launch.attrs["loops"] = tuple(sorted(launch_loops(launch), key=lambda loop: loop.kind == "fold"))
    because(launch, "one row per program")
    if machine.warps:
        bind(launch, WARPS, "uniform")
    else:
        sort_in_parts(launch)


def sort_in_parts(launch: Op) -> None:
    """Puts the variant beside a launch that has a program for each row, unless its rows are known to be short."""
    *rows, fold = launch_loops(launch)
    count = product([row.size for row in rows])
    least = (4 * UNIT * count).max(LEAST_PARTS * UNIT)
    short = fold.size.constant is not None and fold.size.constant < LEAST_PARTS * UNIT
    if short or len(launch.body.terminator.operands) > 1 or _is_in_loop(launch):
        return
    parts = clone_op(launch, {})
    parts.attrs[CUT] = Cut(count, fold.size, ONE, WHOLE, 1, Dim.const(UNIT), ONE, True, 1)
    because(parts, "long rows: a part of each for every thread, then a range of all parts")
    select([(Predicate("at_least", fold.size.min(MOST - fold.size), least), [parts])], [launch], launch)


def _is_in_loop(launch: Op) -> bool:
    """Whether it runs in every iteration of a loop, which had better be compiled as one."""
    op: Op | None = launch
    while op is not None and op.name != "schedule.loop":
        op = op.parent.parent_op if op.parent is not None else None
    return op is not None
