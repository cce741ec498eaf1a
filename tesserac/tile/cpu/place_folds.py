"""Folds of rows into places: `tile.fold_at` with the scratch that it needs.

Enters: a `tile.fold_at`. Leaves: a `cpu.fold_at`, with room for the rows in the order of their places, twice, for what
is counted of each place, and for rows that wait for their neighbours: of places, where a row is one element, or of
subtrees. Elements for places that are known to be few are a `cpu.fold_few`, whose room grows with full buffers alone;
where only a call knows how many they are, so does that of the `cpu.fold_at` unless they are many.
"""

from __future__ import annotations

from tesserac.ir.core import Op, Value
from tesserac.ir.forms import indices
from tesserac.schedule.cuts import FEW_PLACES, MANY_PLACES, are_many
from tesserac.tile.cpu.context import Context
from tesserac.tile.cpu.indexed import coordinates
from tesserac.tile.cpu.target import held
from tesserac.tile.cpu.tiles import Axis, compute_type
from tesserac.tile.dialect import fold_operands, memref_type
from tesserac.types.dims import Dim, product
from tesserac.types.dtype import I64

SPARSE = 8
"""Up to so many places per row have a count each; more are sorted by the digits of their numbers."""
DIGITS = 1 << 8
"""Values of a digit."""
GATHERS = 32
"""Elements that a place gathers before they are folded, where places are not many."""
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
    """Unless places are many, elements need little: they are gathered, or fewer than the places and put in order."""
    dtype = held(compute_type(memref_type(fold_operands(op).target[0])).dtype)
    gathered = size.floor_div(GATHERS) + places.min(MANY_PLACES)
    room = (are_many(places) * size).max(size.min(MANY_PLACES)).max(gathered) + 1
    counted = places.min((size * SPARSE).max(MANY_PLACES)).max(DIGITS) + 1
    return [
        ctx.scratch((room, 2), I64),
        ctx.scratch((room, 2), I64),
        ctx.scratch((counted, 2), I64),
        ctx.scratch((places.min(MANY_PLACES) + 1, GATHERS), dtype),
        ctx.scratch((2, LISTED + LIST_ROOM), I64),
    ]


def _lower_few(ctx: Context, op: Op, operands: list[Value], size: Dim, places: Dim) -> None:
    """A full buffer is a record of the log; each place has one more fold, of what is left in its buffer."""
    found = fold_operands(op)
    dtype, full = held(compute_type(memref_type(found.target[0])).dtype), size.floor_div(GATHERS)
    scratch = [
        ctx.scratch((places + 1, 2), I64),
        ctx.scratch((full + 1, 2), I64),
        ctx.scratch((full + places + 1,), dtype),
        ctx.scratch((places + 1, GATHERS), dtype),
        ctx.scratch((2, LISTED + LIST_ROOM), I64),
    ]
    attrs = {name: op.attrs[name] for name in ("kind", "bounds", "along", "columns")}
    status = [ctx.value(v) for v in found.rest]
    ctx.builder.op("cpu.fold_few", (*operands, *scratch, *status), (), attrs)
    ctx.written(ctx.value(found.target[0]))
