"""Products whose result is the left operand of another one, as the scores of attention: computed transposed.

    %s = tile.dot(%q, %k, 0)                   for panel j of %q: for panel i of %k: cpu.micro_kernel into s[j.., i..],
    %m = tile.reduce(%s) {axes = [1]}          of which rows lie side by side
    %p = tile.map(%s, %m)                ==>   cpu.vector_loop over rows r: for k: m[r] = max(m[r], s[r, k])
    %o = tile.dot(%p, %v, %acc)                cpu.vector_loop over rows r: for k: p[r, k] = exp(s[r, k] - m[r])
                                               cpu.micro_kernel reads %p as it stands

A product reads its left operand column by column, and a register block has vectors along the columns of its result. So
what was computed as columns is read as it stands: nothing is transposed, a lane is a row in all that is done between,
and no row has to be folded across its lanes. What it costs: rows come in whole vectors.
"""

from __future__ import annotations

from tesserac.ir.core import Op, Value
from tesserac.ir.forms import COMBINE, indices, operand_maps
from tesserac.ir.types import TileType
from tesserac.numerics.order import Blocks
from tesserac.tile.bodies import identity_of
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.elements import Evaluator
from tesserac.tile.cpu.target import Micro
from tesserac.tile.cpu.tiles import Accumulator, Axes, Stored, Tile, identity, is_transposed, leaves
from tesserac.tile.dialect import compute_scalar, memref_type, tile_type
from tesserac.types.dtype import F32, F64

_BOTH = (0, 1)


def is_left_of_product(dot: Op, micro: Micro) -> bool:
    """Whether the result of a product, of whole vectors of rows, is only folded along them and, changed element by
    element, the left operand of other products."""
    type_ = tile_type(dot.result)
    return type_.dtype in (F32, F64) and type_.shape[0] % micro.columns == 0 and _ends_in_product(dot.result)


def _ends_in_product(value: Value) -> bool:
    return all(_keeps_rows(*use) for use in value.uses) and any(_reaches_product(user) for user, _ in value.uses)


def _keeps_rows(user: Op, place: int) -> bool:
    match user.name:
        case "tile.reduce":
            return indices(user, "axes") == (1,) and not isinstance(user.attrs.get("order"), Blocks)
        case "tile.dot":
            return place == 0
        case "tile.map":
            as_it_is = operand_maps(user)[place] == _BOTH and not _reads_blocks(user)
            return as_it_is and all(_keeps_rows(*use) for use in user.result.uses)
    return False


def _reaches_product(user: Op) -> bool:
    return user.name == "tile.dot" or (user.name == "tile.map" and _ends_in_product(user.result))


def _reads_blocks(op: Op) -> bool:
    """Whether a map needs blocks of memory, which lie as they do, or what a loop carries."""
    followed = zip(op.operands, operand_maps(op), strict=True)
    return any(_is_block(value) for value, places in followed if set(places) >= set(_BOTH))


def _is_block(value: Value) -> bool:
    made = value.defining_op
    if made is None or made.name in ("tile.load", "tile.gather", "tile.scan"):
        return True
    return made.name == "tile.map" and _reads_blocks(made)


# -------------------------------------------------------------------------------------------------- what is transposed


def lies_transposed(tile: Tile) -> bool:
    """Whether a tile is computed from scratch in which rows lie side by side, row for row."""
    found = leaves(tile, identity(tile)) if len(tile.type.shape) == len(_BOTH) else ()
    stored = [leaf.memory for leaf, at in found if isinstance(leaf, Stored) and at == _BOTH]
    return any(is_transposed(memref_type(memory)) for memory in stored)


def transposed_accumulator(ctx: Context, dot: Op, operands: tuple[Tile, Tile], micro: Micro) -> Accumulator:
    """Scratch for the result of a product from +0, whole register blocks of it."""
    type_ = tile_type(dot.result)
    memory = _scratch(ctx, type_, micro)
    axes = operands[0].axes[0], operands[1].axes[1]
    return Accumulator(type_, memory, (None, None), axes, done=ctx.dim(0))


def _scratch(ctx: Context, type_: TileType, micro: Micro) -> Value:
    """Room for register blocks of which the rows are rows, and of such whose columns are rows. Register blocks read it
    as it stands, so it has the computing type: narrow elements are rounded, and wide in memory."""
    rows, columns = type_.shape
    most = max(_round_up(rows, to) for to in (micro.rows, micro.columns))
    return ctx.transposed_scratch(most, _round_up(columns, micro.rows), compute_scalar(type_).dtype)


def _round_up(count: int, to: int) -> int:
    return -(-count // to) * to


def stored_transposed(ctx: Context, tile: Tile, micro: Micro) -> Value:
    """The scratch of a tile that lies transposed, where it is computed once for all products that read it."""
    if isinstance(tile, Stored):
        return tile.memory
    key = (tile, True, micro.rows)
    if key not in ctx.packed or not ctx.is_open(ctx.packed[key][0]):
        ctx.packed[key] = (ctx.builder.block, _computed(ctx, tile, micro))
    return ctx.packed[key][1]


def _computed(ctx: Context, tile: Tile, micro: Micro) -> Value:
    rows, columns = ctx.extents(tile.axes, tile.type.shape)
    memory = _scratch(ctx, tile.type, micro)
    evaluator = Evaluator(ctx, ctx.depth, frozenset([memory]))
    with ctx.vector_loop(rows, "r", whole=micro.lanes) as r, ctx.loop(ctx.dim(0), columns, hint="k") as k:
        ctx.builder.op("cpu.store", (evaluator.element(tile, (r, k)), memory, r, k))
    return memory


def fold_transposed(ctx: Context, tile: Tile, axes: Axes, kind: str, result: Stored) -> None:
    """Folds the rows of a tile that lies transposed, a lane each."""
    rows, columns = ctx.extents(axes, tile.type.shape)
    type_, evaluator = compute_scalar(tile.type), Evaluator(ctx, ctx.depth)
    start = evaluator.constant(type_, identity_of(kind, type_.dtype))
    with ctx.vector_loop(rows, "r", whole=ctx.target.lanes(type_.dtype.bits)) as r:

        def step(k: Value, total: Value) -> Value:
            return ctx.builder.value(COMBINE[kind], (total, evaluator.element(tile, (r, k))), type_)

        total = ctx.carrying_loop(ctx.dim(0), columns, start, step)
        ctx.builder.op("cpu.store", (total, result.memory, r))
    ctx.folded_rows.add(result.memory)


def sum_transposed(ctx: Context, memory: Value, target: Accumulator, rows: Value, depth: Value) -> None:
    """Adds the elements of each row of scratch, ascending, to what the target holds, which is a column."""
    zero, type_ = ctx.dim(0), compute_scalar(target.type)
    with ctx.when(target.done, "lt", ctx.dim(1)), ctx.vector_loop(rows, "r") as r:
        start = Evaluator(ctx, ctx.depth).constant(type_, 0.0)
        ctx.builder.op("cpu.store", (start, target.memory, r, zero))
    with ctx.vector_loop(rows, "r", whole=ctx.target.lanes(type_.dtype.bits)) as r:

        def step(k: Value, total: Value) -> Value:
            term = ctx.builder.value("cpu.load", (memory, r, k), type_)
            return ctx.builder.value("scalar.add", (total, term), type_)

        held = ctx.builder.value("cpu.load", (target.memory, r, zero), type_)
        total = ctx.carrying_loop(zero, depth, held, step)
        ctx.builder.op("cpu.store", (total, target.memory, r, zero))
