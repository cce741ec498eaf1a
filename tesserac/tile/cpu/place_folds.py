"""Folds of rows into places: `tile.fold_at` with the scratch that it needs.

Enters: a `tile.fold_at`. Leaves: a `cpu.fold_at`, with room for the rows in the order of their places, twice, for what
is counted of each place, and for what is under way: the segments of places, where a row is one element, or subtrees of
segments. Elements for places that are known to be few are a `cpu.fold_few`, whose rows are never put in order; nor are
those of a `cpu.fold_at` unless only few of the places have any, so that it has room for that many alone.
"""

from __future__ import annotations

from tesserac.ir.core import Op, Value
from tesserac.ir.forms import indices
from tesserac.numerics.order import RUN_SEGMENT
from tesserac.schedule.model.cuts import FEW_PLACES, MANY_PLACES
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.indexed import coordinates
from tesserac.tile.cpu.target import held
from tesserac.tile.cpu.tiles import Axis, compute_type
from tesserac.tile.dialect import fold_operands, memref_type
from tesserac.types.dims import Dim, product
from tesserac.types.dtype import I64, DType

SPARSE = 8
"""Up to so many places per row have a count each; more are sorted by the digits of their numbers."""
DIGITS = 1 << 8
"""Values of a digit."""
LISTED = 4096
"""Rows of which those of a range of places are listed before they are folded: the list stays near."""
LIST_ROOM = 64
"""What a list has behind its last row: vectors are written whole."""
LEVELS, SLOT_WORDS = 64, 32
"""Subtrees that may wait for their neighbours, and the words of one of them: columns that are folded at once."""


def lower_fold_at(ctx: Context, op: Op) -> None:
    found = fold_operands(op)
    size = memref_type(found.rows[0]).dims[indices(op, "along")[0]]
    places = product(memref_type(found.target[0]).dims[-len(found.places) :])
    count = ctx.dim(1)
    operands: list[Value] = []
    for memory, *at in (found.rows, found.target, *found.places):
        operands.append(ctx.value(memory))
        for place in coordinates(ctx, tuple(at)):
            count = place.extent if isinstance(place, Axis) else count
            operands.append(place.start if isinstance(place, Axis) else place)
    operands += [ctx.value(found.first), ctx.value(found.behind)]
    if places.constant is not None and places.constant <= FEW_PLACES and not indices(op, "columns"):
        _lower_few(ctx, op, operands, size, places)
        return
    scratch = _column_room(ctx, size, places) if indices(op, "columns") else _element_room(ctx, op, size, places)
    status = [ctx.value(v) for v in found.rest]
    attrs = {name: op.attrs[name] for name in ("kind", "bounds", "along", "columns")}
    ctx.builder.op("cpu.fold_at", (*operands, count, *scratch, *status), (), attrs)
    ctx.written(ctx.value(found.target[0]))


def _column_room(ctx: Context, size: Dim, places: Dim) -> list[Value]:
    rows = [ctx.scratch((size + 1, 2), I64) for _ in range(2)]
    counted = places.min(size * SPARSE).max(DIGITS) + 1
    return [*rows, ctx.scratch((counted,), I64), ctx.scratch((LEVELS, SLOT_WORDS), I64), ctx.scratch((2, 1), I64)]


def _element_room(ctx: Context, op: Op, size: Dim, places: Dim) -> list[Value]:
    """Elements are put in order where places have fewer of them than one in SPARSE; a range of places has an entry
    for each."""
    logged = _logged(size)
    room = size.min(places.floor_div(SPARSE)).max(logged) + 1
    counted = places.min((size * SPARSE).max(MANY_PLACES)) + 1
    return [
        ctx.scratch((room, 2), I64),
        ctx.scratch((room, 2), I64),
        ctx.scratch((counted.max(DIGITS),), I64),
        ctx.scratch((counted, 2), _entry_type(op)),
        ctx.scratch((2, LISTED + LIST_ROOM), I64),
    ]


def _lower_few(ctx: Context, op: Op, operands: list[Value], size: Dim, places: Dim) -> None:
    logged = _logged(size)
    scratch = [
        ctx.scratch((places + 1,), I64),
        ctx.scratch((logged, 2), I64),
        ctx.scratch((logged,), _entry_type(op)),
        ctx.scratch((places + 1, 2), _entry_type(op)),
        ctx.scratch((2, LISTED + LIST_ROOM), I64),
    ]
    attrs = {name: op.attrs[name] for name in ("kind", "bounds", "along", "columns")}
    status = [ctx.value(v) for v in fold_operands(op).rest]
    ctx.builder.op("cpu.fold_few", (*operands, *scratch, *status), (), attrs)
    ctx.written(ctx.value(fold_operands(op).target[0]))


def _logged(size: Dim) -> Dim:
    """Segments of the log: those that are whole, and one more of each place that has such."""
    return size.floor_div(RUN_SEGMENT) * 2 + 1


def _entry_type(op: Op) -> DType:
    """A place has the chain under way, and in a number of the same length the elements to come."""
    return held(compute_type(memref_type(fold_operands(op).target[0])).dtype)
