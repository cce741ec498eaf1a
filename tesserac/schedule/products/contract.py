"""Schedules of matrix products and of the launches that lay their operands out.

The space of a product is its leading indices, rows, columns, terms, in this order (`canonical.py`).
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.ir.core import Op, attr
from tesserac.ir.forms import tensor_type
from tesserac.ir.kernels import kernel_settings
from tesserac.numerics.order import CONTRACTION
from tesserac.schedule.costs.cost import element_bytes, nominal
from tesserac.schedule.costs.tiles import (
    FEWEST_ROWS,
    FEWEST_ROWS_BLOCK,
    ROWS_UNIT,
    SPLIT_TERMS,
    Block,
    Problem,
    accumulator_block,
    best_block,
    best_split,
    given_block,
    has_given_block,
    programs,
    segments,
)
from tesserac.schedule.dialect import launch_ins, launch_loops, launch_space, memory
from tesserac.schedule.forms.dense_terms import takes_bytes
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.cuts import PRODUCT_TURNS, cut_product
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.space import Reach, computing, read_reach
from tesserac.schedule.primitives.bind import bind
from tesserac.schedule.primitives.split import split
from tesserac.schedule.primitives.stage import stage
from tesserac.schedule.products.shifted import WHOLE_DIGITS
from tesserac.types.dims import ONE, ZERO, product
from tesserac.types.dtype import BF16, F16, F32, F64, DType
from tesserac.types.policy import compute_dtype

PACK_ROWS, PACK_COLUMNS = 64, 192
MOST_STAGES, MOST_BYTE_STAGES, MOST_ASYNC_STAGES = 4, 6, 16
"""Copies in flight; of tensor copies as many as hide the way to memory."""
ROW_BYTES = 16
"""To which tensor copies want rows aligned."""
BARRIER_BYTES = 1024
"""Of shared memory, beside copies."""
UNIFORM_WARPS, LEAST_SUMS = 8, 256
"""Warps of a program without groups of them, and sums that a warp has at least: with fewer, its threads read almost as
many factors as they multiply."""
MANY_SUMS, FEW_WARPS = 4096, 2
"""Sums of words of a warp with which it reads few factors for each, and warps that a block of so many has at least."""
WARPGROUP = 4
STRIP, STRIP_COLUMNS = "strip", 48
"""The attribute of a launch whose programs finish so many columns before they begin the next ones, and how many these
are at least: what is packed of them stays in the first cache."""
ASKED = "asked"
"""The attribute of a launch whose blocks the program says."""
READ_AS_ROWS = (F32, F64, BF16, F16)
"""Element types of a right operand that is read as it lies."""

WINDOW_STEPS = (1, 2)
"""How far apart columns may lie that are read as vectors."""
WINDOW_RUN = 8
"""Neighbouring columns that are at least worth vectors of their own."""
WINDOW_ROWS, MOST_WINDOW_ROWS = 8, 32
"""Rows that windows are read for at once; of more than a few times as many, windows had better be packed."""
WINDOW_FACTORS, WINDOW_SUMS = 128 * 1024, 64 * 1024
"""Elements of the rows, and of the sums, of a program that stay in the second cache beside what it reads."""
WINDOW_TERMS = 512
"""Steps of a program at a time where only a run knows how many there are."""


def schedule_contract(launch: Op, problem: Problem, machine: Machine, chosen: Block | None = None) -> None:
    """Schedules a contraction for the sizes of `problem`, in blocks that are `chosen` already or best for them."""
    loops = len(launch_loops(launch))
    summed = any(op.name == "form.accumulate" for op in computing(launch))
    split_block = best_split(problem, machine) if chosen is None and _may_split(launch) else None
    block = accumulator_block(problem, machine) if summed else chosen or split_block or best_block(problem, machine)
    given = given_block(computing(launch)[0], block, problem, machine)
    block = given or (block if summed or problem.laid_out else _of_one_vector(launch, block, problem, machine))
    for loop, size in zip(range(loops - 3, loops), (block.rows, block.columns, block.depth), strict=True):
        split(launch, loop, size)
    if machine.packs_operands:
        _stage_cpu(launch, problem, machine)
    else:
        _stage_gpu(launch, problem, block, machine)
    if given is not None:
        launch.attrs[ASKED] = True
        whole = ", in whole blocks of registers" if machine.packs_operands else ""
        because(launch, f"blocks of {block}: its `tile_shape`, or what tuning found{whole}")
    elif summed:
        because(launch, f"blocks of {block} of the sum stay near while iterations pass")
    else:
        because(launch, f"blocks of {block}: {programs(problem, block)} programs for {problem}")
        if split_block is not None:
            count = launch.attrs[SPLIT_TERMS] = segments(problem)
            because(launch, f"{count} segments of terms are programs of their own, joined at the end")
    if machine.packs_operands and given is None:
        units = machine.product_units(problem.dtype, problem.accum)
        turns, square = _turns(problem, machine), problem.left_stays and not problem.laid_out
        cut_product(
            launch, units, rows_first=problem.laid_out, whole_rows=_whole_rows(problem, machine), turns=turns,
            square=square,
        )  # fmt: skip
        because(launch, "smaller ones where threads would have nothing to do")
        if _is_finished_in_registers(launch, machine):
            launch.attrs[STRIP] = strip = min(-(-STRIP_COLUMNS // units[1]) * units[1], block.columns)
            because(launch, f"{strip} columns are finished before the next ones")


def _turns(problem: Problem, machine: Machine) -> int:
    """How many blocks each of many threads has."""
    return 1 if machine.uses_tiles(problem.dtype, problem.accum) else PRODUCT_TURNS


def _whole_rows(problem: Problem, machine: Machine) -> int:
    """Of how many rows many are cut into whole units: only then is no panel that stays lower than others."""
    return machine.register_block[0] if problem.left_stays else 0


def _of_one_vector(launch: Op, block: Block, problem: Problem, machine: Machine) -> Block:
    """The block of a product that is known to have no more columns than a vector: a panel as wide as that, and in the
    room of one that is as wide as a register block twice as many terms."""
    columns, contract = launch_space(launch)[-2].constant, computing(launch)[0]
    if machine.vectors is None or machine.uses_tiles(*product_types(contract)):
        return block
    lanes = machine.vectors.vector_bits // product_types(contract)[1].bits
    if columns is None or columns > lanes:
        return block
    deeper = machine.vectors.micro_vectors > 1 and not problem.left_stays
    return replace(block, columns=lanes, depth=2 * block.depth if deeper else block.depth)


def _is_finished_in_registers(launch: Op, machine: Machine) -> bool:
    """Whether registers hold the sums of a product of matrices from its first term to its last, and these are the
    result: nothing follows, and they are not rounded."""
    [contract, *others], terms = computing(launch), launch_loops(launch)[-1]
    few = terms.size.constant is not None and terms.size.constant <= terms.block
    if others or not few or machine.uses_tiles(*product_types(contract)):
        return False
    reaches = [read_reach(launch, contract, position) for position in (0, 1)]
    plain = not any(reach is None or reach.digits or reach.panels for reach in reaches)
    return plain and tensor_type(contract.result).dtype == contract.attrs["accum"]


def _may_split(launch: Op) -> bool:
    """Whether all sizes are known, and the segments of the product are those of all products."""
    sizes = [dim.constant for dim in launch_space(launch)]
    return None not in sizes and computing(launch)[0].attrs["order"] == CONTRACTION


def schedule_fewest_rows(launch: Op) -> None:
    """Schedules a contraction of a few rows: the right operand is read once, as it lies."""
    loops, block = len(launch_loops(launch)), FEWEST_ROWS_BLOCK
    if launch_space(launch)[-3].constant == 1:  # no other row meets what is read of the matrix while it is near
        block = replace(block, depth=CONTRACTION.length)
    for loop, size in zip(range(loops - 3, loops), (block.rows, block.columns, block.depth), strict=True):
        split(launch, loop, size)
    for operand in (0, 1):
        stage(launch, operand, "rows", 1)
    cut_product(launch, (block.rows, ROWS_UNIT), rows_first=False)
    because(launch, f"at most {block.rows} rows: the right operand is read as it lies, in blocks of {block}")


def schedule_windows(launch: Op) -> None:
    """Schedules a contraction of many rows with windows, which are read where they lie."""
    *_, rows, _, terms = launch_space(launch)
    assert rows.constant is not None
    most = max(WINDOW_ROWS, WINDOW_FACTORS // (terms.constant or WINDOW_TERMS) // WINDOW_ROWS * WINDOW_ROWS)
    height = min(-(-rows.constant // WINDOW_ROWS) * WINDOW_ROWS, most)
    width = WINDOW_SUMS // height // ROWS_UNIT * ROWS_UNIT
    depth = 1 << ((terms.constant or WINDOW_TERMS) - 1).bit_length()
    loops = len(launch_loops(launch))
    for loop, size in zip(range(loops - 3, loops), (height, width, min(depth, CONTRACTION.length)), strict=True):
        split(launch, loop, size)
    for operand in (0, 1):
        stage(launch, operand, "rows", 1)
    cut_product(launch, (WINDOW_ROWS, ROWS_UNIT), rows_first=False)
    because(launch, f"windows are read where they lie, in blocks of {height}x{width}")


def can_read_rows(launch: Op, machine: Machine) -> bool:
    """Whether neighbours in a row of the right operand, or in a column, are neighbours in memory, and one fma each is
    all there is to the product."""
    reaches = _plain_reaches(launch, machine)
    if reaches is None or (reaches[0].digits and not reaches[1].digits):
        return False
    right = reaches[1]
    return _reads_few_windows(launch, right, machine) if right.digits else ONE in right.strides[-2:]


def _plain_reaches(launch: Op, machine: Machine) -> tuple[Reach, Reach] | None:
    """What a product of floats reads, each as it lies in memory, if one fma each is all there is to it."""
    contract = computing(launch)[0]
    left, right = (read_reach(launch, contract, position) for position in (0, 1))
    summed = any(op.name == "form.accumulate" for op in computing(launch))
    if machine.uses_tiles(*product_types(contract)) or summed or left is None or right is None or right.panels:
        return None
    other, ty = (tensor_type(operand) for operand in contract.operands)
    floats = ty.dtype in READ_AS_ROWS and compute_dtype(ty.dtype, ty.policy) in (F32, F64)
    return (left, right) if floats and other.dtype == ty.dtype else None


def _reads_few_windows(launch: Op, right: Reach, machine: Machine) -> bool:
    """Whether vectors of neighbouring columns, with masks, read a few rows' windows where they lie."""
    rows, step = launch_space(launch)[-3].constant, right.strides[-2].constant
    return _has_masks(machine) and rows is not None and rows <= FEWEST_ROWS and step in WINDOW_STEPS


