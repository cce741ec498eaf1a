"""What every operation of the GPU dialect must be like (`dialect.py` says what it does)."""

from __future__ import annotations

from tesserac.ir.core import Op, Value, attr
from tesserac.ir.forms import indices, operand_maps
from tesserac.ir.types import INDEX, AxisType, IndexType, MemRefType, TileType
from tesserac.ir.verify import require
from tesserac.tile.gpu.model.shared import SharedLayout
from tesserac.tile.gpu.model.types import (
    COPY,
    FIRST,
    FLAG,
    GROUP,
    MATRIX,
    SUM_COLUMNS,
    FragmentType,
    StagesType,
    TensorMapType,
)
from tesserac.tile.gpu.model.values import (
    barriers,
    first_column,
    fragment,
    integer,
    kernel_conditions,
    kernel_grid,
    kernel_parameters,
    matrix_unit_of,
    memory,
    scalar_of,
    stages,
)
from tesserac.types.dims import ONE, product
from tesserac.types.dtype import I8, I32
from tesserac.types.policy import compute_dtype


def verify_kernel(op: Op) -> None:
    positions = op.body.args[: len(kernel_grid(op))]
    require(all(isinstance(v.type, IndexType) for v in positions), "takes one index per grid axis", op)
    known = all(isinstance(v.type, MemRefType | TensorMapType) for v in kernel_parameters(op))
    require(known, "takes memory and tensor maps", op)
    require(isinstance(op.attrs.get("warps"), int), "needs a number of warps", op)
    require(isinstance(op.attrs.get("variant_of"), str), "is a variant of a neutral kernel", op)
    require(isinstance(op.attrs.get("takes"), int), "needs to know what a launch passes", op)
    kernel_conditions(op)


def verify_access(op: Op, mem: Value, at: tuple[Value, ...], shape: tuple[int, ...]) -> None:
    require(len(at) == len(memory(mem).dims), "needs one coordinate per dim", op)
    blocks = tuple(v.type.block for v in at if isinstance(v.type, AxisType))
    require(shape == blocks, "the block has shape {}, its axes {}", op, shape, blocks)


def verify_load(op: Op) -> None:
    ty, mem = fragment(op.result), memory(op.operands[0])
    verify_access(op, op.operands[0], op.operands[1:], ty.shape)
    require((ty.dtype, ty.policy) == (mem.dtype, mem.policy), "changes the element type or policy", op)


def verify_store(op: Op) -> None:
    ty, mem = fragment(op.operands[0]), memory(op.operands[1])
    verify_access(op, op.operands[1], op.operands[2:], ty.shape)
    require((ty.dtype, ty.policy) == (mem.dtype, mem.policy), "changes the element type or policy", op)


def verify_view(op: Op) -> None:
    (source,) = op.operands
    if isinstance(op.result.type, StagesType):
        stages(source)
        return
    seen, mem = memory(op.result), memory(source)
    require((seen.space, seen.dtype) == (mem.space, mem.dtype), "sees memory as it is", op)
    require(seen.dims[0] == mem.dims[0] or seen.strides[0] != ONE or _holds(mem, seen), "is larger than its memory", op)


def _holds(mem: MemRefType, seen: MemRefType) -> bool:
    """Offsets along a first dim of stride 1 are places in all of the memory."""
    there, taken = product(mem.dims).constant, seen.dims[0].constant
    return there is None or taken is None or taken <= there


def verify_gather(op: Op) -> None:
    result, maps, mem = fragment(op.result), operand_maps(op), memory(op.operands[0])
    require((result.dtype, result.policy) == (mem.dtype, mem.policy), "changes the element type or policy", op)
    for value, dims in zip(op.operands[1:], maps, strict=False):
        if isinstance(value.type, FragmentType):
            expected = result.layout.project(dims)
            require(value.type.layout == expected, "a coordinate must have the layout {}", op, expected)
    axes = op.operands[len(op.operands) - len(indices(op, "bounded")) :]
    require(all(isinstance(v.type, AxisType) for v in axes), "is cut by axes", op)


def verify_index(op: Op) -> None:
    require(fragment(op.operands[0]).shape == () and isinstance(op.result.type, IndexType), "takes one integer", op)


def verify_scan_rows(op: Op) -> None:
    require(isinstance(op.operands[-1].type, AxisType), "needs the axis of its dim", op)
    require(isinstance(op.attrs.get("dim"), int) and isinstance(op.attrs.get("kind"), str), "needs a dim", op)


def verify_sort(op: Op) -> None:
    require(len(indices(op, "dims")) == 2, "sorts one dim into another", op)


