"""Loops over rows of a matrix whose columns never meet: a thread takes some columns through all iterations.

    schedule.loop(%lo, %hi) { ^(%c):  launch contract over 1 x N x c }
becomes
    schedule.loop(%lo, %hi) {rows = `ceil_div(N, 64)`} { ... the same, in blocks of 64 columns ... }

Enters: a host program with decided launches. Leaves: the same program. So is substitution in a triangular system: row c
takes its share of the rows before it, and no column asks for another. Launches of a row are small, and one for each
step would be a fork and a join each. A loop is marked whose launches all walk the same columns last, and whose memory,
as far as the loop writes it, is rows of these columns, of which each column reads and writes its own. The target runs
it as it does `row_loops.py`. Bits do not change: what a column is computed from, and in which order, stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.ir.core import Op
from tesserac.ir.passes import SCHEDULE, function_pass
from tesserac.schedule.chains.row_chains import buffer_of, takes_argument
from tesserac.schedule.dialect import (
    ROWS,
    STEPS,
    launch_kind,
    launch_lengths,
    launch_loops,
    launch_space,
    launch_stages,
    memory,
)
from tesserac.schedule.loops.row_loops import INSIDE, innermost_loops, is_register, offset_in_buffer, written_memory
from tesserac.schedule.model.cuts import CUT
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.space import Reach, computing, reaches
from tesserac.types.dims import ONE, ZERO, Dim

BLOCK = 64
"""Columns of a program: rows of a block in f64 are 16 KiB for 32 of them, and stay in the first cache."""


@function_pass(SCHEDULE, SCHEDULE, "column_loops")
def column_loops(host: Op) -> None:
    for loop in innermost_loops(host):
        launches = [op for op in loop.body.ops if op.name == "schedule.launch"]
        columns = _columns(loop, launches) if ROWS not in loop.attrs else None
        if columns is not None:
            loop.attrs[ROWS] = columns.ceil_div(BLOCK)
            for launch in launches:
                _give_columns_programs(launch)


def _columns(loop: Op, launches: Sequence[Op]) -> Dim | None:
    """How many columns go through the loop apart from each other, if that is worth threads."""
    plain = all(op.name in INSIDE or op.opdef.dialect == "index" for op in loop.body.ops)
    products = [launch for launch in launches if launch_kind(launch) == "contract"]
    if not plain or not products or not all(map(_walks_columns, launches)):
        return None
    columns = launch_space(products[0])[_axis(products[0])]
    known = columns.constant is not None and columns.constant <= BLOCK
    counter = str(loop.attrs["counter"])
    same = all(launch_space(launch)[_axis(launch)] == columns for launch in launches)
    return columns if same and not known and counter not in columns.symbols() and _are_apart(loop, launches) else None


def _axis(launch: Op) -> int:
    """Columns come last; behind them are the terms of a product."""
    return len(launch_space(launch)) - (2 if launch_kind(launch) == "contract" else 1)


def _walks_columns(launch: Op) -> bool:
    """Whether a launch computes elements of one row, or one row of a product whose right operand is read as it lies."""
    kind, forms, space = launch_kind(launch), computing(launch), launch_space(launch)
    product = kind == "contract" and forms[0].name == "form.contract"
    as_it_lies = product and [stage.layout for stage in launch_stages(launch)] == ["rows", "rows"]
    elements = all(form.name == "form.map" for form in (forms[1:] if product else forms))
    one_row = bool(space) and all(size == ONE for size in space[: _axis(launch)])
    plain = not launch_lengths(launch) and "portion" not in launch.attrs and STEPS not in launch.attrs
    uncut = plain and (product or CUT not in launch.attrs)
    return one_row and elements and uncut and (as_it_lies or kind == "map") and not takes_argument(launch)


def _are_apart(loop: Op, launches: Sequence[Op]) -> bool:
    """Whether each column reads, of what the launches write, only what stands in it."""
    written = written_memory(loop, launches)
    for launch in launches:
        axis = _axis(launch)
        columns = launch_space(launch)[axis]
        for reach in reaches(launch):
            operand = launch.operands[reach.operand]
            if buffer_of(operand) in written and not _stays_in_column(launch, reach, axis, columns):
                return False
    return not any(map(is_register, written))


def _stays_in_column(launch: Op, reach: Reach, axis: int, columns: Dim) -> bool:
    """Whether the memory is rows of so many elements, of which a column of the launch reaches its own."""
    operand = launch.operands[reach.operand]
    held = memory(buffer_of(operand))
    plain = held.contiguous and not (reach.panels or reach.computed or reach.digits)
    if not plain or not held.dims or held.dims[-1] != columns:
        return False
    others = [stride for place, stride in enumerate(reach.strides) if place != axis]
    starts = [reach.offset + offset_in_buffer(operand), *others]
    return reach.strides[axis] == ONE and all(start.mod(columns) == ZERO for start in starts)


def _give_columns_programs(launch: Op) -> None:
    """Has a program walk a block of columns, as many in every launch of the loop."""
    axis = _axis(launch)
    launch.attrs.pop(CUT, None)
    loops = launch_loops(launch)
    launch.attrs["loops"] = tuple(replace(loop, block=BLOCK) if loop.axes == (axis,) else loop for loop in loops)
    because(launch, f"a program for each {BLOCK} columns, which go through all iterations by themselves")
