"""Matrix products: operands in panels, register blocks over them, accumulators in scratch.

    tile.dot(%a, %b, %acc)     ==>    cpu.pack the rows of %a into panels of the micro-kernel's height
                                      (%b is read from panels, or packed into panels of its width)
                                      for panel j of %b: for panel i of %a: cpu.micro_kernel

The accumulator has whole panels: edges of the operands are padded, so a register block is never cut. Where the columns
of the program do not start at the edge of a panel of %b, the accumulator starts at that edge, and the tile lies in it
with an offset.
"""

from __future__ import annotations

import math

from tesserac.ir.core import Op, Value
from tesserac.ir.forms import operand_maps
from tesserac.ir.types import AxisType
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.finished_products import Destination, offer_store, take_store
from tesserac.tile.cpu.nests import Copy, lower_sinks
from tesserac.tile.cpu.products.group_products import packed, panel_by_panel
from tesserac.tile.cpu.products.matrix_products import lower_tile_product, uses_tiles
from tesserac.tile.cpu.products.panels import Panels, pack, register_block_edge
from tesserac.tile.cpu.products.passing_panels import left_stays, passing_blocks
from tesserac.tile.cpu.products.row_products import lower_row_product, reads_rows
from tesserac.tile.cpu.products.rows_in_place import rows_in_place
from tesserac.tile.cpu.reuse import in_scratch, is_costly
from tesserac.tile.cpu.target import TILE_BLOCK, Micro
from tesserac.tile.cpu.tiles import Accumulator, Axis, Filled, Grouped, Loaded, LoweringError, Stored, Tile
from tesserac.tile.cpu.transposed_products import (
    is_left_of_product,
    lies_transposed,
    stored_transposed,
    sum_transposed,
    transposed_accumulator,
)
from tesserac.tile.dialect import compute_scalar, gather_operands, memref_type, tile_type
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32, F64, DType

SET_BYTES = 4096
"""How far apart in memory the lines of one set of a first cache lie, on every processor that is known."""


def is_zero(tile: Tile) -> bool:
    """Whether a tile is +0 everywhere, from where a chain starts."""
    return isinstance(tile, Filled) and tile.value == 0 and math.copysign(1, tile.value) > 0


def started_accumulator(ctx: Context, dot: Op, start: Tile, done: Value) -> Accumulator:
    """Scratch for a product that starts from a tile: a copy of it, or nothing yet where the tile is +0."""
    if is_zero(start):
        return _new_accumulator(ctx, dot, done)
    accumulator = _new_accumulator(ctx, dot, ctx.dim(1))
    lower_sinks(ctx, [Copy(start, accumulator.finished())])
    return accumulator


def accumulator_scratch(ctx: Context, dot: Op, tile: Tile) -> Stored:
    """Scratch for a tile that a product without panels of its own edge will add to."""
    micro = _micro(ctx, dot)
    rows, columns = (_round_up(n, to) for n, to in zip(tile.type.shape, (micro.rows, micro.columns), strict=True))
    memory = ctx.scratch((rows, columns), tile.type.dtype)
    return Stored(tile.type, memory, (None, None), tile.axes)


def _new_accumulator(ctx: Context, dot: Op, done: Value) -> Accumulator:
    """Scratch for the result of a product, whole panels of it."""
    type_ = tile_type(dot.result)
    micro = _micro(ctx, dot)
    if dot.operands[1] in ctx.tiles and is_row_sum(ctx.tiles[dot.operands[1]]):
        memory = ctx.scratch((_round_up(type_.shape[0], micro.rows), 1), type_.dtype)
        return Accumulator(type_, memory, (None, None), _result_axes(ctx, dot), done=done)
    offset = _column_offset(ctx, dot, micro)
    rows, columns = (_round_up(n, to) for n, to in zip(type_.shape, (micro.rows, micro.columns), strict=True))
    columns += micro.columns if offset is not None else 0
    most = _most_rows(dot, micro, rows)
    memory = ctx.scratch((most, columns + _apart(columns, micro, type_.dtype)), type_.dtype)
    return Accumulator(type_, memory, (None, offset), _result_axes(ctx, dot), done=done)


