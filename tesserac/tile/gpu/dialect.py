"""The GPU dialect: what the threads of one block do. Layouts, copies, stages, roles and barriers are explicit.

Kernel
    gpu.kernel @name {grid, warps, when, variant_of, takes, mapped} { ^(pid..., memref..., tensor_map...): ... }
        `when` are the conditions on sizes under which this variant of the neutral kernel `variant_of` may run. A launch
        passes `takes` memories; others are workspace. `mapped` names for each tensor map the memory it reads. The
        roles of a `persistent` kernel run for one program after the other; of a `descending` one the last come first.
    gpu.program() : index                       the program's number in the grid
    gpu.alloc() : memref | stages | barriers    memory of the block, shared by its threads
Registers
    gpu.axis(start, stop) : axis                as tile.axis
    gpu.load(mem, at...) : fragment             each thread its elements, in vectors where they are aligned and inside
    gpu.store(fragment, mem, at...) {team}      elements outside the axes are not written; of copies, one is, in the
                                                block or, where `team` says so, in each team of threads
    gpu.gather(mem, at..., status?, axis...) {maps, bounds, bounded}
                                                as tile.gather; the axes end the dims `bounded` of the result
    gpu.scatter(fragment, mem, at..., status?) {bounds, kind}, gpu.index(fragment)
                                                as in neutral Tile IR
    gpu.full / iota / map / cast                as in neutral Tile IR, on fragments of one layout; a map with `narrow`
                                                gives numbers that only a `gpu.round` to that type reads
    gpu.round(x) : fragment                     what a map with `narrow` gave, rounded to that type
    gpu.mask(x, axis) {dim, value}              elements outside the axis become `value`
    gpu.fold(x) {dim, kind, width}              element i: x[i], x[i + width], ... of one thread, folded ascending
    gpu.butterfly(x) {dim, kind, lane}          element i with the one that the lane `lane` away holds; halves `dim`
    gpu.relabel(x) : fragment                   the same registers, with other positions along a dim that is folded
    gpu.shuffle(x) {lane}                       what the lane `lane` away (exclusive or) holds
    gpu.less(i, n) : scalar<bool>, gpu.choose(flag, x, y)
    gpu.unless(flags, x) { ... gpu.yield }      x where all flags of a warp hold, elsewhere what the region gives
Several blocks at once
    gpu.team() {size} : index                   the number of the team of `size` threads that this thread is in
    gpu.publish(x, mem), gpu.collect(mem)       each warp's value through shared memory: one result per warp
    gpu.scan_rows(room, totals, axis) {dim, kind}
                                                running folds of a block in shared memory along a dim, in place, each
                                                row by one thread; the last of each row goes to `totals`
    gpu.sort(mem, at..., out, at..., pairs) {dims, descending}
                                                as tile.sort; all threads of the block, with room for a pair of key and
                                                place per element
Loops
    gpu.for(low, high, init...) {step}          as tile.for
    gpu.tree(n, empty...) { block } { combine } as tile.tree: a binary counter in the thread's own memory, `levels` deep
    gpu.running(n, empty...) { block } { combine } {levels}
                                                as tile.running, with such a counter
    gpu.yield(...)
Copies in flight
    gpu.copy(mem, at..., stages, slot)          starts a copy into a stage; zeros where the axes end. Gives a token.
    gpu.commit(copy...), gpu.wait(group) {pending}
                                                a group of copies; wait until at most `pending` later groups are left
    gpu.tensor_copy(map, at..., stages, slot, barriers)       `at` in the order of the map's dims:
                                                one thread starts it; the bytes arrive at the barrier of the slot
    gpu.expect(barriers, slot) {bytes}          announces bytes, and arrives
    gpu.next(barriers) : slot, parity           the slot of a ring whose turn it is for this thread, and the parity of
                                                its phase; each time the next one
    gpu.await(barriers, slot, parity)           until the phase of that parity is complete
    gpu.arrive(barriers, slot) {late}           one arrival per warp; a late one only where there is a slot
    gpu.barrier()                               all threads of the block
    gpu.warp_barrier()                          all threads of each warp
    gpu.role() {name, first, warps, registers} { ... gpu.end }
                                                what only some warps do, and how many registers each of their threads
                                                has (0: as it was); of a `producer` one thread runs it, a `finisher`
                                                does what follows a product
    gpu.give_registers() {first, warps, registers}  a whole group of warps keeps so many for each thread
Products
    gpu.multiply(a, slot, b, slot, acc) {unit, first} : fragment, token<matrix>      by the columns of b from `first` on
    gpu.add_columns(x, part) {first} : fragment x with a block added to its columns from `first` on
    gpu.put(fragment, stages)                   a computed operand into the one slot of its stage
    gpu.multiply_held(a, b, slot, acc, sums...) {unit} : fragment..., token<matrix>
                                                a product whose left operand is a fragment
                                                (and the sums of its rows, where stages of b have ones)
    gpu.sum_rows(a, acc) {unit} : fragment      the product of what was put into a stage, or of a fragment, with ones;
    gpu.column(sums) : fragment                 one of the 8 equal columns that it has of a fragment
    gpu.fill_ones(stages)                       the ones behind each stage
    gpu.zero_behind(stages, slot, axis)         rows of a stage behind the end of the axis become zeros, for this warp
    gpu.take_turn(), gpu.pass_turn()            warp groups start products one after the other: each waits for the one
                                                before it, and lets the next one in
    gpu.wait_mma(token, acc...) {pending} : fragment... accumulators once at most `pending` later products are under way
    gpu.no_product() {unit} : token<matrix>     stands for one that a loop has left under way
Gone when lowering is done
    gpu.stage(mem, at...) {depth, layout, ring} : tile  a block wanted in shared memory; those of one ring take turns
                                                                                     (pipeline, roles)
    gpu.turned(stage) {layout} : tile           the same block with its dims exchanged, in one stage  (roles)
    gpu.dot(a, b, acc) {unit}                   a product of such blocks, of stages, and until
                                                `operands` of fragments              (pipeline, roles)
    gpu.reduce(x, axis...) {kind, axes, order}  as tile.reduce                       (reduce)
    gpu.scan(x, axis, room, totals) {kind, dim} as tile.scan                         (scans)
    gpu.scratch() : memref<..., local>          as tile.alloc                        (scratch)
    gpu.view(mem) : memref | stages             the same memory under other dims and strides
    gpu.convert(x) : fragment                   the same block in another layout     (convert)
"""

