"""Running folds of a block: ascending walks that write every step into scratch.

    tile.scan(%t: tile<[512]>)        ==>   loop i carrying acc { acc = acc + t[i];  s[i] = acc }
                                            extremes and integers, eight at once: s[i + k] = acc + (t[i] + ... + t[i+k])
    ... of a row of many blocks       ==>   where eight begin: s[k, i] = t[512k + i];  cpu.chains(s)
    tile.scan(%t: tile<[8, 512]>)     ==>   s[r, i] = t[r, i];  cpu.chains(s)
    tile.scan(%t: tile<[512, 64]>)    ==>   r[c] = 0;  loop i { vectors c { r[c] = r[c] + t[i, c];  s[i, c] = r[c] } }

A step waits for the one before it, hence a chain alone leaves most of a core idle: blocks of a row, and rows, are
walked side by side.
"""

from __future__ import annotations

from contextlib import ExitStack

from tesserac.ir.core import Block, Op, Value, attr
from tesserac.ir.forms import COMBINE
from tesserac.ir.index import constant_index
from tesserac.ir.types import INDEX, TileType
from tesserac.tile.bodies import identity_of
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.dialect import CHAINS
from tesserac.tile.cpu.elements import Evaluator
from tesserac.tile.cpu.nests import Copy, lower_sinks
from tesserac.tile.cpu.tiles import Converted, Counted, Filled, Loaded, Mapped, Scalar, Stored, Tile
from tesserac.tile.dialect import compute_scalar, tile_type
from tesserac.types.dtype import DType

AT_ONCE = 8
"""Steps of a fold that is the same in any grouping."""


def lower_scan(ctx: Context, op: Op) -> None:
    dim = attr(op, "dim", int)
    tile, type_ = ctx.tile(op.operands[0]), tile_type(op.results[0])
    axes = tuple(ctx.axes[op.operands[1]] if d == dim else axis for d, axis in enumerate(tile.axes))
    if len(type_.shape) == 1:
        row = _Row(ctx, op)
        ctx.tiles[op.results[0]] = Stored(type_, row.memory, (None,), axes, (row.number,))
        ctx.tiles[op.results[1]] = Scalar(tile_type(op.results[1]), row.total())
        return
    memory = ctx.scratch(type_.shape, type_.dtype)
    steps = Stored(type_, memory, (None,) * len(type_.shape), axes)
    ctx.tiles[op.results[0]] = steps
    are_chains = dim == 1 and len(axes) == 2 and type_.shape[0] == CHAINS and not _is_narrow(type_)
    ctx.tiles[op.results[1]] = _chains(ctx, op, steps) if are_chains else _rows(ctx, op, steps, dim)


