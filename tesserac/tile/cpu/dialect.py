"""The CPU dialect: one program as loops over elements and register blocks. Written by `lower.py`, read by target/cpu.

Tiles are gone. What was a tile is either computed where it is used, a scalar, or scratch memory. Loop bodies are
scalar: a body says what happens to one element, and the loop around it says how many are taken at a time. All values
are in the computing type; `cpu.load` widens and `cpu.store` rounds to the element type of the memory.

    cpu.kernel @name {grid, symbols, scratch, target} { ^(pid..., memref...): ... cpu.return }
        `symbols`: the dims whose run-time values the kernel is called with, sorted; `scratch`: bytes per worker.
    cpu.scratch() {offset} : memref<..., local>        a part of the worker's scratch
    cpu.loop(low, high, init...) {step} { ^(i, carried...): ... cpu.yield }
    cpu.when(left, right) {test} { ^(): ... cpu.yield }           runs its region where left `test` right
    cpu.vector_loop(low, high) {shape, whole?} { ^(i): ... cpu.yield }
        Every element from low to high in any order, `shape.parts` vectors of `shape.lanes` at a time; the rest singly,
        unless they are `whole` vectors. A loop in the body runs for all elements of a group side by side.
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
    cpu.load(mem, at...) : scalar        cpu.store(x, mem, at...)        cpu.position(i) : scalar<i64>
    cpu.index(x) : index                 an integer that the data has, as an index
    cpu.gather(mem, at..., status?) {wraps} : scalar
        As a load, and a coordinate may be a scalar<i64>; one out of range is put into its word of `status`, and the
        element counts as zero. `wraps`: a negative one counts from the end.
    cpu.scatter(x, mem, at..., status?) {wraps, kind}
        As a store, with coordinates as of cpu.gather; an element that has no place is not written. `kind` as of
        form.scatter.
    cpu.sort(mem, at..., out, at..., entries, spare, counts) {dims, descending, elements}
        As tile.sort. A radix sort, stable: pairs of key and place, or elements, move between `entries` and `spare`,
        digit by digit; `counts` holds how often each value of two digits occurs.
    cpu.sort_run(mem, at..., runs, at..., room, at..., first, behind, counts) {dim, descending, elements}
    cpu.merge_runs(out, at..., runs, at..., room, at..., room, at..., first, behind, length, bounds)
            {dim, sorts, descending, elements}
        As those of tile, with counts as of cpu.sort; `bounds` has places in each run.
    cpu.fold_few(rows, at..., x, at..., (index, at...)..., first, behind, counts, log, folds, entries, own, status?)
            {kind, bounds, along, columns}
        As tile.fold_at of elements for a few places, in one pass. `own` lists the rows of a range, a block at a time.
    cpu.fold_at(rows, at..., x, at..., (index, at...)..., first, behind, count, pairs, spare, counts, slots, own,
            status?) {kind, bounds, along, columns}
        As tile.fold_at, for `count` columns and all places. Rows are put in the order of these: by the `counts` of all,
        or of the digits of their numbers, in `pairs` and `spare`; elements only where few of the places have any.
        `slots` hold folds of subtrees, or of what is under way. Places of elements may be a range of a few: `own` lists
        its rows.
    cpu.transpose(mem, rows, columns) { ^(r, c): ... cpu.yield(x) }
        mem[r, c] = x for all r below `rows` and c below `columns`. What is read is contiguous along r: vectors run
        along r and are transposed on the way.
    cpu.chains(mem, totals, count) {kind}
        mem[r, i] = mem[r, 0] + ... + mem[r, i] for i below `count`, ascending from the empty fold, in each of the eight
        rows of scratch, of which the last is totals[r]. Squares are transposed on the way: a vector takes all rows on.
Operations of matrix products are in `product_ops.py`.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.attributes import register_attribute
from tesserac.ir.core import Op, Value, define_op
from tesserac.ir.forms import ORDERED_KINDS, REDUCE_KINDS
from tesserac.ir.indexed import gives_elements
from tesserac.ir.types import INDEX, MemRefType, ScalarType
from tesserac.ir.verify import require
from tesserac.numerics.order import Blocks, Free
from tesserac.tile.cpu.product_ops import require_indices
from tesserac.tile.cpu.target import TARGETS
from tesserac.tile.cpu.tiles import compute_type
from tesserac.types.dims import Dim
from tesserac.types.dtype import I64

TESTS = ("lt", "ge")
CHAINS = 8
"""Running folds side by side: as many as hide how long an addition takes, and as a register holds."""


@dataclass(frozen=True)
class Shape:
    """How many elements a vector loop takes at a time: `parts` independent vectors of `lanes`."""

    lanes: int
    parts: int


register_attribute("shape", Shape)


def _verify_kernel(op: Op) -> None:
    symbols, scratch = op.attrs.get("symbols"), op.attrs.get("scratch")
    require(isinstance(symbols, tuple) and list(symbols) == sorted(map(str, symbols)), "sorted symbols", op)
    require(isinstance(scratch, Dim), "needs the bytes of its scratch", op)
    require(op.attrs.get("target") in TARGETS, "needs a known target", op)


def _verify_scratch(op: Op) -> None:
    local = isinstance(op.result.type, MemRefType) and op.result.type.space == "local"
    require(local and isinstance(op.attrs.get("offset"), Dim), "gives local memory at an offset", op)


def _verify_loop(op: Op) -> None:
    require_indices(op, 0, 2)
    types = [v.type for v in op.operands[2:]]
    require(isinstance(op.attrs.get("step"), int), "needs a step", op)
    require([a.type for a in op.body.args] == [INDEX, *types], "its body takes a counter and what is carried", op)
    require([v.type for v in op.body.terminator.operands] == types, "must yield what it carries", op)
    require([v.type for v in op.results] == types, "gives what it carries", op)


def _verify_when(op: Op) -> None:
    require_indices(op, 0, 2)
    require(op.attrs.get("test") in TESTS and not op.results, "compares two indices and gives nothing", op)


def _verify_vector_loop(op: Op) -> None:
    require_indices(op, 0, 2)
    require(isinstance(op.attrs.get("shape"), Shape), "needs a shape", op)
    require([a.type for a in op.body.args] == [INDEX] and not op.results, "counts and gives nothing", op)


def _verify_fold(op: Op) -> None:
    require_indices(op, 0, 2)
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


def _verify_access(op: Op, memory: object, places: int) -> None:
    require(isinstance(memory, MemRefType) and memory.layout == "strided", "reads and writes strided memory", op)
    assert isinstance(memory, MemRefType)
    require(len(memory.dims) == places, "needs one index per dim", op)


def _verify_load(op: Op) -> None:
    memory = op.operands[0].type
    _verify_access(op, memory, len(op.operands) - 1)
    assert isinstance(memory, MemRefType)
    require_indices(op, 1)
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
    require_indices(op, 2)
    require(value == compute_type(memory), "takes {}", op, compute_type(memory))


def _verify_position(op: Op) -> None:
    require_indices(op, 0, 1)
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
    moved = mem.type.dtype if isinstance(mem.type, MemRefType) and gives_elements(op) else I64
    held = [v.type.dtype if isinstance(v.type, MemRefType) else None for v in op.operands[-3:]]
    require(held == [moved, moved, I64], "works in scratch of what it moves, and of words", op)


def _verify_runs(op: Op) -> None:
    require(isinstance(op.attrs.get("dim"), int), "says which dim is sorted", op)
    scratch = op.operands[-1].type
    require(isinstance(scratch, MemRefType) and scratch.dtype == I64, "works in scratch of words", op)


def _verify_fold_at(op: Op) -> None:
    require(op.attrs.get("kind") in REDUCE_KINDS, "needs a known kind", op)
    require(any(isinstance(v.type, MemRefType) and v.type.space == "local" for v in op.operands), "needs scratch", op)


def _verify_transpose(op: Op) -> None:
    memory = op.operands[0].type
    block = isinstance(memory, MemRefType) and memory.space == "local" and len(memory.dims) == 2
    require(block, "writes a block of scratch", op)
    assert isinstance(memory, MemRefType)
    require_indices(op, 1, 2)
    require([a.type for a in op.body.args] == [INDEX, INDEX], "its body takes row and column", op)
    yielded = [v.type for v in op.body.terminator.operands]
    require(yielded == [compute_type(memory)], "its body must yield {}", op, compute_type(memory))


def _verify_chains(op: Op) -> None:
    memory, totals = (v.type for v in op.operands[:2])
    assert isinstance(memory, MemRefType) and isinstance(totals, MemRefType)
    rows = (Dim.const(CHAINS),)
    require(memory.space == "local" and memory.dims[:-1] == totals.dims == rows, "has eight rows of scratch", op)
    require(memory.dtype == totals.dtype, "has totals like its elements", op)
    require_indices(op, 2, 1)
    require(op.attrs.get("kind") in REDUCE_KINDS, "needs a known kind", op)


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
define_op("cpu.load", pure=False, verify=_verify_load)
define_op("cpu.gather", pure=False, verify=_verify_gather)
define_op("cpu.store", pure=False, verify=_verify_store)
define_op("cpu.scatter", pure=False, verify=_verify_scatter)
define_op("cpu.index", pure=True, verify=_verify_index)
define_op("cpu.sort", pure=False, verify=_verify_sort)
define_op("cpu.sort_run", pure=False, verify=_verify_runs)
define_op("cpu.merge_runs", pure=False, verify=_verify_runs)
define_op("cpu.fold_at", pure=False, verify=_verify_fold_at)
define_op("cpu.fold_few", pure=False, verify=_verify_fold_at)
define_op("cpu.position", pure=True, verify=_verify_position)
define_op("cpu.transpose", pure=False, verify=_verify_transpose)
define_op("cpu.chains", pure=False, verify=_verify_chains)
