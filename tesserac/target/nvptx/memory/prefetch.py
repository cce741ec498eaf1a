"""Blocks that the second cache is asked for, while programs that read them have not begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tesserac.ir.core import Op
from tesserac.target import flow
from tesserac.target.llvm_types import I32, I64, VOID, Value, const_i64, const_int
from tesserac.target.nvptx.context import Context
from tesserac.tile.gpu.model.values import fragment, integer, kernel_grid
from tesserac.tile.gpu.rows.prefetch import AHEAD
from tesserac.types.dims import product

if TYPE_CHECKING:
    from tesserac.target.nvptx.memory.accesses import Place

LINE_BYTES = 128


def emit_ahead(ctx: Context, load: Op, place: Place) -> None:
    """Each lane asks for one line of what its team reads in the program that the load names. The last program is not
    asked for: of several rows it may have fewer."""
    if AHEAD not in load.attrs:
        return
    b, ahead, last = ctx.b, integer(load, AHEAD), place.axes[-1]
    rows = place.axes[0].block if len(place.axes) > 1 else 1
    stride = b.mul(place.memory.strides[0], const_i64(place.bytes))
    row = b.mul(b.minimum_int(b.sub(last.stop, last.start), const_i64(last.block)), const_i64(place.bytes))
    size = b.add(b.mul(stride, const_i64(rows - 1)), row)
    here = b.cast("ptrtoint", b.gep(place.element, place.memory.pointer, place.start), I64)
    team = sum(1 << i for i, bit in enumerate(fragment(load.result).layout.lanes) if bit is not None)
    lane = b.binary("and", ctx.lane, const_int(I32, team))
    line = b.mul(b.cast("zext", lane, I64), const_i64(LINE_BYTES))
    address = b.add(b.add(here, line), b.mul(stride, const_i64(ahead * rows)))
    further = b.add(ctx.program, const_i64(ahead + 1))
    is_there = b.icmp("slt", further, ctx.dim(product(kernel_grid(ctx.kernel))))
    wanted = b.binary("and", is_there, b.icmp("slt", line, size))

    flow.if_then(b, wanted, lambda: ask_for_line(ctx, address))


def ask_for_line(ctx: Context, address: Value) -> None:
    """The second cache, for the line of memory at an address."""
    ctx.b.asm(VOID, "prefetch.global.L2 [$0];", "l", [address])
