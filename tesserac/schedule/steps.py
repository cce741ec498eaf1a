"""Tile programs whose loops go step by step over time: how many columns of what they carry a program has.

    for t in range(L): h = a[t] * h + x[t]      h is [T_n], or [T_n, 16]

Columns go through all steps apart from each other, and a step is little work: a thread of a GPU has a few elements, so
that all its multiprocessors have some; a core has as many as its first cache keeps from step to step.
"""

from __future__ import annotations

from math import prod

from tesserac.ir.core import Op
from tesserac.ir.forms import tensor_type
from tesserac.ir.kernels import block_loop, kernel_own
from tesserac.schedule.machine import Machine

CARRIED, CARRIED_BY_THREADS = 2048, 512
"""Elements that a program carries from step to step, on a CPU and on a GPU."""
FEWEST, MOST_OF_THREADS = 32, 128
"""Columns of a program of a GPU: a warp reads some of its neighbours at once, and each warp has its own."""


def step_loops(kernel: Op) -> list[Op]:
    """The loops of a tile program that go over no blocks."""
    return [op for op in kernel.walk() if op.name == "form.loop" and block_loop(op) is None]


def columns_of_steps(kernel: Op, machine: Machine) -> int | None:
    """The columns that a program takes through all steps; None where it has no such loop, or shares out two dims."""
    own = kernel_own(kernel)
    carried = [tensor_type(value) for loop in step_loops(kernel) for value in loop.results]
    held = [[dim.constant for dim in ty.dims if dim not in own] for ty in carried if set(own) & set(ty.dims)]
    if len(own) != 1 or not held:
        return None
    width = max(prod(size or 1 for size in sizes) for sizes in held)  # what only a run knows is written row by row
    if machine.warps:
        return min(max(FEWEST, CARRIED_BY_THREADS // max(width, 1)), MOST_OF_THREADS)
    return max(FEWEST, CARRIED // max(width, 1))