class _Row:
    """A block of a single row, and those behind it that are walked with it: they stand in scratch until it is their
    turn, with what each of them comes to."""

    def __init__(self, ctx: Context, op: Op) -> None:
        self.ctx, self.op = ctx, op
        type_ = tile_type(op.results[0])
        (self.size,) = type_.shape
        self.scalar, self.kind = compute_scalar(type_), str(op.attrs["kind"])
        self.axis = ctx.axes[op.operands[1]]
        made = op.operands[1].defining_op
        assert made is not None
        self.end = ctx.value(made.operands[1])
        few = (constant_index(self.end) or CHAINS * self.size) < CHAINS * self.size
        self.is_short = few or _is_narrow(type_) or not _is_anywhere(ctx.tile(op.operands[0]))
        walks = 1 if self.is_short else CHAINS
        self.memory = ctx.scratch((walks, self.size), type_.dtype)
        self.totals = ctx.scratch((walks,), self.scalar.dtype)
        block = ctx.index("floor_div", self.axis.start, self.size)
        self.number = ctx.dim(0) if self.is_short else ctx.index("rem", block, CHAINS)

    def total(self) -> Value:
        """Walks the block, if that was not done; gives the fold of all of it."""
        ctx = self.ctx
        if self.is_short:
            return self._alone()
        first = ctx.index("sub", self.axis.start, ctx.index("mul", self.number, self.size))
        left, many = ctx.index("sub", self.end, first), ctx.dim(CHAINS * self.size)
        with ctx.when(left, "ge", many), ctx.when(self.number, "lt", ctx.dim(1)):
            self._side_by_side()
        with ctx.when(left, "lt", many):
            ctx.builder.op("cpu.store", (self._alone(), self.totals, self.number))
        return ctx.builder.value("cpu.load", (self.totals, self.number), self.scalar)

    def _side_by_side(self) -> None:
        """This block and those behind it."""
        ctx, tile = self.ctx, self.ctx.tile(self.op.operands[0])
        with ctx.loop(ctx.dim(0), ctx.dim(CHAINS), hint="k") as k, ctx.vector_loop(ctx.dim(self.size)) as i:
            place = ctx.index("add", ctx.index("mul", k, self.size), i)
            ctx.builder.op("cpu.store", (Evaluator(ctx, ctx.depth).element(tile, (place,)), self.memory, k, i))
        ctx.builder.op("cpu.chains", (self.memory, self.totals, ctx.dim(self.size)), attrs={"kind": self.kind})

    def _alone(self) -> Value:
        ctx = self.ctx
        held = Evaluator(ctx, ctx.depth).constant(self.scalar, identity_of(self.kind, self.scalar.dtype))
        done = ctx.dim(0)
        if _is_exact(self.kind, self.scalar.dtype):
            done = ctx.index("sub", self.axis.extent, ctx.index("rem", self.axis.extent, AT_ONCE))
            held = self._walk(ctx.dim(0), done, held, AT_ONCE)
        return self._walk(done, self.axis.extent, held, 1)

    def _walk(self, first: Value, end: Value, held: Value, count: int) -> Value:
        """Elements from one to another, `count` of them at once: they are folded among themselves first, so that each
        waits for the fold of those before them alone."""
        ctx, tile, combine = self.ctx, self.ctx.tile(self.op.operands[0]), COMBINE[self.kind]
        block = Block([INDEX, self.scalar], ["i", "acc"])
        with ctx.inside(block):
            i, before = block.args
            evaluator, inside, total = Evaluator(ctx, ctx.depth), None, before
            for place in [ctx.index("add", i, k) for k in range(count)]:
                value = evaluator.element(tile, (place,))
                inside = value if inside is None else ctx.builder.value(combine, (inside, value), self.scalar)
                total = ctx.builder.value(combine, (before, inside), self.scalar)
                ctx.builder.op("cpu.store", (total, self.memory, self.number, place))
            ctx.builder.op("cpu.yield", (total,))
        return ctx.builder.op("cpu.loop", (first, end, held), (self.scalar,), {"step": count}, [block]).results[0]


def _is_anywhere(tile: Tile) -> bool:
    """Whether elements beyond the block of a tile can be computed: none of it stands in scratch."""
    match tile:
        case Mapped():
            return all(map(_is_anywhere, tile.operands))
        case Converted():
            return _is_anywhere(tile.source)
    return isinstance(tile, Scalar | Filled | Counted | Loaded)


def _is_narrow(type_: TileType) -> bool:
    """Whether what is computed is rounded once more when it is put down."""
    return compute_scalar(type_).dtype != type_.dtype


def _is_exact(kind: str, dtype: DType) -> bool:
    """Whether a fold is the same in any grouping."""
    return kind in ("max", "min") or dtype.kind != "f"


def _chains(ctx: Context, op: Op, steps: Stored) -> Stored:
    """Rows that lie one behind the other, as many as there are chains."""
    total = tile_type(op.results[1])
    carried = Stored(total, ctx.scratch(total.shape, compute_scalar(steps.type).dtype), (None,), (steps.axes[0],))
    lower_sinks(ctx, [Copy(ctx.tile(op.operands[0]), steps)])
    (_, count) = ctx.extents(steps.axes, steps.type.shape)
    ctx.builder.op("cpu.chains", (steps.memory, carried.memory, count), attrs={"kind": str(op.attrs["kind"])})
    return carried


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