def _has_masks(machine: Machine) -> bool:
    return machine.vectors is not None and machine.vectors.has_masks


def reads_windows(launch: Op, machine: Machine) -> bool:
    """Whether windows of more than a few rows are read where they lie: neighbouring columns are neighbours in memory,
    in runs that are worth vectors."""
    space, reaches = launch_space(launch), _plain_reaches(launch, machine)
    if reaches is None or not _has_masks(machine):
        return False
    left, right = reaches
    run = dict(right.digits).get(len(space) - 2)
    neighbours, rows = (run[-1][0] if run else space[-2]).constant, space[-3].constant
    if rows is None or neighbours is None or left.digits or not right.digits or right.strides[-2] != ONE:
        return False
    return rows <= MOST_WINDOW_ROWS and neighbours >= WINDOW_RUN


def problem_of(launch: Op, machine: Machine) -> Problem:
    """The sizes of a contraction, nominal ones where only a run knows."""
    contract = computing(launch)[0]
    *leads, rows, columns, terms = launch_space(launch)
    lead, m, n, k = (nominal(d, machine) for d in (product(leads), rows, columns, terms))
    right = read_reach(launch, contract, 1)
    laid_out = right is not None and right.panels
    by_bytes = machine.multiplies_bytes and has_dense_terms(launch)
    known = machine.has_async_matrix_unit and _fits_tensor_copies(launch)
    run = launch.attrs.get(WHOLE_DIGITS)
    assert run is None or isinstance(run, int)
    stays = _left_stays(launch, laid_out, machine)
    dense = not machine.packs_operands and _is_dense(launch)
    return Problem(lead, m, n, k, *product_types(contract), laid_out, by_bytes, known, run, stays, dense)


