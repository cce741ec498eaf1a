"""Products of a few rows: the right operand is read once, as it lies, and the sums of its block stay near.

    tile.dot(%a, %b, %acc)     ==>    cpu.row_product

Enters: a product whose operands are blocks of memory, staged as `rows`. It takes no panels, so that a row times a
matrix takes the time in which the matrix comes from memory.
"""

from __future__ import annotations

from tesserac.ir.core import Op, Value
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.products.window_products import Pack, lower_window_product
from tesserac.tile.cpu.tiles import Accumulator, Axis, Grouped, Loaded, LoweringError
from tesserac.tile.dialect import Stage


def reads_rows(dot: Op) -> bool:
    """Whether the schedule has a product read its operands as they lie."""
    loads = [value.defining_op for value in dot.operands[:2]]
    stages = [load.attrs.get("stage") if load is not None and load.name == "tile.load" else None for load in loads]
    return all(isinstance(stage, Stage) and stage.layout == "rows" for stage in stages)


def lower_row_product(ctx: Context, dot: Op, target: Accumulator, pack: Pack) -> None:
    left, right = (ctx.tile(value) for value in dot.operands[:2])
    if isinstance(left, Loaded | Grouped) and isinstance(right, Grouped):
        lower_window_product(ctx, dot, left, right, target, pack)
        return
    if not isinstance(left, Loaded) or not isinstance(right, Loaded):
        raise LoweringError("an operand that is read as it lies must be a block of memory", dot)
    rows, depth = ctx.extents(left.axes, left.type.shape)
    columns = ctx.extents(right.axes, right.type.shape)[1]
    operands = (left.memory, *_starts(left), right.memory, *_starts(right), target.memory)
    attrs = {"left": _dims(left), "right": _dims(right)}
    ctx.builder.op("cpu.row_product", (*operands, rows, columns, depth, target.done), attrs=attrs)


def _starts(tile: Loaded) -> list[Value]:
    return [place.start if isinstance(place, Axis) else place for place in tile.at]


def _dims(tile: Loaded) -> tuple[int, ...]:
    """The dims of the memory that the block has."""
    return tuple(dim for dim, place in enumerate(tile.at) if isinstance(place, Axis))
