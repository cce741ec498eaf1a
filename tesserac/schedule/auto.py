"""The default schedule: composes primitives for each launch, by the cost model.

Enters: a host program whose launches walk their space element by element. Leaves: the same program with loops merged
and cut into blocks, operands staged, values kept, units bound; each launch says why.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tesserac.ir.core import Op, clone_op
from tesserac.ir.forms import ORDERED_KINDS, tensor_type
from tesserac.ir.kernels import kernel_settings
from tesserac.ir.lines import LINES, line_elements
from tesserac.ir.passes import SCHEDULE, Pass, function_pass
from tesserac.schedule.aligned import LONG_RUNS, align_products
from tesserac.schedule.column_chains import schedule_column_chains
from tesserac.schedule.contract import schedule_pack
from tesserac.schedule.cost import element_bytes, form_work, power_of_two_below, scratch_pays
from tesserac.schedule.cuts import cut_places
from tesserac.schedule.dialect import (
    Predicate,
    folded_most,
    launch_kind,
    launch_loops,
    launch_place,
    launch_space,
    memory,
)
from tesserac.schedule.line_chains import schedule_chains
from tesserac.schedule.long_rows import (
    cut_columns,
    cut_known_rows,
    cut_rows,
    has_few_rows,
    idles,
    may_be_cut,
    may_idle,
    vary_columns,
)
from tesserac.schedule.machine import Machine
from tesserac.schedule.one_pass import read_once
from tesserac.schedule.part_chains import schedule_part_chains
from tesserac.schedule.primitives.bind import bind
from tesserac.schedule.primitives.keep import keep
from tesserac.schedule.primitives.merge import merge
from tesserac.schedule.primitives.merge import refusal as merge_refusal
from tesserac.schedule.primitives.split import split
from tesserac.schedule.reason import because
from tesserac.schedule.row_chains import schedule_row_chains
from tesserac.schedule.row_lengths import (
    has_unknown_rows,
    hold_known_rows,
    longest_held,
    row_warps,
    rows_together,
    vary_lengths,
)
from tesserac.schedule.select import select
from tesserac.schedule.shifted import shift_windows
from tesserac.schedule.sorts import schedule_sort
from tesserac.schedule.space import Reach, computing, reaches, shared_loop
from tesserac.schedule.uses import Passes
from tesserac.schedule.variants import schedule_product
from tesserac.types.dims import ONE, ZERO, Dim

ROW_BLOCK = 512
"""Elements of a row at a time where no order of summation says it."""
RUN_BLOCK, RUN_WARPS = 256, 1
"""Elements of a run's rows at a time: a tree keeps a block of them per level. Those of a GPU are one warp's."""
SQUARE, TINY_ACROSS = 64, 128
ROWS_TOGETHER = 32
"""Rows that a program of a CPU folds where an operand is contiguous across them: it reads as many at once."""
SCANNED_TOGETHER = 8
"""Rows of which a program of a CPU takes running folds side by side: each waits for its own additions."""
LITTLE_WORK = 32
"""Operations of one element."""
SMALLEST, LARGEST = 256, 4096
RUN_BYTES = 4096
"""Of the widest memory of a map, those that a program of a GPU takes of one run: many programs wait for memory while
others compute."""
ROW_WARPS, ROW_ELEMENTS = 2, 512
"""Of a map of long rows that computes much, on a GPU: few registers a thread, so that many programs fit."""
GATHERED = 1024
"""Elements that a program of a GPU gathers or scatters, at most: what hits anywhere wants many programs at once."""
WARP = 32
"""Points of a form of lines that a warp takes at least: a thread holds one, with all its elements."""
FOLD_COLUMNS = 64
"""Columns of rows that are folded into places, which a program takes."""
WIDE_COLUMNS, NARROWEST = 1024, 64
"""Rows side by side where parts of them are programs: memory is read in long runs, shorter ones where many cores would
have nothing to do."""
COLUMNS_OF_ALL = 2048
"""Those that all cores together take at once: with twice as many a core of sixteen that comes late is waited for."""
SHARING = 4
"""Indices of a batch that a program of a GPU takes at once, where they read the same table."""
SHORT_RUN = 256
"""Elements that are neighbours in all memories of a map up to which blocks are as high as wide."""
TINY_RUN = 32
"""Those up to which a block of the usual width would be half empty, or emptier."""
LEAST_RUN = 256
"""Neighbours of a block of a map on a GPU, at least: 16 bytes of 16-bit numbers for each lane of a warp."""
SHORT_ROW = 1024
"""Elements of a row up to which one warp has its maximum before several have told each other of theirs."""


def launch_pass(machine: Machine) -> Pass:
    """Decides how every launch walks its space on one machine."""

    @function_pass(SCHEDULE, SCHEDULE, "launches")
    def decide(host: Op) -> None:
        if not machine.packs_operands:
            shift_windows(host)
            align_products(host, machine)
        chained = schedule_row_chains(host) if machine.packs_operands else schedule_chains(host, machine)
        if machine.packs_operands:
            chained |= schedule_column_chains(host, machine, chained)
            chained |= schedule_part_chains(host)
        for launch in [op for op in host.walk() if op.name == "schedule.launch" and op not in chained]:
            schedule_launch(launch, machine)

    return decide


def schedule_launch(launch: Op, machine: Machine) -> None:
    _SCHEDULES[launch_kind(launch)](launch, machine)


def merge_runs(launch: Op, found: list[Reach]) -> None:
    """Walks neighbouring loops as one wherever memory allows."""
    loop = 0
    while loop + 1 < len(launch_loops(launch)):
        if merge_refusal(launch, loop, found) is None:
            merge(launch, loop)
        else:
            loop += 1


def _elements_per_point(launch: Op) -> int:
    """Elements that a point of the space reads and writes."""
    lines = [line_elements(op) for op in computing(launch) if op.name == LINES]
    return sum(lines) if lines else len(launch.operands)


def _bytes_per_point(launch: Op) -> int:
    """Bytes that a point of the space reads and writes."""
    if launch_kind(launch) == "lines":
        return _elements_per_point(launch) * element_bytes(memory(launch.operands[-1]).dtype)
    return sum(element_bytes(memory(v).dtype) for v in launch.operands) or 1


def _block_elements(launch: Op, machine: Machine, read: int = 1) -> int:
    """How many elements a program takes: what fits in registers where they hold blocks, of all that is `read` and
    written, else nearest to the unit."""
    if machine.registers:
        room = machine.registers / max(read, _elements_per_point(launch))
    else:
        room = machine.near_bytes * 0.75 / _bytes_per_point(launch)
    lines = launch_kind(launch) == "lines" and machine.warps
    gathers = machine.warps and any(op.name in ("form.gather", "form.scatter") for op in computing(launch))
    return power_of_two_below(room, WARP * machine.warps if lines else SMALLEST, GATHERED if gathers else LARGEST)


def _schedule_map(launch: Op, machine: Machine) -> None:
    found = reaches(launch)
    merge_runs(launch, found)
    loops, elements = launch_loops(launch), _block_elements(launch, machine, len(found))
    if machine.warps:
        bind(launch, machine.warps, "uniform")
        elements = min(elements, _run_elements(launch)) if len(loops) == 1 else elements
    if not loops:
        because(launch, "one element")
        return
    last, crossing = len(loops) - 1, _crossing_loop(launch, found)
    shared = shared_loop(launch, found) if machine.warps else None
    unknown = bool(machine.warps and last and loops[last].size.constant is None and LONG_RUNS not in launch.attrs)
    if crossing is not None:
        if unknown:
            _cross(_for_short_runs(launch, TINY_RUN), crossing, TINY_ACROSS, TINY_RUN // 2)
        _cross(launch, crossing, SQUARE, SQUARE, whole=not machine.warps)
        return
    if unknown:
        few = _for_short_runs(launch, SHORT_RUN)
        fewest = _for_short_runs(few, TINY_RUN)
        _walk_elements(few, elements, SQUARE, shared)
        _walk_elements(fewest, elements, TINY_RUN // 2, shared)
    if machine.warps and last and (loops[last].size.constant or WIDE_COLUMNS) > LEAST_RUN:
        elements = min(elements, _elements_of_rows(launch))
    several = machine.cheap_rows if last and _is_cheap(launch) else 1
    inner = _even_run(loops[last].size.constant, elements) if machine.warps and last else elements // several
    _walk_elements(launch, elements, inner, shared)


def _cross(launch: Op, crossing: int, across: int, inner: int, whole: bool = False) -> None:
    """Registers have places for all elements of a block, there or not, where caches may have it `whole`."""
    split(launch, crossing, across if whole else _fitting(launch, crossing, across))
    split(launch, len(launch_loops(launch)) - 1, inner)
    because(launch, f"an operand runs across the others: blocks of {launch_loops(launch)[crossing].block}x{inner}")


def _run_elements(launch: Op) -> int:
    """Elements of one run in memory that a program of a GPU takes."""
    return RUN_BYTES // max(element_bytes(memory(value).dtype) for value in launch.operands)


def _elements_of_rows(launch: Op) -> int:
    if not _is_cheap(launch):
        bind(launch, ROW_WARPS, "uniform")
        return ROW_ELEMENTS
    whole = [memory(v) for v in launch.operands if len(memory(v).dims) >= len(launch_loops(launch))]
    return RUN_BYTES // max((element_bytes(ty.dtype) for ty in whole), default=1)


def _even_run(size: int | None, elements: int) -> int:
    """How many neighbours of a run a block of so many elements has, on a GPU, where each has a place in a register
    whether it is there or not: the most by which blocks go hardly beyond a run, else those by which it is least."""
    if size is None or size <= LEAST_RUN:
        return elements
    able = [n for n in (LEAST_RUN << i for i in range(elements.bit_length())) if n <= elements]
    idle = {n: -(-size // n) * n - size for n in able}
    return max(able, key=lambda n: (min(0, size // 16 - idle[n]), n), default=elements)


def _for_short_runs(launch: Op, most: int) -> Op:
    """A variant of a map for runs of at most so many elements."""
    few = clone_op(launch, {})
    many = Predicate("at_least", launch_loops(launch)[-1].size, Dim.const(most + 1))
    select([(many, [launch])], [few], launch)
    because(few, f"runs of at most {most} elements")
    return few


def _walk_elements(launch: Op, elements: int, inner: int, shared: int | None = None) -> None:
    """Blocks of so many elements, `inner` of them side by side, and some along a loop of which they share operands."""
    loops = launch_loops(launch)
    last = len(loops) - 1
    inner = _fitting(launch, last, inner)
    split(launch, last, inner)
    left = elements // inner
    if shared is not None and left > 1:
        split(launch, shared, _fitting(launch, shared, min(left, SHARING)))
        left //= launch_loops(launch)[shared].block
    for loop in reversed([loop for loop in range(last) if loop != shared]):
        if left > 1:
            split(launch, loop, _fitting(launch, loop, left))
            left //= launch_loops(launch)[loop].block
    taken = prod(loop.block for loop in launch_loops(launch))
    run = " of one run in memory" if len(loops) == 1 else ""
    because(launch, f"blocks of {taken} elements{run}: {_bytes_per_point(launch)} bytes each stay near")


def _is_cheap(launch: Op) -> bool:
    return sum(map(form_work, computing(launch))) <= LITTLE_WORK


def _fitting(launch: Op, loop: int, block: int) -> int:
    """The block, not larger than the next power of two above what is known of a size."""
    size = folded_most(launch, launch_loops(launch)[loop])
    if size is None or size >= block:
        return block
    return 1 << max(0, size - 1).bit_length()


def _crossing_loop(launch: Op, found: list[Reach]) -> int | None:
    """A loop other than the last along which some operand is contiguous."""
    space, loops = launch_space(launch), launch_loops(launch)
    for reach in found:
        for number, loop in enumerate(loops[:-1]):
            last_stride = reach.stride(loops[-1].axes, space)
            if reach.stride(loop.axes, space) == ONE and last_stride not in (ZERO, ONE):
                return number
    return None


def _schedule_rows(launch: Op, machine: Machine) -> None:
    plain = clone_op(launch, {})
    _walk_rows(launch, machine, machine.columns)
    if launch_kind(launch) == "rows" and not machine.warps and may_be_cut(launch):
        _walk_rows(plain, machine, power_of_two_below(COLUMNS_OF_ALL / machine.cores, NARROWEST, WIDE_COLUMNS))
        cut_rows(plain, launch)
    elif machine.warps and may_be_cut(launch) and idles(launch, machine):
        plain.erase()
        cut_known_rows(launch)
    elif machine.warps and may_be_cut(launch) and has_few_rows(launch):
        if launch_loops(launch)[-1].size.constant is not None:
            plain.erase()
            cut_known_rows(launch)
        else:
            _walk_rows(plain, machine, machine.columns)
            cut_rows(plain, launch)
    elif machine.warps and may_be_cut(launch) and may_idle(launch):
        vary_columns(launch, plain, lambda variant: _walk_rows(variant, machine, machine.columns))
        _walk_rows(plain, machine, machine.columns)
        cut_columns(launch, plain, machine)
    elif machine.warps and _is_extreme_of_rows(launch):
        _variant_for_short_rows(launch, plain, machine)
    elif machine.warps and has_unknown_rows(launch) and not _found(launch):
        vary_lengths(launch, plain, machine, lambda variant: _walk_rows(variant, machine, machine.columns))
    else:
        plain.erase()
        if machine.warps and not _found(launch):
            hold_known_rows(launch)
    if machine.warps:
        read_once(launch, longest_held(machine, ROW_BLOCK))


def _is_extreme_of_rows(launch: Op) -> bool:
    """Whether a program takes one row, and nothing but maxima of it, for which tuning found nothing."""
    reduces = [op for op in computing(launch) if op.name == "form.reduce"]
    free = bool(reduces) and all(op.attrs["kind"] not in ORDERED_KINDS for op in reduces)
    return free and not _found(launch) and all(loop.block == 1 for loop in launch_loops(launch)[:-1])


def _variant_for_short_rows(launch: Op, plain: Op, machine: Machine) -> None:
    """One warp for rows that are known to be short; where only a run knows, both."""
    row = launch_loops(launch)[-1].size
    if row.constant is not None:
        plain.erase()
        if row.constant <= SHORT_ROW:
            _bind_one_warp(launch)
        else:  # nothing of it is held, so that more find no more to do
            bind(launch, min(row_warps(launch, machine), machine.warps), "uniform")
        return
    select([(Predicate("at_least", row, Dim.const(SHORT_ROW + 1)), [launch])], [plain], launch)
    _walk_rows(plain, machine, machine.columns)
    _bind_one_warp(plain)


def _bind_one_warp(launch: Op) -> None:
    bind(launch, 1, "uniform")
    because(launch, f"rows of at most {SHORT_ROW}: one warp each")


def _found(launch: Op) -> dict[str, int]:
    """The settings that tuning found for reductions of a launch."""
    reduces = [op for op in computing(launch) if op.name == "form.reduce"]
    return {name: value for op in reduces for name, value in kernel_settings(op).items()}


def _walk_rows(launch: Op, machine: Machine, columns: int) -> None:
    found = _found(launch)
    columns = found.get("n", columns)
    if found:
        because(launch, f"as tuning found: {', '.join(f'{name} = {value}' for name, value in found.items())}")
    _fold_last(launch)
    merge_runs(launch, reaches(launch))
    loops, space = launch_loops(launch), launch_space(launch)
    fold = len(loops) - 1
    crossing = None if machine.warps else _crossing_loop(launch, reaches(launch))
    split(launch, fold, _fitting(launch, fold, _fold_block(launch)))
    across = next((i for i, x in enumerate(loops[:fold]) if x.axes[-1] == len(space) - 1), None)
    if across is not None:
        split(launch, across, _fitting(launch, across, columns))
        because(launch, f"neighbours in memory belong to different rows: {columns} rows side by side")
    elif crossing is not None:
        split(launch, crossing, _fitting(launch, crossing, ROWS_TOGETHER))
        because(launch, f"an operand runs across the rows: {ROWS_TOGETHER} of them together")
    elif fold and launch_kind(launch) == "scan" and _keeps_cores_busy(loops[fold - 1].size, machine):
        split(launch, fold - 1, SCANNED_TOGETHER)
        because(launch, f"a running fold waits for itself: {SCANNED_TOGETHER} rows together")
    elif machine.warps and (together := rows_together(launch)) > 1:
        split(launch, fold - 1, together)
        because(launch, f"rows of {loops[fold].size}: {together} of them together")
    else:
        because(launch, f"one row per program, in blocks of {launch_loops(launch)[fold].block}")
    if machine.warps:
        usual = row_warps(launch, machine) if across is None else machine.column_warps
        bind(launch, found.get("warps", usual), "uniform")
    _keep_values(launch)


def _keeps_cores_busy(rows: Dim, machine: Machine) -> bool:
    """Whether rows of a CPU are many enough for programs of several, as far as it is known."""
    return not machine.warps and (rows.constant is None or rows.constant >= SCANNED_TOGETHER * machine.cores)


def _schedule_scatter(launch: Op, machine: Machine) -> None:
    """Elements along the axes that the memory follows are independent; all others keep their order."""
    loops = launch_loops(launch)
    if machine.warps:
        bind(launch, machine.warps, "uniform")
    launch.attrs["loops"] = tuple(sorted(loops, key=lambda x: x.kind == "serial"))
    last = sum(loop.kind == "parallel" for loop in loops) - 1
    along = last >= 0 and launch_loops(launch)[last].axes[-1] in launch_place(launch, computing(launch)[0])
    if along:
        split(launch, last, _fitting(launch, last, _block_elements(launch, machine)))
    if any(loop.kind == "serial" for loop in loops):
        because(launch, "later elements go over earlier ones, so places are written in order")
    else:
        because(launch, "no two elements for one place differ, so places are written at once")


def _schedule_folds(launch: Op, machine: Machine) -> None:
    """Each program walks all rows: that is little beside folding so many columns of them, or those of its places."""
    _fold_last(launch)
    merge_runs(launch, reaches(launch))
    cut_places(launch, machine)
    if (last := len(launch_loops(launch)) - 2) >= 0:
        split(launch, last, _fitting(launch, last, FOLD_COLUMNS))
    because(launch, "rows with one place are folded together, in their order")


def _schedule_runs(launch: Op, machine: Machine) -> None:
    if machine.warps:
        bind(launch, RUN_WARPS, "uniform")
    merge_runs(launch, reaches(launch))
    last = len(launch_loops(launch)) - 1
    if last:
        split(launch, last, _fitting(launch, last, RUN_BLOCK))
    because(launch, "one run per program")


def _fold_last(launch: Op) -> None:
    launch.attrs["loops"] = tuple(sorted(launch_loops(launch), key=lambda x: x.kind == "fold"))


def _fold_block(launch: Op) -> int:
    """The block of the sums; a maximum may be taken in any."""
    for op in computing(launch):
        order = op.attrs.get("order")
        if order is not None and hasattr(order, "block"):
            return int(order.block)
    return ROW_BLOCK


def _keep_values(launch: Op) -> None:
    """From the last value to the first: what only a kept value needs is then needed in one pass."""
    for position, op in reversed(list(enumerate(launch.body.ops[:-1]))):
        count = len(Passes(launch).needed().get(op, ()))
        if op.name != "form.map" or count < 2:
            continue
        name = op.result.name or str(tensor_type(op.result))
        if scratch_pays(op):
            keep(launch, position)
            because(launch, f"%{name} is kept for {count} passes")
        else:
            because(launch, f"%{name} is computed in {count} passes: cheaper than keeping it")


def _schedule_program(launch: Op, machine: Machine) -> None:
    from tesserac.schedule.programs import schedule_program  # of no use to launches of the compiler's own

    schedule_program(launch, machine)


_SCHEDULES: dict[str, Callable[[Op, Machine], None]] = {
    "map": _schedule_map,
    "lines": _schedule_map,
    "rows": _schedule_rows,
    "scan": _schedule_rows,
    "pack": lambda launch, _: schedule_pack(launch),
    "scatter": _schedule_scatter,
    "sort": schedule_sort,
    "folds": _schedule_folds,
    "runs": _schedule_runs,
    "contract": schedule_product,
    "program": _schedule_program,
}
