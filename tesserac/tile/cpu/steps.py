"""Loops that each place of an axis goes through by itself: vectors of places, and in them the loop.

    tile.apart(%low, %high, %h) {...} {...}      cpu.vector_loop(0, %extent) { ^(%i):
                                           ==>      %last = cpu.loop(%low, %high, %first) { ^(%t, %h): ... cpu.yield }
                                                    cpu.store(%last, ...) }

So what is carried stays in registers from one iteration to the next. Memory that an iteration reads may be what one
before it wrote, by another name: nothing is read before the iteration that asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Block, Op, Value
from tesserac.ir.types import INDEX
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.dialect import Shape
from tesserac.tile.cpu.elements import Evaluator, memory_places
from tesserac.tile.cpu.indexed import coordinates
from tesserac.tile.cpu.shapes import loop_shape
from tesserac.tile.cpu.tiles import Axis, Held, LoweringError, Mapped, Scalar, Tile, mapped_axes
from tesserac.tile.dialect import compute_scalar, tile_type

LowerOp = Callable[[Context, Op], None]
"""Lowers one neutral operation that stands for elements, or gives an index."""

MOST_PARTS, TEMPORARIES = 4, 5
"""Vectors at a time, at most, and the registers that each takes beside what is carried."""


def lower_apart(ctx: Context, op: Op, lower_op: LowerOp) -> None:
    low, high = (ctx.value(v) for v in op.operands[:2])
    inits = [ctx.tile(v) for v in op.operands[2:]]
    step, last = (region.block for region in op.regions)
    axis = _axis(ctx, op, inits)
    places = Block([INDEX], ["i"])
    with ctx.inside(places):
        at = places.args
        firsts = [Evaluator(ctx, ctx.depth).element(tile, _own(tile, at)) for tile in inits]
        types = [compute_scalar(tile.type) for tile in inits]
        steps = Block([INDEX, *types], ["t"])
        with ctx.inside(steps):
            ctx.values[step.args[0]] = steps.args[0]
            yielded = _region(ctx, step, step.args[1:], steps.args[1:], axis, at, lower_op)
            ctx.builder.op("cpu.yield", yielded)
        loop = ctx.builder.op("cpu.loop", (low, high, *firsts), types, {"step": 1}, [steps])
        _region(ctx, last, last.args, loop.results, axis, at, lower_op)
        ctx.builder.op("cpu.yield")
    attrs = {"shape": _shape(ctx, places, len(types))}
    ctx.builder.op("cpu.vector_loop", (ctx.dim(0), axis.extent), attrs=attrs, blocks=[places])
    for store in (inner for inner in op.walk() if inner.name == "tile.store"):
        ctx.written(ctx.value(store.operands[1]))


def _axis(ctx: Context, op: Op, inits: Sequence[Tile]) -> Axis:
    """The axis that all of it is over."""
    stores = [inner for inner in op.walk() if inner.name == "tile.store"]
    found = [ctx.axes[v] for store in stores for v in store.operands[2:] if v in ctx.axes]
    found += [axis for tile in inits for axis in tile.axes if axis is not None]
    if not found or any(axis is not found[0] for axis in found):
        raise LoweringError("is over several axes", op)
    return found[0]


def _own(tile: Tile, at: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(at) if tile.type.shape else ()


def _region(
    ctx: Context,
    block: Block,
    carried: Sequence[Value],
    values: Sequence[Value],
    axis: Axis,
    at: Sequence[Value],
    lower_op: LowerOp,
) -> list[Value]:
    """One iteration at one place: all elements are computed before the first is stored. Gives what it yields."""
    evaluator = Evaluator(ctx, ctx.depth)
    for arg, value in zip(carried, values, strict=True):
        held = ctx.tiles[arg] = Held(tile_type(arg), (axis,) if tile_type(arg).shape else ())
        evaluator.give(held, _own(held, at), value)
    stores: list[Op] = []
    for op in block.ops[:-1]:
        if op.name == "tile.store":
            stores.append(op)
        elif op.name == "tile.map":
            ctx.tiles[op.result] = _mapped(ctx, op)
        else:
            lower_op(ctx, op)
    tiles = [ctx.tile(store.operands[0]) for store in stores]
    written = [evaluator.unrounded(tile, _own(tile, at)) for tile in tiles]
    rest = [ctx.tile(value) for value in block.terminator.operands]
    yielded = [evaluator.element(tile, _own(tile, at)) for tile in rest]
    for store, value in zip(stores, written, strict=True):
        memory, to = ctx.value(store.operands[1]), coordinates(ctx, store.operands[2:])
        own = [at[0] for place in to if isinstance(place, Axis)]
        ctx.builder.op("cpu.store", (value, memory, *memory_places(ctx, to, tuple(own))))
    return yielded


def _mapped(ctx: Context, op: Op) -> Tile:
    """A map, which is computed where it is used: nothing is kept in memory for later readers."""
    operands = tuple(ctx.tile(value) for value in op.operands)
    tile = Mapped(tile_type(op.result), op, operands, mapped_axes(op, operands))
    if tile.type.shape:
        return tile
    return Scalar(tile.type, Evaluator(ctx, ctx.depth).element(tile, ()))


def _shape(ctx: Context, body: Block, carried: int) -> Shape:
    """As many vectors at a time as registers hold what is carried of."""
    lanes, target = loop_shape(ctx.target, body).lanes, ctx.target
    fitting = (p for p in (MOST_PARTS, 2) if p * (carried + TEMPORARIES) <= target.registers)
    return Shape(lanes, next(fitting, 1))
