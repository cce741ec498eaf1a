"""Addresses in stages of shared memory, and what threads put there."""

from __future__ import annotations

from tesserac.ir.core import Op
from tesserac.target.llvm_types import I8, I32, I64, Value, const_i64, const_int
from tesserac.target.nvptx.context import Context
from tesserac.target.nvptx.memory.accesses import store_vector, to_memory
from tesserac.tile.gpu.model.layout import VECTOR_BYTES
from tesserac.tile.gpu.model.shared import SharedLayout
from tesserac.tile.gpu.model.values import fragment


def shared_offset(ctx: Context, layout: SharedLayout, row: Value, column: Value) -> Value:
    """The byte, in a stage, of an element at i32 coordinates."""
    b = ctx.b
    if layout.transposed:
        return shared_offset(ctx, layout.stored, column, row)
    plain = b.mul(row, const_int(I32, layout.row_bytes))
    if layout.panel != layout.shape[1]:
        shift = const_int(I32, layout.panel.bit_length() - 1)
        panel = b.binary("lshr", column, shift)
        plain = b.add(plain, b.mul(panel, const_int(I32, layout.panel_bytes)))
        column = b.binary("and", column, const_int(I32, layout.panel - 1))
    plain = b.add(plain, b.mul(column, const_int(I32, layout.element)))
    return swizzled(ctx, plain, layout.swizzle_bits) if layout.swizzled else plain


def swizzled(ctx: Context, offset: Value, bits: int) -> Value:
    """Address bits 4 to 6 ^= bits 7 to 9, or as many as `bits` says."""
    high = ctx.b.binary("lshr", offset, const_int(I32, 3))
    return ctx.b.binary("xor", offset, ctx.b.binary("and", high, const_int(I32, bits)))


def emit_put(ctx: Context, op: Op) -> None:
    """Each thread its elements, neighbours in vectors where they lie side by side. Copies write the same."""
    source, room = op.operands
    ty, ring, values = fragment(source), ctx.rings[room], ctx.fragments[source]
    layout = ring.type.layout
    mine = ctx.coordinates(ty.layout)
    row, column = (ctx.i32(mine.get(dim, const_i64(0))) for dim in (0, 1))
    start = shared_offset(ctx, layout, row, column)
    along = 0 if layout.transposed else 1
    width = min(ty.layout.vector(along), VECTOR_BYTES // layout.element)
    for register in range(0, ty.layout.count, width):
        step = ty.layout.offsets[register]
        offset = moved_offset(ctx, layout, start, step.get(0, 0), step.get(1, 0))
        address = ctx.b.gep(I8, ring.pointer, ctx.b.cast("zext", offset, I64))
        group = [to_memory(ctx, v, ty.dtype) for v in values[register : register + width]]
        store_vector(ctx, group, address, layout.element)


def moved_offset(ctx: Context, layout: SharedLayout, offset: Value, rows: int, columns: int) -> Value:
    """The byte of an element some rows and columns on, whose steps share no bits with those to `offset`: a swizzle of
    both is that of each."""
    moved = const_int(I32, layout.offset(rows, columns))
    return ctx.b.binary("xor", offset, moved) if layout.swizzled else ctx.b.add(offset, moved)
