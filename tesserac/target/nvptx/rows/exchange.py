"""What warps of a program tell each other through shared memory: one number each."""

from __future__ import annotations

from tesserac.ir.core import Op
from tesserac.target import flow
from tesserac.target.llvm_types import I32, I64, const_int
from tesserac.target.nvptx.context import Context, memory_type
from tesserac.target.nvptx.memory.accesses import to_memory, to_register
from tesserac.tile.gpu.model.values import fragment


def emit_publish(ctx: Context, op: Op) -> None:
    """The first lane of each warp writes its value."""
    source, room = op.operands
    (value,) = ctx.fragments[source]
    dtype = fragment(source).dtype
    element = memory_type(dtype)
    warp = ctx.b.cast("zext", ctx.b.binary("lshr", ctx.thread, const_int(I32, 5)), I64)
    address = ctx.b.gep(element, ctx.memories[room].pointer, warp)
    written, first = to_memory(ctx, value, dtype), ctx.b.icmp("eq", ctx.lane, const_int(I32, 0))
    flow.if_then(ctx.b, first, lambda: ctx.b.store(written, address, element.bits // 8))


def emit_collect(ctx: Context, op: Op) -> None:
    mem = ctx.memories[op.operands[0]]
    dtype = mem.type.dtype
    for warp, result in enumerate(op.results):
        element = memory_type(dtype)
        loaded = ctx.b.load(element, ctx.b.gep(element, mem.pointer, warp), element.bits // 8)
        ctx.fragments[result] = [to_register(ctx, loaded, dtype)]