def _most_rows(dot: Op, micro: Micro, block: int) -> Dim:
    """Rows of sums that a program has: of a block of many, which is as high as a left operand may be, not more than
    this one has."""
    load = dot.operands[0].defining_op
    if load is None or not left_stays(dot):
        return Dim.const(block)
    places = [number for number, value in enumerate(load.operands[1:]) if isinstance(value.type, AxisType)]
    size = memref_type(load.operands[0]).dims[places[0]]
    return (size.ceil_div(micro.rows) * micro.rows).min(block)


def _apart(columns: int, micro: Micro, dtype: DType) -> int:
    """What rows of so many sums have behind them: those of a register block must not all lie in one set of a cache."""
    return 0 if columns * dtype.bytes % SET_BYTES else micro.lanes


def lower_dot(ctx: Context, dot: Op) -> None:
    """Adds a product to its accumulator; the result is that scratch. One from +0 that is only stored has none."""
    a, acc = ctx.tile(dot.operands[0]), ctx.tile(dot.operands[2])
    if is_zero(acc) and _packs_both(dot) and (destination := take_store(ctx, dot)) is not None:
        _finished_blocks(ctx, dot, destination)
        return
    if is_zero(acc) and _packs_both(dot) and is_left_of_product(dot, _transposed_micro(ctx, dot)):
        _transposed_blocks(ctx, dot)
        return
    target = acc if isinstance(acc, Accumulator) else _target(ctx, dot, acc)
    if reads_rows(dot):
        lower_row_product(ctx, dot, target, lambda width: _pack(ctx, a, transposed=True, width=width).memory)
        ctx.tiles[dot.result] = target.finished()
        return
    if uses_tiles(dot):
        lower_tile_product(ctx, dot, target)
        ctx.tiles[dot.result] = target.finished()
        return
    micro = _micro(ctx, dot)
    rows, depth = ctx.extents(a.axes, a.type.shape)
    if left_stays(dot):
        passing_blocks(ctx, dot, micro, target, lambda: _right_panels(ctx, dot, micro))
        ctx.tiles[dot.result] = target.finished()
        return
    columns, right = _extent(ctx, target, 1), ctx.tile(dot.operands[1])
    if isinstance(right, Grouped):
        panel_by_panel(ctx, dot, micro, right, target, lambda: _left_panels(ctx, a, micro))
        ctx.tiles[dot.result] = target.finished()
        return
    left = _left_panels(ctx, a, micro)
    if is_row_sum(right):
        _row_sums(ctx, micro, left, target, rows, depth)
        ctx.tiles[dot.result] = target.finished()
        return
    panels = _right_panels(ctx, dot, micro)
    _register_blocks(ctx, micro, _accum(dot), left, panels, target, rows, columns, depth)
    ctx.tiles[dot.result] = target.finished()


def _packs_both(dot: Op) -> bool:
    """Whether both operands are packed for this product, each as a whole."""
    loads = [value.defining_op for value in dot.operands[:2]]
    whole = not any(load is None or "groups" in load.attrs for load in loads)
    return whole and not reads_rows(dot) and not uses_tiles(dot) and _panels_load(dot) is None


def _transposed_micro(ctx: Context, dot: Op) -> Micro:
    """The register block of a product that is computed transposed: its columns are rows of the result."""
    return ctx.target.micro_for(_accum(dot), tile_type(dot.result).shape[0])