from __future__ import annotations

from tesserac.ir.core import Op, Value, attr, attr_tuple, define_op
from tesserac.ir.forms import Guard, indices, operand_maps
from tesserac.ir.passes import Level
from tesserac.ir.types import INDEX, AxisType, IndexType, MemRefType, ScalarType, TileType
from tesserac.ir.verify import require
from tesserac.tile.gpu.matrix import MatrixUnit
from tesserac.tile.gpu.shared import SharedLayout
from tesserac.tile.gpu.types import (
    COPY,
    FIRST,
    FLAG,
    GROUP,
    MATRIX,
    SUM_COLUMNS,
    BarriersType,
    FragmentType,
    StagesType,
    TensorMapType,
)
from tesserac.types.dims import Dim
from tesserac.types.policy import compute_dtype

GPU = Level("gpu", frozenset({"schedule", "tile", "gpu", "scalar", "index", "form"}))
"""`tile` is here for the host's `tile.launch` only."""


def fragment(value: Value) -> FragmentType:
    assert isinstance(value.type, FragmentType), f"expected a fragment, not {value.type}"
    return value.type


def memory(value: Value) -> MemRefType:
    assert isinstance(value.type, MemRefType), f"expected memory, not {value.type}"
    return value.type


def stages(value: Value) -> StagesType:
    assert isinstance(value.type, StagesType), f"expected stages, not {value.type}"
    return value.type


