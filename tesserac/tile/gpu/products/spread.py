"""Pass `spread`: numbers of a round that many lanes of a warp need are loaded once by each warp.

    %m = gpu.load(%mem, %i) : fragment<[64, 1], r[0:1 0:8 0:16 0:32] l[0:2 0:4 - - -]>
  becomes
    %few = gpu.load(%mem, %i) : fragment<[64, 1], r[0:1] l[0:2 0:4 0:8 0:16 0:32]>
    %m = gpu.spread(%few) : fragment<[64, 1], r[0:1 0:8 0:16 0:32] l[0:2 0:4 - - -]>

before the first operation that reads it. A load by all lanes takes a register for each number from when it starts, and
as many accesses; exchanges between lanes are quick, and what comes from memory fits into a few registers for a whole
round.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op
from tesserac.tile.gpu.model.layout import Layout
from tesserac.tile.gpu.model.values import fragment, memory
from tesserac.tile.gpu.products.gathers import row_places

WORD = 4
"""Bytes that lanes exchange at once."""


def spread_loads(kernel: Op) -> None:
    """Changes the kernel in place."""
    copying = row_places(kernel)
    for loop in [op for op in kernel.walk() if op.name == "gpu.for"]:
        if sum(op.name == "gpu.dot" for op in loop.body.ops) > 1:
            for op in [op for op in loop.body.ops if op.name == "gpu.load" and op not in copying]:
                _spread(op)


def _spread(load: Op) -> None:
    ty, block = fragment(load.result), load.parent
    assert block is not None
    layout = dealt(ty.layout)
    users = [user for user, _ in load.result.uses if user.parent is block]
    if layout is None or memory(load.operands[0]).space != "global" or ty.dtype.bytes != WORD or not users:
        return
    few = Builder.before(load).value(
        "gpu.load", load.operands, replace(ty, layout=layout), dict(load.attrs), hint=load.result.name
    )
    needed = min(users, key=block.place)
    load.result.replace_all_uses(Builder.before(needed).value("gpu.spread", (few,), ty, hint=load.result.name))
    load.erase()


def dealt(layout: Layout) -> Layout | None:
    """The same block with no number in two lanes, where there are enough of them."""
    copies = layout.lanes.count(None)
    if not copies or layout.ends or len(layout.registers) < copies:
        return None
    kept = len(layout.registers) - copies
    moved = iter(layout.registers[kept:])
    lanes = tuple(next(moved) if bit is None else bit for bit in layout.lanes)
    return Layout(layout.registers[:kept], lanes, layout.warps)
