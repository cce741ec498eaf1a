"""Launches of tile programs: a grid of programs, the sizes of their blocks, and what runs one of them.

Enters: a launch of kind `program`, whose body is one `form.kernel` behind the views that it reads through. Leaves: its
loops: one program for every index of the first axis and every block of an own dim; dims that programs go over are
serial. Sizes, warps and stages come from the kernel's own schedule, else from the machine: the largest blocks of which
operands of products fit near memory and results of products fit registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod

from tesserac.ir.core import Op, Value
from tesserac.ir.forms import ORDERED_KINDS, Broadcast, Reshape, Slice, indices, operand_maps, tensor_type
from tesserac.ir.kernels import (
    KERNEL,
    Cut,
    block_loop,
    found_settings,
    kernel_blocks,
    kernel_own,
    kernel_pinned,
    kernel_schedule,
    kernel_settings,
    kernel_space,
    most_whole,
    said_for,
    setting_name,
)
from tesserac.numerics.order import REDUCTION
from tesserac.schedule.access import view_source
from tesserac.schedule.cost import element_bytes
from tesserac.schedule.cuts import cut_programs
from tesserac.schedule.dialect import Loop, launch_ins, launch_space
from tesserac.schedule.legality import ImpossibleSchedule
from tesserac.schedule.machine import REGISTERS, Machine
from tesserac.schedule.primitives.bind import bind
from tesserac.schedule.primitives.stage import stage
from tesserac.schedule.reason import because
from tesserac.schedule.steps import columns_of_steps
from tesserac.types.dims import ONE, Dim

OWN_BLOCK, LOOP_BLOCK, ROWS_BLOCK = 128, 192, 8
"""On a CPU: rows of a program's results, and terms that it takes at a time: panels of either stay in a core's own
caches. Without products nothing is used again in another row: few rows are enough, and more programs have work for
more threads."""
ROWS_ELEMENTS = 1024
"""On a CPU: elements that such a program has at least. The sum of two vectors of 4 M elements takes 2.46 ms with 8 of
them, 2.03 to 2.08 with 512 to 4096, on one thread of a Neoverse N1."""
LONG_ROWS = (8, 512)
"""On a CPU: those of a program that computes element by element, as memory has them. The exponential of 2048 x 2048 f32
takes 3.4 ms on one thread of a Xeon with AVX-512, with 4 x 1024 3.3, with 128 x 128 8.7; a x + b 4.6 and 8.7."""
SUMS_BLOCK = 4
"""On a CPU: rows of a program that adds sums of blocks, each of which is walked by itself. On one thread of a Neoverse
N1 4 rows take 0.42 ms of 512 x 4096, 8 rows 0.53; of 50000 x 64 1.25 and 1.15, and 1 row 1.7."""
TERMS_BLOCK = 64
"""On a CPU: terms at a time of programs that only multiply what they load. A block of the right operand is then in the
first cache: of 512 x 512 x 512 on 16 threads 64 terms take 0.325 ms, 192 0.354; of 2048 no choice shows."""
OWN_UNITS = (16, 32)
"""On a CPU: the fewest rows and columns that a program of products is cut to: panels are still worth packing."""
UNITS = ("warps", "stages")
"""What else of a schedule a GPU takes."""
GPU_BLOCKS = ((64, 32), (32, 32))
"""The same on a GPU, best first."""
NARROW_BLOCKS = ((128, 64), (64, 64), (64, 32))
"""The same where matrix units take the numbers of the products."""
ASYNC_BLOCKS = ((128, 128), (128, 64), (64, 64))
"""The same where they run beside the warps that feed them; the first size is of whole warp groups."""
ASYNC_PRODUCT, ASYNC_TERMS = ((128, 256), (128, 128), (128, 64)), 64
"""Rows and columns of results, best first, and terms at a time of programs that only multiply what they load: the unit
is fed by several copies under way, and large results have more products for each element that is copied."""
MOST_COPIES = 4
"""Copies under way of such a program at most."""
HELD_OF_ROWS = 2048
"""Elements of rows that a program of a GPU has without products: a thread holds some of each, of several tiles."""
SORTED_ROWS = 8
"""Rows of a program of a GPU that sorts them: all its threads sort one after the other."""
ELEMENTWISE = (4, 256)
"""Rows and columns of a program of a GPU that computes element by element. Products of 8192 x 4096 bf16 took 50.5 us on
an H200, as a map does, with 64 x 64 57.6, with 8 x 256 52.3, with 16 x 256 55.0."""
FEW_ROWS, FEW_BLOCKS = 16, ((16, 64), (16, 32))
"""So few rows that a program waits for memory, and the blocks of one: several programs are under way at a time."""
GPU_STAGES = 2
WARP, LEAST_WARPS, MOST_WARPS = 32, 4, 8
UNIT_TERMS, NARROW_BITS = 16, 16
"""What the matrix units of GPUs add at a time, of numbers of so many bits."""
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
    sizes, summed = _blocks(kernel, machine), summed_blocks(kernel, machine)
    if machine.warps:
        _require_room(kernel, sizes, machine)
    _require_unit(kernel, sizes, machine)
    loops = [Loop((0,), launch_space(launch)[0], 1, "parallel")]
    for axis, cut in enumerate(kernel_blocks(kernel), 1):
        size, given = sizes[cut.block], _setting(cut) in settings and cut.block not in summed
        loops.append(Loop((axis,), cut.over, size, "parallel" if cut.block in own else "serial"))
        because(launch, f"blocks {cut.block} of {size}{_as_said(kernel, _setting(cut)) if given else ''}")
        held = 1 << (size - 1).bit_length()
        if machine.warps and held != size:
            because(launch, f"threads hold blocks of {held} for these, and use {size} of them")
    launch.attrs["loops"] = tuple(loops)
    if not machine.warps:
        _cut(launch, kernel, {cut.block: loop for cut, loop in zip(kernel_blocks(kernel), loops[1:], strict=True)})
    used = {_setting(cut) for cut in kernel_blocks(kernel) if cut.block not in summed}
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
    if free and 1 <= len(sides) <= 2 and any(products_of(kernel)) and all(loop.block > 1 for loop in sides):
        cut_programs(launch, sides, OWN_UNITS)
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
        warps = settings.get("warps", max(LEAST_WARPS, _warps(kernel, sizes)))
        bind(launch, warps, "uniform")
        because(launch, f"{warps} warps, {depth} copies in flight{_narrow(kernel)}")
    return {*UNITS, "roles"}


def _copies(kernel: Op, sizes: dict[Dim, int], machine: Machine) -> int:
    """How many copies are under way: those of a program that only multiplies are all that it keeps near."""
    if not _only_multiplies(kernel, machine):
        return GPU_STAGES
    operands = dict.fromkeys(value for product in products_of(kernel) for value in product.operands)
    one = sum(_elements(kernel, value, sizes) * element_bytes(tensor_type(value).dtype) for value in operands)
    return max(GPU_STAGES, min(MOST_COPIES, machine.near_bytes * 7 // 8 // one))


def _only_multiplies(kernel: Op, machine: Machine) -> bool:
    """Whether the one product is of loaded blocks, by a unit that runs beside the warps that feed it, and whatever else
    a program does comes after it. Two that share a block copy it twice still, and small blocks suit them better."""
    fed = machine.has_async_matrix_unit and _is_narrow(kernel)
    return fed and _is_product(kernel, _read) and not any(op.name == "form.reduce" for op in kernel.walk())


def _is_product(kernel: Op, read: Callable[[Value], Value]) -> bool:
    """Whether the one product of a program is of blocks that it reads, and its results are cut along rows and
    columns."""
    products = list(products_of(kernel))
    loaded = all(read(value).owner is kernel.body for op in products for value in op.operands)
    return len(kernel_own(kernel)) == 2 and len(products) == 1 and loaded


def _viewed(value: Value) -> Value:
    return view_source(value)[0]


def _read(value: Value) -> Value:
    """What a value is read of: a view, or rows at computed places, which are copied as well."""
    source = _viewed(value)
    made = source.defining_op
    return _viewed(made.operands[0]) if made is not None and made.name == "form.gather" else source


def _narrow(kernel: Op) -> str:
    """Which of these a schedule says for one target only."""
    told = [f"{name} as its schedule says for {said_for(kernel)[name]}" for name in UNITS if name in said_for(kernel)]
    return f"; {', '.join(told)}" if told else ""


def _warp_groups(kernel: Op, sizes: dict[Dim, int], machine: Machine) -> int:
    """How many groups of warps share out the rows of a program; 0 where they do not."""
    rows = next((sizes[cut.block] for cut in kernel_blocks(kernel) if cut.block in kernel_own(kernel)), 0)
    whole = machine.has_async_matrix_unit and _is_narrow(kernel) and rows in (GROUP_ROWS, 2 * GROUP_ROWS)
    return rows // GROUP_ROWS if whole else 0


def _setting(cut: Cut) -> str:
    return setting_name(cut.block.symbol or "")


# -------------------------------------------------------------------------------------------------- sizes of blocks


def _blocks(kernel: Op, machine: Machine) -> dict[Dim, int]:
    width, columns = _row_width(kernel, machine), columns_of_steps(kernel, machine)
    if columns is not None:
        return _sizes(kernel, columns, GPU_BLOCKS[0][1], machine)
    if not machine.warps and _is_elementwise(kernel):
        return _block_sizes(kernel, *LONG_ROWS, LOOP_BLOCK, machine)
    if not machine.warps:
        terms = TERMS_BLOCK if _is_product(kernel, _viewed) and not _is_narrow(kernel) else LOOP_BLOCK
        rows = SUMS_BLOCK if summed_blocks(kernel, machine) else max(ROWS_BLOCK, ROWS_ELEMENTS // (width or 1))
        return _sizes(kernel, OWN_BLOCK if width is None else rows, terms, machine)
    if any(op.name == "form.sort" for op in kernel.walk()):
        return _sizes(kernel, SORTED_ROWS, GPU_BLOCKS[0][1], machine)
    if width is not None:
        return _sizes(kernel, max(1, HELD_OF_ROWS // width), GPU_BLOCKS[0][1], machine)
    if _is_elementwise(kernel):
        return _block_sizes(kernel, *ELEMENTWISE, ELEMENTWISE[1], machine)
    if _only_multiplies(kernel, machine):
        tried = [_block_sizes(kernel, *block, ASYNC_TERMS, machine) for block in ASYNC_PRODUCT]
        return next((sizes for sizes in tried if _fits(kernel, sizes, machine)), tried[-1])
    many = ASYNC_BLOCKS if machine.has_async_matrix_unit else NARROW_BLOCKS
    narrow = FEW_BLOCKS if _has_few_rows(kernel) else many
    tried = [_sizes(kernel, *block, machine) for block in (narrow if _is_narrow(kernel) else GPU_BLOCKS)]
    fitting = (sizes for sizes in tried if _fits(kernel, sizes, machine))
    return next(fitting, tried[-1])


def _row_width(kernel: Op, machine: Machine) -> int | None:
    """How many elements the rows have that programs fold, or write where they fold nothing; none of those that multiply
    matrices, or have rows of several dims."""
    ops, own = list(kernel.walk()), kernel_own(kernel)
    if len(own) != 1 or any(op.name == "form.contract" for op in ops):
        return None
    folds = [tensor_type(op.operands[0]) for op in ops if op.name in ("form.reduce", "form.sort")]
    known = summed_blocks(kernel, machine)
    rows = folds or [tensor_type(value) for value in kernel.body.terminator.operands]
    return max(prod(known.get(d, d.constant or most_whole(kernel)) for d in ty.dims if d not in own) for ty in rows)


def _has_few_rows(kernel: Op) -> bool:
    """Whether all that a program has is a few rows of a dim."""
    sizes = [cut.over.constant for cut in kernel_blocks(kernel) if cut.block in kernel_own(kernel)]
    return len(sizes) == 1 and sizes[0] is not None and sizes[0] <= FEW_ROWS


def _is_elementwise(kernel: Op) -> bool:
    """Whether programs have blocks of two dims that they read and write along memory, and fold nothing of them."""
    own, ops = kernel_own(kernel), [op for op in kernel.body.ops if not op.opdef.terminator]
    along = all(tensor_type(value).dims[-2:] == own for value in kernel.body.terminator.operands)
    return len(own) == 2 and along and all(_keeps_order(op) for op in ops)


def _keeps_order(op: Op) -> bool:
    """Whether a form computes elements of tiles, or cuts them out, and reads dims in the order in which it has them."""
    if op.name == "form.view":
        return isinstance(op.attrs["view"], Slice | Broadcast | Reshape)
    known = [[d for d in dims if d is not None] for dims in operand_maps(op)] if op.name == "form.map" else [[1, 0]]
    return all(dims == sorted(dims) for dims in known)


def _block_sizes(kernel: Op, rows: int, columns: int, terms: int, machine: Machine) -> dict[Dim, int]:
    """Blocks of rows and columns: the last dim that a program cuts its results along is that of columns."""
    narrow, wide = (_sizes(kernel, size, terms, machine) for size in (rows, columns))
    last = kernel_own(kernel)[-1]
    return {block: (wide if block == last else narrow)[block] for block in narrow}


def _sizes(kernel: Op, own_block: int, loop_block: int, machine: Machine) -> dict[Dim, int]:
    settings, own, space = kernel_settings(kernel), kernel_own(kernel), kernel_space(kernel)
    sizes: dict[Dim, int] = {}
    summed, units = summed_blocks(kernel, machine), _units(kernel, machine)
    for cut in kernel_blocks(kernel):
        if cut.block in summed:
            sizes[cut.block] = _fitting(cut, summed[cut.block])
            continue
        given, wanted = settings.get(_setting(cut)), own_block if cut.block in own else loop_block
        able = space.get(_setting(cut), ())
        best = min(able, key=lambda size: (abs(size - wanted), size)) if able else wanted
        sizes[cut.block] = given or -(-_fitting(cut, best) // units.get(cut.block, 1)) * units.get(cut.block, 1)
    return sizes


def _units(kernel: Op, machine: Machine) -> dict[Dim, int]:
    """How many terms at a time a matrix unit adds of the blocks that products go over: of a dim that has fewer, or some
    more, the last block goes beyond it. Blocks that the kernel means stay as they are."""
    over = {tensor_type(product.operands[0]).dims[-1]: _terms(product, machine) for product in products_of(kernel)}
    return {block: terms for block, terms in over.items() if terms and block.symbol not in kernel_pinned(kernel)}


def summed_blocks(kernel: Op, machine: Machine) -> dict[Dim, int]:
    """The blocks that loops add sums of, but for those that the kernel means, and how large they are: as the order of
    sums has them. Where products go over them too, threads hold no more of them than it has lanes."""
    loops = [(block_loop(op), op) for op in kernel.walk()]
    over = {cut.block: op for cut, op in loops if cut is not None and cut.block.symbol not in kernel_pinned(kernel)}
    adding = {block: loop for block, loop in over.items() if _adds(loop, block)}
    held = REDUCTION.lanes if machine.warps else REDUCTION.block
    return {block: held if any(products_of(loop)) else REDUCTION.block for block, loop in adding.items()}


def _adds(loop: Op, block: Dim) -> bool:
    return any(_folds_in_order(op, block) for op in loop.walk())


def _folds_in_order(op: Op, block: Dim) -> bool:
    if op.name != "form.reduce" or op.attrs["kind"] not in ORDERED_KINDS:
        return False
    return block in (tensor_type(op.operands[0]).dims[axis] for axis in indices(op, "axes"))


def _fitting(cut: Cut, block: int) -> int:
    size = cut.over.constant
    return block if size is None else max(1, min(block, size))


def _fits(kernel: Op, sizes: dict[Dim, int], machine: Machine) -> bool:
    staged = sum(staged_bytes(kernel, product, sizes) for product in products_of(kernel))
    return staged <= machine.near_bytes * 7 // 8 and _warps(kernel, sizes) <= MOST_WARPS


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
    held = sum(_elements(kernel, product.result, sizes) for product in products_of(kernel))
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
        terms, block = _terms(product, machine), left.dims[-1]
        size = sizes.get(block)
        kept = block in whole or block.symbol in kernel_pinned(kernel)
        if size is not None and terms and size % terms and not kept:
            unit = f"the matrix unit of {machine.arch} adds {terms} terms of {left.dtype} at a time"
            raise ImpossibleSchedule(f"{unit}, and blocks {block} are of {size}", kernel)


def _terms(product: Op, machine: Machine) -> int:
    """How many terms of a product of narrow numbers are added at a time; 0 where each is added by itself."""
    left, result = tensor_type(product.operands[0]), tensor_type(product.result)
    if machine.matrix_unit is not None and machine.uses_tiles(left.dtype, result.dtype):
        return machine.matrix_unit.terms(left.dtype)
    return UNIT_TERMS if machine.warps and left.dtype.bits == NARROW_BITS else 0


def _warps(kernel: Op, sizes: dict[Dim, int]) -> int:
    """How many warps hold the results of all products in registers; a power of two."""
    held = sum(_elements(kernel, product.result, sizes) for product in products_of(kernel))
    room = REGISTERS * (2 if _is_narrow(kernel) else 1)
    return 1 << max(0, -(-held // (WARP * room)) - 1).bit_length()


def _is_narrow(kernel: Op) -> bool:
    """Whether matrix units do the work, so that a thread needs few registers besides those of results."""
    products = list(products_of(kernel))
    return bool(products) and all(tensor_type(op.operands[0]).dtype.bits == 16 for op in products)


def staged_bytes(kernel: Op, product: Op, sizes: dict[Dim, int], depth: int = GPU_STAGES) -> int:
    """What the operands of a product take: as often as blocks are in flight, for those that are copied ahead. One that
    is computed stays in registers where matrix units take it from there."""
    moving = {cut.block for cut in kernel_blocks(kernel)} - set(kernel_own(kernel))
    total, held = 0, _is_narrow(kernel)
    for value in product.operands:
        loaded = view_source(value)[0].owner is kernel.body
        if held and not loaded:
            continue
        ahead = loaded and not moving.isdisjoint(tensor_type(value).dims)
        total += _elements(kernel, value, sizes) * element_bytes(tensor_type(value).dtype) * (depth if ahead else 1)
    return total


def products_of(kernel: Op) -> Iterator[Op]:
    """Products of matrices; one with a column of ones needs no room."""
    for op in kernel.walk():
        if op.name == "form.contract" and ONE not in tensor_type(op.result).dims:
            yield op


def _elements(kernel: Op, value: Value, sizes: dict[Dim, int]) -> int:
    total = 1
    for dim in tensor_type(value).dims:
        total *= sizes.get(dim) or dim.constant or most_whole(kernel)
    return total