def _transposed_blocks(ctx: Context, dot: Op) -> None:
    """The product of both operands transposed, in the other order."""
    micro, a, b = _transposed_micro(ctx, dot), ctx.tile(dot.operands[0]), ctx.tile(dot.operands[1])
    target, zero = transposed_accumulator(ctx, dot, (a, b), micro), ctx.dim(0)
    right = _pack(ctx, a, transposed=True, width=micro.columns)
    columns, rows = ctx.extents(target.axes, target.type.shape)
    depth = ctx.extents(a.axes, a.type.shape)[1]

    def blocks(left: Value, first: Value, count: Value) -> None:
        """So many rows of a left operand, which are rows of the product from `first` on."""
        with ctx.loop(zero, ctx.index("ceil_div", columns, micro.columns), hint="j") as j:
            column = ctx.index("mul", j, micro.columns)
            with ctx.loop(zero, ctx.index("ceil_div", count, micro.rows), hint="i") as i:
                row = ctx.index("add", first, ctx.index("mul", i, micro.rows))
                operands = (left, i, right.memory, j, zero, target.memory, row, column, depth, target.done)
                attrs = {"micro": micro, "accum": _accum(dot)}
                ctx.builder.op("cpu.micro_kernel", (*operands, rows, columns), attrs=attrs)

    in_place = rows_in_place(ctx, b, micro)
    if in_place is None:
        blocks(_pack(ctx, b, transposed=False, width=micro.rows).memory, zero, rows)
    else:
        done = ctx.index("mul", in_place.blocks, micro.rows)
        blocks(in_place.memory, zero, done)
        with ctx.when(in_place.count, "ge", ctx.dim(1)):
            blocks(packed(ctx, in_place.rest, transposed=False, width=micro.rows).memory, done, in_place.count)
    ctx.tiles[dot.result] = target.finished()


def _finished_blocks(ctx: Context, dot: Op, to: Destination) -> None:
    """Register blocks that are stored at once."""
    outer, rows, columns = to.outer, to.rows, to.columns
    micro, accum, zero = _micro(ctx, dot), _accum(dot), ctx.dim(0)
    left = _pack(ctx, ctx.tile(dot.operands[0]), transposed=True, width=micro.rows)
    right = _right_panels(ctx, dot, micro)
    depth = ctx.extents(ctx.tile(dot.operands[0]).axes, tile_type(dot.operands[0]).shape)[1]
    block = ctx.scratch((micro.rows, micro.columns), accum)
    with ctx.loop(zero, ctx.index("ceil_div", columns.extent, micro.columns), hint="j") as j:
        panel, column = ctx.index("add", j, right.panel), ctx.index("mul", j, micro.columns)
        behind = ctx.index("sub", columns.extent, column)
        with ctx.loop(zero, ctx.index("ceil_div", rows.extent, micro.rows), hint="i") as i:
            row = ctx.index("mul", i, micro.rows)
            below = ctx.index("sub", rows.extent, row)
            at = (*outer, ctx.index("add", rows.start, row), ctx.index("add", columns.start, column))
            sums = (block, zero, zero, depth, zero, below, behind, zero)
            operands = (left.memory, i, right.memory, panel, right.row, *sums, to.memory, *at)
            ctx.builder.op("cpu.finished_block", operands, attrs={"micro": micro, "accum": accum})
    ctx.written(to.memory)
    ctx.tiles[dot.result] = Stored(tile_type(dot.result), block, (None, None), _result_axes(ctx, dot))


def _target(ctx: Context, dot: Op, start: Tile) -> Accumulator:
    held = ctx.in_place.get(dot)
    if held is None or _panels_load(dot) is not None:
        return started_accumulator(ctx, dot, start, ctx.dim(0))
    axes = _result_axes(ctx, dot)
    target = Accumulator(held.type, held.memory, held.offsets, axes, done=ctx.dim(1))
    lower_sinks(ctx, [Copy(start, target.finished())])
    return target


def is_row_sum(right: Tile) -> bool:
    """Whether a product with this sums the rows of its left operand: one column of ones, of a float type."""
    is_one = isinstance(right, Filled) and right.value == 1 and right.type.shape[1] == 1
    return is_one and compute_scalar(right.type).dtype in (F32, F64)


def _row_sums(ctx: Context, micro: Micro, left: Panels, target: Accumulator, rows: Value, depth: Value) -> None:
    if memref_type(left.memory).layout != "panels":
        sum_transposed(ctx, left.memory, target, rows, depth)
        return
    with ctx.loop(ctx.dim(0), ctx.index("ceil_div", rows, micro.rows), hint="i") as i:
        row = ctx.index("mul", i, micro.rows)
        operands = (left.memory, i, target.memory, row, depth, target.done)
        ctx.builder.op("cpu.panel_sum", operands, attrs={"width": micro.rows})