def verify_map(op: Op) -> None:
    result, maps = fragment(op.result), operand_maps(op)
    require(len(maps) == len(op.operands), "needs one index map per operand", op)
    for value, dim_map in zip(op.operands, maps, strict=True):
        expected = result.layout.project(dim_map)
        require(fragment(value).layout == expected, "an operand must have the layout {}", op, expected)
    require([a.type for a in op.body.args] == [scalar_of(fragment(v)) for v in op.operands], "bad body", op)
    (yielded,) = op.body.terminator.operands
    require(yielded.type == scalar_of(result), "its body must yield {}", op, scalar_of(result))


def verify_same_type(op: Op) -> None:
    require(op.operands[0].type == op.result.type, "keeps the type", op)


def verify_cast(op: Op) -> None:
    source, result = fragment(op.operands[0]), fragment(op.result)
    require((source.shape, source.layout) == (result.shape, result.layout), "keeps shape and layout", op)


def verify_round(op: Op) -> None:
    verify_cast(op)
    made = op.operands[0].defining_op
    wanted = made.attrs.get("narrow") if made is not None else None
    require(wanted == fragment(op.result).dtype, "rounds what is made for it", op)


def verify_convert(op: Op) -> None:
    source, result = fragment(op.operands[0]), fragment(op.result)
    same = (source.shape, source.dtype, source.policy) == (result.shape, result.dtype, result.policy)
    require(same, "changes nothing but the layout", op)


def verify_relabel(op: Op) -> None:
    source, result = fragment(op.operands[0]), fragment(op.result)
    require(source.shape == result.shape and source.dtype == result.dtype, "has the block of its operand", op)
    require(source.layout.count == result.layout.count, "has the registers of its operand", op)


