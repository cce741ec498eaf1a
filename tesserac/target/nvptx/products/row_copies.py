"""Copies of rows at computed places into stages, in pieces of 16 bytes that no register sees.

Each thread knows the places of the rows of which it copies a piece. Rows that are not there, and what lies behind the
end of a row, are filled with zeros by the hardware. Where pieces are not aligned in memory, elements go one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.forms import operand_maps
from tesserac.target import flow
from tesserac.target.llvm_types import I8, I32, I64, VOID, Value, const_i64, const_int, zero
from tesserac.target.nvptx.context import Axis, Context, memory_type
from tesserac.target.nvptx.memory.accesses import all_of
from tesserac.target.nvptx.memory.gathers import Table, table_of
from tesserac.target.nvptx.products.copies import either, stage_pointer
from tesserac.target.nvptx.products.stages import shared_offset
from tesserac.target.nvptx.registers.conversions import convert
from tesserac.tile.gpu.layouts.row_copies import row_side
from tesserac.tile.gpu.model.shared import ATOM_ROWS, CHUNK_BYTES, PANEL_BYTES
from tesserac.tile.gpu.model.types import FragmentType
from tesserac.tile.gpu.model.values import fragment
from tesserac.tile.gpu.products.gathers import coordinates, cut_axes
from tesserac.types.dtype import I64 as INTEGER


def emit_copy_rows(ctx: Context, op: Op) -> None:
    copy = _RowCopy(ctx, op)
    either(ctx, copy.aligned(), copy.pieces, lambda: copy.each(lambda row: copy.cut(row, copy.one_by_one)))


@dataclass(frozen=True)
class _Row:
    """A row of which a thread copies pieces: how far it is from the thread's first, where its first piece is, and
    whether it is there."""

    further: int
    source: Value
    good: Value


class _RowCopy:
    """One block on its way into one stage."""

    def __init__(self, ctx: Context, op: Op) -> None:
        self.ctx, self.b, self.op = ctx, ctx.b, op
        ring = ctx.rings[op.operands[0]]
        self.layout = ring.type.layout.stored
        self.stage = stage_pointer(ctx, ring, ctx.indices[op.operands[1]])
        self.memory = ctx.memories[op.operands[2]]
        self.element = memory_type(self.memory.type.dtype)
        self.width = CHUNK_BYTES // self.layout.element
        self.side = row_side(self.layout.shape[1] * self.layout.element)
        piece = self.b.binary("and", ctx.thread, const_int(I32, self.side - 1))
        self.column = self.b.mul(piece, const_int(I32, self.width))
        """Of the first piece of a row that this thread copies."""
        self.base = const_i64(0)
        """Where rows begin, but for the place of each."""
        self.rows: Axis | None = None
        for dim, (value, dims) in enumerate(zip(coordinates(op), operand_maps(op), strict=True)):
            self.follow(dim, value, dims)
        self.own_row = ctx.i32(ctx.coordinates(fragment(self.places).layout).get(0, const_i64(0)))
        self.first = shared_offset(ctx, self.layout, self.own_row, self.column)
        """Where the first piece of this thread goes."""

    def follow(self, dim: int, value: IRValue, dims: Sequence[int | None]) -> None:
        """One coordinate: the places of rows, the axis that is dense, or where all of the block is."""
        b, cut = self.b, cut_axes(self.op)
        if isinstance(value.type, FragmentType):
            self.places, self.dim = value, dim
            self.rows = self.ctx.axes[cut[dims[0]]] if dims[0] in cut else None
            return
        if value in self.ctx.axes:
            self.columns = self.ctx.axes[value]
        start = self.columns.start if value in self.ctx.axes else self.ctx.indices[value]
        self.base = b.add(self.base, b.mul(start, self.memory.strides[dim]))

    def aligned(self) -> Value:
        """Whether the pieces of all rows are; equal in all threads."""
        b, mem = self.b, self.memory
        first = b.cast("ptrtoint", b.gep(self.element, mem.pointer, self.base), I64)
        places = (first, b.mul(mem.strides[self.dim], const_i64(self.layout.element)))
        low = [b.binary("and", place, const_i64(CHUNK_BYTES - 1)) for place in places]
        return all_of(self.ctx, [b.icmp("eq", rest, const_i64(0)) for rest in low])

    def pieces(self) -> None:
        """Rows of which the block has whole pieces need no test of each."""
        if self.columns.whole:
            self.each(self.whole)
            return
        end = self.b.add(self.columns.start, const_i64(self.columns.block))
        inside = self.b.icmp("sle", end, self.columns.stop)
        cut = lambda: self.each(lambda row: self.cut(row, self.piece))  # noqa: E731
        either(self.ctx, inside, lambda: self.each(self.whole), cut)

    def each(self, copy: Callable[[_Row], None]) -> None:
        """Copies the pieces that this thread has of each of its rows."""

        def all_of_them() -> None:
            rest = self.op.operands[3 + len(coordinates(self.op)) :]
            table = table_of(self.ctx, self.op, self.op.operands[2], (self.places,), rest)
            for register in range(fragment(self.places).layout.count):
                copy(self.row(table, register))
            table.tell()

        mine = self.owner()
        flow.if_then(self.b, mine, all_of_them) if mine is not None else all_of_them()

    def owner(self) -> Value | None:
        """Whether this thread copies, where there are too few rows for all."""
        layout = fragment(self.places).layout
        threads, used = 1 << len(layout.lanes) + len(layout.warps), self.layout.shape[0] * self.side
        if used >= threads:
            return None
        mine = self.b.binary("and", self.ctx.thread, const_int(I32, threads - 1))
        return self.b.icmp("ult", mine, const_int(I32, used))

    def row(self, table: Table, register: int) -> _Row:
        b, ctx, ty, mem = self.b, self.ctx, fragment(self.places), self.memory
        further = ty.layout.offsets[register].get(0, 0)
        row = b.add(ctx.coordinates(ty.layout).get(0, const_i64(0)), const_i64(further))
        there = [] if self.rows is None else [b.icmp("slt", b.add(self.rows.start, row), self.rows.stop)]
        index = convert(b, ctx.fragments[self.places][register], ty.dtype, INTEGER)
        index, good = table.checked(0, index, self.dim, all_of(ctx, there))
        own = b.add(self.base, b.cast("zext", self.column, I64))
        place = b.add(own, b.mul(index, mem.strides[self.dim]))
        source = b.select(good, b.gep(self.element, mem.pointer, place), mem.pointer)
        return _Row(further, source, good)

    def whole(self, row: _Row) -> None:
        """All pieces of a row that is there, or zeros."""
        size = self.b.select(row.good, const_int(I32, CHUNK_BYTES), const_int(I32, 0))
        for number in self.steps:
            source = self.b.gep(self.element, row.source, number)
            self.started(source, size, self.target(row, number))

    def cut(self, row: _Row, copy: Callable[[Value, Value, Value], None]) -> None:
        """The pieces of a row that ends: of each where it is, how many elements of it there are, where it goes."""
        b, none = self.b, const_int(I32, 0)
        left = b.sub(self.ctx.room(self.columns, const_i64(0)), self.column)
        for number in self.steps:
            here = b.select(row.good, b.sub(left, const_int(I32, number)), none)
            some = b.icmp("sgt", here, none)
            source = b.select(some, b.gep(self.element, row.source, number), self.memory.pointer)
            here = b.maximum_int(b.minimum_int(here, const_int(I32, self.width)), none)
            copy(source, here, self.target(row, number))

    @property
    def steps(self) -> range:
        """How far from its first piece of a row each piece of a thread is."""
        return range(0, self.layout.shape[1], self.side * self.width)

    def target(self, row: _Row, number: int) -> Value:
        """Where a piece goes. Rows some atoms further lie alike, and inside a panel the step between the pieces of a
        thread changes one bit, below those that rows change."""
        b, layout, step = self.b, self.layout, number * self.layout.element
        if layout.swizzled and layout.row_bytes == PANEL_BYTES and row.further % ATOM_ROWS == 0:
            panel, inside = divmod(step, PANEL_BYTES)
            first = self.first if not inside else b.binary("xor", self.first, const_int(I32, inside))
            offset = b.add(first, const_int(I32, panel * layout.panel_bytes + row.further * layout.row_bytes))
        else:
            own = b.add(self.own_row, const_int(I32, row.further))
            offset = shared_offset(self.ctx, layout, own, b.add(self.column, const_int(I32, number)))
        return b.gep(I8, self.stage, b.cast("zext", offset, I64))

    def piece(self, source: Value, left: Value, target: Value) -> None:
        self.started(source, self.b.mul(left, const_int(I32, self.layout.element)), target)

    def started(self, source: Value, size: Value, target: Value) -> None:
        self.b.intrinsic("llvm.nvvm.cp.async.cg.shared.global.16.s", VOID, [target, source, size])

    def one_by_one(self, source: Value, left: Value, target: Value) -> None:
        b, size = self.b, self.layout.element
        count = b.cast("sext", left, I64)

        def body(number: Value, _: list[Value]) -> list[Value]:
            here = b.icmp("slt", number, count)
            address = b.select(here, b.gep(self.element, source, number), self.memory.pointer)
            loaded = b.load(self.element, address, size)
            b.store(b.select(here, loaded, zero(loaded.type)), b.gep(self.element, target, number), size)
            return []

        flow.for_loop(b, const_i64(0), const_i64(self.width), const_i64(1), [], body)
