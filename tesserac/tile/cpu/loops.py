"""Loops and trees. Scalars are carried as values, tiles in scratch; an accumulator of products starts as it is.

A carried tile keeps its scratch through the loop: the next value is written over the last one, after everything that
an element needs was read. That is right if the next value at a place needs the carried tiles at that place only;
anything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Attr, Block, Op, Value
from tesserac.ir.forms import operand_maps
from tesserac.ir.types import INDEX
from tesserac.tile.cpu.context import Context, only_user
from tesserac.tile.cpu.nests import Copy, lower_sinks
from tesserac.tile.cpu.products.lower import accumulator_scratch, is_zero, offer_result, started_accumulator
from tesserac.tile.cpu.reuse import in_scratch
from tesserac.tile.cpu.tiles import Accumulator, LoweringError, Scalar, Stored, Tile, identity, leaves
from tesserac.tile.dialect import compute_scalar, memref_type, tile_type
from tesserac.types.dims import Dim

LowerOps = Callable[[Context, Block], None]
"""Lowers the operations of a neutral block, except its terminator."""

MOST_LEVELS = 64


def lower_for(ctx: Context, op: Op, lower_ops: LowerOps) -> None:
    check_loads(ctx, op)
    low, high = (ctx.value(v) for v in op.operands[:2])
    inits, args = op.operands[2:], op.body.args[1:]
    carried = [ctx.tile(v) for v in inits]
    scalars = [t for t in carried if isinstance(t, Scalar)]
    block = Block([INDEX, *(t.value.type for t in scalars)], ["i"])
    triples = zip(carried, args, op.body.terminator.operands, strict=True)
    memory = [_carried_memory(ctx, tile, arg, value, block, low) for tile, arg, value in triples]
    with ctx.inside(block):
        ctx.values[op.body.args[0]] = block.args[0]
        bind(ctx, args, memory, block.args[1:])
        lower_ops(ctx, op.body)
        yielded = _settle(ctx, op.body.terminator.operands, memory)
        ctx.builder.op("cpu.yield", yielded)
    attrs: dict[str, Attr] = {"step": op.attrs["step"]}
    types = [t.value.type for t in scalars]
    loop = ctx.builder.op("cpu.loop", (low, high, *(t.value for t in scalars)), types, attrs, [block])
    _fill_untouched(ctx, carried, memory, low, high)
    bind(ctx, op.results, [_finished(m) for m in memory], loop.results)


def _carried_memory(
    ctx: Context, tile: Tile, arg: Value, yielded: Value, loop: Block, low: Value
) -> Stored | None:
    """Scratch for a carried tile, filled with its first value; none for a scalar."""
    if isinstance(tile, Scalar):
        return None
    dot = _product_of(arg)
    if dot is not None:
        with ctx.inside(loop):
            done = ctx.index("sub", loop.args[0], low)
        return started_accumulator(ctx, dot, tile, done)
    rescaled = _rescaled_product(arg, yielded)
    stored = ctx.stored(tile) if rescaled is None else accumulator_scratch(ctx, rescaled, tile)
    lower_sinks(ctx, [Copy(tile, stored)])
    if rescaled is not None:
        ctx.in_place[rescaled] = stored
    return stored


def _rescaled_product(arg: Value, yielded: Value) -> Op | None:
    """The product that a carried tile is the accumulator of once each of its elements was changed by itself: the next
    value of the carried one. It may then stand where that stood."""
    user = only_user(arg)
    dot = yielded.defining_op
    if user is None or dot is None or dot.name != "tile.dot" or user[0].name != "tile.map":
        return None
    scaled, position = user
    rank = len(tile_type(arg).shape)
    alone = dot.operands[2] is scaled.result and only_user(scaled.result) == (dot, 2)
    return dot if alone and operand_maps(scaled)[position] == tuple(range(rank)) else None


def _product_of(arg: Value) -> Op | None:
    """The product that a carried tile is the accumulator of."""
    user = only_user(arg)
    return user[0] if user is not None and user[0].name == "tile.dot" and user[1] == 2 else None


def bind(ctx: Context, values: Sequence[Value], memory: Sequence[Stored | None], scalars: Sequence[Value]) -> None:
    """Says what neutral values are: scratch, or the next scalar."""
    rest = iter(scalars)
    for value, stored in zip(values, memory, strict=True):
        ctx.tiles[value] = Scalar(tile_type(value), next(rest)) if stored is None else stored


def _finished(memory: Stored | None) -> Stored | None:
    """What a loop leaves can be read, also where it was an accumulator."""
    return memory.finished() if isinstance(memory, Accumulator) else memory


def _settle(ctx: Context, yielded: Sequence[Value], memory: Sequence[Stored | None]) -> list[Value]:
    """Writes yielded tiles over the carried ones; gives the scalars."""
    tiles = [ctx.tile(v) for v in yielded]
    copies = [
        Copy(tile, _with_axes(m, tile))
        for tile, m in zip(tiles, memory, strict=True)
        if m is not None and not _is_in(tile, m)
    ]
    for group in _in_order(_by_axes(copies)):
        written = {c.to.memory for c in group}
        for copy in group:
            _check_pointwise(copy.tile, written)
        lower_sinks(ctx, group)
    return [t.value for t in tiles if isinstance(t, Scalar)]


def _by_axes(copies: Sequence[Copy]) -> list[list[Copy]]:
    """Copies that one nest makes."""
    groups: dict[object, list[Copy]] = {}
    for copy in copies:
        groups.setdefault((copy.tile.type.shape, copy.axes), []).append(copy)
    return list(groups.values())


def _in_order(groups: list[list[Copy]]) -> list[list[Copy]]:
    """Nests such that none reads what an earlier one has overwritten: rows of an accumulator are rescaled by row
    statistics before those change."""
    ordered: list[list[Copy]] = []
    waiting = list(groups)
    while waiting:
        free = [g for g in waiting if not any(_reads(other, g) for other in waiting if other is not g)]
        if not free:
            raise LoweringError("carried tiles of different axes need each other's last value")
        ordered.append(free[0])
        waiting.remove(free[0])
    return ordered


def _reads(group: Sequence[Copy], written: Sequence[Copy]) -> bool:
    memory = {c.to.memory for c in written}
    return any(leaf.memory in memory for c in group for leaf, _ in leaves(c.tile, identity(c.tile)))


def _with_axes(memory: Stored, tile: Tile) -> Stored:
    """Carried scratch takes the axes of what is written: a first value such as zero has none."""
    return Stored(memory.type, memory.memory, memory.offsets, tile.axes)


def _is_in(tile: Tile, memory: Stored) -> bool:
    return isinstance(tile, Stored) and tile.memory is memory.memory


def _check_pointwise(tile: Tile, written: set[Value]) -> None:
    for leaf, places in leaves(tile, identity(tile)):
        sized = enumerate(zip(places, leaf.type.shape, strict=True))
        if leaf.memory in written and any(place != dim and size > 1 for dim, (place, size) in sized):
            raise LoweringError("a carried tile is read at other places than it is written")


def _fill_untouched(
    ctx: Context, carried: Sequence[Tile], memory: Sequence[Stored | None], low: Value, high: Value
) -> None:
    """An accumulator whose loop did not run holds nothing yet."""
    for tile, stored in zip(carried, memory, strict=True):
        if isinstance(stored, Accumulator) and is_zero(tile):
            with ctx.when(low, "ge", high):
                lower_sinks(ctx, [Copy(tile, stored.finished())])


def check_loads(ctx: Context, loop: Op) -> None:
    """A block loaded before a loop must not be used in it if the loop writes that memory."""
    inside = list(loop.walk())
    written = {ctx.values.get(op.operands[1]) for op in inside if op.name == "tile.store"}
    for value in {v for op in inside for v in op.operands if v in ctx.tiles}:
        tile = ctx.tiles[value]
        if any(leaf.memory in written for leaf, _ in leaves(tile, identity(tile))):
            raise LoweringError("a block loaded before a loop is used in it, and the loop writes that memory", loop)


def lower_tree(ctx: Context, op: Op, lower_ops: LowerOps) -> None:
    check_loads(ctx, op)
    offer_result(ctx, op)
    count, empty = ctx.value(op.operands[0]), [ctx.tile(v) for v in op.operands[1:]]
    scalars = [t for t in empty if isinstance(t, Scalar)]
    types = [t.value.type for t in scalars]
    compute, combine, keep = Block([INDEX], ["i"]), Block([INDEX, *types, *types], ["level"]), Block([INDEX], ["level"])
    with ctx.inside(compute):
        ctx.values[op.regions[0].block.args[0]] = compute.args[0]
        lower_ops(ctx, op.regions[0].block)
        results = [ctx.tile(v) for v in op.regions[0].block.terminator.operands]
        held = [None if isinstance(t, Scalar) else in_scratch(ctx, t) for t in results]
        ctx.builder.op("cpu.yield", [t.value for t in results if isinstance(t, Scalar)])
    slots = [None if t is None else level_slots(ctx, t, op.operands[0]) for t in held]
    with ctx.inside(combine):
        combine_level(ctx, op.regions[1].block, combine, held, slots, lower_ops)
    with ctx.inside(keep):
        keep_level(ctx, keep.args[0], held, slots)
    tree = ctx.builder.op("cpu.tree", (count, *(t.value for t in scalars)), types, {}, [compute, combine, keep])
    with_memory = [(t, m) for t, m in zip(empty, held, strict=True) if m is not None]
    if with_memory:
        with ctx.when(count, "lt", ctx.dim(1)):
            for tile, stored in with_memory:
                lower_sinks(ctx, [Copy(tile, stored)])
    bind(ctx, op.results, held, tree.results)


def level_slots(ctx: Context, tile: Stored, count: Value) -> Value:
    """Scratch for the levels of the counter, each as the tile's own scratch."""
    dims = memref_type(tile.memory).dims
    return ctx.scratch((tree_levels(count), *dims), compute_scalar(tile.type).dtype)