def verify_butterfly(op: Op) -> None:
    source, result, dim = fragment(op.operands[0]), fragment(op.result), integer(op, "dim")
    bit = source.layout.lanes[integer(op, "lane").bit_length() - 1]
    require(bit is not None and bit == (dim, source.shape[dim] // 2), "folds the lanes of the upper half", op)
    assert bit is not None
    require(result.layout == source.layout.halved(*bit), "gives copies in both halves", op)


def verify_halve(op: Op) -> None:
    source, result, dim = fragment(op.operands[0]), fragment(op.result), integer(op, "dim")
    bit, held = source.layout.lanes[integer(op, "lane").bit_length() - 1], (dim, integer(op, "step"))
    require(bit is not None and bit == (dim, source.shape[dim] // 2), "folds the lanes of the upper half", op)
    assert bit is not None
    require(held in source.layout.registers, "keeps one side of what a thread holds", op)
    require(result.layout == source.layout.exchanged(bit, held), "gives each lane one side", op)


def verify_choose(op: Op) -> None:
    flag, yes, no = op.operands
    require(flag.type == FLAG and yes.type == no.type == op.result.type, "chooses between equal types", op)


def verify_unless(op: Op) -> None:
    (given,) = op.body.terminator.operands
    flags, x = (fragment(v) for v in op.operands)
    require(scalar_of(flags) == FLAG and x == given.type == op.result.type, "chooses between equal types", op)


def verify_copy(op: Op) -> None:
    mem, *at, ring, _ = op.operands
    verify_access(op, mem, tuple(at), stages(ring).layout.shape)
    require(op.result.type == COPY and memory(mem).dtype == stages(ring).dtype, "gives a copy token", op)


def verify_copy_rows(op: Op) -> None:
    ring, mem = stages(op.operands[0]), memory(op.operands[2])
    require(op.result.type == COPY and mem.dtype == ring.dtype, "gives a copy token", op)
    moving = [v for v, dims in zip(op.operands[3:], operand_maps(op), strict=False) if dims]
    kinds = sorted(type(v.type).__name__ for v in moving)
    require(kinds == [AxisType.__name__, FragmentType.__name__], "reads rows of one block", op)


def verify_tensor_copy(op: Op) -> None:
    source, *at, ring, _, group = op.operands
    require(isinstance(source.type, TensorMapType), "reads a tensor map", op)
    assert isinstance(source.type, TensorMapType)
    kinds = [isinstance(v.type, AxisType) for v in at]
    require(kinds == [False] * (len(source.type.dims) - 2) + [True, True], "reads a block of rows and columns", op)
    require(source.type.dtype == stages(ring).dtype and op.result.type == COPY, "gives a copy token", op)
    require(barriers(group).count == stages(ring).depth, "needs one barrier per stage", op)


def verify_next(op: Op) -> None:
    barriers(op.operands[0])
    require([v.type for v in op.results] == [INDEX, INDEX], "gives a slot and a parity", op)


def verify_commit(op: Op) -> None:
    tokens = all(v.type == COPY for v in op.operands)
    require(tokens and op.result.type == GROUP, "makes a group of copies", op)


def verify_wait(op: Op) -> None:
    require(op.operands[0].type == GROUP and isinstance(op.attrs.get("pending"), int), "waits for a group", op)


def verify_multiply(op: Op) -> None:
    a, _, b, _, acc = op.operands
    left, right, sum_ = stages(a).layout.shape, stages(b).layout.shape, fragment(acc)
    columns = range(right[1])[first_column(op) :][: sum_.shape[1]] if FIRST in op.attrs else range(right[1])
    require(left[1] == right[0] and sum_.shape == (left[0], len(columns)), "shapes do not fit", op)
    accum = I32 if stages(a).dtype == I8 else compute_dtype(stages(a).dtype, stages(a).policy)
    require(sum_.dtype == accum, "has another accumulator", op)
    require(stages(a).policy == stages(b).policy, "the operands have two policies", op)
    require([v.type for v in op.results] == [acc.type, MATRIX], "gives its accumulator and a token", op)
    matrix_unit_of(op)


def verify_wait_mma(op: Op) -> None:
    token, *sums = op.operands
    require(token.type == MATRIX and [v.type for v in sums] == [v.type for v in op.results], "gives accumulators", op)


def verify_for(op: Op) -> None:
    inits = [v.type for v in op.operands[2:]]
    require(isinstance(op.attrs.get("step"), int), "needs a step", op)
    lists = (op.body.args[1:], op.results, op.body.terminator.operands)
    require(all([v.type for v in values] == inits for values in lists), "carries what it starts with", op)


def verify_tree(op: Op) -> None:
    require([v.type for v in op.results] == [v.type for v in op.operands[1:]], "gives the type of its empty value", op)
    verify_combined(op)


def verify_running(op: Op) -> None:
    given = [a.type for a in op.regions[0].block.args[1:]]
    require(given == [v.type for v in op.operands[1:]], "each block takes what stands before it", op)
    verify_combined(op)


def verify_combined(op: Op) -> None:
    types = [v.type for v in op.operands[1:]]
    block, combine = (r.block for r in op.regions)
    require([a.type for a in combine.args] == [*types, *types], "combines two of its values", op)
    for body in (block, combine):
        require([v.type for v in body.terminator.operands] == types, "each region yields one value", op)
    require(isinstance(op.attrs.get("levels"), int), "needs a number of levels", op)


def verify_role(op: Op) -> None:
    for name in ("first", "warps", "registers"):
        require(isinstance(op.attrs.get(name), int), "needs {}", op, name)
    require(isinstance(op.attrs.get("name"), str), "needs a name", op)
    held = any(inner.name == "gpu.barrier" for inner in op.walk())
    require(not held, "has a barrier of the whole block, at which other warps never arrive", op)


def verify_dot(op: Op) -> None:
    *factors, acc = op.operands
    known = all(isinstance(v.type, TileType | FragmentType | StagesType) for v in factors)
    require(known, "multiplies staged blocks", op)
    require(fragment(acc) == op.result.type, "gives its accumulator", op)
    matrix_unit_of(op)


def verify_stage(op: Op) -> None:
    attr(op, "layout", SharedLayout)


def verify_put(op: Op) -> None:
    source, room = fragment(op.operands[0]), stages(op.operands[1])
    require(source.shape == room.layout.shape and source.dtype == room.dtype, "fills its stage", op)
    require(room.depth == 1, "has one slot", op)


def verify_sum_rows(op: Op) -> None:
    left, acc = op.operands[0].type, fragment(op.operands[1])
    shape = left.layout.shape if isinstance(left, StagesType) else fragment(op.operands[0]).shape
    columns = 1 if isinstance(left, StagesType) else SUM_COLUMNS
    require(acc == op.result.type and acc.shape == (shape[0], columns), "sums each row", op)
    matrix_unit_of(op)


def verify_multiply_held(op: Op) -> None:
    left, right, acc = fragment(op.operands[0]), stages(op.operands[1]).layout, fragment(op.operands[3])
    fits = left.shape[1] == right.shape[0] and acc.shape == (left.shape[0], right.shape[1])
    given = [v.type for v in op.operands[3:] if not isinstance(v.type, AxisType)]
    require(fits and [v.type for v in op.results] == [*given, MATRIX], "gives its accumulators and a token", op)
    matrix_unit_of(op)
