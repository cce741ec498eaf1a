"""Loop nests over the elements of tiles: stores, copies into scratch, reductions.

    tile.store(%t, %y, %row, %cols)        cpu.vector_loop(0, %extent) { ^(%i):
                                    ==>       ... the elements %t is made of ...
                                              cpu.store(%x, %y, %row, %start + %i) }

Stores and reductions over one set of axes share a nest, so what they have in common is computed once. A reduction
along the vectors of the nest is a `cpu.fold`; any other one keeps its lanes in scratch rows and runs in vectors along a
dim that stays (`rows.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Attr, Block, Op, Value
from tesserac.ir.forms import indices
from tesserac.ir.types import INDEX
from tesserac.numerics.order import Blocks, Free
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.elements import Evaluator, memory_places, scratch_places
from tesserac.tile.cpu.rows import fold_rows
from tesserac.tile.cpu.shapes import best_dim, destination_dim, fold_shape, loop_shape
from tesserac.tile.cpu.tiles import Axes, Axis, LoweringError, Mapped, Scalar, Stored, Tile, contiguous_dim, parts
from tesserac.tile.cpu.transposed_blocks import transposed_blocks
from tesserac.tile.cpu.transposed_products import fold_transposed, lies_transposed
from tesserac.tile.dialect import compute_scalar, memref_type, tile_type

MANY_SINKS = 8
"""Results of one nest from which the order in which they are computed counts."""


@dataclass(frozen=True, eq=False)
class Store:
    """A tile that goes to memory. A coordinate is an index or an axis."""

    tile: Tile
    memory: Value
    at: tuple[Value | Axis, ...]
    axes: Axes


@dataclass(frozen=True, eq=False)
class Copy:
    """A tile that goes to scratch."""

    tile: Tile
    to: Stored

    @property
    def axes(self) -> Axes:
        return self.to.axes


@dataclass(frozen=True, eq=False)
class Reduce:
    """A tile whose dims `folded` are reduced; `result` is the neutral value that it becomes."""

    tile: Tile
    kind: str
    folded: tuple[int, ...]
    order: Blocks | Free
    axes: Axes
    result: Value


@dataclass(frozen=True, eq=False)
class Scatter:
    """A tile that goes where integers say: a coordinate is an index, an axis or a scalar<i64>."""

    tile: Tile
    memory: Value
    at: tuple[Value | Axis, ...]
    axes: Axes
    status: Value | None
    wraps: bool
    kind: str


Sink = Store | Copy | Reduce | Scatter


def reduce_sink(ctx: Context, op: Op) -> Reduce:
    tile, folded = ctx.tile(op.operands[0]), indices(op, "axes")
    axes = list(tile.axes)
    for dim, axis in zip(folded, op.operands[1:], strict=True):
        axes[dim] = ctx.axes[axis]
    kind, order = op.attrs["kind"], op.attrs.get("order")
    assert isinstance(kind, str)
    return Reduce(tile, kind, folded, order if isinstance(order, Blocks) else Free(), tuple(axes), op.result)


def lower_sinks(ctx: Context, sinks: Sequence[Sink]) -> None:
    """Sinks over the same axes, in one nest where they can share it, else one after the other."""
    dim = vector_dim(sinks)
    if all(not isinstance(s, Reduce) or s.folded == (dim,) for s in sinks):
        _nest(ctx, sinks, dim)
    else:
        for sink in sinks:
            _alone(ctx, sink)
    for sink in sinks:
        if isinstance(sink, Store | Scatter):
            ctx.written(sink.memory)


def vector_dim(sinks: Sequence[Sink]) -> int:
    return best_dim([s.tile for s in sinks], [_destination(s) for s in sinks])


def _destination(sink: Sink) -> int | None:
    match sink:
        case Store() | Scatter():
            kept = [d for d, place in enumerate(sink.at) if isinstance(place, Axis)]
            return destination_dim(memref_type(sink.memory), kept)
        case Copy():
            return contiguous_dim(sink.to)
        case Reduce():
            return None


def _alone(ctx: Context, sink: Sink) -> None:
    dim = vector_dim([sink])
    if not isinstance(sink, Reduce) or sink.folded == (dim,):
        _nest(ctx, [sink], dim)
        return
    target = _result(ctx, sink)
    if sink.folded == (1,) and isinstance(sink.order, Free) and lies_transposed(sink.tile):
        fold_transposed(ctx, sink.tile, sink.axes, sink.kind, target)
        return
    fold_rows(ctx, sink.tile, sink.axes, sink.folded, sink.kind, sink.order, target)
    if not target.type.shape:
        value = Evaluator(ctx, ctx.depth).element(target, ())
        ctx.tiles[sink.result] = Scalar(target.type, value)


def _result(ctx: Context, sink: Reduce) -> Stored:
    """Scratch for what stays of a reduced tile."""
    kept = tuple(a for d, a in enumerate(sink.axes) if d not in sink.folded)
    type_ = tile_type(sink.result)
    memory = ctx.scratch(type_.shape, compute_scalar(type_).dtype)
    stored = Stored(type_, memory, (None,) * len(type_.shape), kept)
    ctx.tiles[sink.result] = stored
    return stored


def _nest(ctx: Context, sinks: Sequence[Sink], dim: int) -> None:
    """Plain loops over all dims but one, and a vector loop or fold along that one."""
    shape = sinks[0].tile.type.shape
    evaluator = Evaluator(ctx, ctx.depth, frozenset(m for m in map(_written, sinks) if m is not None))
    if not shape:
        _write_elements(ctx, evaluator, sinks, ())
        return
    evaluator.transposed.update(transposed_blocks(ctx, [s.tile for s in sinks], dim))
    extents = ctx.extents(sinks[0].axes, shape)
    folds = [s for s in sinks if isinstance(s, Reduce)]
    results = [_result(ctx, s) for s in folds] if len(shape) > 1 else []
    with ExitStack() as loops:
        places = {
            d: loops.enter_context(ctx.loop(ctx.dim(0), extents[d], hint="r")) for d in range(len(shape)) if d != dim
        }
        block = Block([INDEX], ["i"])
        with ctx.inside(block):
            at = tuple(places.get(d, block.args[0]) for d in range(len(shape)))
            yielded = _write_elements(ctx, evaluator, sinks, at)
            ctx.builder.op("cpu.yield", yielded)
        values = _vector_op(ctx, block, extents[dim], shape[dim], folds)
        outer = tuple(places[d] for d in sorted(places))
        for stored, value in zip(results, values, strict=bool(results)):
            ctx.builder.op("cpu.store", (value, stored.memory, *outer))
        for sink, value in zip(folds, values, strict=True):
            if not results:
                ctx.tiles[sink.result] = Scalar(tile_type(sink.result), value)


def _vector_op(ctx: Context, block: Block, extent: Value, most: int, folds: Sequence[Reduce]) -> list[Value]:
    """A loop over `extent` elements, which are never more than `most`."""
    bounds = (ctx.dim(0), extent)
    if not folds:
        attrs: dict[str, Attr] = {"shape": loop_shape(ctx.target, block, most)}
        ctx.builder.op("cpu.vector_loop", bounds, attrs=attrs, blocks=[block])
        return []
    orders = {s.order for s in folds if isinstance(s.order, Blocks)}
    if len(orders) > 1:
        raise LoweringError("sums of two orders over one block")
    order = orders.pop() if orders else Free()
    shape = fold_shape(ctx.target, block, order)
    kinds = tuple(s.kind for s in folds)
    types = [v.type for v in block.terminator.operands]
    attrs = {"shape": shape, "kinds": kinds, "order": order}
    return ctx.builder.op("cpu.fold", bounds, types, attrs, [block]).results


def _written(sink: Sink) -> Value | None:
    match sink:
        case Store() | Scatter():
            return sink.memory
        case Copy():
            return sink.to.memory
        case Reduce():
            return None


def _write_elements(ctx: Context, evaluator: Evaluator, sinks: Sequence[Sink], at: tuple[Value, ...]) -> list[Value]:
    """One element of every sink: all are computed before the first is written. Gives those that are folded."""
    if len(sinks) >= MANY_SINKS:
        _compute_in_order(evaluator, sinks, at)
    values = [
        evaluator.unrounded(s.tile, at) if isinstance(s, Store | Scatter) else evaluator.element(s.tile, at)
        for s in sinks
    ]
    for sink, value in zip(sinks, values, strict=True):
        match sink:
            case Store():
                ctx.builder.op("cpu.store", (value, sink.memory, *memory_places(ctx, sink.at, at)))
            case Scatter():
                told = () if sink.status is None else (sink.status,)
                operands = (value, sink.memory, *memory_places(ctx, sink.at, at), *told)
                ctx.builder.op("cpu.scatter", operands, attrs={"wraps": sink.wraps, "kind": sink.kind})
            case Copy():
                ctx.builder.op("cpu.store", (value, sink.to.memory, *scratch_places(ctx, sink.to, at)))
    return [value for sink, value in zip(sinks, values, strict=True) if isinstance(sink, Reduce)]


def _compute_in_order(evaluator: Evaluator, sinks: Sequence[Sink], at: tuple[Value, ...]) -> None:
    """Maps of many results share what they compute: in the order of the kernel fewer values wait in registers than
    where the first result asks for all it needs."""
    found: dict[Mapped, int] = {}
    waiting = [sink.tile for sink in sinks]
    while waiting:
        tile = waiting.pop()
        if isinstance(tile, Mapped) and tile not in found and tile.op.parent is not None:
            found[tile] = tile.op.parent.place(tile.op)
            waiting += [part for part, places in parts(tile) if places == tuple(range(len(at)))]
    for tile in sorted(found, key=found.__getitem__):
        evaluator.unrounded(tile, at)