def barriers(value: Value) -> BarriersType:
    assert isinstance(value.type, BarriersType), f"expected barriers, not {value.type}"
    return value.type


def axis_block(value: Value) -> int:
    assert isinstance(value.type, AxisType), f"expected an axis, not {value.type}"
    return value.type.block


def integer(op: Op, name: str) -> int:
    return attr(op, name, int)


def text(op: Op, name: str) -> str:
    return attr(op, name, str)


def matrix_unit_of(op: Op) -> MatrixUnit:
    return attr(op, "unit", MatrixUnit)


def first_column(op: Op) -> int:
    """Where what an operation takes of the columns of a block begins."""
    return integer(op, FIRST) if FIRST in op.attrs else 0


def constant_index(value: Value) -> int | None:
    """An index that is known while compiling."""
    made = value.defining_op
    dim = made.attrs.get("dim") if made is not None and made.name == "index.dim" else None
    return dim.constant if isinstance(dim, Dim) else None


def kernel_grid(kernel: Op) -> tuple[Dim, ...]:
    return attr_tuple(kernel, "grid", Dim)


def kernel_parameters(kernel: Op) -> list[Value]:
    """Memory and tensor maps, behind the program's position."""
    return kernel.body.args[len(kernel_grid(kernel)) :]


def kernel_conditions(kernel: Op) -> tuple[Guard, ...]:
    return attr_tuple(kernel, "when", Guard)


def is_persistent(kernel: Op) -> bool:
    """Whether a block of threads runs one program after the other."""
    return "persistent" in kernel.attrs


def kernel_threads(kernel: Op) -> int:
    return 32 * integer(kernel, "warps")


def scalar_of(ty: FragmentType) -> ScalarType:
    """The type in which elements of a fragment take part in computation."""
    return ScalarType(compute_dtype(ty.dtype, ty.policy))


def _verify_kernel(op: Op) -> None:
    positions = op.body.args[: len(kernel_grid(op))]
    require(all(isinstance(v.type, IndexType) for v in positions), "takes one index per grid axis", op)
    known = all(isinstance(v.type, MemRefType | TensorMapType) for v in kernel_parameters(op))
    require(known, "takes memory and tensor maps", op)
    require(isinstance(op.attrs.get("warps"), int), "needs a number of warps", op)
    require(isinstance(op.attrs.get("variant_of"), str), "is a variant of a neutral kernel", op)
    require(isinstance(op.attrs.get("takes"), int), "needs to know what a launch passes", op)
    kernel_conditions(op)


def _verify_access(op: Op, mem: Value, at: tuple[Value, ...], shape: tuple[int, ...]) -> None:
    require(len(at) == len(memory(mem).dims), "needs one coordinate per dim", op)
    blocks = tuple(v.type.block for v in at if isinstance(v.type, AxisType))
    require(shape == blocks, "the block has shape {}, its axes {}", op, shape, blocks)


def _verify_load(op: Op) -> None:
    ty, mem = fragment(op.result), memory(op.operands[0])
    _verify_access(op, op.operands[0], op.operands[1:], ty.shape)
    require((ty.dtype, ty.policy) == (mem.dtype, mem.policy), "changes the element type or policy", op)


def _verify_store(op: Op) -> None:
    ty, mem = fragment(op.operands[0]), memory(op.operands[1])
    _verify_access(op, op.operands[1], op.operands[2:], ty.shape)
    require((ty.dtype, ty.policy) == (mem.dtype, mem.policy), "changes the element type or policy", op)


