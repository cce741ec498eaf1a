"""Row kernels of a GPU for rows whose length only a run knows: variants by length.

A warp folds a block of a row. How many warps a program should have follows from the length, so there is a variant
for rows of one block, of two, of as many as a program has warps, of twice as many where numbers are wide, and one for
all that are longer, in which threads go over the row. The short ones know that each warp has one block at most: the row
stays in their registers.
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.ir.core import Op, clone_op
from tesserac.schedule.dialect import Predicate, launch_ins, launch_kind, launch_loops, memory
from tesserac.schedule.machine import Machine
from tesserac.schedule.primitives.bind import bind
from tesserac.schedule.reason import because
from tesserac.schedule.select import select
from tesserac.types.dims import ONE, Dim

ROW_BLOCKS = "row_blocks"
"""The attribute of a launch, and of the kernel that it becomes, whose rows are known to have at most so many blocks
where a run knows how long they are: the host has asked."""


WIDE_BITS = 32


def has_unknown_rows(launch: Op) -> bool:
    """Whether a program has one of several rows, of a length that only a run knows."""
    *rows, fold = launch_loops(launch)
    single = all(loop.block == 1 for loop in rows) and any(loop.size != ONE for loop in rows)
    return launch_kind(launch) == "rows" and fold.size.constant is None and single


def vary_lengths(launch: Op, plain: Op, machine: Machine, walk: Callable[[Op], None]) -> None:
    """`launch` stays for long rows; variants for shorter ones are made of `plain`, which nothing has decided yet."""
    fold = launch_loops(launch)[-1]
    most = [1 << i for i in range(machine.warps.bit_length() + _is_wide(launch))]
    short = [plain, *(clone_op(plain, {}) for _ in most[1:])]
    longer = [Predicate("at_least", fold.size, Dim.const(fold.block * blocks + 1)) for blocks in most]
    others = [launch, *reversed(short)]
    choices = [(predicate, [op]) for predicate, op in zip(reversed(longer), others, strict=False)]
    select(choices, [others[-1]], launch)
    for variant, blocks in zip(short, most, strict=True):
        walk(variant)
        bind(variant, blocks, "uniform")
        variant.attrs[ROW_BLOCKS] = blocks
        because(variant, f"rows of at most {fold.block * blocks}: they stay in registers, one warp for each block")


def _is_wide(launch: Op) -> bool:
    """Whether all that is read is of four bytes or more: twice as many warps then have enough to wait for, and pay."""
    return all(memory(value).dtype.bits >= WIDE_BITS for value in launch_ins(launch))


def row_blocks(op: Op) -> int | None:
    """How many blocks a row of a launch or a kernel has at most, where a run knows it and the host has asked."""
    found = op.attrs.get(ROW_BLOCKS)
    assert found is None or isinstance(found, int)
    return found
