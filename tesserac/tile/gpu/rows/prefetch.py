"""Pass `prefetch`: programs that write rows ask the second cache for rows that later programs read.

    %x = gpu.load(%mem, %p0, %axis)  becomes  %x = gpu.load(%mem, %p0, %axis) {ahead = 2376}

A program waits for its row, folds it, and writes it: while it does the latter two it asks for nothing, and memory waits
for it. What it asks for ahead costs no registers, and has come from memory when the program that reads it begins.
Programs that write one number for a row are done when they have it, and keep memory busy by themselves.

Enters: a kernel of rows, all else decided. Leaves: loads of held rows that say how many programs later the one is that
reads what is asked for: as many as the machine runs at once, where the second cache has room for several times that.
"""

from __future__ import annotations

from tesserac.ir.core import Op, Value
from tesserac.schedule.machine import Machine
from tesserac.schedule.rows.row_lengths import row_parts
from tesserac.tile.gpu.model.layout import WHOLE_WARP
from tesserac.tile.gpu.model.touched import written_memory
from tesserac.tile.gpu.model.values import fragment, kernel_grid, kernel_threads, memory

AHEAD = "ahead"
"""The attribute of a load: how many programs later one is whose block the second cache is asked for."""
WARPS = 36
"""Of a multiprocessor, that run at once: with 100, rows come too early and are no faster."""
ROOM = 4
"""Times what is asked for ahead that the second cache must have: what is written goes through it too."""


def prefetch(kernel: Op, machine: Machine) -> None:
    """Changes the kernel in place."""
    if len(kernel_grid(kernel)) != 1 or not _writes_rows(kernel) or len(row_parts(kernel)) > 1:
        return
    programs = machine.cores * WARPS * WHOLE_WARP // kernel_threads(kernel)
    written = {value for op in kernel.walk() for value in written_memory(op)}
    for load in [op for op in kernel.body.ops if op.name == "gpu.load" and op.operands[0] not in written]:
        ty = fragment(load.result)
        asked = programs * ty.layout.count * ty.dtype.bytes * kernel_threads(kernel)
        if _is_of_program(load, kernel.body.args[0]) and ROOM * asked <= machine.second_bytes:
            load.attrs[AHEAD] = programs


def _writes_rows(kernel: Op) -> bool:
    """Whether teams, or one warp, hold a row and write another one."""
    names = {op.name for op in kernel.body.ops}
    stored = [op for op in kernel.body.ops if op.name == "gpu.store" and memory(op.operands[1]).space == "global"]
    held = "gpu.team" in names or bool(row_parts(kernel))
    return held and any(fragment(op.operands[0]).shape for op in stored)


def _is_of_program(load: Op, program: Value) -> bool:
    """Whether what is loaded is the row, or the rows, whose number is that of the program."""
    mem, *at = load.operands
    if memory(mem).space != "global" or len(at) != 2:
        return False
    return at[0] is program or _begins_at_multiple(at[0], program)


def _begins_at_multiple(rows: Value, program: Value) -> bool:
    axis = rows.defining_op
    start = axis.operands[0].defining_op if axis is not None and axis.name == "gpu.axis" else None
    return start is not None and start.name == "index.mul" and start.operands[0] is program