def _verify_gather(op: Op) -> None:
    result, maps, mem = fragment(op.result), operand_maps(op), memory(op.operands[0])
    require((result.dtype, result.policy) == (mem.dtype, mem.policy), "changes the element type or policy", op)
    for value, dims in zip(op.operands[1:], maps, strict=False):
        if isinstance(value.type, FragmentType):
            expected = result.layout.project(dims)
            require(value.type.layout == expected, "a coordinate must have the layout {}", op, expected)
    axes = op.operands[len(op.operands) - len(indices(op, "bounded")) :]
    require(all(isinstance(v.type, AxisType) for v in axes), "is cut by axes", op)


def _verify_index(op: Op) -> None:
    require(fragment(op.operands[0]).shape == () and isinstance(op.result.type, IndexType), "takes one integer", op)


def _verify_scan_rows(op: Op) -> None:
    require(isinstance(op.operands[-1].type, AxisType), "needs the axis of its dim", op)
    require(isinstance(op.attrs.get("dim"), int) and isinstance(op.attrs.get("kind"), str), "needs a dim", op)


def _verify_sort(op: Op) -> None:
    require(len(indices(op, "dims")) == 2, "sorts one dim into another", op)


def _verify_map(op: Op) -> None:
    result, maps = fragment(op.result), operand_maps(op)
    require(len(maps) == len(op.operands), "needs one index map per operand", op)
    for value, dim_map in zip(op.operands, maps, strict=True):
        expected = result.layout.project(dim_map)
        require(fragment(value).layout == expected, "an operand must have the layout {}", op, expected)
    require([a.type for a in op.body.args] == [scalar_of(fragment(v)) for v in op.operands], "bad body", op)
    (yielded,) = op.body.terminator.operands
    require(yielded.type == scalar_of(result), "its body must yield {}", op, scalar_of(result))


def _verify_same_type(op: Op) -> None:
    require(op.operands[0].type == op.result.type, "keeps the type", op)


def _verify_cast(op: Op) -> None:
    source, result = fragment(op.operands[0]), fragment(op.result)
    require((source.shape, source.layout) == (result.shape, result.layout), "keeps shape and layout", op)


def _verify_round(op: Op) -> None:
    _verify_cast(op)
    made = op.operands[0].defining_op
    wanted = made.attrs.get("narrow") if made is not None else None
    require(wanted == fragment(op.result).dtype, "rounds what is made for it", op)


def _verify_convert(op: Op) -> None:
    source, result = fragment(op.operands[0]), fragment(op.result)
    same = (source.shape, source.dtype, source.policy) == (result.shape, result.dtype, result.policy)
    require(same, "changes nothing but the layout", op)


def _verify_relabel(op: Op) -> None:
    source, result = fragment(op.operands[0]), fragment(op.result)
    require(source.shape == result.shape and source.dtype == result.dtype, "has the block of its operand", op)
    require(source.layout.count == result.layout.count, "has the registers of its operand", op)


