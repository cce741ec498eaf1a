"""Kernels of the CPU dialect as functions of an LLVM module.

    void kernel(ptr ctx, i64 begin, i64 end, i64 worker)

runs the programs begin .. end of the grid, the last axis varying fastest. `ctx` is a list of 8-byte slots: the memory
in the order of the kernel's arguments, the values of its symbols sorted by name, the start of the scratch and the bytes
of it that each worker has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial, reduce

from tesserac.ir.core import Block, Op, attr
from tesserac.target.cpu.accesses import align_of
from tesserac.target.cpu.bodies import emit_simple
from tesserac.target.cpu.folds import emit_fold
from tesserac.target.cpu.frame import Frame
from tesserac.target.cpu.groups import emit_vector_loop, short_loop
from tesserac.target.cpu.micro import NEAR, Walk, call_micro_kernel, packed_walk
from tesserac.target.cpu.panels import LINE_BYTES, emit_pack
from tesserac.target.cpu.row_products import emit_row_product
from tesserac.target.cpu.running_chains import emit_chains
from tesserac.target.cpu.shared import computes, emit_shared, has_sums, is_shared
from tesserac.target.cpu.trees import emit_running, emit_tree
from tesserac.target.cpu.turned import emit_turn
from tesserac.target.emit import Function, Module
from tesserac.target.flow import choose, for_loop, if_else, if_then
from tesserac.target.llvm_types import I8, I64, PTR, VOID, Value, const_i64, vector, zero
from tesserac.tile.cpu.product_ops import passes
from tesserac.tile.cpu.target import TARGETS, Micro
from tesserac.tile.cpu.tiles import is_turned
from tesserac.tile.dialect import CODE, grid, kernel_memrefs, memref_type
from tesserac.types.dims import Dim
from tesserac.types.dtype import DType


def emit_kernel(module: Module, kernel: Op) -> Function:
    """Adds the function of a lowered kernel to a module, under the kernel's name."""
    assert CODE not in kernel.attrs, f"the code of {kernel.symbol} is that of {kernel.attrs[CODE]}"
    function = module.function(kernel.symbol, VOID, [PTR, I64, I64, I64])
    function.computes = False
    b = function.builder
    context, begin, end, worker = function.args
    memrefs, symbols = kernel_memrefs(kernel), _symbols(kernel)
    count = len(memrefs)
    values = {name: _slot(function, context, count + i) for i, name in enumerate(symbols)}
    frame = Frame(module, b, TARGETS[str(kernel.attrs["target"])], values)
    for i, memref in enumerate(memrefs):
        frame.add_memory(memref, b.load(PTR, b.gep(I64, context, i), 8))
    frame.shares = has_sums(kernel)
    frame.prepare(kernel)
    _add_scratch(frame, kernel, context, count + len(symbols), worker)
    sizes = [frame.dim(size) for size in grid(kernel)]

    def program(number: Value, _: list[Value]) -> Sequence[Value]:
        frame.entries.update(zip(kernel.body.args, _position(frame, number, sizes), strict=False))
        emit_ops(frame, kernel.body)
        return []

    for_loop(b, begin, end, const_i64(1), [], program)
    b.ret()
    return function


def _symbols(kernel: Op) -> list[str]:
    symbols = kernel.attrs["symbols"]
    assert isinstance(symbols, tuple)
    return [str(name) for name in symbols]


def _slot(function: Function, context: Value, number: int) -> Value:
    b = function.builder
    return b.load(I64, b.gep(I64, context, number), 8)


def _add_scratch(frame: Frame, kernel: Op, context: Value, slot: int, worker: Value) -> None:
    """The parts of this worker's scratch; parts without elements lie nowhere."""
    b = frame.b
    parts = [op for op in kernel.body.ops if op.name == "cpu.scratch"]
    if kernel.attrs["scratch"] == Dim.const(0):
        for op in parts:
            frame.add_memory(op.result, zero(PTR))
        return
    start = b.load(PTR, b.gep(I64, context, slot), 8)
    size = b.load(I64, b.gep(I64, context, slot + 1), 8)
    own = b.gep(I8, start, b.mul(worker, size))
    for op in parts:
        offset = attr(op, "offset", Dim)
        frame.add_memory(op.result, b.gep(I8, own, frame.dim(offset)))


def _position(frame: Frame, number: Value, sizes: Sequence[Value]) -> list[Value]:
    """The program's place along each axis of the grid: 0 along one of a single program, so that how far a block of
    known size reaches is a number too."""
    b, places = frame.b, list[Value]()
    longer = [axis for axis, size in enumerate(sizes) if size.number != 1]
    for axis, size in reversed(list(enumerate(sizes))):
        if axis not in longer:
            places.insert(0, const_i64(0))
        elif axis == longer[0]:
            places.insert(0, number)
        else:
            places.insert(0, b.binary("urem", number, size))
            number = b.binary("udiv", number, size)
    return places


