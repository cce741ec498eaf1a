"""Products of a few rows with windows of memory, which are read where they lie and written nowhere.

    tile.dot(%a, %b {groups = [1, 2, 2]}, %acc)     ==>    cpu.window_product

Enters: a product whose operands are staged as `rows`, the right one in groups of dims. Each element of a panel would
serve as many rows as there are: of a few it is better loaded again, in vectors along the runs that columns have in
memory, than copied first.
"""

from __future__ import annotations

from tesserac.ir.core import Op
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.tiles import Accumulator, Axis, Grouped, Loaded, LoweringError
from tesserac.tile.dialect import memref_type
from tesserac.types.dims import product
from tesserac.types.dtype import I64

ITEM = 3
"""Numbers that say which columns are one vector: where the first lies, which one it is, how many there are."""


def lower_window_product(ctx: Context, dot: Op, left: Loaded | Grouped, right: Grouped, target: Accumulator) -> None:
    if any([isinstance(place, Axis) for place in tile.at[-2:]] != [True, True] for tile in (left, right)):
        raise LoweringError("operands of a product with windows have rows and columns behind all else", dot)
    groups = left.groups if isinstance(left, Grouped) else (1,) * len(left.at)
    depth, columns = ctx.extents(right.axes, right.type.shape)
    terms = [ctx.scratch((2, right.type.shape[0]), I64) for _ in range(2)]
    tables = (*terms, ctx.scratch((right.type.shape[1], ITEM), I64))
    first, second = ([p.start if isinstance(p, Axis) else p for p in tile.at] for tile in (left, right))
    operands = (left.memory, *first, right.memory, *second, target.memory, *tables, depth, columns, target.done)
    attrs = {"rows": _rows(left, groups, dot), "left": groups, "right": right.groups}
    ctx.builder.op("cpu.window_product", operands, attrs=attrs)


def _rows(left: Loaded | Grouped, groups: tuple[int, ...], dot: Op) -> int:
    """The number of rows, which is that of the memory."""
    end = sum(groups[:-1])
    rows = product(memref_type(left.memory).dims[end - groups[-2] : end]).constant
    if rows is None:
        raise LoweringError("a product with windows has a known number of rows", dot)
    return rows
