"""What a tile program stores: one tile of each result, or the parts that a result is put together of.

Enters: a result over blocks. Leaves: a `tile.store` for it; a part of a dim that the program takes whole begins where
the result says, so that `concat([a, b], axis=-1)` is two stores and no copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from tesserac.ir.boxes import Box, never_meet
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.indexed import assembled_boxes
from tesserac.ir.types import AxisType
from tesserac.tile.no_tiles import NoTiles
from tesserac.tile.program_maps import map_of, maps_in_place
from tesserac.types.dims import Dim

if TYPE_CHECKING:
    from tesserac.tile.build_program import Program


def store_result(program: Program, position: int, value: Value) -> None:
    op = value.defining_op
    if op is not None and op.name == "form.assemble":
        _store_parts(program, position, op, op.operands)
    elif op is not None and (assemble := _mapped_assembly(op)) is not None:
        _store_parts(program, position, assemble, [map_of(op, part) for part in assemble.operands])
    else:
        _store(program, position, program.value(value), [program.axis(dim) for dim in tensor_type(value).dims])


def _mapped_assembly(op: Op) -> Op | None:
    """What is put together of parts before a map, such as a rounding, that takes one place after the other."""
    made = op.operands[0].defining_op if maps_in_place(op) else None
    return made if made is not None and made.name == "form.assemble" else None


def _store(program: Program, position: int, tile: Value, at: Sequence[Value]) -> None:
    lead = () if program.lead is None else (program.lead,)
    program.builder.op("tile.store", (tile, program.result_argument(position), *lead, *at))


def _store_parts(program: Program, position: int, assemble: Op, parts: Sequence[Value]) -> None:
    whole = tensor_type(assemble.result).dims
    places = assembled_boxes(assemble)
    boxes = [Box(place, tensor_type(part).dims) for place, part in zip(places, parts, strict=True)]
    if not all(never_meet(*pair, whole) for pair in combinations(boxes, 2)):
        raise NoTiles("parts of a result that lie over each other")
    for part, box in zip(parts, boxes, strict=True):
        if any(step != 1 for step in box.place.steps):
            raise NoTiles("parts of a result with steps")
        at = [_axis_of(program, *along) for along in zip(box.place.starts, box.sizes, whole, strict=True)]
        _store(program, position, program.value(part), at)


def _axis_of(program: Program, start: Dim, size: Dim, own: Dim) -> Value:
    """The axis of a part along a dim of the result."""
    if size == own:
        return program.axis(own)
    if size in program.sizes or own in program.sizes or start.symbols() & {d.symbol for d in program.sizes}:
        raise NoTiles("a part of a dim that is cut into blocks")
    stop = program.size(start + size)
    return program.builder.value("tile.axis", (program.size(start), stop), AxisType(program.extent(size)))
