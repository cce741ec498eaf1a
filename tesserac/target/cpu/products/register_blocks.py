"""Register blocks of a product: where one reads and writes, and which function computes it.

    cpu.micro_kernel      into scratch, whole blocks: edges are padded
    cpu.finished_block    into the memory of a result as far as it goes, by way of scratch where a block is cut

A block of the first rows may find its right operand as it lies: its function writes the panel that those below read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, attr
from tesserac.target.cpu.elements.accesses import align_of
from tesserac.target.cpu.elements.frame import Frame
from tesserac.target.cpu.products.micro import NEAR, UNROLL, Walk, call_micro_kernel, micro_kernel, packed_walk
from tesserac.target.cpu.products.panels import LINE_BYTES
from tesserac.target.flow import for_loop, if_else
from tesserac.target.llvm_types import Value, const_i64, vector
from tesserac.tile.cpu.product_ops import passes, plain_operands, source_operands
from tesserac.tile.cpu.target import Micro
from tesserac.tile.cpu.tiles import is_transposed
from tesserac.tile.dialect import memref_type
from tesserac.types.dtype import DType


@dataclass(frozen=True)
class Source:
    """Where the right operand of a block lies that is brought into panels beside the first rows: the first element for
    this block, how far apart rows are, the column up to which it is brought, and how many terms follow."""

    start: Value
    pitch: Value
    first: Value
    more: Value


def emit_micro_kernel(frame: Frame, op: Op) -> None:
    """The addresses of the three blocks, and a call. Where it is told how many columns are wanted, of a block of one
    vector if that has them, and of all rows: such a panel is the last one. All rows are also those of a transposed
    product, whose edges are rare."""
    b, micro, accum = frame.b, attr(op, "micro", Micro), attr(op, "accum", DType)
    operands = plain_operands(op)
    c = frame.memories[operands[5]]
    row, column, depth, done, rows, *columns = (frame.value(value) for value in operands[6:])
    transposed = is_transposed(memref_type(operands[5]))
    stride = c.strides[1 if transposed else 0]
    block = b.gep(c.element, c.start, b.add(b.mul(row, stride), column))
    arguments = [*_panels(frame, op, micro), block, stride, depth, done]
    below, ahead, walk = b.sub(rows, row), _ahead(frame, op, micro), _walk(op, micro)
    pitch = frame.memories[operands[0]].strides[0] if walk.by_pitch else None

    def call(wide: Micro, *, whole: bool) -> None:
        whole = whole and not walk.by_pitch  # nothing has to lie behind the last row
        call_micro_kernel(frame, wide, accum, arguments, below, ahead, walk, whole=whole, pitch=pitch)

    def call_whole() -> None:
        source = _source(frame, op)
        if source is None:
            call(micro, whole=transposed)
        else:
            following = b.gep(c.element, block, micro.columns)
            _call_beside(frame, op, arguments, source, following, below, finishes=False)

    if not columns:
        call_whole()
        return
    narrow = replace(micro, columns=micro.lanes)
    several = b.icmp("sgt", b.sub(columns[0], column), const_i64(micro.lanes))
    if_else(b, several, call_whole, lambda: call(narrow, whole=True))


def _walk(op: Op, micro: Micro) -> Walk:
    """How a register block goes through its operands: a left one that is not in panels is read as it lies. How far
    apart its rows are differs from product to product, unless it is made here or the product transposed."""
    left, packed = memref_type(op.operands[0]), packed_walk(micro)
    if left.layout == "panels":
        return replace(packed, near=NEAR) if passes(op) else packed
    rows, terms = (stride.constant for stride in left.strides)
    assert terms is not None
    known = rows is not None and (rows == 1 or is_transposed(memref_type(op.operands[5])))
    return Walk(rows if known and rows is not None else 0, terms, packed.right)


def emit_finished_block(frame: Frame, op: Op) -> None:
    """Into memory, or into scratch and from there as far as the result goes."""
    b, micro, accum = frame.b, attr(op, "micro", Micro), attr(op, "accum", DType)
    operands = plain_operands(op)
    scratch, memory = (frame.memories[operands[i]] for i in (5, 13))
    row, column, depth, done, rows, columns, elsewhere = (frame.value(value) for value in operands[6:13])
    at = (b.mul(frame.value(value), stride) for value, stride in zip(operands[14:], memory.strides, strict=True))
    first = b.gep(memory.element, memory.start, reduce(b.add, at))
    sums = b.gep(scratch.element, scratch.start, b.add(b.mul(row, scratch.strides[0]), column))
    panels, ahead, source = _panels(frame, op, micro), _ahead(frame, op, micro), _source(frame, op)
    known = (memref_type(operands[13]).dims[-2].constant or 0) % micro.rows

    def compute(block: Value, stride: Value, following: Value, wide: Micro = micro) -> None:
        arguments, walk = [*panels, block, stride, depth, done], _walk(op, micro)
        whole, height = wide != micro, 0 if wide != micro else known
        if source is not None and not whole:
            _call_beside(frame, op, arguments, source, following, rows, finishes=True, known=known)
            return
        call_micro_kernel(
            frame, wide, accum, arguments, rows, ahead, walk, finishes=True, whole=whole, known=height
        )  # fmt: skip

    def compute_whole() -> None:
        stride = memory.strides[-2]
        below = b.sub(b.mul(stride, const_i64(micro.rows)), column)
        is_last = b.icmp("sle", columns, const_i64(micro.columns))
        compute(first, stride, b.gep(memory.element, first, b.select(is_last, below, const_i64(micro.columns))))

    def copy_row(row: Value, _: list[Value]) -> Sequence[Value]:
        """In vectors, then in fours, and the last ones by themselves."""
        source = b.gep(scratch.element, sums, b.mul(row, scratch.strides[0]))
        target = b.gep(memory.element, first, b.mul(row, memory.strides[-2]))
        wide, done = b.minimum_int(columns, const_i64(micro.columns)), const_i64(0)

        def copy(width: int, column: Value, _: list[Value]) -> Sequence[Value]:
            sums = b.load(vector(scratch.element, width), b.gep(scratch.element, source, column), align_of(scratch))
            b.store(sums, b.gep(memory.element, target, column), align_of(memory))
            return []

        for width in dict.fromkeys((micro.lanes, min(4, micro.lanes), 1)):
            end = b.binary("and", wide, const_i64(-width))
            for_loop(b, done, end, const_i64(width), [], partial(copy, width))
            done = end
        return []

    def cut() -> None:
        several, stride = b.icmp("sgt", columns, const_i64(micro.lanes)), scratch.strides[0]
        narrow, following = replace(micro, columns=micro.lanes), b.gep(scratch.element, sums, micro.columns)
        if_else(
            b, several, lambda: compute(sums, stride, following), lambda: compute(sums, stride, following, narrow)
        )  # fmt: skip
        wanted = b.select(here, b.minimum_int(rows, const_i64(micro.rows)), const_i64(0))
        for_loop(b, const_i64(0), wanted, const_i64(1), [], copy_row)

    here = b.icmp("eq", elsewhere, const_i64(0))
    low = b.binary("urem", rows, const_i64(frame.target.rest_rows))
    high = b.icmp("uge", rows, const_i64(micro.rows))
    filled = b.binary("or", high, b.icmp("eq", low, const_i64(0)))
    if known:
        filled = b.binary("or", filled, b.icmp("eq", rows, const_i64(known)))
    whole = b.binary("and", b.binary("and", filled, here), b.icmp("uge", columns, const_i64(micro.columns)))
    if_else(b, whole, compute_whole, cut)


def _call_beside(
    frame: Frame, op: Op, arguments: Sequence[Value], source: Source, following: Value, rows: Value, *,
    finishes: bool, known: int = 0,
) -> None:  # fmt: skip
    """A block of the first rows, which writes its right panel; or one below, which reads that."""
    b, micro, accum = frame.b, attr(op, "micro", Micro), attr(op, "accum", DType)
    row, column = (frame.value(op.operands[i]) for i in (6, 7))
    left, panel, *rest = arguments
    walk = replace(packed_walk(micro), near=NEAR)

    def bring() -> None:
        function = micro_kernel(frame, micro, accum, micro.rows, False, finishes, replace(walk, beside="brings"))
        b.call(function, [left, source.start, *rest, following, panel, source.pitch])

    def read() -> None:
        beside = [left, panel, *rest, following, *_asked_for(frame, op, micro, source, rows, panel)]
        call_micro_kernel(
            frame, micro, accum, beside, rows, None, replace(walk, beside="asks"), finishes=finishes, known=known
        )  # fmt: skip

    is_first = b.binary("and", b.icmp("eq", row, const_i64(0)), b.icmp("slt", column, source.first))
    if_else(b, is_first, bring, read)


def _asked_for(
    frame: Frame, op: Op, micro: Micro, source: Source, rows: Value, panel: Value
) -> tuple[Value, Value, Value]:
    """What the last two blocks of rows ask for, half of the next terms each: the first line, how far it is from the end
    of a row to the next one, and how long a row is. Each panel has its share of the half, whole rows of it: lines that
    follow each other come sooner than as many in as many rows, since a processor foresees them. Other blocks ask for
    their own panel, which is there."""
    b, (column, depth) = frame.b, (frame.value(op.operands[i]) for i in (7, 8))
    is_last, is_one_of_two = (b.icmp("sle", rows, const_i64(count * micro.rows)) for count in (1, 2))
    asks = b.binary("and", is_one_of_two, b.icmp("sgt", source.more, const_i64(0)))
    half, width, line = b.binary("lshr", depth, const_i64(1)), source.first, UNROLL * micro.lanes
    share = b.binary("udiv", b.mul(column, half), b.maximum_int(width, const_i64(1)))
    term = b.add(b.add(depth, b.select(is_last, half, const_i64(0))), share)
    place = b.sub(b.mul(term, source.pitch), column)
    asked = b.gep(frame.memories[op.operands[2]].element, source.start, place)
    whole = b.binary("and", b.add(width, const_i64(line - 1)), const_i64(-line))
    return b.select(asks, asked, panel), b.select(asks, b.sub(source.pitch, whole), const_i64(0)), width


def _source(frame: Frame, op: Op) -> Source | None:
    found = source_operands(op)
    if found is None:
        return None
    b, (value, at, first, more) = frame.b, found
    memory = frame.memories[value]
    places = (b.mul(frame.value(start), stride) for start, stride in zip(at, memory.strides, strict=True))
    start = b.gep(memory.element, memory.start, reduce(b.add, places))
    return Source(start, memory.strides[-2], frame.value(first), frame.value(more))


def _panels(frame: Frame, op: Op, micro: Micro) -> list[Value]:
    """Where a register block reads its two operands."""
    b, a, right = frame.b, *(frame.memories[op.operands[i]] for i in (0, 2))
    i, j, k = (frame.value(op.operands[n]) for n in (1, 3, 4))
    apart = a.dims[0] if memref_type(op.operands[0]).layout == "panels" else a.strides[0]
    left_place = b.mul(b.mul(i, apart), const_i64(micro.rows))
    right_place = b.mul(b.add(b.mul(j, right.dims[0]), k), const_i64(micro.columns))
    return [b.gep(a.element, a.start, left_place), b.gep(right.element, right.start, right_place)]


def _ahead(frame: Frame, op: Op, micro: Micro) -> Value | None:
    """How many elements behind a line of a right panel the one of the next panel is that this block of rows asks for.
    None where panels are scratch, which is near, where a row of a panel is not two lines, and where panels pass."""
    right, i = frame.memories[op.operands[2]], frame.value(op.operands[1])
    line = LINE_BYTES * 8 // right.element.bits
    if passes(op) or memref_type(op.operands[2]).space != "global" or micro.columns != 2 * line:
        return None
    b = frame.b
    odd = b.mul(b.binary("and", i, const_i64(1)), const_i64(line))
    return b.add(b.mul(right.dims[0], const_i64(micro.columns)), odd)
