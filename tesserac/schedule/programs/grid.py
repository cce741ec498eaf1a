"""Launches of tile programs: a grid of programs, the sizes of their blocks, and what runs one of them.

Enters: a launch of kind `program`, whose body is one `form.kernel` behind the views that it reads through. Leaves: its
loops: one program for every index of the first axis and every block of an own dim; dims that programs go over are
serial. Sizes, warps and stages come from the kernel's own schedule, else from the machine: see `programs/blocks.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tesserac.ir.core import Op
from tesserac.ir.forms import tensor_type
from tesserac.ir.kernels import (
    KERNEL,
    found_settings,
    kernel_blocks,
    kernel_own,
    kernel_pinned,
    kernel_schedule,
    kernel_settings,
    kernel_space,
    said_for,
    setting_name,
)
from tesserac.numerics.order import REDUCTION
from tesserac.schedule.costs.cost import element_bytes
from tesserac.schedule.dialect import Loop, launch_ins, launch_space
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.cuts import cut_programs
from tesserac.schedule.model.legality import ImpossibleSchedule
from tesserac.schedule.model.reason import because
from tesserac.schedule.primitives.bind import bind
from tesserac.schedule.primitives.stage import stage
from tesserac.schedule.programs.blocks import (
    GPU_STAGES,
    LEAST_WARPS,
    MOST_WARPS,
    WARP,
    block_setting,
    folds_columns,
    is_narrow,
    only_multiplies,
    products_of,
    sizes_of_blocks,
    staged_bytes,
    summed_blocks,
    tile_elements,
    unit_terms,
    warps_for,
)
from tesserac.types.dims import Dim

OWN_UNITS, COLUMNS_UNIT = (16, 32), 64
"""On a CPU: the fewest rows and columns that a program of products is cut to: panels are still worth packing;
and the fewest columns of a program that folds columns, each by itself."""
UNITS = ("warps", "stages")
"""What else of a schedule a GPU takes."""
MOST_COPIES = 4
"""Copies under way of such a program at most."""
WARPGROUP, GROUP_ROWS = 4, 64
THREAD_REGISTERS = 255
"""What a thread of a GPU has at most."""

NOT_TAKEN = {
    "BM": "it names no block that this kernel cuts a dim with",
    "BN": "it names no block that this kernel cuts a dim with",
    "m": "the kernel cuts no dim with T.m",
    "n": "the kernel cuts no dim with T.n",
    "k": "the kernel cuts no dim with T.k",
    "d": "T.d is always the whole dim",
    "vector": "copies are as wide as strides and alignment allow, up to 16 bytes",
    "swizzle": "the unit that multiplies blocks in shared memory says how they lie there (`costs` shows it)",
    "persistent": "whether a block of threads runs programs one after the other follows from its copies (see `costs`)",
    "cluster": "no program shares with another what it has loaded",
    "raster": "programs are numbered in the order of memory",
    "skew": "a product that a loop only carries on is a round behind in any case where matrix units run beside warps",
    "regs": "registers follow from the roles of warps and from the assembler (`costs` shows them)",
}
"""Why a GPU does not take a setting that a schedule may have."""
CPU_NOT_TAKEN = {
    "warps": "a program is one thread",
    "stages": "caches fetch ahead of what a core reads",
    "vector": "vectors are as wide as registers",
    "swizzle": "caches have no banks that programs see",
    "persistent": "threads take one program after the other in any case",
    "cluster": "cores share the last cache, and nothing nearer",
    "roles": "a program is one thread",
    "regs": "the registers of a core are those of its one thread",
    "skew": "a core has no unit that multiplies beside it",
}
"""Why a CPU does not, where the reason is another one."""


SUMMED = f"the order of sums has blocks of {REDUCTION.block}, whatever a schedule says"
BESIDE = f"the order of sums has {REDUCTION.lanes} lanes, whatever a schedule says of blocks that products go over too"
SUM_REASONS = {REDUCTION.block: SUMMED, REDUCTION.lanes: BESIDE}


def launched_kernel(launch: Op) -> Op:
    """The tile program of a launch."""
    return next(op for op in launch.body.ops if op.name == KERNEL)


def schedule_program(launch: Op, machine: Machine) -> None:
    kernel = launched_kernel(launch)
    settings, own = kernel_settings(kernel), kernel_own(kernel)
    sizes, summed = sizes_of_blocks(kernel, machine), summed_blocks(kernel, machine)
    if machine.warps:
        _require_room(kernel, sizes, machine)
    _require_unit(kernel, sizes, machine)
    loops = [Loop((0,), launch_space(launch)[0], 1, "parallel")]
    for axis, cut in enumerate(kernel_blocks(kernel), 1):
        size, given = sizes[cut.block], block_setting(cut) in settings and cut.block not in summed
        loops.append(Loop((axis,), cut.over, size, "parallel" if cut.block in own else "serial"))
        because(launch, f"blocks {cut.block} of {size}{_as_said(kernel, block_setting(cut)) if given else ''}")
        held = 1 << (size - 1).bit_length()
        if machine.warps and held != size:
            because(launch, f"threads hold blocks of {held} for these, and use {size} of them")
    launch.attrs["loops"] = tuple(loops)
    if not machine.warps:
        _cut(launch, kernel, {cut.block: loop for cut, loop in zip(kernel_blocks(kernel), loops[1:], strict=True)})
    used = {block_setting(cut) for cut in kernel_blocks(kernel) if cut.block not in summed}
    if machine.warps:
        used |= _bind(launch, kernel, sizes, machine)
    unused = sorted(kernel_schedule(kernel).keys() - used)
    reasons = NOT_TAKEN if machine.warps else NOT_TAKEN | CPU_NOT_TAKEN
    reasons |= {setting_name(block.symbol or ""): SUM_REASONS[size] for block, size in summed.items()}
    for name in unused:
        because(launch, f"{name} of its schedule is not taken: {reasons[name]}")


def _cut(launch: Op, kernel: Op, loops: Mapping[Dim, Loop]) -> None:
    """Leaves it to a call to cut the results of products smaller, unless the program says how large blocks are."""
    own, said = kernel_own(kernel), {*kernel_settings(kernel), *kernel_space(kernel)}
    free = not any(setting_name(block.symbol or "") in said or block.symbol in kernel_pinned(kernel) for block in own)
    sides = [loops[block] for block in own]
    multiplies, able = any(products_of(kernel)), free and 1 <= len(sides) <= 2
    if able and (multiplies or folds_columns(kernel)) and all(loop.block > 1 for loop in sides):
        cut_programs(launch, sides, OWN_UNITS if multiplies else (COLUMNS_UNIT, 1))
        because(launch, "smaller ones where threads would have nothing to do")


def _as_said(kernel: Op, setting: str) -> str:
    """That tuning found it, or a schedule says so, and for which target where it says something else for others."""
    if setting in found_settings(kernel):
        return ", as tuning found"
    target = said_for(kernel).get(setting)
    return ", as its schedule says" + (f" for {target}" if target else "")


def _bind(launch: Op, kernel: Op, sizes: dict[Dim, int], machine: Machine) -> set[str]:
    """Warps and stages; the settings that this looks at."""
    settings = kernel_settings(kernel)
    depth = settings.get("stages", _copies(kernel, sizes, machine))
    for operand in range(len(launch_ins(launch))):
        stage(launch, operand, "panels", depth)
    groups = 0 if "warps" in settings or depth < GPU_STAGES else _warp_groups(kernel, sizes, machine)
    said, taken = kernel_schedule(kernel).get("roles"), f"({WARPGROUP}, {WARPGROUP * groups})"
    if said is not None and (said != taken or not groups):
        does = f"{WARPGROUP} warps copy and {WARPGROUP * groups} compute" if groups else "all warps copy and compute"
        because(launch, f"roles of its schedule is not taken: {does}")
    if groups:
        bind(launch, WARPGROUP * (groups + 1), "producer_consumer")
        because(launch, f"{groups} warp groups compute, one copies, {depth} copies in flight")
    else:
        warps = settings.get("warps", max(LEAST_WARPS, warps_for(kernel, sizes, machine)))
        bind(launch, warps, "uniform")
        because(launch, f"{warps} warps, {depth} copies in flight{_narrow(kernel)}")
    return {*UNITS, "roles"}


def _copies(kernel: Op, sizes: dict[Dim, int], machine: Machine) -> int:
    """How many copies are under way: those of a program that only multiplies are all that it keeps near."""
    if not only_multiplies(kernel, machine):
        return GPU_STAGES
    operands = dict.fromkeys(value for product in products_of(kernel) for value in product.operands)
    one = sum(tile_elements(kernel, value, sizes) * element_bytes(tensor_type(value).dtype) for value in operands)
    return max(GPU_STAGES, min(MOST_COPIES, machine.near_bytes * 7 // 8 // one))


def _narrow(kernel: Op) -> str:
    """Which of these a schedule says for one target only."""
    told = [f"{name} as its schedule says for {said_for(kernel)[name]}" for name in UNITS if name in said_for(kernel)]
    return f"; {', '.join(told)}" if told else ""


def _warp_groups(kernel: Op, sizes: dict[Dim, int], machine: Machine) -> int:
    """How many groups of warps share out the rows of a program; 0 where they do not."""
    rows = next((sizes[cut.block] for cut in kernel_blocks(kernel) if cut.block in kernel_own(kernel)), 0)
    whole = machine.has_async_matrix_unit and is_narrow(kernel) and rows in (GROUP_ROWS, 2 * GROUP_ROWS)
    return rows // GROUP_ROWS if whole else 0


def _require_room(kernel: Op, sizes: dict[Dim, int], machine: Machine) -> None:
    """Raises ImpossibleSchedule where what the program says does not fit the machine; what it leaves open is chosen so
    that it fits."""
    settings = kernel_settings(kernel)
    depth, warps = settings.get("stages", GPU_STAGES), settings.get("warps", MOST_WARPS)
    blocks = ", ".join(f"{cut.block} = {sizes[cut.block]}" for cut in kernel_blocks(kernel))
    staged = sum(staged_bytes(kernel, product, sizes, depth) for product in products_of(kernel))
    if staged > machine.near_bytes and settings:
        need = f"operands of products take {staged // 1024} KiB of shared memory at {blocks} and {depth} stages"
        raise ImpossibleSchedule(f"{need}; {machine.arch} has {machine.near_bytes // 1024} KiB", kernel)
    held = sum(tile_elements(kernel, product.result, sizes) for product in products_of(kernel))
    if held > warps * WARP * THREAD_REGISTERS and settings:
        need = f"results of products are {held} numbers at {blocks}"
        room = f"{warps} warps of {machine.arch} hold {warps * WARP * THREAD_REGISTERS}"
        raise ImpossibleSchedule(f"{need}; {room} in registers", kernel)


def _require_unit(kernel: Op, sizes: dict[Dim, int], machine: Machine) -> None:
    """Raises ImpossibleSchedule where blocks end inside what a matrix unit adds at a time: sums would have another
    order than under other schedules. Blocks that the kernel means are part of its order, and one that has all of its
    dim ends where that does."""
    whole = {cut.block for cut in kernel_blocks(kernel) if cut.over.constant == sizes[cut.block]}
    for product in products_of(kernel):
        left = tensor_type(product.operands[0])
        terms, block = unit_terms(product, machine), left.dims[-1]
        size = sizes.get(block)
        kept = block in whole or block.symbol in kernel_pinned(kernel)
        if size is not None and terms and size % terms and not kept:
            unit = f"the matrix unit of {machine.arch} adds {terms} terms of {left.dtype} at a time"
            raise ImpossibleSchedule(f"{unit}, and blocks {block} are of {size}", kernel)
