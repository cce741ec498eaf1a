"""Products of which a panel of the left operand stays in the first cache, while panels of the right one pass.

    %c = tile.dot(%a, %b, %acc)     ==>    for panel i of %a: cpu.pack it, then for panel j of %b: a register block

A panel of a few rows is packed just before it is multiplied, so it is written once and never leaves the first cache. It
is lower than one of the right operand is wide, so in the same cache it has more terms: sums pass fewer times between
registers and memory. Sums that are the result go to its memory and come from there (`finished_products.py`).

A right operand whose rows lie in memory as register blocks read them is not packed before: the blocks of the first rows
read it there, and write the panels that those below read. So it comes from memory while there is something to multiply.
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Attr, Op, Value, attr
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.finished_products import Finished
from tesserac.tile.cpu.products.panels import Panels, pack, register_block_edge
from tesserac.tile.cpu.target import Micro
from tesserac.tile.cpu.tiles import Accumulator, Axis, Loaded, LoweringError
from tesserac.tile.dialect import Stage, compute_scalar, memref_type, tile_type
from tesserac.types.dims import ONE
from tesserac.types.dtype import F32, F64


def left_stays(dot: Op) -> bool:
    """Whether the left operand is packed one panel after the other."""
    load = dot.operands[0].defining_op
    return load is not None and "stage" in load.attrs and attr(load, "stage", Stage).layout == "panel"


def passing_blocks(
    ctx: Context, dot: Op, micro: Micro, target: Accumulator, pack_right: Callable[[], Panels]
) -> None:
    """All register blocks of a product, row by row of them."""
    attrs: dict[str, Attr] = {"micro": micro, "accum": tile_type(dot.result).dtype, "passes": True}
    a, zero = _rows_of(ctx, dot), ctx.dim(0)
    (rows, depth), columns = ctx.extents(a.axes, a.type.shape), ctx.extents(target.axes, target.type.shape)[1]
    finished = ctx.finished.get(dot)
    source = _source(ctx, dot, micro)
    brought = None if source is None else _bring(ctx, source, micro, rows, finished)
    right = pack_right() if brought is None else Panels(brought.memory, zero, zero, None)
    memory = ctx.scratch((a.type.shape[1], micro.rows), compute_scalar(a.type).dtype, "panels")
    whole = columns if right.offset is None else ctx.index("add", columns, right.offset)
    with ctx.loop(zero, ctx.index("ceil_div", rows, micro.rows), hint="i") as i:
        row = ctx.index("mul", i, micro.rows)
        below = ctx.index("sub", rows, row)
        _pack_rows(ctx, a, row, ctx.index("min", below, micro.rows), memory)
        with ctx.loop(zero, ctx.index("ceil_div", whole, micro.columns), hint="j") as j:
            panel, column = ctx.index("add", j, right.panel), ctx.index("mul", j, micro.columns)
            operands = (memory, zero, right.memory, panel, right.row, target.memory, row, column, depth, target.done)
            beside = () if brought is None else brought.operands(ctx, column)
            if finished is None:
                plain = (*operands, rows, *register_block_edge(micro, whole))
            else:
                behind, place = ctx.index("sub", columns, column), _place(ctx, finished, row, column)
                plain = (*operands, below, behind, finished.elsewhere, finished.to.memory, *place)
            brings: dict[str, Attr] = {} if brought is None else {"brings": len(plain)}
            name = "cpu.micro_kernel" if finished is None else "cpu.finished_block"
            ctx.builder.op(name, (*plain, *beside), attrs={**attrs, **brings})


@dataclass(frozen=True)
class Brought:
    """A right operand that comes into panels beside the first rows: its panels, where it lies, the column up to which
    that is so, and how many terms follow."""

    memory: Value
    source: Loaded
    first: Value
    more: Value

    def operands(self, ctx: Context, column: Value) -> tuple[Value, ...]:
        """What a register block at this column must know of it."""
        at = [place.start if isinstance(place, Axis) else place for place in self.source.at]
        return (self.source.memory, *at[:-1], ctx.index("add", at[-1], column), self.first, self.more)


def _source(ctx: Context, dot: Op, micro: Micro) -> Loaded | None:
    """The right operand, where vectors of its rows are what register blocks read, and a vector is a line: only then
    is there a register for each of the places that it comes from and goes to."""
    tile = ctx.tile(dot.operands[1])
    if not isinstance(tile, Loaded) or not ctx.target.has_masks or micro.columns == micro.lanes:
        return None
    memory, axes = memref_type(tile.memory), tile.axes
    neighbours = memory.layout == "strided" and len(memory.dims) > 1 and memory.strides[-1] == ONE
    same = tile.type.dtype == memory.dtype == tile_type(dot.result).dtype and memory.dtype in (F32, F64)
    in_order = all(place is axis for place, axis in zip(tile.at[-2:], axes, strict=True))
    return tile if neighbours and same and in_order and None not in axes else None


def _bring(ctx: Context, source: Loaded, micro: Micro, rows: Value, finished: Finished | None) -> Brought:
    """Panels for a right operand, of which are packed here: what fills no panel, and all of it where there are not so
    many rows as a register block has, or sums go to scratch."""
    (terms, columns), zero = source.axes, ctx.dim(0)
    assert terms is not None and columns is not None
    width = -(-source.type.shape[1] // micro.columns) * micro.columns
    memory = ctx.scratch((source.type.shape[0], width), source.type.dtype, "panels")
    able = ctx.index("min", ctx.index("floor_div", rows, micro.rows), ctx.dim(1))
    if finished is not None:
        scattered = ctx.index("min", finished.elsewhere, ctx.dim(1))
        able = ctx.index("mul", able, ctx.index("sub", ctx.dim(1), scattered))
    whole = ctx.index("mul", ctx.index("floor_div", columns.extent, micro.columns), micro.columns)
    first = ctx.index("mul", whole, able)
    rest = ctx.index("sub", columns.extent, first)
    part = Axis(ctx.index("add", columns.start, first), rest, columns.block)
    at = (*source.at[:-1], part)
    block = Loaded(source.type, source.memory, at, (terms, part), source.version)
    pack(ctx, block, memory, (zero, first), (terms.extent, rest), columns.extent, micro.columns, transposed=False)
    return Brought(memory, source, first, _more(ctx, source, terms))


def _more(ctx: Context, source: Loaded, terms: Axis) -> Value:
    """How many terms follow those of a block; behind the last one of a product lie those of the next, if there are
    several."""
    *leads, size, _ = memref_type(source.memory).dims
    behind = ctx.index("sub", ctx.dim(size), ctx.index("add", terms.start, terms.extent))
    return ctx.dim(1) if leads else behind


def _rows_of(ctx: Context, dot: Op) -> Loaded:
    tile = ctx.tile(dot.operands[0])
    if not isinstance(tile, Loaded) or None in tile.axes:
        raise LoweringError("an operand that is packed panel by panel is a block of memory", dot)
    return tile


def _pack_rows(ctx: Context, a: Loaded, row: Value, count: Value, memory: Value) -> None:
    """So many rows of a block, from `row` on, as the one panel of `memory`."""
    rows, terms = a.axes
    assert rows is not None and terms is not None
    part = Axis(ctx.index("add", rows.start, row), count, rows.block)
    at = tuple(part if place is rows else place for place in a.at)
    block, zero = Loaded(a.type, a.memory, at, (part, terms), a.version), ctx.dim(0)
    width = memref_type(memory).dims[1].constant
    assert width is not None
    pack(ctx, block, memory, (zero, zero), (terms.extent, count), count, width, transposed=True)


def _place(ctx: Context, finished: Finished, row: Value, column: Value) -> tuple[Value, ...]:
    to = finished.to
    return (*to.outer, ctx.index("add", to.rows.start, row), ctx.index("add", to.columns.start, column))