def offer_result(ctx: Context, tree: Op) -> None:
    """Lets the product that a tree is made of write the result itself, if that is all that becomes of it."""
    part = tree.regions[0].block.terminator.operands[0].defining_op
    chain = part is not None and part.name == "tile.for" and len(part.results) == 1
    dot = part.regions[0].block.terminator.operands[0].defining_op if part is not None and chain else None
    if len(tree.results) == 1 and dot is not None and dot.name == "tile.dot" and left_stays(dot):
        offer_store(ctx, tree, dot, _micro(ctx, dot))


def _micro(ctx: Context, dot: Op) -> Micro:
    """The register block of a product: that of panels in memory, or the one that wastes least on its columns."""
    if uses_tiles(dot):
        return TILE_BLOCK
    if _panels_load(dot) is not None:
        return ctx.target.micro(_accum(dot))
    return ctx.target.micro_for(_accum(dot), tile_type(dot.result).shape[1])


def _accum(dot: Op) -> DType:
    return tile_type(dot.result).dtype


def _round_up(count: int, to: int) -> int:
    return -(-count // to) * to


def _extent(ctx: Context, tile: Stored, dim: int) -> Value:
    return ctx.extents(tile.axes, tile.type.shape)[dim]


def _result_axes(ctx: Context, dot: Op) -> tuple[Axis | None, Axis | None]:
    """Rows of the left operand, columns of the right one."""
    return _operand_axis(ctx, dot.operands[0], 0), _operand_axis(ctx, dot.operands[1], 1)


def _operand_axis(ctx: Context, operand: Value, dim: int) -> Axis | None:
    """The axis of an operand, which may be computed inside a loop not yet lowered; its axes must stand before it."""
    if operand in ctx.tiles:
        return ctx.tiles[operand].axes[dim]
    op = operand.defining_op
    if op is None:
        raise LoweringError("an operand of a product is carried by its loop")
    match op.name:
        case "tile.load" | "tile.iota":
            return _axis_before(ctx, op, [v for v in op.operands if isinstance(v.type, AxisType)][dim])
        case "tile.full":
            return None
        case "tile.map" | "tile.gather":
            read = op.operands if op.name == "tile.map" else gather_operands(op)[0]
            followed = zip(read, operand_maps(op), strict=True)
            found = [_followed_axis(ctx, op, v, places.index(dim)) for v, places in followed if dim in places]
            return next((axis for axis in found if axis is not None), None)
        case "tile.cast":
            return _operand_axis(ctx, op.operands[0], dim)
        case "tile.dot":
            return _operand_axis(ctx, op.operands[dim], dim)
        case "tile.for" | "tile.tree":
            return _operand_axis(ctx, op.regions[0].block.terminator.operands[op.results.index(operand)], dim)
    raise LoweringError("rows and columns of a product in a loop must be known before it", op)


def _followed_axis(ctx: Context, op: Op, value: Value, dim: int) -> Axis | None:
    """The axis of a dim of what a map or gather follows: a tile, or the axis itself."""
    return _axis_before(ctx, op, value) if isinstance(value.type, AxisType) else _operand_axis(ctx, value, dim)


def _axis_before(ctx: Context, op: Op, neutral: Value) -> Axis:
    axis = ctx.axes.get(neutral)
    if axis is None:
        raise LoweringError("rows and columns of a product in a loop must be known before it", op)
    return axis


def _panels_load(dot: Op) -> Op | None:
    """The load of the right operand, where it reads panels as they stand."""
    load = dot.operands[1].defining_op
    if load is None or load.name != "tile.load" or memref_type(load.operands[0]).layout != "panels":
        return None
    return load


def _column_offset(ctx: Context, dot: Op, micro: Micro) -> Value | None:
    """How far behind the edge of a panel the columns of a product start; none where they start at the edge."""
    if _panels_load(dot) is None:
        return None
    axis = _operand_axis(ctx, dot.operands[1], 1)
    assert axis is not None
    return ctx.index("rem", axis.start, micro.columns)


def _right_panels(ctx: Context, dot: Op, micro: Micro) -> Panels:
    load = _panels_load(dot)
    if load is None:
        return _pack(ctx, ctx.tile(dot.operands[1]), transposed=False, width=micro.columns)
    tile = ctx.tile(load.result)
    assert isinstance(tile, Loaded)
    k, columns = _two_axes(tile.at)
    panel = ctx.index("floor_div", columns.start, micro.columns)
    return Panels(tile.memory, k.start, panel, ctx.index("rem", columns.start, micro.columns))


def _left_panels(ctx: Context, a: Tile, micro: Micro) -> Panels:
    if lies_transposed(a):
        return Panels(stored_transposed(ctx, a, micro), ctx.dim(0), ctx.dim(0), None)
    return _pack(ctx, a, transposed=True, width=micro.rows)


def _pack(ctx: Context, tile: Tile, *, transposed: bool, width: int) -> Panels:
    """A block in panels of scratch. `transposed`: the tile is [column, row] of the panels, as a left operand is. Much
    work is done before, in vectors that suit it. A tile is laid out once for all products that read it, before the
    loops that do not change it."""
    key = (tile, transposed, width)
    if key in ctx.packed and ctx.is_open(ctx.packed[key][0]):
        return Panels(ctx.packed[key][1], ctx.dim(0), ctx.dim(0), None)
    home = _home(ctx, tile)
    with ctx.outside(ctx.depth - 1 if home is None else home):
        if is_costly(tile):
            source: Tile = in_scratch(ctx, tile)
        else:
            source = tile
        panels = packed(ctx, source, transposed=transposed, width=width)
        ctx.packed[key] = (ctx.builder.block, panels.memory)
    return panels


def _home(ctx: Context, tile: Tile) -> int | None:
    """The block before whose loops a block of input can be laid out; none for what is computed."""
    if not isinstance(tile, Loaded) or tile.version or ctx.versions.get(tile.memory, 0):
        return None
    places = [value for place in tile.axes if place is not None for value in (place.start, place.extent)]
    return ctx.home([*(place for place in tile.at if isinstance(place, Value)), *places])


def _register_blocks(
    ctx: Context,
    micro: Micro,
    accum: DType,
    left: Panels,
    right: Panels,
    target: Accumulator,
    rows: Value,
    columns: Value,
    depth: Value,
) -> None:
    """Panels of the right operand outside, so that one of them stays in the first cache."""
    whole = columns if right.offset is None else ctx.index("add", columns, right.offset)
    zero = ctx.dim(0)
    with ctx.loop(zero, ctx.index("ceil_div", whole, micro.columns), hint="j") as j:
        panel = ctx.index("add", j, right.panel)
        column = ctx.index("mul", j, micro.columns)
        with ctx.loop(zero, ctx.index("ceil_div", rows, micro.rows), hint="i") as i:
            row = ctx.index("mul", i, micro.rows)
            blocks = (left.memory, i, right.memory, panel, right.row, target.memory)
            extents = (row, column, depth, target.done, rows, *register_block_edge(micro, whole))
            ctx.builder.op("cpu.micro_kernel", (*blocks, *extents), attrs={"micro": micro, "accum": accum})


def store_panels(ctx: Context, tile: Tile, memory: Value, at: tuple[Value | Axis, ...]) -> None:
    """A block of the right operand of a later product, into the panels that its kernel reads."""
    row, column = _two_axes(at)
    width = ctx.target.micro(compute_scalar(tile.type).dtype).columns
    total = ctx.dim(memref_type(memory).dims[1])
    pack(ctx, tile, memory, (row.start, column.start), (row.extent, column.extent), total, width, False)


def _two_axes(at: tuple[Value | Axis, ...]) -> tuple[Axis, Axis]:
    match at:
        case (Axis() as row, Axis() as column):
            return row, column
    raise LoweringError("panels are read and written by two axes")