def emit_ops(frame: Frame, block: Block) -> list[Value]:
    """The operations of a region, outside of loops over elements; gives what it yields."""
    saved, frame.memo = frame.memo, {}  # what is made in one region may not be visible in the next
    for op in block.ops[:-1]:
        emit = _emitter(op.name)
        if emit is not None and frame.shares and is_shared(op):
            emit_shared(frame, op, emit)
            continue
        frame.b.function.computes |= computes(op) and not frame.is_rare
        if emit is not None:
            emit(frame, op)
        else:
            emit_simple(frame, op)
    frame.memo = saved
    return [frame.value(v) for v in block.terminator.operands]


def _emit_block(frame: Frame, block: Block, arguments: Sequence[Value]) -> list[Value]:
    frame.entries.update(zip(block.args, arguments, strict=True))
    return emit_ops(frame, block)


def _scratch(frame: Frame, op: Op) -> None:
    assert op.result in frame.memories


def _loop(frame: Frame, op: Op) -> None:
    low, high, *inits = (frame.value(v) for v in op.operands)
    step = attr(op, "step", int)

    def body(i: Value, carried: list[Value]) -> Sequence[Value]:
        return _emit_block(frame, op.body, [i, *carried])

    results = short_loop(frame.b, low, high, step, inits, body)
    frame.entries.update(zip(op.results, results, strict=True))


def _when(frame: Frame, op: Op) -> None:
    left, right = (frame.value(v) for v in op.operands)
    less = str(op.attrs["test"]) == "lt"
    if left.number is not None and right.number is not None and (left.number < right.number) != less:
        return

    def body() -> None:
        with frame.rarely():  # the tests are of loops that do not run
            emit_ops(frame, op.body)

    if_then(frame.b, frame.b.icmp("slt" if less else "sge", left, right), body)


def _tree(frame: Frame, op: Op) -> None:
    emit_tree(frame, op, _emit_block)


def _running(frame: Frame, op: Op) -> None:
    emit_running(frame, op, _emit_block)


def _micro_kernel(frame: Frame, op: Op) -> None:
    """The addresses of the three blocks, and a call. Where it is told how many columns are wanted, of a block of one
    vector if that has them, and of all rows: such a panel is the last one. All rows are also those of a turned product,
    whose edges are rare."""
    b, micro, accum = frame.b, attr(op, "micro", Micro), attr(op, "accum", DType)
    c = frame.memories[op.operands[5]]
    row, column, depth, done, rows, *columns = (frame.value(value) for value in op.operands[6:])
    turned = is_turned(memref_type(op.operands[5]))
    stride = c.strides[1 if turned else 0]
    block = b.gep(c.element, c.start, b.add(b.mul(row, stride), column))
    arguments = [*_panels(frame, op, micro), block, stride, depth, done]
    below, ahead, walk = b.sub(rows, row), _ahead(frame, op, micro), _walk(op, micro)

    def call(wide: Micro, *, whole: bool) -> None:
        call_micro_kernel(frame, wide, accum, arguments, below, ahead, walk, whole=whole)

    if not columns:
        call(micro, whole=False)
        return
    narrow = replace(micro, columns=micro.lanes)
    several = b.icmp("sgt", b.sub(columns[0], column), const_i64(micro.lanes))
    if_else(b, several, lambda: call(micro, whole=turned), lambda: call(narrow, whole=True))


def _walk(op: Op, micro: Micro) -> Walk:
    """How a register block goes through its operands: a left one that is not in panels is read as it lies."""
    left, packed = memref_type(op.operands[0]), packed_walk(micro)
    if left.layout == "panels":
        return replace(packed, near=NEAR) if passes(op) else packed
    rows, terms = (stride.constant for stride in left.strides)
    assert rows is not None and terms is not None
    return Walk(rows, terms, packed.right)