def _left_stays(launch: Op, laid_out: bool, machine: Machine) -> bool:
    """Whether a panel of the left operand, which is packed when it is multiplied, stays in the first cache, and not one
    of the right operand: of a product of two matrices that is no sum over iterations and has no blocks of its own.
    Where as deep a right panel has room there, it stays if it is laid out for several threads: each then has too few
    columns to pack all rows for them."""
    contract, *others = computing(launch)
    if not machine.left_panel_bytes or machine.uses_tiles(*product_types(contract)):
        return False
    if laid_out and machine.panel_bytes >= machine.left_panel_bytes:
        return False
    reaches = [read_reach(launch, contract, position) for position in (0, 1)]
    plain = not any(reach is None or reach.digits for reach in reaches)
    return plain and not has_given_block(contract) and not any(op.name == "form.accumulate" for op in others)


def _fits_tensor_copies(launch: Op) -> bool:
    """Whether all sizes of a product of two memories are known, and rows of both are aligned for tensor copies."""
    contract = computing(launch)[0]
    reaches = [read_reach(launch, contract, position) for position in (0, 1)]
    if any(dim.constant is None for dim in launch_space(launch)):
        return False
    return all(reach is not None and not reach.panels and not reach.digits and _is_aligned(launch, reach)
               for reach in reaches)  # fmt: skip


