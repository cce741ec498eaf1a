"""Blocks in order, each with the tree over all before it: the counter of a tree, which is read before every block.

Scalars travel as values; tiles stay in scratch, one for what stands before a block and one for what the block gives.
"""

from __future__ import annotations

from tesserac.ir.core import Block, Op
from tesserac.ir.types import INDEX
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.loops import LowerOps, bind, check_loads, combine_level, keep_level, level_slots
from tesserac.tile.cpu.nests import Copy, lower_sinks
from tesserac.tile.cpu.reuse import in_scratch
from tesserac.tile.cpu.tiles import Scalar


def lower_running(ctx: Context, op: Op, lower_ops: LowerOps) -> None:
    check_loads(ctx, op)
    neutral, join = (region.block for region in op.regions)
    count, empty = ctx.value(op.operands[0]), [ctx.tile(v) for v in op.operands[1:]]
    scalars = [t for t in empty if isinstance(t, Scalar)]
    types = [t.value.type for t in scalars]
    compute, begin = Block([INDEX, *types], ["i"]), Block()
    combine, precede = (Block([INDEX, *types, *types], ["level"]) for _ in range(2))
    keep = Block([INDEX], ["level"])
    before = [None if isinstance(t, Scalar) else ctx.stored(t) for t in empty]
    with ctx.inside(begin):
        for tile, memory in zip(empty, before, strict=True):
            if memory is not None:
                lower_sinks(ctx, [Copy(tile, memory)])
        ctx.builder.op("cpu.yield")
    with ctx.inside(compute):
        ctx.values[neutral.args[0]] = compute.args[0]
        bind(ctx, neutral.args[1:], before, compute.args[1:])
        lower_ops(ctx, neutral)
        results = [ctx.tile(v) for v in neutral.terminator.operands]
        held = [None if isinstance(t, Scalar) else in_scratch(ctx, t) for t in results]
        ctx.builder.op("cpu.yield", [t.value for t in results if isinstance(t, Scalar)])
    slots = [None if t is None else level_slots(ctx, t, op.operands[0]) for t in held]
    with ctx.inside(combine):
        combine_level(ctx, join, combine, held, slots, lower_ops)
    with ctx.inside(precede):
        combine_level(ctx, join, precede, before, slots, lower_ops)
    with ctx.inside(keep):
        keep_level(ctx, keep.args[0], held, slots)
    regions = [compute, combine, keep, begin, precede]
    ctx.builder.op("cpu.running", (count, *(t.value for t in scalars)), (), {}, regions)
