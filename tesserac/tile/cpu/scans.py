"""Running folds of a block: one ascending walk that writes every step into scratch.

    tile.scan(%t: tile<[512]>)        ==>   loop i carrying acc { acc = acc + t[i];  s[i] = acc }
                                            extremes and integers, eight at once: s[i + k] = acc + (t[i] + ... + t[i+k])
    tile.scan(%t: tile<[512, 64]>)    ==>   r[c] = 0;  loop i { vectors c { r[c] = r[c] + t[i, c];  s[i, c] = r[c] } }
"""

from __future__ import annotations

from contextlib import ExitStack

from tesserac.ir.core import Block, Op, Value, attr
from tesserac.ir.forms import COMBINE
from tesserac.ir.types import INDEX
from tesserac.tile.bodies import identity_of
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.elements import Evaluator
from tesserac.tile.cpu.tiles import Scalar, Stored
from tesserac.tile.dialect import compute_scalar, tile_type
from tesserac.types.dtype import DType

AT_ONCE = 8
"""Steps of a fold that is the same in any grouping."""


def lower_scan(ctx: Context, op: Op) -> None:
    dim = attr(op, "dim", int)
    tile, type_ = ctx.tile(op.operands[0]), tile_type(op.results[0])
    axes = tuple(ctx.axes[op.operands[1]] if d == dim else axis for d, axis in enumerate(tile.axes))
    memory = ctx.scratch(type_.shape, type_.dtype)
    steps = Stored(type_, memory, (None,) * len(type_.shape), axes)
    ctx.tiles[op.results[0]] = steps
    if len(type_.shape) == 1:
        ctx.tiles[op.results[1]] = Scalar(tile_type(op.results[1]), _row(ctx, op, steps))
    else:
        ctx.tiles[op.results[1]] = _rows(ctx, op, steps, dim)


def _row(ctx: Context, op: Op, steps: Stored) -> Value:
    """A single row: the fold is carried as a value. Gives the last one."""
    scalar, kind = compute_scalar(steps.type), str(op.attrs["kind"])
    (extent,) = ctx.extents(steps.axes, steps.type.shape)
    held = Evaluator(ctx, ctx.depth).constant(scalar, identity_of(kind, scalar.dtype))
    done = ctx.dim(0)
    if _is_exact(kind, scalar.dtype):
        done = ctx.index("sub", extent, ctx.index("rem", extent, AT_ONCE))
        held = _walk(ctx, op, steps, (ctx.dim(0), done, held), AT_ONCE)
    return _walk(ctx, op, steps, (done, extent, held), 1)


def _walk(ctx: Context, op: Op, steps: Stored, bounds: tuple[Value, Value, Value], count: int) -> Value:
    """Elements from one to another, `count` of them at once: they are folded among themselves first, so that each waits
    for the fold of those before them alone."""
    scalar, tile, combine = compute_scalar(steps.type), ctx.tile(op.operands[0]), COMBINE[str(op.attrs["kind"])]
    block = Block([INDEX, scalar], ["i", "acc"])
    with ctx.inside(block):
        i, held = block.args
        evaluator, inside, total = Evaluator(ctx, ctx.depth), None, held
        for place in [ctx.index("add", i, k) for k in range(count)]:
            value = evaluator.element(tile, (place,))
            inside = value if inside is None else ctx.builder.value(combine, (inside, value), scalar)
            total = ctx.builder.value(combine, (held, inside), scalar)
            ctx.builder.op("cpu.store", (total, steps.memory, place))
        ctx.builder.op("cpu.yield", (total,))
    return ctx.builder.op("cpu.loop", bounds, (scalar,), {"step": count}, [block]).results[0]


def _is_exact(kind: str, dtype: DType) -> bool:
    """Whether a fold is the same in any grouping."""
    return kind in ("max", "min") or dtype.kind != "f"


def _rows(ctx: Context, op: Op, steps: Stored, dim: int) -> Stored:
    """Several rows side by side: their folds are carried in scratch, and vectors run along the last other dim."""
    scalar, kind, tile = compute_scalar(steps.type), str(op.attrs["kind"]), ctx.tile(op.operands[0])
    extents = ctx.extents(steps.axes, steps.type.shape)
    total = tile_type(op.results[1])
    kept = [d for d in range(len(extents)) if d != dim]
    carried = Stored(
        total, ctx.scratch(total.shape, scalar.dtype), (None,) * len(kept), tuple(steps.axes[d] for d in kept)
    )
    *outer, inner = kept
    with ExitStack() as loops:
        places = {d: loops.enter_context(ctx.loop(ctx.dim(0), extents[d], hint="r")) for d in outer}
        with ctx.vector_loop(extents[inner], "c") as column:
            start = Evaluator(ctx, ctx.depth).constant(scalar, identity_of(kind, scalar.dtype))
            ctx.builder.op("cpu.store", (start, carried.memory, *places.values(), column))
        with ctx.loop(ctx.dim(0), extents[dim]) as step, ctx.vector_loop(extents[inner], "c") as column:
            at = {**places, dim: step, inner: column}
            whole = tuple(at[d] for d in range(len(extents)))
            row = (carried.memory, *(at[d] for d in kept))
            value = Evaluator(ctx, ctx.depth).element(tile, whole)
            held = ctx.builder.value("cpu.load", row, scalar)
            folded = ctx.builder.value(COMBINE[kind], (held, value), scalar)
            ctx.builder.op("cpu.store", (folded, *row))
            ctx.builder.op("cpu.store", (folded, steps.memory, *whole))
    return carried
