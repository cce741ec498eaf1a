"""Row kernels of a GPU: how many rows and warps a program has, and variants for lengths that only a run knows.

A warp folds a block of a row. How many warps a program should have follows from the length, so there are variants for
rows of a quarter, of half, of one and of one and a half blocks, which one warp holds, for rows of a few more blocks,
each with a warp for a block, or half a warp for one of many numbers that are narrow, and one for all that are longer,
in which threads go over the row. In all others the row stays in registers.
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.ir.core import Op, attr_tuple, clone_op
from tesserac.schedule.costs.cost import power_of_two_below
from tesserac.schedule.dialect import (
    Predicate,
    launch_ins,
    launch_kind,
    launch_loops,
    launch_outs,
    launch_units,
    memory,
)
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.select import select
from tesserac.schedule.model.uses import Passes
from tesserac.schedule.primitives.bind import bind
from tesserac.schedule.primitives.split import split
from tesserac.types.dims import ONE, Dim

ROW_BLOCKS = "row_blocks"
"""The attribute of a launch, and of the kernel that it becomes, whose rows are known to have at most so many blocks
where a run knows how long they are: the host has asked."""
ROW_PARTS = "row_parts"
"""The attribute of a launch, and of the kernel that it becomes, of which one warp holds a row from the first pass to
the last: the sizes of the parts, of which all but the last are whole blocks that are known to be there."""
PARTS, LONGER = ((128,), (256,), (512,), (512, 256)), (512, 512)
"""Those of the variants of one warp, and of one more where a row is read once and not written: what a warp computes
meanwhile is little, and it waits for no other."""
HELD, WARPS_OF_WIDE = (2, 3, 4, 6, 8, 10, 12, 16), 10
"""Blocks of rows of the variants with several warps, and up to how many of numbers of four bytes have a warp each; of
narrow numbers it is the usual warps. Half a warp holds a block of longer ones."""
WIDE_BITS = 32
HELD_BLOCKS = 2
"""Blocks of a row that a warp holds in registers, at most, where it has several."""
SHORT_FOLD, ROWS_AT_ONCE, HELD_AT_ONCE = 256, 1024, 512
"""Elements of a row up to which a program has several, and of all that it has: of rows that are read once, and of those
that it holds, 16 in each lane, beside which there are registers for what is computed of them."""
PAIRED, SHARED_VECTORS = (512,), 2
"""The parts of rows of which a warp takes two where all rows read so many vectors, such as a scale and a bias: what it
loads of these and widens serves both, and what it computes for a whole row it computes of both at once. Layer norm of
rows of 512 bf16 took 40.7 us on an H200, by 495 instructions of a warp for a row, and takes 36.6, by 348."""
FIRST_PASS = 0


def has_unknown_rows(launch: Op) -> bool:
    """Whether a program has one of several rows, of a length that only a run knows."""
    *rows, fold = launch_loops(launch)
    single = all(loop.block == 1 for loop in rows) and any(loop.size != ONE for loop in rows)
    return launch_kind(launch) == "rows" and fold.size.constant is None and single


def vary_lengths(launch: Op, plain: Op, machine: Machine, walk: Callable[[Op], None]) -> None:
    """`launch` stays for long rows; variants for shorter ones are made of `plain`, which nothing has decided yet."""
    fold = launch_loops(launch)[-1]
    parts, held = (*PARTS, LONGER) if _reads_once(launch) else PARTS, HELD[1:] if _reads_once(launch) else HELD
    most = [*map(sum, parts), *(fold.block * blocks for blocks in held)]
    short = [plain, *(clone_op(plain, {}) for _ in most[1:])]
    longer = [Predicate("at_least", fold.size, Dim.const(size + 1)) for size in most]
    others = [launch, *reversed(short)]
    choices = [(predicate, [op]) for predicate, op in zip(reversed(longer), others, strict=False)]
    select(choices, [others[-1]], launch)
    for variant in short:
        walk(variant)
    for variant, sizes in zip(short, parts, strict=False):
        hold_in_a_warp(variant, sizes)
        variant.attrs[ROW_BLOCKS] = len(sizes)
        if sizes == PAIRED and _shares_vectors(variant):
            _pair_rows(variant)
    for variant, blocks in zip(short[len(parts) :], held, strict=True):
        warps = _holding(launch, blocks, machine)
        bind(variant, warps, "uniform")
        variant.attrs[ROW_BLOCKS] = blocks
        part = "one warp" if warps == blocks else "half a warp"
        because(variant, f"rows of at most {fold.block * blocks}: they stay in registers, {part} for each block")


def hold_in_a_warp(launch: Op, parts: tuple[int, ...]) -> None:
    """Rows of at most so many numbers, one for each program, or several where they are short: lanes then tell each
    other less of each, and a warp asks for more at once."""
    bind(launch, 1, "uniform")
    launch.attrs[ROW_PARTS] = parts
    because(launch, f"rows of at most {sum(parts)}: they stay in registers of one warp")
    if sum(parts) <= SHORT_FOLD:
        _take_together(launch, HELD_AT_ONCE // sum(parts))


def _take_together(launch: Op, count: int) -> None:
    walked = [i for i, loop in enumerate(launch_loops(launch)[:-1]) if loop.size != ONE]
    if walked:
        split(launch, walked[-1], count)
        because(launch, f"{count} of them together")


def _shares_vectors(launch: Op) -> bool:
    """Whether rows of narrow numbers, which are bound by instructions, read several vectors that all rows share, and
    one tensor becomes one: two rows of each of several have no room in registers."""
    fold, ins = launch_loops(launch)[-1], [memory(value) for value in launch_ins(launch)]
    vectors = sum(mem.dims == (fold.size,) for mem in ins)
    narrow = all(mem.dtype.bits < WIDE_BITS for mem in ins)
    one = len(ins) == vectors + 1 and len(launch_outs(launch)) == 1
    return narrow and vectors >= SHARED_VECTORS and one


def _pair_rows(launch: Op) -> None:
    """Two rows for a warp, of an even number of elements: one of an odd number may begin in the middle of a word, and
    is read by words by itself alone."""
    pair = clone_op(launch, {})
    select([(Predicate("divides", Dim.const(2), launch_loops(launch)[-1].size), [pair])], [launch], launch)
    _take_together(pair, 2)


def hold_known_rows(launch: Op) -> None:
    """The same of rows that are known to be short, or so long that one warp holds them in more than one part."""
    *rows, fold = launch_loops(launch)
    length, warps = fold.size.constant, launch_units(launch).warps
    if launch_kind(launch) != "rows" or length is None or any(loop.block > 1 for loop in rows):
        return
    blocks = -(-length // fold.block)
    if fold.block < length <= sum(PARTS[-1]):
        hold_in_a_warp(launch, PARTS[-1])
    elif fold.block <= SHORT_FOLD:
        hold_in_a_warp(launch, (fold.block,))
    elif warps < blocks and length < HELD_BLOCKS * warps * fold.block:
        launch.attrs[ROW_BLOCKS] = blocks  # the end is tested as that of rows of which only a run knows the length


def rows_together(launch: Op) -> int:
    """Rows that a program of a GPU takes together, where they are read once and are known to be so short that a warp
    would wait for one of them about as long as for many."""
    *rows, fold = launch_loops(launch)
    length = fold.size.constant
    if launch_kind(launch) != "rows" or not length or length > SHORT_FOLD or not rows:
        return 1
    return power_of_two_below(ROWS_AT_ONCE // length, 1, SHORT_FOLD) if _reads_once(launch) else 1


def _reads_once(launch: Op) -> bool:
    """Whether one pass over a row is enough, and gives a number for it."""
    passes = Passes(launch)
    return passes.last == FIRST_PASS + 2 and all(used <= {FIRST_PASS} for used in passes.needed().values())


def row_warps(launch: Op, machine: Machine) -> int:
    """Those that hold a row, where it is known how many blocks it has and they are not too many."""
    fold = launch_loops(launch)[-1]
    if fold.size.constant is None or launch_kind(launch) != "rows":
        return machine.warps
    blocks = max(1, -(-fold.size.constant // fold.block))  # a row without elements has a result too
    return _holding(launch, blocks, machine) if blocks <= HELD[-1] else machine.warps


def _holding(launch: Op, blocks: int, machine: Machine) -> int:
    """Warps that hold rows of so many blocks: one for each, or for two of them."""
    return blocks if blocks <= (WARPS_OF_WIDE if _is_wide(launch) else machine.warps) else -(-blocks // 2)


def longest_held(machine: Machine, block: int) -> int:
    """How long rows may be that stay in registers."""
    return HELD_BLOCKS * machine.warps * block


def _is_wide(launch: Op) -> bool:
    """Whether all that is read is of four bytes or more: twice as many warps then have enough to wait for, and pay."""
    return all(memory(value).dtype.bits >= WIDE_BITS for value in launch_ins(launch))


def row_parts(op: Op) -> tuple[int, ...]:
    """The parts of rows that are held, if they are."""
    return attr_tuple(op, ROW_PARTS, int) if ROW_PARTS in op.attrs else ()


def row_blocks(op: Op) -> int | None:
    """How many blocks a row of a launch or a kernel has at most, where a run knows it and the host has asked."""
    found = op.attrs.get(ROW_BLOCKS)
    assert found is None or isinstance(found, int)
    return found
