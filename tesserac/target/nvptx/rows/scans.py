"""Running folds of a block that stands in memory: one thread walks each row, in place.

A chain of additions has to wait for each of its results; what it adds does not, so several elements are read ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.target import flow
from tesserac.target.llvm_types import I64, Value, const_i64
from tesserac.target.nvptx.context import Context, memory_type
from tesserac.target.nvptx.memory.accesses import to_memory, to_register
from tesserac.target.nvptx.products.copies import barrier
from tesserac.target.nvptx.registers.conversions import constant
from tesserac.target.nvptx.registers.fragments import FOLDS
from tesserac.target.nvptx.registers.scalars import emit_rule
from tesserac.tile.bodies import identity_of
from tesserac.tile.gpu.kernels.scans import room_operands, room_shape
from tesserac.tile.gpu.model.values import integer, memory, text
from tesserac.types.dtype import DType

AHEAD = 8


def emit_scan_rows(ctx: Context, op: Op) -> None:
    """Thread t walks the rows t, t + threads, ..."""
    room, _, _ = room_operands(op)
    shape, dim = room_shape(room), integer(op, "dim")
    rows = 1
    for size in (*shape[:dim], *shape[dim + 1 :]):
        rows *= size
    walk = _Walk(ctx, op)

    def row(number: Value, _: list[Value]) -> Sequence[Value]:
        walk.row(number)
        return []

    first = ctx.b.cast("zext", ctx.thread, I64)
    flow.for_loop(ctx.b, first, const_i64(rows), const_i64(ctx.threads), [], row)


def emit_subtrees(ctx: Context, op: Op) -> None:
    """Level by level: each node folds two neighbours of the level below. All threads of a block wait for each other."""
    b, (*at, mem) = ctx.b, op.operands
    held, kind = ctx.memories[mem], text(op, "kind")
    dtype, element = held.type.dtype, memory_type(held.type.dtype)
    row = const_i64(0)
    for value, stride in zip(at, held.strides, strict=False):
        row = b.add(row, b.mul(ctx.indices[value], stride))
    start, below = b.gep(element, held.pointer, row), held.strides[-2]

    def load(place: Value) -> Value:
        return to_register(ctx, b.load(element, b.gep(element, start, place), element.bits // 8), dtype)

    def level(number: Value, _: list[Value]) -> Sequence[Value]:
        nodes = b.mul(number, below)
        children = b.sub(nodes, below)

        def node(j: Value, _: list[Value]) -> Sequence[Value]:
            left = b.add(children, b.mul(j, const_i64(2)))
            both = emit_rule(b, FOLDS[kind], dtype, [load(left), load(b.add(left, const_i64(1)))])
            b.store(to_memory(ctx, both, dtype), b.gep(element, start, b.add(nodes, j)), element.bits // 8)
            return []

        count = b.binary("lshr", ctx.dim(held.type.dims[-1]), number)
        flow.for_loop(b, b.cast("zext", ctx.thread, I64), count, const_i64(ctx.threads), [], node)
        barrier(ctx)
        return []

    flow.for_loop(b, const_i64(1), ctx.dim(held.type.dims[-2]), const_i64(1), [], level)


class _Walk:
    def __init__(self, ctx: Context, op: Op) -> None:
        self.ctx, self.b = ctx, ctx.b
        room, totals, axis = room_operands(op)
        self.kind = text(op, "kind")
        self.dtype: DType = memory(room[0]).dtype
        self.element = memory_type(self.dtype)
        self.pointer, self.totals = self._start(room), self._start(totals)
        shape, dim = room_shape(room), integer(op, "dim")
        self.step = _product(shape[dim + 1 :])
        """Between neighbours of a row; rows with numbers this far apart are a whole block of the dim apart."""
        self.length = shape[dim]
        held = ctx.axes[axis]
        self.count = self.b.minimum_int(const_i64(held.block), self.b.sub(held.stop, held.start))

    def _start(self, room: Sequence[IRValue]) -> Value:
        """Where this program's room begins."""
        mem = self.ctx.memories[room[0]]
        if len(room) == 1:
            return mem.pointer
        place = self.b.mul(self.ctx.indices[room[1]], mem.strides[0])
        return self.b.gep(self.element, mem.pointer, place)

    def row(self, number: Value) -> None:
        b = self.b
        outer, inner = b.binary("udiv", number, const_i64(self.step)), b.binary("urem", number, const_i64(self.step))
        first = b.gep(self.element, self.pointer, b.add(b.mul(outer, const_i64(self.step * self.length)), inner))
        whole = b.binary("and", b.maximum_int(self.count, const_i64(0)), const_i64(-AHEAD))
        held = [constant(self.dtype, identity_of(self.kind, self.dtype))]
        for low, high, count in ((const_i64(0), whole, AHEAD), (whole, self.count, 1)):
            held = flow.for_loop(b, low, high, const_i64(count), held, partial(self._steps, first, count))
        [total] = held
        self._store(total, b.gep(self.element, self.totals, number))

    def _steps(self, first: Value, count: int, start: Value, held: list[Value]) -> list[Value]:
        places = [self.b.mul(self.b.add(start, const_i64(i)), const_i64(self.step)) for i in range(count)]
        addresses = [self.b.gep(self.element, first, place) for place in places]
        loaded = [self.b.load(self.element, address, self.element.bits // 8) for address in addresses]
        [total] = held
        for address, value in zip(addresses, loaded, strict=True):
            total = emit_rule(self.b, FOLDS[self.kind], self.dtype, [total, to_register(self.ctx, value, self.dtype)])
            self._store(total, address)
        return [total]

    def _store(self, value: Value, address: Value) -> None:
        self.b.store(to_memory(self.ctx, value, self.dtype), address, self.element.bits // 8)


def _product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total
