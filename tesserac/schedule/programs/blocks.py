"""How large the blocks of a tile program are where nobody says it.

Enters: a kernel, and the machine that runs it. Leaves: the size of each block: of programs that multiply, the largest
of which operands fit near memory and results fit registers; of others, as many elements as are worth a program, in the
order of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from tesserac.ir.core import Op, Value
from tesserac.ir.forms import ORDERED_KINDS, Broadcast, Reshape, Slice, indices, operand_maps, tensor_type
from tesserac.ir.kernels import (
    Cut,
    block_loop,
    kernel_blocks,
    kernel_own,
    kernel_pinned,
    kernel_settings,
    kernel_space,
    most_whole,
    setting_name,
)
from tesserac.numerics.order import REDUCTION
from tesserac.schedule.costs.cost import element_bytes
from tesserac.schedule.costs.steps import columns_of_steps
from tesserac.schedule.machine import REGISTERS, Machine
from tesserac.schedule.model.access import view_source
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
COLUMNS_BLOCK = 1024
"""On a CPU: columns of a program that folds each of its columns by itself, and walks rows of them in memory. The sums
of the columns of 4096 x 1024 f32 take 1.4 ms on one thread of a Xeon with AVX-512, with 256 columns 2.6, with 64 4.4 to
19 and with 4 80: lines of few columns share few sets of a cache."""
TERMS_BLOCK = 64
"""On a CPU: terms at a time of programs that only multiply what they load. A block of the right operand is then in the
first cache: of 512 x 512 x 512 on 16 threads 64 terms take 0.325 ms, 192 0.354; of 2048 no choice shows."""
GPU_BLOCKS = ((64, 32), (32, 32))
"""The same on a GPU, best first."""
NARROW_BLOCKS = ((128, 64), (64, 64), (64, 32))
"""The same where matrix units take the numbers of the products."""
ASYNC_BLOCKS = ((128, 128), (128, 64), (64, 64))
"""The same where they run beside the warps that feed them; the first size is of whole warp groups."""
ASYNC_PRODUCT, ASYNC_TERMS = ((128, 256), (128, 128), (128, 64)), 64
"""Rows and columns of results, best first, and terms at a time of programs that only multiply what they load: the unit
is fed by several copies under way, and large results have more products for each element that is copied."""
HELD_OF_ROWS = 2048
"""Elements of rows that a program of a GPU has without products: a thread holds some of each, of several tiles."""
SORTED_ROWS = 8
"""Rows of a program of a GPU that sorts them: all its threads sort one after the other."""
ELEMENTWISE = (4, 256)
"""Rows and columns of a program of a GPU that computes element by element. Products of 8192 x 4096 bf16 took 50.5 us on
an H200, as a map does, with 64 x 64 57.6, with 8 x 256 52.3, with 16 x 256 55.0."""
GATHERED = 12
"""Tiles that such a program may read at computed places before it has fewer rows: nine of 64 x 64 for a stencil were
288 numbers a thread, and 3476 bytes of them spilled."""
FEW_ROWS, FEW_BLOCKS = 16, ((16, 64), (16, 32))
"""So few rows that a program waits for memory, and the blocks of one: several programs are under way at a time."""
GPU_STAGES = 2
WARP, LEAST_WARPS, MOST_WARPS = 32, 4, 8
FED_REGISTERS = 144
"""Elements that a thread may hold where it also holds what matrix units take: attention of heads of 128 in 192 of them
spilled 1180 bytes a thread on sm_80, in 96 none."""
UNIT_TERMS, NARROW_BITS = 16, 16
"""What the matrix units of GPUs add at a time, of numbers of so many bits."""


def only_multiplies(kernel: Op, machine: Machine) -> bool:
    """Whether the one product is of loaded blocks, by a unit that runs beside the warps that feed it, and whatever else
    a program does comes after it. Two that share a block copy it twice still, and small blocks suit them better."""
    fed = machine.has_async_matrix_unit and is_narrow(kernel) and not any(_carried_in_steps(kernel))
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


def block_setting(cut: Cut) -> str:
    return setting_name(cut.block.symbol or "")


def sizes_of_blocks(kernel: Op, machine: Machine) -> dict[Dim, int]:
    width, columns = _row_width(kernel, machine), columns_of_steps(kernel, machine)
    if columns is not None:
        return _sizes(kernel, columns, GPU_BLOCKS[0][1], machine)
    if not machine.warps and _is_elementwise(kernel):
        return _block_sizes(kernel, *LONG_ROWS, LOOP_BLOCK, machine)
    if not machine.warps and folds_columns(kernel):
        return _sizes(kernel, COLUMNS_BLOCK, LOOP_BLOCK, machine)
    if not machine.warps:
        terms = TERMS_BLOCK if _is_product(kernel, _viewed) and not is_narrow(kernel) else LOOP_BLOCK
        rows = SUMS_BLOCK if summed_blocks(kernel, machine) else max(ROWS_BLOCK, ROWS_ELEMENTS // (width or 1))
        return _sizes(kernel, OWN_BLOCK if width is None else rows, terms, machine)
    if any(op.name == "form.sort" for op in kernel.walk()):
        return _sizes(kernel, SORTED_ROWS, GPU_BLOCKS[0][1], machine)
    if width is not None:
        return _sizes(kernel, max(1, HELD_OF_ROWS // width), GPU_BLOCKS[0][1], machine)
    if _is_elementwise(kernel, gathers=True):
        rows, columns = ELEMENTWISE
        return _block_sizes(kernel, max(1, rows // -(-_gathers(kernel) // GATHERED)), columns, columns, machine)
    if only_multiplies(kernel, machine):
        tried = [_block_sizes(kernel, *block, ASYNC_TERMS, machine) for block in ASYNC_PRODUCT]
        return next((sizes for sizes in tried if _fits(kernel, sizes, machine)), tried[-1])
    many = ASYNC_BLOCKS if machine.has_async_matrix_unit else NARROW_BLOCKS
    narrow = FEW_BLOCKS if _has_few_rows(kernel) else many
    tried = [_sizes(kernel, *block, machine) for block in (narrow if is_narrow(kernel) else GPU_BLOCKS)]
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


def folds_columns(kernel: Op) -> bool:
    """Whether all that programs fold are columns, each by itself, of which a program has a block."""
    ops, own = list(kernel.walk()), kernel_own(kernel)
    folds = [tensor_type(op.operands[0]).dims[-2:] for op in ops if op.name == "form.reduce"]
    alone = len(own) == 1 and not any(op.name in ("form.contract", "form.sort", "form.scan") for op in ops)
    return alone and bool(folds) and all(len(dims) == 2 and dims[-1] == own[0] != dims[0] for dims in folds)


def _has_few_rows(kernel: Op) -> bool:
    """Whether all that a program has is a few rows of a dim."""
    sizes = [cut.over.constant for cut in kernel_blocks(kernel) if cut.block in kernel_own(kernel)]
    return len(sizes) == 1 and sizes[0] is not None and sizes[0] <= FEW_ROWS


def _is_elementwise(kernel: Op, gathers: bool = False) -> bool:
    """Whether programs have blocks of two dims that they read and write along memory, and fold nothing of them;
    `gathers` may read it at computed places."""
    own, ops = kernel_own(kernel), [op for op in kernel.body.ops if not op.opdef.terminator]
    along = all(tensor_type(value).dims[-2:] == _as_written(kernel) for value in kernel.body.terminator.operands)
    return len(own) == 2 and along and all(_keeps_order(op) or (gathers and _gathers_in_order(op)) for op in ops)


def _as_written(kernel: Op) -> tuple[Dim, ...]:
    """The dims that programs cut, in the order in which the first result has them."""
    own = kernel_own(kernel)
    return tuple(dim for dim in tensor_type(kernel.body.terminator.operands[0]).dims if dim in own)


def _gathers(kernel: Op) -> int:
    """How many tiles a program reads at computed places; at least one."""
    return max(1, sum(op.name == "form.gather" for op in kernel.walk()))


def _gathers_in_order(op: Op) -> bool:
    """Whether rows of a gather follow rows of memory, and columns columns."""
    if op.name != "form.gather" or view_source(op.operands[0])[0].defining_op is not None:
        return False
    read = [d for dims in operand_maps(op) for d in dims if d is not None]
    return read == sorted(read)


def _keeps_order(op: Op) -> bool:
    """Whether a form computes elements of tiles, or cuts them out, and reads dims in the order in which it has them."""
    if op.name == "form.view":
        return isinstance(op.attrs["view"], Slice | Broadcast | Reshape)
    known = [[d for d in dims if d is not None] for dims in operand_maps(op)] if op.name == "form.map" else [[1, 0]]
    return all(dims == sorted(dims) for dims in known)


def _block_sizes(kernel: Op, rows: int, columns: int, terms: int, machine: Machine) -> dict[Dim, int]:
    """Blocks of rows and columns: the last dim of the results is that of columns, of products their own last one."""
    narrow, wide = (_sizes(kernel, size, terms, machine) for size in (rows, columns))
    last = (kernel_own(kernel) if any(products_of(kernel)) else _as_written(kernel))[-1]
    return {block: (wide if block == last else narrow)[block] for block in narrow}


def _sizes(kernel: Op, own_block: int, loop_block: int, machine: Machine) -> dict[Dim, int]:
    settings, own, space = kernel_settings(kernel), kernel_own(kernel), kernel_space(kernel)
    sizes: dict[Dim, int] = {}
    summed, units = summed_blocks(kernel, machine), _units(kernel, machine)
    for cut in kernel_blocks(kernel):
        if cut.block in summed:
            sizes[cut.block] = _fitting(cut, summed[cut.block])
            continue
        given, wanted = settings.get(block_setting(cut)), own_block if cut.block in own else loop_block
        able = space.get(block_setting(cut), ())
        best = min(able, key=lambda size: (abs(size - wanted), size)) if able else wanted
        sizes[cut.block] = given or -(-_fitting(cut, best) // units.get(cut.block, 1)) * units.get(cut.block, 1)
    return sizes


def _units(kernel: Op, machine: Machine) -> dict[Dim, int]:
    """How many terms at a time a matrix unit adds of the blocks that products go over: of a dim that has fewer, or some
    more, the last block goes beyond it. Blocks that the kernel means stay as they are."""
    over = {tensor_type(product.operands[0]).dims[-1]: unit_terms(product, machine) for product in products_of(kernel)}
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
    return staged <= machine.near_bytes * 7 // 8 and warps_for(kernel, sizes, machine) <= MOST_WARPS


def unit_terms(product: Op, machine: Machine) -> int:
    """How many terms of a product of narrow numbers are added at a time; 0 where each is added by itself."""
    left, result = tensor_type(product.operands[0]), tensor_type(product.result)
    if machine.matrix_unit is not None and machine.uses_tiles(left.dtype, result.dtype):
        return machine.matrix_unit.terms(left.dtype)
    return UNIT_TERMS if machine.warps and left.dtype.bits == NARROW_BITS else 0


def warps_for(kernel: Op, sizes: dict[Dim, int], machine: Machine) -> int:
    """How many warps hold the results of all products in registers, and what steps carry on beside them; a power of
    two."""
    made = [*(product.result for product in products_of(kernel)), *_carried_in_steps(kernel)]
    held = sum(tile_elements(kernel, value, sizes) for value in made)
    narrow = REGISTERS * 2 if machine.has_async_matrix_unit else FED_REGISTERS
    return 1 << max(0, -(-held // (WARP * (narrow if is_narrow(kernel) else REGISTERS))) - 1).bit_length()


def _carried_in_steps(kernel: Op) -> Iterator[Value]:
    """Blocks that a loop carries from step to step while products are made in the steps."""
    for op in kernel.walk():
        if op.name == "form.loop" and block_loop(op) is None and any(products_of(op)):
            yield from op.results


def is_narrow(kernel: Op) -> bool:
    """Whether matrix units do the work, so that a thread needs few registers besides those of results."""
    products = list(products_of(kernel))
    return bool(products) and all(tensor_type(op.operands[0]).dtype.bits == 16 for op in products)


def staged_bytes(kernel: Op, product: Op, sizes: dict[Dim, int], depth: int = GPU_STAGES) -> int:
    """What the operands of a product take: as often as blocks are in flight, for those that are copied ahead. One that
    is computed stays in registers where matrix units take it from there."""
    moving = {cut.block for cut in kernel_blocks(kernel)} - set(kernel_own(kernel))
    total, held = 0, is_narrow(kernel)
    for value in product.operands:
        loaded = view_source(value)[0].owner is kernel.body
        if held and not loaded:
            continue
        ahead = loaded and not moving.isdisjoint(tensor_type(value).dims)
        total += tile_elements(kernel, value, sizes) * element_bytes(tensor_type(value).dtype) * (depth if ahead else 1)
    return total


def products_of(kernel: Op) -> Iterator[Op]:
    """Products of matrices; one with a column of ones needs no room."""
    for op in kernel.walk():
        if op.name == "form.contract" and ONE not in tensor_type(op.result).dims:
            yield op


def tile_elements(kernel: Op, value: Value, sizes: dict[Dim, int]) -> int:
    total = 1
    for dim in tensor_type(value).dims:
        total *= sizes.get(dim) or dim.constant or most_whole(kernel)
    return total
