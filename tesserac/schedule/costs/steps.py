"""Tile programs whose loops go step by step over time: how many columns of what they carry a program has.

    for t in range(L): h = a[t] * h + x[t]      h is [T_n], or [T_n, 16]

Columns go through all steps apart from each other, and a step is little work: a thread of a GPU has a few elements, so
that all its multiprocessors have some; a core has as many as its first cache keeps from step to step.
"""

from __future__ import annotations

from math import prod

from tesserac.ir.core import Op
from tesserac.ir.forms import tensor_type
from tesserac.ir.kernels import block_loop, kernel_own, most_whole
from tesserac.schedule.machine import Machine
from tesserac.types.dims import Dim

CARRIED, CARRIED_BY_THREADS = 2048, 512
"""Elements that a program carries from step to step, on a CPU and on a GPU."""
FEWEST, MOST_OF_THREADS = 32, 128
"""Columns of a program of a GPU: a warp reads some of its neighbours at once, and each warp has its own."""
HELD_BY_THREADS, FEWEST_OF_LINES = 1024, 8
"""Elements that a program of a GPU carries at most, of which a step has several tiles, and the fewest columns all the
same: those of 32 bytes in memory. A state of 64 x 32 beside its update took 255 registers of 128 threads and spilled
944 bytes; of 64 x 16 it takes 236."""


def step_loops(kernel: Op) -> list[Op]:
    """The loops of a tile program that go over no blocks."""
    return [op for op in kernel.walk() if op.name == "form.loop" and block_loop(op) is None]


def columns_of_steps(kernel: Op, machine: Machine) -> int | None:
    """The columns that a program takes through all steps; None where it has no such loop, or shares out two dims."""
    own = kernel_own(kernel)
    carried = [tensor_type(value).dims for loop in step_loops(kernel) for value in loop.results]
    shared = [dims for dims in carried if set(own) & set(dims)]
    if len(own) != 1 or not shared:
        return None
    width = max(_held(kernel, dims, own[0]) for dims in shared)
    if not machine.warps:
        return max(FEWEST, CARRIED // width)
    fewest = FEWEST_OF_LINES if all(dims[-1] == own[0] for dims in shared) else 1
    most = max(fewest, HELD_BY_THREADS // width)
    return min(max(FEWEST, CARRIED_BY_THREADS // width), MOST_OF_THREADS, most)


def _held(kernel: Op, dims: tuple[Dim, ...], own: Dim) -> int:
    """How many elements of a carried tile belong to one column. Dims before it that only a run knows are written step
    by step."""
    at = dims.index(own)
    steps = prod(dim.constant or 1 for dim in dims[:at])
    return max(1, steps * prod(most_whole(kernel) if dim.constant is None else dim.constant for dim in dims[at + 1 :]))