def tree_levels(count: Value) -> Dim:
    """Levels that a binary counter of so many blocks needs: at least their log2, in terms of sizes."""
    op = count.defining_op
    blocks = op.attrs["dim"] if op is not None and op.name == "index.dim" else None
    if not isinstance(blocks, Dim):
        return Dim.const(MOST_LEVELS)
    few = 5
    return blocks.min(few) + blocks.floor_div(2**few).min(MOST_LEVELS - few)


def combine_level(
    ctx: Context,
    neutral: Block,
    block: Block,
    held: Sequence[Stored | None],
    slots: Sequence[Value | None],
    lower_ops: LowerOps,
) -> None:
    """The left values stand in the counter, the right ones are the newer; the result replaces the newer."""
    count = len(held)
    scalars = sum(1 for m in held if m is None)
    level, left, right = block.args[0], block.args[1 : 1 + scalars], block.args[1 + scalars :]
    older = [None if m is None or s is None else _level(m, s, level) for m, s in zip(held, slots, strict=True)]
    bind(ctx, neutral.args[:count], older, left)
    bind(ctx, neutral.args[count:], held, right)
    lower_ops(ctx, neutral)
    ctx.builder.op("cpu.yield", _settle(ctx, neutral.terminator.operands, held))


def _level(tile: Stored, slots: Value, level: Value) -> Stored:
    return Stored(tile.type, slots, tile.offsets, tile.axes, (level,))


def keep_level(ctx: Context, level: Value, held: Sequence[Stored | None], slots: Sequence[Value | None]) -> None:
    for tile, slot in zip(held, slots, strict=True):
        if tile is not None and slot is not None:
            lower_sinks(ctx, [Copy(tile, _level(tile, slot, level))])
    ctx.builder.op("cpu.yield")
