"""Loops over rows that never meet: a thread takes some rows through all iterations, and waits for nobody.

    schedule.loop(%lo, %hi) { ^(%t): schedule.launch(%a, %b) {space = [8, 41]}; schedule.swap(%a, %b) }
becomes
    schedule.loop(%lo, %hi) {rows = `8`} { ... the same, with a program for each row ... }

Enters: a host program with decided launches. Leaves: the same program. A loop is marked whose launches are too small to
be divided among threads, all walk the same rows first, and whose memory, as far as the loop writes it, is read and
written by each row within its own part. The target runs the whole loop as one kernel over rows (`target/cpu/
row_loops.py`). Bits do not change: what a row is computed from, and in which order, stays.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, Value
from tesserac.ir.passes import SCHEDULE, function_pass
from tesserac.schedule.chains.row_chains import buffer_of, takes_argument
from tesserac.schedule.dialect import (
    ROWS,
    STEPS,
    Loop,
    launch_kind,
    launch_lengths,
    launch_loops,
    launch_outs,
    launch_space,
)
from tesserac.schedule.model.cuts import cut_of
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.space import computing, reaches
from tesserac.types.dims import ONE, ZERO, Dim, product

INSIDE = ("schedule.box", "schedule.launch", "schedule.swap", "schedule.end")
FORMS = ("form.map", "form.reduce")
SMALL = 1 << 13
"""Points of a space that are certainly too few for a launch to be divided among threads."""
ROW = 32
"""Points of a row from which on it is worth a program of its own: a few vectors."""


@function_pass(SCHEDULE, SCHEDULE, "row_loops")
def row_loops(host: Op) -> None:
    for loop in innermost_loops(host):
        launches = [op for op in loop.body.ops if op.name == "schedule.launch"]
        rows = _rows(loop, launches)
        if rows is not None:
            loop.attrs[ROWS] = rows
            for launch in launches:
                _give_rows_programs(launch)


def innermost_loops(op: Op) -> Iterator[Op]:
    """Loops that count and have none inside; those that are compiled as one stay so."""
    for region in op.regions if op.name != "schedule.launch" and "sequential" not in op.attrs else ():
        for inner in region.block.ops:
            yield from innermost_loops(inner)
            if inner.name == "schedule.loop" and "sequential" not in inner.attrs:
                yield inner


def _rows(loop: Op, launches: Sequence[Op]) -> Dim | None:
    """How many rows go through the loop apart from each other, if that is worth threads."""
    plain = all(op.name in INSIDE or op.opdef.dialect == "index" for op in loop.body.ops)
    if not plain or not launches or not all(map(_is_small_map, launches)):
        return None
    rows = launch_space(launches[0])[0]
    same = rows != ONE and all(launch_space(launch)[0] == rows for launch in launches)
    long = any(product(launch_space(launch)[1:]).evaluate({}) >= ROW for launch in launches)
    return rows if same and long and _are_apart(loop, launches) else None


def _is_small_map(launch: Op) -> bool:
    """Whether a launch computes elements or short folds of rows, whose first loop can be one over rows."""
    size = product(launch_space(launch)).constant or 0  # one of no rows may have any row
    known = 0 < size <= SMALL and launch_kind(launch) in ("map", "rows") and not launch_lengths(launch)
    forms = all(form.name in FORMS for form in computing(launch))
    loops = launch_loops(launch)
    leads = bool(loops) and loops[0].kind == "parallel" and loops[0].axes[0] == 0
    cut = "portion" in launch.attrs or cut_of(launch) is not None
    return known and forms and leads and not cut and STEPS not in launch.attrs and not takes_argument(launch)


@dataclass(frozen=True)
class _Part:
    """What a row has of a written memory: elements from `start` on, counted from where the row begins, the last one
    `reach` behind the first; rows are `row` apart."""

    value: Value
    reads: bool
    row: Dim
    start: Dim
    reach: int

    @property
    def stays_inside(self) -> bool:
        row, start = self.row.constant, self.start.constant
        return row is not None and start is not None and start >= 0 and start + self.reach < row


def _are_apart(loop: Op, launches: Sequence[Op]) -> bool:
    """Whether each row reads, of what the launches write, only its own part."""
    written = written_memory(loop, launches)
    parts = [part for launch in launches for part in _parts(launch, written)]
    rows: dict[int, Dim] = {}
    for part in parts:
        if part is None or rows.setdefault(written[part.value], part.row) != part.row:
            return False
        uses = [other for other in parts if other is not None and written[other.value] == written[part.value]]
        if not part.stays_inside and not (len(uses) == 1 and _is_stacked(part, loop, launches)):
            return False
    return not any(is_register(value) for value in written)


def written_memory(loop: Op, launches: Sequence[Op]) -> dict[Value, int]:
    """The memory that the loop writes, with a number that all have which change hands with each other."""
    swaps = [op.operands for op in loop.body.ops if op.name == "schedule.swap"]
    outs = [buffer_of(out) for launch in launches for out in launch_outs(launch)]
    number = {value: i for i, value in enumerate(dict.fromkeys([*outs, *(v for pair in swaps for v in pair)]))}
    for left, right in swaps * len(swaps):
        number[left] = number[right] = min(number[left], number[right])
    found = {number[out] for out in outs}
    return {value: i for value, i in number.items() if i in found}


def _parts(launch: Op, written: Container[Value]) -> Iterator[_Part | None]:
    """The parts of written memory that a row of a launch has; none for one that is not of a row."""
    many, space = len(launch.operands) - len(launch_outs(launch)), launch_space(launch)
    for reach in reaches(launch):
        operand, reads = launch.operands[reach.operand], reach.operand < many
        if (held := buffer_of(operand)) not in written:
            continue
        steps = [(size.constant, stride.constant) for size, stride in zip(space[1:], reach.strides[1:], strict=True)]
        known = all(size and stride is not None and stride >= 0 for size, stride in steps)
        strange = reach.panels or reach.computed or reach.digits or (reads and operand is not held)
        if not known or strange:
            yield None
            continue
        last = sum((size - 1) * stride for size, stride in steps if size and stride)
        yield _Part(held, reads, reach.strides[0], reach.offset + offset_in_buffer(operand), last)


def offset_in_buffer(value: Value) -> Dim:
    """Where a part of a buffer begins in it."""
    start = ZERO
    while (made := value.defining_op) is not None and made.name == "schedule.box":
        offset = made.attrs["offset"]
        assert isinstance(offset, Dim)
        value, start = made.operands[0], start + offset
    return start


def _is_stacked(part: _Part, loop: Op, launches: Sequence[Op]) -> bool:
    """Whether an iteration writes its rows behind those of all iterations before, which nothing in the loop reads."""
    counter = str(loop.attrs["counter"])
    first, second = (part.start.substitute({counter: count}) for count in (ZERO, ONE))
    step, row, rows = (dim.constant for dim in (second - first, part.row, launch_space(launches[0])[0]))
    even = part.start == first + (second - first) * Dim.sym(counter) and first.constant is not None
    if part.reads or not even or step is None or row is None or rows is None:
        return False
    return part.reach < row and rows * row <= step


def is_register(value: Value) -> bool:
    made = value.defining_op
    return made is not None and made.name == "schedule.buffer" and made.attrs["role"] == "register"


def _give_rows_programs(launch: Op) -> None:
    """Has a launch walk one row in a program; other axes that went with the rows have a loop of their own."""
    first, *others = launch_loops(launch)
    space = launch_space(launch)
    split = [Loop((0,), space[0], 1, first.kind)]
    if first.axes[1:] and launch_kind(launch) == "rows":
        split = [replace(first, block=1)]
    elif rest := first.axes[1:]:
        size = product(space[axis] for axis in rest)
        split.append(replace(first, axes=rest, size=size, block=min(first.block, _power_above(size.evaluate({})))))
    launch.attrs["loops"] = (*split, *others)
    because(launch, "a program for each row, which goes through all iterations by itself")


def _power_above(size: int) -> int:
    return 1 << max(0, size - 1).bit_length()
