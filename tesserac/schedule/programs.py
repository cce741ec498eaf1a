"""Launches of tile programs: a grid of programs, and the sizes of their blocks.

Enters: a launch of kind `program`, whose body is one `form.kernel` behind the views that it reads through. Leaves: its
loops: one program for every index of the first axis and every block of an own dim; dims that programs go over are
serial. Sizes come from the kernel's own schedule, else from the machine.
"""

from __future__ import annotations

from tesserac.ir.core import Op
from tesserac.ir.kernels import KERNEL, Cut, kernel_blocks, kernel_own, kernel_schedule
from tesserac.schedule.dialect import Loop, launch_space
from tesserac.schedule.machine import Machine
from tesserac.schedule.reason import because

OWN_BLOCK, LOOP_BLOCK = 128, 192
"""Rows of a program's results, and terms that it takes at a time: panels of either stay in a core's own caches."""


def launched_kernel(launch: Op) -> Op:
    """The tile program of a launch."""
    return next(op for op in launch.body.ops if op.name == KERNEL)


def schedule_program(launch: Op, machine: Machine) -> None:
    kernel = launched_kernel(launch)
    settings, own = kernel_schedule(kernel), kernel_own(kernel)
    loops = [Loop((0,), launch_space(launch)[0], 1, "parallel")]
    for axis, cut in enumerate(kernel_blocks(kernel), 1):
        is_own = cut.block in own
        given = settings.get(_setting(cut))
        size = given if given is not None else _fitting(cut, OWN_BLOCK if is_own else LOOP_BLOCK)
        loops.append(Loop((axis,), cut.over, size, "parallel" if is_own else "serial"))
        because(launch, f"blocks {cut.block} of {size}{'' if given is None else ', as its schedule says'}")
    launch.attrs["loops"] = tuple(loops)
    unused = sorted(settings.keys() - {_setting(cut) for cut in kernel_blocks(kernel)})
    if unused:
        because(launch, f"a {machine.kind.upper()} has no use for {', '.join(unused)} of its schedule")


def _setting(cut: Cut) -> str:
    """What a schedule calls the size of a block: `m` of `T_m`."""
    return (cut.block.symbol or "").removeprefix("T_").rstrip("_")


def _fitting(cut: Cut, block: int) -> int:
    size = cut.over.constant
    return block if size is None else max(1, min(block, size))
