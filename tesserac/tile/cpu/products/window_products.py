"""Products of a few rows with windows of memory, which are read where they lie and written nowhere.

    tile.dot(%a, %b {groups = [1, 2, 2]}, %acc)     ==>    cpu.window_product

Enters: a product whose operands are staged as `rows`, the right one in groups of dims. Each element of a panel would
serve as many rows as there are: of a few it is better loaded again, in vectors along the runs that columns have in
memory, than copied first.
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.ir.core import Op, Value
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.tiles import Accumulator, Axis, Grouped, Loaded, LoweringError
from tesserac.tile.dialect import memref_type
from tesserac.types.dims import product
from tesserac.types.dtype import I64

ITEM = 4
"""Numbers that say which columns are one vector: where it begins, which column is its first, which lanes they have, and
as many lanes from the first on."""
TALL = 8
"""Rows at once: their sums of a group of vectors stay in registers."""
Pack = Callable[[int], Value]


def lower_window_product(
    ctx: Context, dot: Op, left: Loaded | Grouped, right: Grouped, target: Accumulator, pack: Pack
) -> None:
    """`pack` lays the left operand out in panels of so many rows, which many rows are read from."""
    if any([isinstance(place, Axis) for place in tile.at[-2:]] != [True, True] for tile in (left, right)):
        raise LoweringError("operands of a product with windows have rows and columns behind all else", dot)
    groups = left.groups if isinstance(left, Grouped) else (1,) * len(left.at)
    rows, depth, columns = ctx.extents(left.axes, left.type.shape)[0], *ctx.extents(right.axes, right.type.shape)
    terms, items = ctx.scratch((2, right.type.shape[0]), I64), ctx.scratch((right.type.shape[1], ITEM), I64)
    tables, first, most = [terms, items], [left.memory, *_starts(left)], _rows(left, groups, dot)
    if most > TALL:
        groups, first = (), [pack(TALL)]
    else:
        tables.append(ctx.scratch((2, right.type.shape[0]), I64))
    operands = (*first, right.memory, *_starts(right), target.memory, *tables, rows, depth, columns, target.done)
    attrs = {"rows": most, "left": groups, "right": right.groups}
    ctx.builder.op("cpu.window_product", operands, attrs=attrs)


def _starts(tile: Loaded | Grouped) -> list[Value]:
    return [place.start if isinstance(place, Axis) else place for place in tile.at]


def _rows(left: Loaded | Grouped, groups: tuple[int, ...], dot: Op) -> int:
    """The number of rows, which is that of the memory."""
    end = sum(groups[:-1])
    rows = product(memref_type(left.memory).dims[end - groups[-2] : end]).constant
    if rows is None:
        raise LoweringError("a product with windows has a known number of rows", dot)
    return rows
