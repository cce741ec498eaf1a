"""Kernels of the CPU dialect as functions of an LLVM module.

    void kernel(ptr ctx, i64 begin, i64 end, i64 worker)

runs the programs begin .. end of the grid, the last axis varying fastest. `ctx` is a list of 8-byte slots: the memory
in the order of the kernel's arguments, the values of its symbols sorted by name, the start of the scratch and the bytes
of it that each worker has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, reduce

from tesserac.ir.core import Block, Op, attr
from tesserac.target.cpu.elements.bodies import emit_simple
from tesserac.target.cpu.elements.folds import emit_fold
from tesserac.target.cpu.elements.frame import Frame
from tesserac.target.cpu.elements.groups import emit_vector_loop, short_loop
from tesserac.target.cpu.elements.running_chains import emit_chains
from tesserac.target.cpu.elements.transpose import emit_transpose
from tesserac.target.cpu.elements.trees import emit_running, emit_tree
from tesserac.target.cpu.products.panels import emit_pack
from tesserac.target.cpu.products.register_blocks import emit_finished_block, emit_micro_kernel
from tesserac.target.cpu.products.row_products import emit_row_product
from tesserac.target.cpu.shared import computes, emit_shared, has_sums, is_shared
from tesserac.target.emit import Function, Module
from tesserac.target.flow import choose, for_loop, if_then
from tesserac.target.llvm_types import I8, I64, PTR, VOID, Value, const_i64, vector, zero
from tesserac.tile.cpu.target import TARGETS
from tesserac.tile.dialect import CODE, grid, kernel_memrefs, memref_type
from tesserac.types.dims import Dim


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


def _part(frame: Frame, op: Op) -> None:
    b, memory = frame.b, frame.memories[op.operands[0]]
    at = (b.mul(frame.value(value), stride) for value, stride in zip(op.operands[1:], memory.strides, strict=True))
    whole, part = memref_type(op.operands[0]), memref_type(op.result)
    strides = dict(zip(whole.strides, memory.strides, strict=True))
    dims, apart = map(frame.dim, part.dims), (strides.get(stride) or frame.dim(stride) for stride in part.strides)
    start = b.gep(memory.element, memory.start, reduce(b.add, at))
    frame.memories[op.result] = replace(memory, start=start, dims=tuple(dims), strides=tuple(apart))


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
    "cpu.transpose": emit_transpose,
    "cpu.chains": emit_chains,
    "cpu.pack": emit_pack,
    "cpu.micro_kernel": emit_micro_kernel,
    "cpu.finished_block": emit_finished_block,
    "cpu.row_product": emit_row_product,
    "cpu.panel_sum": _panel_sum,
}


@cache
def _emitter(name: str) -> Emit | None:
    """How an operation is written that is more than one instruction. Rooms of what few programs have are imported when
    one has it."""
    match name:
        case "cpu.pack_groups":
            from tesserac.target.cpu.products.group_panels import emit_pack_groups

            return emit_pack_groups
        case "cpu.sort":
            from tesserac.target.cpu.indexed.sorts import emit_sort

            return emit_sort
        case "cpu.sort_run":
            from tesserac.target.cpu.indexed.sorted_runs import emit_sort_run

            return emit_sort_run
        case "cpu.merge_runs":
            from tesserac.target.cpu.indexed.sorted_runs import emit_merge_runs

            return emit_merge_runs
        case "cpu.fold_at":
            from tesserac.target.cpu.indexed.place_folds import emit_fold_at

            return emit_fold_at
        case "cpu.fold_few":
            from tesserac.target.cpu.indexed.few_places import emit_fold_few

            return emit_fold_few
        case "cpu.pack_tiles":
            from tesserac.target.cpu.products.tile_panels import emit_pack_tiles

            return emit_pack_tiles
        case "cpu.tile_product":
            from tesserac.target.cpu.products.tile_products import emit_tile_product

            return emit_tile_product
        case "cpu.window_product":
            from tesserac.target.cpu.products.window_products import emit_window_product

            return emit_window_product
    return _REGION_OPS.get(name)
