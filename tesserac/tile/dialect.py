"""Neutral Tile IR: what one program does with blocks of elements. No lanes, no registers, no threads, no barriers.

A `tile.kernel` has a grid of programs; its body is one of them. Its arguments are the program's position in the grid
(one index per grid axis), then the memory it works on. Sizes are values at run time; a block that reaches past the
end of a dim is cut there, and the cut travels as an `axis` value, so nothing after it needs a mask of its own.

    tile.kernel @name {grid, config} { ^(pid..., memref...): ... tile.return }
        grid = [`ceil_div(M, 128)`, ...] programs along each axis, the last varying fastest.
    tile.axis(start, stop) : axis<B>             the indices start .. min(start + B, stop)
    tile.load(mem, at...) {stage, groups, ends} : tile
                                                 one coordinate per dim of mem: an index drops it, an axis keeps it;
                                                 elements outside the axis are zero. `stage` asks for a copy nearer to
                                                 the computing unit, in the layout that its consumer wants. With
                                                 `groups`, a coordinate counts through so many dims, the last fastest.
                                                 `ends`: memory behind the axis has numbers that are not meant
    tile.gather(mem, at..., status?) {maps, bounds} : tile
                                                 as a load, and a coordinate may be a tile of integers; `maps[i]` are
                                                 the dims of the result that coordinate i follows. An integer out of
                                                 range is written to `status`, one i64 per such tile, and reads zero;
                                                 `bounds` as of form.gather
    tile.store(tile, mem, at...) {apart}         elements outside the axes are not written; several stores into scratch
                                                 that are `apart` never write one place twice before it is read
    tile.scatter(tile, mem, at..., there?, status?) {bounds, kind}
                                                 as a store, and a coordinate may be one integer, a tile without dims;
                                                 `kind` as of form.scatter; no write if `there` is false
    tile.alloc() {exchanged} : memref            local scratch; `exchanged`: not read where it is written
    tile.view(mem) : memref<..., local>          the same scratch under other dims and strides
    tile.full() {value} : tile                   the same element everywhere
    tile.iota(axis) : tile                       the indices of an axis
    tile.map(tile...) {maps} { body }            as form.map, on blocks
    tile.cast(tile) : tile                       rounds once to the element type of the result, under its policy
    tile.reduce(tile, axis...) {kind, axes, order} : tile
                                                 folds dims of at most one reduction block, skipping what lies outside
                                                 the axes given for those dims; the result has the accumulation type
    tile.scan(tile, axis) {kind, dim} : tile, tile
                                                 running folds along a dim of at most one block, ascending from the
                                                 identity, and the last of them; both have the accumulation type
    tile.index(tile) : index                     one integer, a tile without dims, as an index
    tile.sort(mem, at..., out, at...) {dims, descending, below, elements}
                                                 the order of a whole row of `mem` along its dim `dims[0]`, as form.sort
                                                 has it, written to `out` along `dims[1]`; both from the coordinates on
    tile.sort_run(mem, at..., runs, at..., room, at..., first, behind) {dim, descending, elements}
                                                 puts the part of a row from `first` to before `behind` in order, as
                                                 entries of `runs` at the same places
    tile.merge_runs(out, at..., runs, at..., room, at..., room, at..., first, behind, length) {dim, sorts, ...}
                                                 the part of tile.sort's result from `first` to before `behind`, of runs
                                                 of so many entries each; `sorts` is the type of what is sorted
    tile.fold_at(rows, at..., x, at..., (index, at...)..., first, behind, status?) {kind, bounds, along, columns}
                                                 folds rows into x at the places that indices say, as form.scatter has
                                                 it. The last dims of x, one per index, have no coordinate. `along` are
                                                 the dims of `rows` and of each index that count rows, from 0 on;
                                                 `columns` those of `rows` and x whose coordinate is an axis, if any.
                                                 Places are counted in row-major order: those from `first` to before
                                                 `behind` are meant, and rows for others are left out
    tile.dot(a, b, acc) : tile                   continues acc's chain over ascending k; one of i8 is summed in i32
    tile.for(low, high, init...) {step} { ^(i, carried...): ... tile.yield }
    tile.tree(n, empty...) { ^(i): ... tile.yield } { ^(left..., right...): ... tile.yield }
                                                 n blocks combined by the aligned tree; `empty` if n is 0
    tile.running(n, empty...) { ^(i, before...): ... tile.yield } { ^(left..., right...): ... tile.yield }
                                                 n blocks in order; each is given the aligned tree over what the blocks
                                                 before it yielded, `empty` the first one
    tile.launch(memref...) {kernel, touched, division, lengths, follows}
                                                 in the host program: runs all programs of a kernel, which read and
                                                 write about `touched` elements; all of the memory, if it does not say.
                                                 With a `division` it gives the kernel the size of a product's blocks;
                                                 with `lengths` it runs the kernel for several tensors, each with memory
                                                 of its own, and `tensor.length` is its length. Such a kernel has the
                                                 attribute `tensors`, their number. One that `follows` the launch
                                                 before may run in turn with it, program by program: of the memory
                                                 between, a program reads what the same one wrote, so many elements
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.attributes import register_attribute
from tesserac.ir.core import Op, Value, attr_tuple, define_op, tuple_of
from tesserac.ir.forms import ORDERED_KINDS, REDUCE_KINDS, indices, operand_maps
from tesserac.ir.indexed import BOUNDS, gives_elements
from tesserac.ir.types import AxisType, IndexType, MemRefType, ScalarType, TileType
from tesserac.ir.verify import require
from tesserac.numerics.order import Blocks, Free
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import BOOL, I8, I32, I64
from tesserac.types.policy import NO_POLICY, compute_dtype


@dataclass(frozen=True)
class Stage:
    """Where and how a loaded block is kept. `layout` is `panels` (what the target's matrix product reads) or `rows`;
    `depth` is the number of copies in flight."""

    layout: str
    depth: int


@dataclass(frozen=True)
class Config:
    """What Schedule decided about the units that run a program. `warps` is 1 where the target has no warps; `roles` is
    `uniform`, or `producer_consumer` where some warps only move data."""

    warps: int
    roles: str


TENSORS = "tensors"
"""The attribute of a kernel that is launched for several tensors at once: how many."""
CODE, LIKE, GIVEN, SYMBOLS = "code", "like", "given", "symbols"
"""The attributes of a kernel whose code is that of another, which many programs have or only this one: the name of
that, and what its sizes are here; and of that other, what these are called."""
BUFFERS = "buffers"
"""The attribute of a kernel some of whose memories are one buffer, seen in several ways: the number of each one's."""
APART = "apart"
ENDS = "ends"
"""The attribute of a load: behind the axis of this dim memory goes on, and its zeros stand for other numbers."""
EXCHANGED = "exchanged"
RESIDENT = "resident"
"""The attribute of a kernel that says how many of its programs a multiprocessor should hold at once: it has so many
registers less."""

register_attribute("stage", Stage)
register_attribute("config", Config)


def tile_type(value: Value) -> TileType:
    assert isinstance(value.type, TileType), f"expected a tile, not {value.type}"
    return value.type


def memref_type(value: Value) -> MemRefType:
    assert isinstance(value.type, MemRefType), f"expected memory, not {value.type}"
    return value.type


def compute_scalar(tile: TileType) -> ScalarType:
    return ScalarType(compute_dtype(tile.dtype, tile.policy))


def grid(kernel: Op) -> tuple[Dim, ...]:
    return attr_tuple(kernel, "grid", Dim)


def kernel_tensors(kernel: Op) -> int:
    """For how many tensors a launch runs the kernel; 0 for one without the attribute."""
    found = kernel.attrs.get(TENSORS, 0)
    assert isinstance(found, int)
    return found


def kernel_memrefs(kernel: Op) -> list[Value]:
    """The kernel's arguments behind the program's position."""
    return kernel.body.args[len(grid(kernel)) :]


def _verify_kernel(op: Op) -> None:
    pids, memrefs = op.body.args[: len(grid(op))], kernel_memrefs(op)
    require(isinstance(op.attrs.get("config"), Config), "needs a config", op)
    require(all(isinstance(v.type, IndexType) for v in pids), "takes one index per grid axis", op)
    require(all(isinstance(v.type, MemRefType) for v in memrefs), "takes memory", op)


def _verify_axis(op: Op) -> None:
    require(len(op.operands) == 2, "takes start and stop", op)
    require(isinstance(op.result.type, AxisType), "gives an axis", op)


def _verify_access(op: Op, memory: Value, at: tuple[Value, ...], tile: TileType) -> None:
    mem = memref_type(memory)
    require(len(at) == len(load_groups(op) or mem.dims), "needs one coordinate per dim, or per group of them", op)
    require(sum(load_groups(op) or (len(mem.dims),)) == len(mem.dims), "its groups are all dims", op)
    blocks = tuple(v.type.block for v in at if isinstance(v.type, AxisType))
    require(tile.shape == blocks, "the block has shape {}, its axes {}", op, tile.shape, blocks)
    same = tile.dtype == mem.dtype and tile.policy == mem.policy
    require(same, "the block is {}, the memory {}: element type and policy must agree", op, tile, mem)


def load_groups(load: Op) -> tuple[int, ...]:
    """The dims of memory that each coordinate walks as one index; none where each walks one."""
    return tuple_of(load.attrs.get("groups", ()), int)


def _verify_load(op: Op) -> None:
    _verify_access(op, op.operands[0], op.operands[1:], tile_type(op.result))
    require(isinstance(op.attrs.get("stage"), Stage | None), "stage must be a stage", op)


def _verify_gather(op: Op) -> None:
    mem, result, maps = memref_type(op.operands[0]), tile_type(op.result), operand_maps(op)
    at, status = gather_operands(op)
    require(len(maps) == len(at) == len(mem.dims), "needs one coordinate and one map per dim", op)
    require((result.dtype, result.policy) == (mem.dtype, mem.policy), "changes the element type", op)
    computed = 0
    for value, places in zip(at, maps, strict=True):
        ty = value.type
        computed += isinstance(ty, TileType)
        shape = ty.shape if isinstance(ty, TileType) else (ty.block,) if isinstance(ty, AxisType) else ()
        require(len(places) == len(shape), "a map has another rank than its coordinate", op)
        fits = all(n == (1 if p is None else result.shape[p]) for n, p in zip(shape, places, strict=True))
        require(fits, "a coordinate does not fit the result {}", op, result)
    require(op.attrs.get("bounds") in BOUNDS, "has one of the bounds {}", op, BOUNDS)
    require((status is None) == (op.attrs["bounds"] == "known"), "tells of what it checks", op)
    require(status is None or memref_type(status).dims == (Dim.const(computed),), "needs a status per index", op)


def _verify_scatter(op: Op) -> None:
    tile, mem = tile_type(op.operands[0]), memref_type(op.operands[1])
    at, there, status = scatter_operands(op)
    require(len(at) == len(mem.dims), "needs one coordinate per dim", op)
    blocks = tuple(v.type.block for v in at if isinstance(v.type, AxisType))
    require(tile.shape == blocks, "the block has shape {}, its axes {}", op, tile.shape, blocks)
    require((tile.dtype, tile.policy) == (mem.dtype, mem.policy), "changes the element type", op)
    computed = [v.type.shape for v in at if isinstance(v.type, TileType)]
    require(all(shape == () for shape in computed), "an index is one integer", op)
    require(op.attrs.get("bounds") in BOUNDS, "has one of the bounds {}", op, BOUNDS)
    require(there is None or tile_type(there) == TileType((), BOOL), "is one bool, whether it is there", op)
    require(status is None or memref_type(status).dims == (Dim.const(len(computed)),), "needs a status per index", op)


def scatter_operands(op: Op) -> tuple[tuple[Value, ...], Value | None, Value | None]:
    """The coordinates of a scatter, whether there is something to write, and where it reports bad ones."""
    first = 2 + len(memref_type(op.operands[1]).dims)
    there = [v for v in op.operands[first:] if isinstance(v.type, TileType)]
    status = op.operands[first + len(there) :]
    return op.operands[2:first], there[0] if there else None, status[0] if status else None


def gather_operands(op: Op) -> tuple[tuple[Value, ...], Value | None]:
    """The coordinates of a gather, and where it reports bad ones."""
    first = 1 + len(memref_type(op.operands[0]).dims)
    return op.operands[1:first], op.operands[first] if len(op.operands) > first else None


def _verify_store(op: Op) -> None:
    _verify_access(op, op.operands[1], op.operands[2:], tile_type(op.operands[0]))


def _verify_alloc(op: Op) -> None:
    require(memref_type(op.result).space == "local", "scratch is local memory", op)


def _verify_view(op: Op) -> None:
    seen, mem = memref_type(op.result), memref_type(op.operands[0])
    require(seen.space == mem.space == "local" and seen.dtype == mem.dtype, "sees scratch as it is", op)


def _verify_full(op: Op) -> None:
    tile_type(op.result)
    require(isinstance(op.attrs.get("value"), int | float | bool), "needs a value", op)


def _verify_iota(op: Op) -> None:
    axis = op.operands[0].type
    require(isinstance(axis, AxisType) and tile_type(op.result).shape == (axis.block,), "one index each", op)


def _verify_map(op: Op) -> None:
    result, maps = tile_type(op.result), operand_maps(op)
    require(len(maps) == len(op.operands), "needs one index map per operand", op)
    for value, dim_map in zip(op.operands, maps, strict=True):
        shape = tile_type(value).shape
        require(len(shape) == len(dim_map), "an index map has another rank than its operand", op)
        for size, place in zip(shape, dim_map, strict=True):
            fits = size == 1 if place is None else size == result.shape[place]
            require(fits, "a block dim of {} does not fit the result {}", op, size, result)
    expected = [compute_scalar(tile_type(v)) for v in op.operands]
    require([a.type for a in op.body.args] == expected, "its body must take {}", op, expected)
    (yielded,) = op.body.terminator.operands
    require(yielded.type == compute_scalar(result), "its body must yield {}", op, compute_scalar(result))


def _verify_cast(op: Op) -> None:
    source, result = tile_type(op.operands[0]), tile_type(op.result)
    require(source.shape == result.shape, "keeps the shape", op)


def _verify_reduce(op: Op) -> None:
    source, result, axes = tile_type(op.operands[0]), tile_type(op.result), indices(op, "axes")
    kind, order = op.attrs.get("kind"), op.attrs.get("order")
    require(kind in REDUCE_KINDS, "unknown kind {}", op, kind)
    require(len(op.operands) == 1 + len(axes), "needs one axis value per folded dim", op)
    kept = tuple(n for i, n in enumerate(source.shape) if i not in axes)
    accum = TileType(kept, compute_dtype(source.dtype, source.policy), NO_POLICY)
    require(result == accum, "must give {}", op, accum)
    if kind in ORDERED_KINDS:
        require(isinstance(order, Blocks | Free), "needs an order", op)
    if kind in ORDERED_KINDS and isinstance(order, Blocks):
        count = 1
        for axis in axes:
            count *= source.shape[axis]
        require(count <= order.block, "folds {} elements; a block has {}", op, count, order.block)


def _verify_scan(op: Op) -> None:
    source, dim = tile_type(op.operands[0]), op.attrs.get("dim")
    require(op.attrs.get("kind") in REDUCE_KINDS, "unknown kind {}", op, op.attrs.get("kind"))
    require(isinstance(dim, int) and 0 <= dim < len(source.shape), "needs a dim", op)
    assert isinstance(dim, int)
    require(len(op.operands) == 2 and isinstance(op.operands[1].type, AxisType), "needs the axis of the dim", op)
    accum = compute_dtype(source.dtype, source.policy)
    kept = (*source.shape[:dim], *source.shape[dim + 1 :])
    expected = [TileType(source.shape, accum), TileType(kept, accum)]
    require([v.type for v in op.results] == expected, "must give {}", op, expected)


def _verify_index(op: Op) -> None:
    require(tile_type(op.operands[0]) == TileType((), I64), "takes one i64", op)
    require(isinstance(op.result.type, IndexType), "gives an index", op)


def sort_operands(op: Op) -> tuple[Value, tuple[Value, ...], Value, tuple[Value, ...]]:
    """The memory that is sorted and where its row begins, and the same of where places or elements go."""
    rank = len(memref_type(op.operands[0]).dims)
    mem, out = op.operands[0], op.operands[1 + rank]
    return mem, op.operands[1 : 1 + rank], out, op.operands[2 + rank :]


def _verify_sort(op: Op) -> None:
    mem, at, out, to = sort_operands(op)
    source, target = memref_type(mem), memref_type(out)
    require(len(to) == len(target.dims), "needs one coordinate per dim", op)
    require(all(isinstance(v.type, IndexType) for v in (*at, *to)), "takes indices", op)
    expected = source.dtype if gives_elements(op) else I64
    require(target.dtype == expected, "gives places as i64, or elements as they are", op)
    dims = indices(op, "dims")
    require(len(dims) == 2 and source.dims[dims[0]] == target.dims[dims[1]], "sorts one dim into an equal one", op)
    require(isinstance(op.attrs.get("below", ZERO), Dim), "is bounded by a dim", op)


def memory_operands(op: Op) -> tuple[list[tuple[Value, ...]], list[Value]]:
    """Each memory with its coordinates, and the operands behind all of them."""
    values, found = list(op.operands), list[tuple[Value, ...]]()
    while isinstance(values[0].type, MemRefType):
        found.append(tuple(values.pop(0) for _ in range(1 + len(memref_type(values[0]).dims))))
    return found, values


def _verify_runs(op: Op) -> None:
    memories, rest = memory_operands(op)
    require(len(memories) == len(rest) + 1 == (4 if op.name == "tile.merge_runs" else 3), "has other operands", op)
    ranged = all(isinstance(value.type, IndexType) for value in rest)
    require(ranged and isinstance(op.attrs.get("dim"), int), "takes a range of indices along a dim", op)


@dataclass(frozen=True)
class FoldAt:
    """The operands of a fold into places: memory with its coordinates, the range of places, and what stands behind."""

    rows: tuple[Value, ...]
    target: tuple[Value, ...]
    places: tuple[tuple[Value, ...], ...]
    first: Value
    behind: Value
    rest: tuple[Value, ...]


def fold_operands(op: Op) -> FoldAt:
    """Memory and coordinates of what is folded, of what it is folded into, and of the indices."""
    values, count = list(op.operands), len(indices(op, "along")) - 1

    def taken(computed: int = 0) -> tuple[Value, ...]:
        rank = len(memref_type(values[0]).dims) - computed
        return tuple(values.pop(0) for _ in range(1 + rank))

    rows, target = taken(), taken(count)
    places = tuple(taken() for _ in range(count))
    first, behind, *rest = values
    return FoldAt(rows, target, places, first, behind, tuple(rest))


def _verify_fold_at(op: Op) -> None:
    kind, bounds, columns = op.attrs.get("kind"), op.attrs.get("bounds"), indices(op, "columns")
    require(kind in REDUCE_KINDS and bounds in BOUNDS, "has a kind of fold and bounds", op)
    found = fold_operands(op)
    for values, number in ((found.rows, 0), (found.target, 1)):
        axes = [i for i, v in enumerate(values[1:]) if not isinstance(v.type, IndexType)]
        require(axes == list(columns[number : number + 1]), "its columns alone are an axis", op)
    for place in found.places:
        require(memref_type(place[0]).dtype.is_integer, "takes integers as places", op)
        require(all(isinstance(v.type, IndexType) for v in place[1:]), "takes indices", op)
    require(all(isinstance(v.type, IndexType) for v in (found.first, found.behind)), "has a range of places", op)


def _verify_dot(op: Op) -> None:
    a, b, acc = (tile_type(v) for v in op.operands)
    accum = I32 if a.dtype == b.dtype == I8 else compute_dtype(a.dtype, a.policy)
    require(a.dtype != b.dtype or a.policy == b.policy, "the operands have two policies", op)
    require(accum in (I32, compute_dtype(b.dtype, b.policy)), "the operands are computed in two types", op)
    require(acc == tile_type(op.result) and acc.dtype == accum, "must accumulate in {}", op, accum.name)
    shapes = (len(a.shape), len(b.shape)) == (2, 2) and a.shape[1] == b.shape[0]
    require(shapes and acc.shape == (a.shape[0], b.shape[1]), "shapes do not fit", op)


def _verify_for(op: Op) -> None:
    inits = [v.type for v in op.operands[2:]]
    require(isinstance(op.attrs.get("step"), int), "needs a step", op)
    require([a.type for a in op.body.args[1:]] == inits, "its body must take the carried values", op)
    require([v.type for v in op.results] == inits, "gives what it carries", op)
    require([v.type for v in op.body.terminator.operands] == inits, "must yield what it carries", op)


def _verify_tree(op: Op) -> None:
    types = [v.type for v in op.operands[1:]]
    block, combine = (r.block for r in op.regions)
    require([v.type for v in op.results] == types, "gives the type of its empty value", op)
    require([a.type for a in combine.args] == [*types, *types], "combines two of its values", op)
    for body in (block, combine):
        require([v.type for v in body.terminator.operands] == types, "each region yields one value", op)


def _verify_running(op: Op) -> None:
    types = [v.type for v in op.operands[1:]]
    block, combine = (r.block for r in op.regions)
    require([a.type for a in block.args[1:]] == types, "each block takes what stands before it", op)
    require([a.type for a in combine.args] == [*types, *types], "combines two of its values", op)
    for body in (block, combine):
        require([v.type for v in body.terminator.operands] == types, "each region yields one value", op)


def _verify_launch(op: Op) -> None:
    require(isinstance(op.attrs.get("touched", ZERO), Dim), "touches a number of elements", op)
    require(isinstance(op.attrs.get("kernel"), str), "needs a kernel", op)
    require(all(isinstance(v.type, MemRefType) for v in op.operands), "passes memory", op)


define_op("tile.kernel", pure=False, verify=_verify_kernel)
define_op("tile.return", pure=False, terminator=True)
define_op("tile.axis", pure=True, verify=_verify_axis)
define_op("tile.load", pure=False, verify=_verify_load)
define_op("tile.gather", pure=False, verify=_verify_gather)
define_op("tile.store", pure=False, verify=_verify_store)
define_op("tile.scatter", pure=False, verify=_verify_scatter)
define_op("tile.alloc", pure=False, verify=_verify_alloc)
define_op("tile.view", pure=True, verify=_verify_view)
define_op("tile.full", pure=True, verify=_verify_full)
define_op("tile.iota", pure=True, verify=_verify_iota)
define_op("tile.map", pure=True, verify=_verify_map)
define_op("tile.cast", pure=True, verify=_verify_cast)
define_op("tile.reduce", pure=True, verify=_verify_reduce)
define_op("tile.scan", pure=True, verify=_verify_scan)
define_op("tile.index", pure=True, verify=_verify_index)
define_op("tile.sort", pure=False, verify=_verify_sort)
define_op("tile.sort_run", pure=False, verify=_verify_runs)
define_op("tile.merge_runs", pure=False, verify=_verify_runs)
define_op("tile.fold_at", pure=False, verify=_verify_fold_at)
define_op("tile.dot", pure=True, verify=_verify_dot)
define_op("tile.for", pure=False, verify=_verify_for)
define_op("tile.tree", pure=False, verify=_verify_tree)
define_op("tile.running", pure=False, verify=_verify_running)
define_op("tile.yield", pure=False, terminator=True)
define_op("tile.launch", pure=False, verify=_verify_launch)