def _is_aligned(launch: Op, reach: Reach) -> bool:
    source = memory(launch.operands[reach.operand])
    unit = ROW_BYTES // element_bytes(source.dtype)
    return all(s == ONE or (s.constant is not None and s.constant % unit == 0) for s in source.strides)


def has_dense_terms(launch: Op) -> bool:
    """Whether the terms of a product of 8-bit numbers that is summed in f32 are neighbours in both memories: what
    matrix units of such numbers take. Never decided by sizes, since it shows in the bits."""
    contract = computing(launch)[0]
    if not takes_bytes(contract):
        return False
    reaches = [read_reach(launch, contract, position) for position in (0, 1)]
    *_, rows, columns, terms = range(len(launch_space(launch)))
    return all(
        reach is not None and not reach.panels and not reach.digits
        and reach.strides[terms] == ONE and reach.strides[own] not in (ONE, ZERO)
        for reach, own in zip(reaches, (rows, columns), strict=True)
    )  # fmt: skip


def _is_dense(launch: Op) -> bool:
    """Whether both operands of the only product of a launch have neighbours in memory in one of their dims."""
    contract, *others = computing(launch)
    reaches = [read_reach(launch, contract, position) for position in (0, 1)]
    *_, rows, columns, terms = range(len(launch_space(launch)))
    return not any(op.name == "form.contract" for op in others) and all(
        reach is not None and not reach.panels and not reach.digits
        and ONE in (reach.strides[terms], reach.strides[own])
        for reach, own in zip(reaches, (rows, columns), strict=True)
    )  # fmt: skip


def product_types(contract: Op) -> tuple[DType, DType]:
    """The type of the left operand, and the one that its products are summed in."""
    ty, accum = tensor_type(contract.operands[0]), attr(contract, "accum", DType)
    return ty.dtype, compute_dtype(ty.dtype, ty.policy) if accum.is_float else accum


def _stage_cpu(launch: Op, problem: Problem, machine: Machine) -> None:
    """The left block is packed by each program; the right operand too, unless it was laid out before the grid."""
    layout = operand_layout(machine, problem.dtype, problem.accum)
    stage(launch, 0, "panel" if problem.left_stays else layout, 1)
    if problem.laid_out:
        because(launch, "the right operand is laid out once, before the grid")
    else:
        stage(launch, 1, layout, 1)
    if layout == "tiles":
        because(launch, "the matrix unit of a core multiplies")


def operand_layout(machine: Machine, dtype: DType, accum: DType) -> str:
    """How operands of a product are laid out for the unit that multiplies them."""
    return "tiles" if machine.uses_tiles(dtype, accum) else "panels"


def _stage_gpu(launch: Op, problem: Problem, block: Block, machine: Machine) -> None:
    """As many copies in flight as shared memory holds, where warps wait for them beside half a block of the result on
    its way out."""
    asynchronous = machine.has_async_matrix_unit and problem.narrow
    copy = (block.rows + block.columns) * block.depth * element_bytes(problem.dtype)
    half = block.rows * block.columns * element_bytes(problem.dtype) // 2
    result = BARRIER_BYTES if asynchronous and not problem.by_bytes else half
    most = MOST_BYTE_STAGES if problem.by_bytes else MOST_ASYNC_STAGES if asynchronous else MOST_STAGES
    fitting = max(2, min(most, (machine.near_bytes - result) // copy))
    depth = min(fitting, kernel_settings(computing(launch)[0]).get("stages", fitting))
    for operand in (0, 1):
        stage(launch, operand, "terms" if problem.by_bytes else "panels", depth)
    if asynchronous:
        bind(launch, WARPGROUP * (block.rows // 64 + 1), "producer_consumer")
        because(launch, "one group of warps feeds the matrix unit")
    else:
        bind(launch, _uniform_warps(block, problem), "uniform")
    because(launch, f"{depth} copies of {copy} bytes in flight")


def _uniform_warps(block: Block, problem: Problem) -> int:
    """On an H200 128 sums of words a thread are faster than 64, and those faster than 16."""
    sums = block.rows * block.columns
    if problem.in_words and sums >= MANY_SUMS:
        return min(UNIFORM_WARPS, max(FEW_WARPS, sums // MANY_SUMS))
    return min(UNIFORM_WARPS, sums // LEAST_SUMS)


def schedule_pack(launch: Op) -> None:
    """Columns in parallel, so that a program writes whole panels; rows stream through it."""
    loops = launch_loops(launch)
    split(launch, len(loops) - 1, PACK_COLUMNS)
    split(launch, len(loops) - 2, PACK_ROWS)
    source = memory(launch_ins(launch)[0]) if launch_ins(launch) else "nothing"
    because(launch, f"lays {source} out for the product that follows")