def _finished_block(frame: Frame, op: Op) -> None:
    """Into memory, or into scratch and from there as far as the result goes."""
    b, micro, accum = frame.b, attr(op, "micro", Micro), attr(op, "accum", DType)
    scratch, memory = (frame.memories[op.operands[i]] for i in (5, 13))
    row, column, depth, done, rows, columns, elsewhere = (frame.value(value) for value in op.operands[6:13])
    at = (b.mul(frame.value(value), stride) for value, stride in zip(op.operands[14:], memory.strides, strict=True))
    first = b.gep(memory.element, memory.start, reduce(b.add, at))
    sums = b.gep(scratch.element, scratch.start, b.add(b.mul(row, scratch.strides[0]), column))
    panels, ahead = _panels(frame, op, micro), _ahead(frame, op, micro)
    known = (memref_type(op.operands[13]).dims[-2].constant or 0) % micro.rows

    def compute(block: Value, stride: Value, wide: Micro = micro) -> None:
        arguments, walk = [*panels, block, stride, depth, done], _walk(op, micro)
        whole, height = wide != micro, 0 if wide != micro else known
        call_micro_kernel(
            frame, wide, accum, arguments, rows, ahead, walk, finishes=True, whole=whole, known=height
        )  # fmt: skip

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
        narrow = replace(micro, columns=micro.lanes)
        if_else(b, several, lambda: compute(sums, stride), lambda: compute(sums, stride, narrow))
        wanted = b.select(here, b.minimum_int(rows, const_i64(micro.rows)), const_i64(0))
        for_loop(b, const_i64(0), wanted, const_i64(1), [], copy_row)

    here = b.icmp("eq", elsewhere, const_i64(0))
    low = b.binary("urem", rows, const_i64(frame.target.rest_rows))
    high = b.icmp("uge", rows, const_i64(micro.rows))
    filled = b.binary("or", high, b.icmp("eq", low, const_i64(0)))
    if known:
        filled = b.binary("or", filled, b.icmp("eq", rows, const_i64(known)))
    whole = b.binary("and", b.binary("and", filled, here), b.icmp("uge", columns, const_i64(micro.columns)))
    if_else(b, whole, lambda: compute(first, memory.strides[-2]), cut)


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


def _part(frame: Frame, op: Op) -> None:
    b, memory = frame.b, frame.memories[op.operands[0]]
    at = (b.mul(frame.value(value), stride) for value, stride in zip(op.operands[1:], memory.strides, strict=True))
    frame.add_memory(op.result, b.gep(memory.element, memory.start, reduce(b.add, at)))


def _panel_sum(frame: Frame, op: Op) -> None:
    """One chain of additions per row: rows of a block lie side by side."""
    b, width = frame.b, op.attrs["width"]
    assert isinstance(width, int)
    a, c = (frame.memories[op.operands[i]] for i in (0, 2))
    i, row, depth, done = (frame.value(op.operands[n]) for n in (1, 3, 4, 5))
    start = b.gep(a.element, a.start, b.mul(b.mul(i, a.dims[0]), const_i64(width)))
    place, rows = b.gep(c.element, c.start, row), vector(a.element, width)
    align = a.element.bits // 8
    fresh = b.icmp("eq", done, const_i64(0))
    begun = choose(b, fresh, lambda: [zero(rows)], lambda: [b.load(rows, place, align)])

    def step(k: Value, state: list[Value]) -> Sequence[Value]:
        term = b.load(rows, b.gep(a.element, start, b.mul(k, const_i64(width))), align)
        return [b.fadd(state[0], term)]

    (total,) = for_loop(b, const_i64(0), depth, const_i64(1), begun, step)
    b.store(total, place, align)


Emit = Callable[[Frame, Op], None]

_REGION_OPS: dict[str, Emit] = {
    "cpu.scratch": _scratch,
    "cpu.part": _part,
    "cpu.loop": _loop,
    "cpu.when": _when,
    "cpu.vector_loop": emit_vector_loop,
    "cpu.fold": emit_fold,
    "cpu.tree": _tree,
    "cpu.running": _running,
    "cpu.turn": emit_turn,
    "cpu.chains": emit_chains,
    "cpu.pack": emit_pack,
    "cpu.micro_kernel": _micro_kernel,
    "cpu.finished_block": _finished_block,
    "cpu.row_product": emit_row_product,
    "cpu.panel_sum": _panel_sum,
}


@cache
def _emitter(name: str) -> Emit | None:
    """How an operation is written that is more than one instruction. Rooms of what few programs have are imported when
    one has it."""
    match name:
        case "cpu.pack_groups":
            from tesserac.target.cpu.group_panels import emit_pack_groups

            return emit_pack_groups
        case "cpu.sort":
            from tesserac.target.cpu.sorts import emit_sort

            return emit_sort
        case "cpu.sort_run":
            from tesserac.target.cpu.sorted_runs import emit_sort_run

            return emit_sort_run
        case "cpu.merge_runs":
            from tesserac.target.cpu.sorted_runs import emit_merge_runs

            return emit_merge_runs
        case "cpu.fold_at":
            from tesserac.target.cpu.place_folds import emit_fold_at

            return emit_fold_at
        case "cpu.fold_few":
            from tesserac.target.cpu.few_places import emit_fold_few

            return emit_fold_few
        case "cpu.pack_tiles":
            from tesserac.target.cpu.tile_panels import emit_pack_tiles

            return emit_pack_tiles
        case "cpu.tile_product":
            from tesserac.target.cpu.tile_products import emit_tile_product

            return emit_tile_product
        case "cpu.window_product":
            from tesserac.target.cpu.window_products import emit_window_product

            return emit_window_product
    return _REGION_OPS.get(name)
