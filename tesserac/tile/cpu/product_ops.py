"""The part of the CPU dialect that multiplies matrices: operands in panels or tiles, register blocks. See `dialect.py`.

    cpu.part(mem, at...) : memref
        Memory from a place on, with dims and strides of its own.
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
    cpu.micro_kernel(a, i, b, j, k, c, row, column, depth, done, rows, columns?) {micro, accum, passes?, brings?}
        One register block: block i of panels `a` times block j of panels `b` from its row k on, over `depth` ascending
        steps, into c[row.., column..], or c[column.., row..] if rows of c lie side by side. Continues what stands
        there, or starts from +0 where `done` is 0. Each step rounds to `accum`. Of c only `rows` and `columns` are
        wanted: others may be left as they are. `a` may also be memory, rows by terms, of which it is known how far
        apart terms are. `passes`: block j comes from behind the first cache, since j is counted fastest.
        `brings`: behind so many operands stand (memory, at..., first, more): the right operand as it lies, and where in
        it this block begins. In columns below `first` a block of row 0 reads it there, and writes block j for those
        below. `more` terms of it follow, which those ask for.
    cpu.finished_block(a, i, b, j, k, c, row, column, depth, done, rows, columns, elsewhere, memory, at...)
        {micro, accum, passes?, brings?}
        The same, plus +0, into memory from `at` on, where `rows` and `columns` are left; by way of c[row.., column..],
        which such a block then continues, where they do not fill it. Into c alone where `elsewhere` is not 0.
    cpu.row_product(a, at..., b, at..., c, rows, columns, depth, done) {left, right}
        c[i, j] continues its chain with a[i, k] * b[k, j] for ascending k, from +0 where `done` is 0. Both operands lie
        as they are, from the places given: `left` are the dims of i and k, `right` those of k and j, which is
        contiguous. Each row of b is read once.
    cpu.window_product(a, at..., b, at..., c, terms, items, factors?, rows, depth, columns, done) {rows, left, right}
        As cpu.row_product, of so many rows at most, where a coordinate of a and b counts through a group of dims, as of
        cpu.pack_groups; the last two are i and k, and k and j. `terms` and `factors` are tables for places along k,
        `items` one for columns that are vectors. Without `factors`, a stands in panels of 8 rows, in no place.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.core import Op, Value, attr, define_op, tuple_of
from tesserac.ir.types import INDEX, MemRefType
from tesserac.ir.verify import require
from tesserac.tile.cpu.target import Micro
from tesserac.tile.cpu.tiles import compute_type
from tesserac.tile.dialect import memref_type
from tesserac.types.dims import ONE, Dim
from tesserac.types.dtype import I64, DType


def require_indices(op: Op, first: int, count: int | None = None) -> None:
    values = op.operands[first:] if count is None else op.operands[first : first + count]
    require(all(v.type == INDEX for v in values), "takes indices", op)
    require(count is None or len(values) == count, "takes {} indices", op, count)


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


def _verify_pack(op: Op) -> None:
    memory = op.operands[0].type
    panels = isinstance(memory, MemRefType) and memory.layout == "panels" and len(memory.dims) == 2
    require(panels, "writes panels", op)
    assert isinstance(memory, MemRefType)
    require_indices(op, 1, 5)
    flags = (op.attrs.get(name) for name in ("across", "shorten"))
    known = isinstance(op.attrs.get("width"), int) and all(isinstance(flag, bool) for flag in flags)
    require(known, "needs a width, a direction and whether to shorten", op)
    require([a.type for a in op.body.args] == [INDEX, INDEX], "its body takes row and column", op)
    yielded = [v.type for v in op.body.terminator.operands]
    require(yielded == [compute_type(memory)], "its body must yield {}", op, compute_type(memory))


def _verify_pack_tiles(op: Op) -> None:
    memory = op.operands[0].type
    require(isinstance(memory, MemRefType) and memory.layout == "tiles", "writes tiles", op)
    require_indices(op, 1, 4)
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
    require_indices(op, 4, len(groups) + 2)
    known = isinstance(op.attrs.get("width"), int) and isinstance(op.attrs.get("transposed"), bool)
    require(known, "needs a width and a direction", op)
    require(op.attrs.get("does") in ("both", "list", "pack"), "lists places of rows, packs, or both", op)


def passes(op: Op) -> bool:
    """Whether panels of the right operand pass one of the left operand."""
    return op.attrs.get("passes") is True


def plain_operands(op: Op) -> Sequence[Value]:
    """Those of a register block before the ones of a right operand that it brings."""
    return op.operands[: attr(op, "brings", int)] if "brings" in op.attrs else op.operands


def source_operands(op: Op) -> tuple[Value, Sequence[Value], Value, Value] | None:
    """The right operand as it lies, where in it a register block begins, up to which column it is brought into panels,
    and how many terms follow; None where it stands in panels."""
    rest = op.operands[len(plain_operands(op)) :]
    return (rest[0], rest[1:-2], rest[-2], rest[-1]) if rest else None


def _verify_micro_kernel(op: Op) -> None:
    _verify_register_block(op)
    plain = plain_operands(op)
    require_indices(op, 6, len(plain) - 6)
    require(len(plain) in (11, 12), "takes five indices, or six", op)


def _verify_finished_block(op: Op) -> None:
    _verify_register_block(op)
    memory = op.operands[13].type
    require(isinstance(memory, MemRefType) and memory.dtype == op.attrs["accum"], "writes sums as they are", op)
    require_indices(op, 6, 7)
    require_indices(op, 14, len(plain_operands(op)) - 14)


def _verify_register_block(op: Op) -> None:
    *panels, c = (op.operands[i].type for i in (0, 2, 5))
    packed = [isinstance(read, MemRefType) and read.layout == "panels" for read in panels]
    reads = packed[1] and (packed[0] or _is_walked(panels[0]))
    require(reads and all(op.operands[i].type == INDEX for i in (1, 3, 4)), "reads panels", op)
    require(isinstance(c, MemRefType) and c.layout == "strided" and len(c.dims) == 2, "writes a block", op)
    attrs = isinstance(op.attrs.get("micro"), Micro) and isinstance(op.attrs.get("accum"), DType)
    require(attrs, "needs its register block and accumulation type", op)
    left = panels[0]
    as_it_lies = packed[0] or (isinstance(left, MemRefType) and left.dtype == op.attrs["accum"])
    require(as_it_lies, "reads a left operand that is not packed in the type of its sums", op)
    source = source_operands(op)
    if source is not None:
        memory, at, *rest = source
        require(all(v.type == INDEX for v in (*at, *rest)) and passes(op), "brings what passes, by indices", op)
        same = len(at) == len(_dims(memory)) and memref_type(memory).dtype == op.attrs["accum"]
        require(same and memref_type(memory).strides[-1] == ONE, "brings rows in the type of its sums", op)


def _is_walked(left: object) -> bool:
    """Whether a left operand is read as it lies: it is known how far apart its terms are."""
    strided = isinstance(left, MemRefType) and left.layout == "strided" and len(left.dims) == 2
    return isinstance(left, MemRefType) and strided and left.strides[1].constant is not None


def _verify_part(op: Op) -> None:
    memory, part = op.operands[0].type, op.result.type
    known = isinstance(memory, MemRefType) and isinstance(part, MemRefType) and memory.dtype == part.dtype
    require(known and len(op.operands) == 1 + len(_dims(op.operands[0])), "is of memory, from a place on", op)
    require_indices(op, 1)


def _verify_panel_sum(op: Op) -> None:
    a, c = op.operands[0].type, op.operands[2].type
    require(isinstance(a, MemRefType) and a.layout == "panels", "reads panels", op)
    require(isinstance(c, MemRefType) and c.contiguous and len(c.dims) == 2, "writes a column", op)
    require(isinstance(op.attrs.get("width"), int), "needs the height of its blocks", op)
    require(all(op.operands[i].type == INDEX for i in (1, 3, 4, 5)), "takes indices", op)


define_op("cpu.part", pure=False, verify=_verify_part)
define_op("cpu.row_product", pure=False, verify=_verify_row_product)
define_op("cpu.window_product", pure=False, verify=_verify_window_product)
define_op("cpu.pack", pure=False, verify=_verify_pack)
define_op("cpu.pack_groups", pure=False, verify=_verify_pack_groups)
define_op("cpu.pack_tiles", pure=False, verify=_verify_pack_tiles)
define_op("cpu.tile_product", pure=False, verify=_verify_tile_product)
define_op("cpu.panel_sum", pure=False, verify=_verify_panel_sum)
define_op("cpu.micro_kernel", pure=False, verify=_verify_micro_kernel)
define_op("cpu.finished_block", pure=False, verify=_verify_finished_block)