def _verify_butterfly(op: Op) -> None:
    source, result, dim = fragment(op.operands[0]), fragment(op.result), integer(op, "dim")
    bit = source.layout.lanes[integer(op, "lane").bit_length() - 1]
    require(bit is not None and bit == (dim, source.shape[dim] // 2), "folds the lanes of the upper half", op)
    assert bit is not None
    require(result.layout == source.layout.halved(*bit), "gives copies in both halves", op)


def _verify_choose(op: Op) -> None:
    flag, yes, no = op.operands
    require(flag.type == FLAG and yes.type == no.type == op.result.type, "chooses between equal types", op)


def _verify_unless(op: Op) -> None:
    (given,) = op.body.terminator.operands
    flags, x = (fragment(v) for v in op.operands)
    require(scalar_of(flags) == FLAG and x == given.type == op.result.type, "chooses between equal types", op)


def _verify_copy(op: Op) -> None:
    mem, *at, ring, _ = op.operands
    _verify_access(op, mem, tuple(at), stages(ring).layout.shape)
    require(op.result.type == COPY and memory(mem).dtype == stages(ring).dtype, "gives a copy token", op)


def _verify_tensor_copy(op: Op) -> None:
    source, *at, ring, _, group = op.operands
    require(isinstance(source.type, TensorMapType), "reads a tensor map", op)
    assert isinstance(source.type, TensorMapType)
    kinds = [isinstance(v.type, AxisType) for v in at]
    require(kinds == [False] * (len(source.type.dims) - 2) + [True, True], "reads a block of rows and columns", op)
    require(source.type.dtype == stages(ring).dtype and op.result.type == COPY, "gives a copy token", op)
    require(barriers(group).count == stages(ring).depth, "needs one barrier per stage", op)


def _verify_next(op: Op) -> None:
    barriers(op.operands[0])
    require([v.type for v in op.results] == [INDEX, INDEX], "gives a slot and a parity", op)


def _verify_commit(op: Op) -> None:
    tokens = all(v.type == COPY for v in op.operands)
    require(tokens and op.result.type == GROUP, "makes a group of copies", op)


def _verify_wait(op: Op) -> None:
    require(op.operands[0].type == GROUP and isinstance(op.attrs.get("pending"), int), "waits for a group", op)


def _verify_multiply(op: Op) -> None:
    a, _, b, _, acc = op.operands
    left, right, sum_ = stages(a).layout.shape, stages(b).layout.shape, fragment(acc)
    columns = range(right[1])[first_column(op) :][: sum_.shape[1]] if FIRST in op.attrs else range(right[1])
    require(left[1] == right[0] and sum_.shape == (left[0], len(columns)), "shapes do not fit", op)
    require(sum_.dtype == compute_dtype(stages(a).dtype, stages(a).policy), "has another accumulator", op)
    require(stages(a).policy == stages(b).policy, "the operands have two policies", op)
    require([v.type for v in op.results] == [acc.type, MATRIX], "gives its accumulator and a token", op)
    matrix_unit_of(op)


def _verify_wait_mma(op: Op) -> None:
    token, *sums = op.operands
    require(token.type == MATRIX and [v.type for v in sums] == [v.type for v in op.results], "gives accumulators", op)


def _verify_for(op: Op) -> None:
    inits = [v.type for v in op.operands[2:]]
    require(isinstance(op.attrs.get("step"), int), "needs a step", op)
    lists = (op.body.args[1:], op.results, op.body.terminator.operands)
    require(all([v.type for v in values] == inits for values in lists), "carries what it starts with", op)


def _verify_tree(op: Op) -> None:
    require([v.type for v in op.results] == [v.type for v in op.operands[1:]], "gives the type of its empty value", op)
    _verify_combined(op)


def _verify_running(op: Op) -> None:
    given = [a.type for a in op.regions[0].block.args[1:]]
    require(given == [v.type for v in op.operands[1:]], "each block takes what stands before it", op)
    _verify_combined(op)


def _verify_combined(op: Op) -> None:
    types = [v.type for v in op.operands[1:]]
    block, combine = (r.block for r in op.regions)
    require([a.type for a in combine.args] == [*types, *types], "combines two of its values", op)
    for body in (block, combine):
        require([v.type for v in body.terminator.operands] == types, "each region yields one value", op)
    require(isinstance(op.attrs.get("levels"), int), "needs a number of levels", op)


def _verify_role(op: Op) -> None:
    for name in ("first", "warps", "registers"):
        require(isinstance(op.attrs.get(name), int), "needs {}", op, name)
    require(isinstance(op.attrs.get("name"), str), "needs a name", op)


def _verify_dot(op: Op) -> None:
    *factors, acc = op.operands
    known = all(isinstance(v.type, TileType | FragmentType | StagesType) for v in factors)
    require(known, "multiplies staged blocks", op)
    require(fragment(acc) == op.result.type, "gives its accumulator", op)
    matrix_unit_of(op)


def _verify_stage(op: Op) -> None:
    attr(op, "layout", SharedLayout)


def _verify_put(op: Op) -> None:
    source, room = fragment(op.operands[0]), stages(op.operands[1])
    require(source.shape == room.layout.shape and source.dtype == room.dtype, "fills its stage", op)
    require(room.depth == 1, "has one slot", op)


def _verify_sum_rows(op: Op) -> None:
    left, acc = op.operands[0].type, fragment(op.operands[1])
    shape = left.layout.shape if isinstance(left, StagesType) else fragment(op.operands[0]).shape
    columns = 1 if isinstance(left, StagesType) else SUM_COLUMNS
    require(acc == op.result.type and acc.shape == (shape[0], columns), "sums each row", op)
    matrix_unit_of(op)


def _verify_multiply_held(op: Op) -> None:
    left, right, acc = fragment(op.operands[0]), stages(op.operands[1]).layout, fragment(op.operands[3])
    fits = left.shape[1] == right.shape[0] and acc.shape == (left.shape[0], right.shape[1])
    given = [v.type for v in op.operands[3:]]
    require(fits and [v.type for v in op.results] == [*given, MATRIX], "gives its accumulators and a token", op)
    matrix_unit_of(op)


_PURE = "program axis full iota fold less team reduce view add_columns column"
_ACTS = """alloc scatter scan publish collect expect await arrive barrier warp_barrier scratch take_turn pass_turn
    give_registers no_product fill_ones zero_behind"""
for _name in (*_PURE.split(), *_ACTS.split()):
    define_op(f"gpu.{_name}", pure=_name in _PURE.split())
define_op("gpu.kernel", pure=False, verify=_verify_kernel)
for _name, _verify in (("gpu.load", _verify_load), ("gpu.store", _verify_store), ("gpu.gather", _verify_gather)):
    define_op(_name, pure=False, verify=_verify)
for _name, _verify in (("gpu.scan_rows", _verify_scan_rows), ("gpu.sort", _verify_sort), ("gpu.role", _verify_role)):
    define_op(_name, pure=False, verify=_verify)
for _name, _verify in (("gpu.index", _verify_index), ("gpu.map", _verify_map), ("gpu.convert", _verify_convert)):
    define_op(_name, pure=True, verify=_verify)
for _name, _verify in (("gpu.cast", _verify_cast), ("gpu.relabel", _verify_relabel), ("gpu.round", _verify_round)):
    define_op(_name, pure=True, verify=_verify)
define_op("gpu.mask", pure=True, verify=_verify_same_type)
define_op("gpu.butterfly", pure=False, verify=_verify_butterfly)
define_op("gpu.shuffle", pure=False, verify=_verify_same_type)
for _name, _verify in (("gpu.choose", _verify_choose), ("gpu.unless", _verify_unless), ("gpu.dot", _verify_dot)):
    define_op(_name, pure=True, verify=_verify)
for _name, _verify in (("gpu.for", _verify_for), ("gpu.tree", _verify_tree), ("gpu.running", _verify_running)):
    define_op(_name, pure=False, verify=_verify)
for _name, _verify in (("gpu.copy", _verify_copy), ("gpu.commit", _verify_commit), ("gpu.wait", _verify_wait)):
    define_op(_name, pure=False, verify=_verify)
for _name, _verify in (("gpu.tensor_copy", _verify_tensor_copy), ("gpu.next", _verify_next), ("gpu.put", _verify_put)):
    define_op(_name, pure=False, verify=_verify)
for _name, _verify in (("gpu.multiply", _verify_multiply), ("gpu.multiply_held", _verify_multiply_held)):
    define_op(_name, pure=False, verify=_verify)
for _name, _verify in (("gpu.sum_rows", _verify_sum_rows), ("gpu.wait_mma", _verify_wait_mma)):
    define_op(_name, pure=False, verify=_verify)
for _name in ("gpu.stage", "gpu.turned"):
    define_op(_name, pure=_name == "gpu.turned", verify=_verify_stage)
for _name in ("gpu.return", "gpu.yield", "gpu.end"):
    define_op(_name, pure=False, terminator=True)
