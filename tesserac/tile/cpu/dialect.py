"""The CPU dialect: one program as loops over elements and register blocks. Written by `lower.py`, read by target/cpu.

Tiles are gone. What was a tile is either computed where it is used, a scalar, or scratch memory. Loop bodies are
scalar: a body says what happens to one element, and the loop around it says how many are taken at a time. All values
are in the computing type; `cpu.load` widens and `cpu.store` rounds to the element type of the memory.

    cpu.kernel @name {grid, symbols, scratch, target} { ^(pid..., memref...): ... cpu.return }
        `symbols`: the dims whose run-time values the kernel is called with, sorted; `scratch`: bytes per worker.
    cpu.scratch() {offset} : memref<..., local>        a part of the worker's scratch
    cpu.loop(low, high, init...) {step} { ^(i, carried...): ... cpu.yield }
    cpu.when(left, right) {test} { ^(): ... cpu.yield }           runs its region where left `test` right
    cpu.vector_loop(low, high) {shape} { ^(i): ... cpu.yield }
        Every element from low to high in any order, `shape.parts` vectors of `shape.lanes` at a time; the rest singly.
    cpu.fold(low, high) {shape, kinds, order} { ^(i): ... cpu.yield(x...) } : scalar...
        As vector_loop, and folds the yielded values: a sum or product in the order of one block, a maximum in any.
    cpu.tree(n, empty...) { ^(i): ... cpu.yield(x...) } { ^(level, left..., right...): ... cpu.yield } { ^(level): ... }
        Combines n blocks by the aligned tree with a binary counter. The first region computes block i; the second
        combines what the counter holds at `level` with the newer value; the third puts the value into that level.
        Scalars travel as values; tiles stay in memory, which the regions read and write.
    cpu.running(n, empty...) { ^(i, before...): ... cpu.yield(x...) } { ^(level, left..., right...): ... cpu.yield }
                             { ^(level): ... } { ^(): ... } { ^(level, left..., right...): ... cpu.yield }
        As tile.running, with the counter of cpu.tree. The first three regions are as there. The others are for what
        stands before a block: to begin it as `empty`, and to put what the counter holds at `level` in front of it.
    cpu.row_product(a, at..., b, at..., c, rows, columns, depth, done) {left, right}
        c[i, j] continues its chain with a[i, k] * b[k, j] for ascending k, from +0 where `done` is 0. Both operands lie
        as they are, from the places given: `left` are the dims of i and k, `right` those of k and j, which is
        contiguous. Each row of b is read once.
    cpu.window_product(a, at..., b, at..., c, terms, items, factors?, rows, depth, columns, done) {rows, left, right}
        As cpu.row_product, of so many rows at most, where a coordinate of a and b counts through a group of dims, as of
        cpu.pack_groups; the last two are i and k, and k and j. `terms` and `factors` are tables for places along k,
        `items` one for columns that are vectors. Without `factors`, a stands in panels of 8 rows, in no place.
    cpu.load(mem, at...) : scalar        cpu.store(x, mem, at...)        cpu.position(i) : scalar<i64>
    cpu.index(x) : index                 an integer that the data has, as an index
    cpu.gather(mem, at..., status?) {wraps} : scalar
        As a load, and a coordinate may be a scalar<i64>; one out of range is put into its word of `status`, and the
        element counts as zero. `wraps`: a negative one counts from the end.
    cpu.scatter(x, mem, at..., status?) {wraps, kind}
        As a store, with coordinates as of cpu.gather; an element that has no place is not written. `kind` as of
        form.scatter.
    cpu.sort(mem, at..., out, at..., pairs, spare, counts) {dims, descending}
        As tile.sort. A radix sort, stable: pairs of key and place move between `pairs` and `spare`, digit by digit;
        `counts` holds how often each value of each digit occurs.
    cpu.fold_few(rows, at..., x, at..., (index, at...)..., first, behind, entries, log, folds, buffers, own, status?)
            {kind, bounds, along, columns}
        As tile.fold_at of elements for a few places, in one pass. `own` lists the rows of a range, a block at a time.
    cpu.fold_at(rows, at..., x, at..., (index, at...)..., first, behind, count, pairs, spare, counts, slots, status?)
            {kind, bounds, along, columns}
        As tile.fold_at, for `count` columns and all places. Rows are put in the order of these: by the `counts` of all,
        or of the digits of their numbers, in `pairs` and `spare`. `slots` hold folds of subtrees.
    cpu.pack(panels, k0, c0, depth, count, total) {width, across, shorten} { ^(k, c): ... cpu.yield(x) }
        Element (k, c) of a depth x count block goes to row k0 + k, column c0 + c of `panels`, whose columns are stored
        in blocks of `width`, a block whole. Columns from `total` to the end of the last block become zero, or what the
        last one is: nobody reads what is computed with them. `across`: the source is contiguous along k, so vectors run
        along k and are transposed on the way. `shorten`: to the significant bits that a tf32 product reads.
    cpu.pack_groups(panels, rows, columns, mem, at..., depth, count) {width, groups, transposed, does}
        As cpu.pack, into panels from their start, of a block of `mem` of which coordinate i counts through `groups[i]`
        dims, the last fastest; the last two are row and column of the panels, or column and row if `transposed`.
        `rows` and `columns` are tables for places. Columns behind `count` hold what the last one does.
        `does`: "list" only lists the places of rows, "pack" has them listed already, "both" does both.
    cpu.turn(mem, rows, columns) { ^(r, c): ... cpu.yield(x) }
        mem[r, c] = x for all r below `rows` and c below `columns`. What is read is contiguous along r: vectors run
        along r and are transposed on the way.
    cpu.chains(mem, totals, count) {kind}
        mem[r, i] = mem[r, 0] + ... + mem[r, i] for i below `count`, ascending from the empty fold, in each of the eight
        rows of scratch, of which the last is totals[r]. Squares are transposed on the way: a vector takes all rows on.
    cpu.panel_sum(a, i, c, row, depth, done) {width}
        The rows of block i of panels `a`, `width` of them, each summed over `depth` ascending steps into c[row.., 0].
        Continues what stands there, or starts from +0 where `done` is 0: a product with ones.
    cpu.pack_tiles(tiles, row, column, depth, count) {left, across} { ^(k, c): ... cpu.yield(value) }
        A block of `depth` terms and `count` columns into tiles of a matrix unit, from (row, column) on, which is the
        corner of a tile: 16 columns and as many terms as 64 bytes hold. `left`: a tile has the terms of a column side
        by side; else as many columns as there are, for each 4 bytes of terms. What is missing of the terms is zero.
        `across`: memory is contiguous along the terms.
    cpu.tile_product(a, b, k, j, c, rows, columns, depth, done) {dtype}
        All of a program's block: tiles `a` times tiles `b` from (k, j) on, into c, in pairs of tiles. Continues what
        stands there, or starts from +0 where `done` is 0. The order is that of the unit (`numerics/tiles.py`).
    cpu.micro_kernel(a, i, b, j, k, c, row, column, depth, done, rows) {micro, accum}
        One register block: block i of panels `a` times block j of panels `b` from its row k on, over `depth` ascending
        steps, into c[row.., column..]. Continues what stands there, or starts from +0 where `done` is 0. Each step
        rounds to `accum`. Of c only `rows` are wanted: others may be left as they are.
    cpu.finished_block(a, i, b, j, k, c, depth, rows, columns, memory, at...) {micro, accum}
        The same from +0, plus +0, into memory from `at` on; by way of c where `rows` and `columns` do not fill it.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.attributes import register_attribute
from tesserac.ir.core import Op, Value, define_op, tuple_of
from tesserac.ir.forms import ORDERED_KINDS, REDUCE_KINDS
from tesserac.ir.types import INDEX, MemRefType, ScalarType
from tesserac.ir.verify import require
from tesserac.numerics.order import Blocks, Free
from tesserac.tile.cpu.target import TARGETS, Micro
from tesserac.types.dims import Dim
from tesserac.types.dtype import I64, DType
from tesserac.types.policy import compute_dtype

TESTS = ("lt", "ge")
CHAINS = 8
"""Running folds side by side: as many as hide how long an addition takes, and as a register holds."""


@dataclass(frozen=True)
class Shape:
    """How many elements a vector loop takes at a time: `parts` independent vectors of `lanes`."""

    lanes: int
    parts: int


register_attribute("shape", Shape)


def compute_type(memory: MemRefType) -> ScalarType:
    """The type in which an element of the memory takes part in computation."""
    return ScalarType(compute_dtype(memory.dtype, memory.policy))


def _indices(op: Op, first: int, count: int | None = None) -> None:
    values = op.operands[first:] if count is None else op.operands[first : first + count]
    require(all(v.type == INDEX for v in values), "takes indices", op)
    require(count is None or len(values) == count, "takes {} indices", op, count)


def _verify_kernel(op: Op) -> None:
    symbols, scratch = op.attrs.get("symbols"), op.attrs.get("scratch")
    require(isinstance(symbols, tuple) and list(symbols) == sorted(map(str, symbols)), "sorted symbols", op)
    require(isinstance(scratch, Dim), "needs the bytes of its scratch", op)
    require(op.attrs.get("target") in TARGETS, "needs a known target", op)


def _verify_scratch(op: Op) -> None:
    local = isinstance(op.result.type, MemRefType) and op.result.type.space == "local"
    require(local and isinstance(op.attrs.get("offset"), Dim), "gives local memory at an offset", op)


def _verify_loop(op: Op) -> None:
    _indices(op, 0, 2)
    types = [v.type for v in op.operands[2:]]
    require(isinstance(op.attrs.get("step"), int), "needs a step", op)
    require([a.type for a in op.body.args] == [INDEX, *types], "its body takes a counter and what is carried", op)
    require([v.type for v in op.body.terminator.operands] == types, "must yield what it carries", op)
    require([v.type for v in op.results] == types, "gives what it carries", op)


def _verify_when(op: Op) -> None:
    _indices(op, 0, 2)
    require(op.attrs.get("test") in TESTS and not op.results, "compares two indices and gives nothing", op)


def _verify_vector_loop(op: Op) -> None:
    _indices(op, 0, 2)
    require(isinstance(op.attrs.get("shape"), Shape), "needs a shape", op)
    require([a.type for a in op.body.args] == [INDEX] and not op.results, "counts and gives nothing", op)


def _verify_fold(op: Op) -> None:
    _indices(op, 0, 2)
    kinds, shape, order = op.attrs.get("kinds"), op.attrs.get("shape"), op.attrs.get("order")
    require(isinstance(kinds, tuple) and all(k in REDUCE_KINDS for k in kinds), "needs known kinds", op)
    assert isinstance(kinds, tuple)
    require(isinstance(shape, Shape), "needs a shape", op)
    if any(k in ORDERED_KINDS for k in kinds):
        require(isinstance(order, Blocks | Free), "needs an order", op)
    yielded = [v.type for v in op.body.terminator.operands]
    require(yielded == [v.type for v in op.results] and len(kinds) == len(yielded), "one kind per result", op)


def _verify_tree(op: Op) -> None:
    types = [v.type for v in op.operands[1:]]
    block, combine, keep = (r.block for r in op.regions)
    require([a.type for a in block.args] == [INDEX], "its first region takes a counter", op)
    require([a.type for a in combine.args] == [INDEX, *types, *types], "combines two of its values", op)
    require([a.type for a in keep.args] == [INDEX], "its last region takes a level", op)
    for body in (block, combine):
        require([v.type for v in body.terminator.operands] == types, "a region must yield its values", op)


def _verify_running(op: Op) -> None:
    types = [v.type for v in op.operands[1:]]
    block, combine, keep, begin, precede = (r.block for r in op.regions)
    require([a.type for a in block.args] == [INDEX, *types], "its first region takes a counter and what is before", op)
    require([a.type for a in keep.args] == [INDEX] and not begin.args, "puts a value into a level, and begins one", op)
    for body in (combine, precede):
        require([a.type for a in body.args] == [INDEX, *types, *types], "combines two of its values", op)
    for body in (block, combine, precede):
        require([v.type for v in body.terminator.operands] == types, "a region must yield its values", op)


def row_product_operands(op: Op) -> tuple[Value, list[Value], Value, list[Value], Value, list[Value]]:
    """Both operands with where they start, the sums, and the sizes."""
    values = list(op.operands)
    left = values.pop(0)
    starts = [values.pop(0) for _ in _dims(left)]
    right = values.pop(0)
    others = [values.pop(0) for _ in _dims(right)]
    return left, starts, right, others, values[0], values[1:]


def _dims(value: Value) -> tuple[Dim, ...]:
    assert isinstance(value.type, MemRefType)
    return value.type.dims


def _verify_row_product(op: Op) -> None:
    _, starts, right, others, sums, sizes = row_product_operands(op)
    require(all(v.type == INDEX for v in (*starts, *others, *sizes)) and len(sizes) == 4, "takes indices", op)
    for name in ("left", "right"):
        dims = op.attrs.get(name)
        require(isinstance(dims, tuple) and len(dims) == 2, "has blocks of two dims", op)
    require(isinstance(right.type, MemRefType) and right.type.layout == "strided", "reads memory as it lies", op)
    require(isinstance(sums.type, MemRefType) and sums.type.space == "local", "adds to scratch", op)


def window_product_operands(op: Op) -> tuple[Value, list[Value], Value, list[Value], list[Value], list[Value]]:
    """Both operands with where they start; sums and tables; the sizes."""
    values, found = list(op.operands), list[tuple[Value, list[Value]]]()
    for name in ("left", "right"):
        memory = values.pop(0)
        found.append((memory, [values.pop(0) for _ in tuple_of(op.attrs.get(name), int)]))
    return *found[0], *found[1], values[:-4], values[-4:]


def _verify_window_product(op: Op) -> None:
    left, starts, right, others, memories, sizes = window_product_operands(op)
    require(all(v.type == INDEX for v in (*starts, *others, *sizes)) and len(sizes) == 4, "takes indices", op)
    require(isinstance(op.attrs.get("rows"), int), "has so many rows", op)
    packed = isinstance(left.type, MemRefType) and left.type.layout == "panels"
    require(len(memories) == (3 if packed else 4), "adds to scratch, by tables", op)
    for name, value in (("right", right),) if packed else (("left", left), ("right", right)):
        require(len(_dims(value)) == sum(tuple_of(op.attrs.get(name), int)), "its groups are all dims", op)
    local = all(isinstance(m.type, MemRefType) and m.type.space == "local" for m in memories)
    require(local, "adds to scratch, by tables", op)


def _verify_access(op: Op, memory: object, places: int) -> None:
    require(isinstance(memory, MemRefType) and memory.layout == "strided", "reads and writes strided memory", op)
    assert isinstance(memory, MemRefType)
    require(len(memory.dims) == places, "needs one index per dim", op)


def _verify_load(op: Op) -> None:
    memory = op.operands[0].type
    _verify_access(op, memory, len(op.operands) - 1)
    assert isinstance(memory, MemRefType)
    _indices(op, 1)
    require(op.result.type == compute_type(memory), "gives {}", op, compute_type(memory))


def gather_coordinates(op: Op) -> tuple[tuple[Value, ...], Value | None]:
    """The coordinates of a gather, and where it tells of bad ones."""
    memory = op.operands[0].type
    assert isinstance(memory, MemRefType)
    rest = op.operands[1 + len(memory.dims) :]
    return op.operands[1 : 1 + len(memory.dims)], rest[0] if rest else None


def _verify_gather(op: Op) -> None:
    memory = op.operands[0].type
    at, _ = gather_coordinates(op)
    _verify_access(op, memory, len(at))
    assert isinstance(memory, MemRefType)
    require(isinstance(op.attrs.get("wraps"), bool), "says whether indices wrap", op)
    require(all(v.type in (INDEX, ScalarType(I64)) for v in at), "takes indices and integers of 64 bits", op)
    require(op.result.type == compute_type(memory), "gives {}", op, compute_type(memory))


def scatter_coordinates(op: Op) -> tuple[tuple[Value, ...], Value | None]:
    """The coordinates of a scatter, and where it tells of bad ones."""
    memory = op.operands[1].type
    assert isinstance(memory, MemRefType)
    rest = op.operands[2 + len(memory.dims) :]
    return op.operands[2 : 2 + len(memory.dims)], rest[0] if rest else None


def _verify_scatter(op: Op) -> None:
    value, memory = op.operands[0].type, op.operands[1].type
    at, _ = scatter_coordinates(op)
    _verify_access(op, memory, len(at))
    assert isinstance(memory, MemRefType)
    require(isinstance(op.attrs.get("wraps"), bool), "says whether indices wrap", op)
    require(all(v.type in (INDEX, ScalarType(I64)) for v in at), "takes indices and integers of 64 bits", op)
    require(value == compute_type(memory), "takes {}", op, compute_type(memory))


def _verify_store(op: Op) -> None:
    value, memory = op.operands[0].type, op.operands[1].type
    _verify_access(op, memory, len(op.operands) - 2)
    assert isinstance(memory, MemRefType)
    _indices(op, 2)
    require(value == compute_type(memory), "takes {}", op, compute_type(memory))


def _verify_position(op: Op) -> None:
    _indices(op, 0, 1)
    require(op.result.type == ScalarType(I64), "gives an i64", op)


def _verify_index(op: Op) -> None:
    require([v.type for v in op.operands] == [ScalarType(I64)] and op.result.type == INDEX, "takes an i64", op)


def sort_coordinates(op: Op) -> tuple[Value, tuple[Value, ...], Value, tuple[Value, ...]]:
    """What is sorted and where its row begins; where the places go. The last three operands are scratch."""
    memory = op.operands[0].type
    assert isinstance(memory, MemRefType)
    rank = len(memory.dims)
    return op.operands[0], op.operands[1 : 1 + rank], op.operands[1 + rank], op.operands[2 + rank : -3]


def _verify_sort(op: Op) -> None:
    mem, at, out, to = sort_coordinates(op)
    _verify_access(op, mem.type, len(at))
    _verify_access(op, out.type, len(to))
    require(all(v.type == INDEX for v in (*at, *to)), "takes indices", op)
    scratch = [v.type for v in op.operands[-3:]]
    require(all(isinstance(t, MemRefType) and t.dtype == I64 for t in scratch), "works in scratch of words", op)


def _verify_fold_at(op: Op) -> None:
    require(op.attrs.get("kind") in REDUCE_KINDS, "needs a known kind", op)
    require(any(isinstance(v.type, MemRefType) and v.type.space == "local" for v in op.operands), "needs scratch", op)


def _verify_pack(op: Op) -> None:
    memory = op.operands[0].type
    panels = isinstance(memory, MemRefType) and memory.layout == "panels" and len(memory.dims) == 2
    require(panels, "writes panels", op)
    assert isinstance(memory, MemRefType)
    _indices(op, 1, 5)
    flags = (op.attrs.get(name) for name in ("across", "shorten"))
    known = isinstance(op.attrs.get("width"), int) and all(isinstance(flag, bool) for flag in flags)
    require(known, "needs a width, a direction and whether to shorten", op)
    require([a.type for a in op.body.args] == [INDEX, INDEX], "its body takes row and column", op)
    yielded = [v.type for v in op.body.terminator.operands]
    require(yielded == [compute_type(memory)], "its body must yield {}", op, compute_type(memory))


def _verify_turn(op: Op) -> None:
    memory = op.operands[0].type
    block = isinstance(memory, MemRefType) and memory.space == "local" and len(memory.dims) == 2
    require(block, "writes a block of scratch", op)
    assert isinstance(memory, MemRefType)
    _indices(op, 1, 2)
    require([a.type for a in op.body.args] == [INDEX, INDEX], "its body takes row and column", op)
    yielded = [v.type for v in op.body.terminator.operands]
    require(yielded == [compute_type(memory)], "its body must yield {}", op, compute_type(memory))


def _verify_chains(op: Op) -> None:
    memory, totals = (v.type for v in op.operands[:2])
    assert isinstance(memory, MemRefType) and isinstance(totals, MemRefType)
    rows = (Dim.const(CHAINS),)
    require(memory.space == "local" and memory.dims[:-1] == totals.dims == rows, "has eight rows of scratch", op)
    require(memory.dtype == totals.dtype, "has totals like its elements", op)
    _indices(op, 2, 1)
    require(op.attrs.get("kind") in REDUCE_KINDS, "needs a known kind", op)


def _verify_pack_tiles(op: Op) -> None:
    memory = op.operands[0].type
    require(isinstance(memory, MemRefType) and memory.layout == "tiles", "writes tiles", op)
    _indices(op, 1, 4)
    flags = (op.attrs.get(name) for name in ("left", "across"))
    require(all(isinstance(flag, bool) for flag in flags), "needs its side and a direction", op)
    require([a.type for a in op.body.args] == [INDEX, INDEX], "its body takes term and column", op)


def _verify_tile_product(op: Op) -> None:
    a, b, c = (op.operands[i].type for i in (0, 1, 4))
    tiles = all(isinstance(t, MemRefType) and t.layout == "tiles" for t in (a, b))
    require(tiles, "reads tiles", op)
    require(isinstance(c, MemRefType) and c.layout == "strided" and len(c.dims) == 2, "writes a block", op)
    require(isinstance(op.attrs.get("dtype"), DType), "needs the type of its operands", op)
    require(all(op.operands[i].type == INDEX for i in (2, 3, 5, 6, 7, 8)), "takes indices", op)


def _verify_pack_groups(op: Op) -> None:
    panels, rows, columns, memory = (value.type for value in op.operands[:4])
    require(isinstance(panels, MemRefType) and panels.layout == "panels", "writes panels", op)
    tables = all(isinstance(table, MemRefType) and table.dtype == I64 for table in (rows, columns))
    require(tables, "needs tables of integers", op)
    groups = tuple_of(op.attrs.get("groups"), int)
    require(isinstance(memory, MemRefType) and len(memory.dims) == sum(groups), "its groups are all dims", op)
    _indices(op, 4, len(groups) + 2)
    known = isinstance(op.attrs.get("width"), int) and isinstance(op.attrs.get("transposed"), bool)
    require(known, "needs a width and a direction", op)
    require(op.attrs.get("does") in ("both", "list", "pack"), "lists places of rows, packs, or both", op)


def _verify_micro_kernel(op: Op) -> None:
    _verify_register_block(op)
    _indices(op, 6, 5)


def _verify_finished_block(op: Op) -> None:
    _verify_register_block(op)
    memory = op.operands[9].type
    require(isinstance(memory, MemRefType) and memory.dtype == op.attrs["accum"], "writes sums as they are", op)
    _indices(op, 10)


def _verify_register_block(op: Op) -> None:
    *panels, c = (op.operands[i].type for i in (0, 2, 5))
    reads = all(isinstance(read, MemRefType) and read.layout == "panels" for read in panels)
    require(reads and all(op.operands[i].type == INDEX for i in (1, 3, 4)), "reads panels", op)
    require(isinstance(c, MemRefType) and c.layout == "strided" and len(c.dims) == 2, "writes a block", op)
    attrs = isinstance(op.attrs.get("micro"), Micro) and isinstance(op.attrs.get("accum"), DType)
    require(attrs, "needs its register block and accumulation type", op)


def _verify_panel_sum(op: Op) -> None:
    a, c = op.operands[0].type, op.operands[2].type
    require(isinstance(a, MemRefType) and a.layout == "panels", "reads panels", op)
    require(isinstance(c, MemRefType) and c.contiguous and len(c.dims) == 2, "writes a column", op)
    require(isinstance(op.attrs.get("width"), int), "needs the height of its blocks", op)
    require(all(op.operands[i].type == INDEX for i in (1, 3, 4, 5)), "takes indices", op)


define_op("cpu.kernel", pure=False, verify=_verify_kernel)
define_op("cpu.return", pure=False, terminator=True)
define_op("cpu.yield", pure=False, terminator=True)
define_op("cpu.scratch", pure=True, verify=_verify_scratch)
define_op("cpu.loop", pure=False, verify=_verify_loop)
define_op("cpu.when", pure=False, verify=_verify_when)
define_op("cpu.vector_loop", pure=False, verify=_verify_vector_loop)
define_op("cpu.fold", pure=False, verify=_verify_fold)
define_op("cpu.tree", pure=False, verify=_verify_tree)
define_op("cpu.running", pure=False, verify=_verify_running)
define_op("cpu.row_product", pure=False, verify=_verify_row_product)
define_op("cpu.window_product", pure=False, verify=_verify_window_product)
define_op("cpu.load", pure=False, verify=_verify_load)
define_op("cpu.gather", pure=False, verify=_verify_gather)
define_op("cpu.store", pure=False, verify=_verify_store)
define_op("cpu.scatter", pure=False, verify=_verify_scatter)
define_op("cpu.index", pure=True, verify=_verify_index)
define_op("cpu.sort", pure=False, verify=_verify_sort)
define_op("cpu.fold_at", pure=False, verify=_verify_fold_at)
define_op("cpu.fold_few", pure=False, verify=_verify_fold_at)
define_op("cpu.position", pure=True, verify=_verify_position)
define_op("cpu.turn", pure=False, verify=_verify_turn)
define_op("cpu.chains", pure=False, verify=_verify_chains)
define_op("cpu.pack", pure=False, verify=_verify_pack)
define_op("cpu.pack_groups", pure=False, verify=_verify_pack_groups)
define_op("cpu.pack_tiles", pure=False, verify=_verify_pack_tiles)
define_op("cpu.tile_product", pure=False, verify=_verify_tile_product)
define_op("cpu.panel_sum", pure=False, verify=_verify_panel_sum)
define_op("cpu.micro_kernel", pure=False, verify=_verify_micro_kernel)
define_op("cpu.finished_block", pure=False, verify=_verify_finished_block)
