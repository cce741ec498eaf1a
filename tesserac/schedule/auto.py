"""The default schedule: composes primitives for each launch, by the cost model.

Enters: a host program whose launches walk their space element by element. Leaves: the same program with loops merged
and cut into blocks, operands staged, values kept, units bound; each launch says why.
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.ir.core import Op, clone_op
from tesserac.ir.forms import ORDERED_KINDS, tensor_type
from tesserac.ir.kernels import kernel_settings
from tesserac.ir.passes import SCHEDULE, Pass, function_pass
from tesserac.schedule.chains.column_chains import schedule_column_chains
from tesserac.schedule.chains.line_chains import schedule_chains
from tesserac.schedule.chains.part_chains import schedule_part_chains
from tesserac.schedule.chains.row_chains import schedule_row_chains
from tesserac.schedule.costs.cost import power_of_two_below, scratch_pays
from tesserac.schedule.dialect import (
    Predicate,
    launch_kind,
    launch_loops,
    launch_place,
    launch_space,
)
from tesserac.schedule.machine import Machine
from tesserac.schedule.maps.blocks import block_elements, crossing_loop, fitting, merge_runs, schedule_map
from tesserac.schedule.model.cuts import cut_places
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.select import select
from tesserac.schedule.model.space import computing, reaches
from tesserac.schedule.model.uses import Passes
from tesserac.schedule.primitives.bind import bind
from tesserac.schedule.primitives.keep import keep
from tesserac.schedule.primitives.split import split
from tesserac.schedule.products.aligned import align_products
from tesserac.schedule.products.contract import schedule_pack
from tesserac.schedule.products.shifted import shift_windows
from tesserac.schedule.products.variants import schedule_product
from tesserac.schedule.rows.long_rows import (
    cut_columns,
    cut_known_rows,
    cut_rows,
    has_few_rows,
    idles,
    may_be_cut,
    may_idle,
    vary_columns,
)
from tesserac.schedule.rows.one_pass import read_once
from tesserac.schedule.rows.row_lanes import rows_in_lanes
from tesserac.schedule.rows.row_lengths import (
    has_unknown_rows,
    hold_known_rows,
    longest_held,
    row_warps,
    rows_together,
    vary_lengths,
)
from tesserac.schedule.rows.sorts import schedule_sort
from tesserac.types.dims import Dim

ROW_BLOCK = 512
"""Elements of a row at a time where no order of summation says it."""
RUN_BLOCK, RUN_WARPS = 256, 1
"""Elements of a run's rows at a time: a tree keeps a block of them per level. Those of a GPU are one warp's."""
ROWS_TOGETHER = 32
"""Rows that a program of a CPU folds where an operand is contiguous across them: it reads as many at once."""
SCANNED_TOGETHER = 8
"""Rows of which a program of a CPU takes running folds side by side: each waits for its own additions."""
FOLD_COLUMNS = 64
"""Columns of rows that are folded into places, which a program takes."""
WIDE_COLUMNS, NARROWEST = 1024, 64
"""Rows side by side where parts of them are programs: memory is read in long runs, shorter ones where many cores would
have nothing to do."""
COLUMNS_OF_ALL = 1024
"""Those that all cores together take at once. With more, a core of sixteen that comes late is waited for: with twice as
many sums of 1024 x 4096 took 1.09 to 1.30 times as long in three runs, maxima of 8192 x 1024 1.14 to 1.23 times; on two
cores they take as long."""
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
    crossing = None if machine.warps else crossing_loop(launch, reaches(launch))
    split(launch, fold, fitting(launch, fold, _fold_block(launch)))
    across = next((i for i, x in enumerate(loops[:fold]) if x.axes[-1] == len(space) - 1), None)
    if across is not None:
        split(launch, across, fitting(launch, across, columns))
        because(launch, f"neighbours in memory belong to different rows: {columns} rows side by side")
    elif crossing is not None:
        split(launch, crossing, fitting(launch, crossing, ROWS_TOGETHER))
        because(launch, f"an operand runs across the rows: {ROWS_TOGETHER} of them together")
    elif fold and launch_kind(launch) == "scan" and _keeps_cores_busy(loops[fold - 1].size, machine):
        split(launch, fold - 1, SCANNED_TOGETHER)
        because(launch, f"a running fold waits for itself: {SCANNED_TOGETHER} rows together")
    elif (together := rows_together(launch) if machine.warps else rows_in_lanes(launch, machine)) > 1:
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
        split(launch, last, fitting(launch, last, block_elements(launch, machine)))
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
        split(launch, last, fitting(launch, last, FOLD_COLUMNS))
    because(launch, "rows with one place are folded together, in their order")


def _schedule_runs(launch: Op, machine: Machine) -> None:
    if machine.warps:
        bind(launch, RUN_WARPS, "uniform")
    merge_runs(launch, reaches(launch))
    last = len(launch_loops(launch)) - 1
    if last:
        split(launch, last, fitting(launch, last, RUN_BLOCK))
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
    from tesserac.schedule.programs.grid import schedule_program  # of no use to launches of the compiler's own

    schedule_program(launch, machine)


_SCHEDULES: dict[str, Callable[[Op, Machine], None]] = {
    "map": schedule_map,
    "lines": schedule_map,
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
