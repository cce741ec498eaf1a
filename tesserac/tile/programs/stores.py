"""What a tile program stores: one tile of each result, or the parts that a result is put together of.

Enters: a result over blocks. Leaves: a `tile.store` for it; a part of a dim that the program takes whole begins where
the result says, so that `concat([a, b], axis=-1)` is two stores and no copy. So is `stack([a, b], axis=-1)` with
its last two dims made one: pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from typing import TYPE_CHECKING

from tesserac.ir.boxes import Box, never_meet
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import Reshape, tensor_type
from tesserac.ir.indexed import assembled_boxes
from tesserac.ir.types import AxisType
from tesserac.schedule.dialect import launch_stages
from tesserac.schedule.model.access import Dims
from tesserac.tile.no_tiles import NoTiles
from tesserac.tile.programs.joints import part_between, parts_between_joints
from tesserac.tile.programs.maps import map_of, maps_in_place
from tesserac.tile.programs.steps import build_steps, step_loop
from tesserac.types.dims import ONE, Dim, product

if TYPE_CHECKING:
    from tesserac.tile.programs.build import Program


def store_result(program: Program, position: int, value: Value) -> None:
    whole = tensor_type(value).dims
    stepped = step_loop(value)
    if stepped is not None and program.known(stepped[0].results[stepped[1]]) is None:
        build_steps(program, stepped[0])
        if position in program.stored:
            return
    found = _assembly(value)
    if found is None:
        _store_between_joints(program, position, value)
        return
    assemble, maps = found
    parts = [reduce(lambda made, step: map_of(step, made), maps, part) for part in assemble.operands]
    _store_parts(program, position, assemble, parts, _digits(whole, tensor_type(assemble.result).dims))


def _store_between_joints(program: Program, position: int, value: Value) -> None:
    """Threads of a GPU choose elements among parts where they stand; of a processor's vectors each is of one part."""
    whole = tensor_type(value).dims
    own = [(dim,) for dim in whole]
    found = None if launch_stages(program.launch) else parts_between_joints(value)
    if found is None or whole[found[0]] in program.sizes:
        _store(program, position, program.value(value), own, [program.axis(dim) for dim in whole])
        return
    axis, intervals = found
    for start, stop in intervals:
        part = part_between(value, axis, (start, stop), program.kernel.body.terminator)
        at = [program.axis(dim) for dim in whole]
        at[axis] = _axis_of(program, Dim.const(start), Dim.const(stop - start), whole[axis])
        _store(program, position, program.value(part), own, at)


def _assembly(value: Value) -> tuple[Op, list[Op]] | None:
    """What is put together of parts, and the maps behind it, such as a rounding, that take one place after the other;
    it may have been of another shape when it was."""
    op, maps = value.defining_op, list[Op]()
    while op is not None and op.name != "form.assemble":
        is_shape = op.name == "form.view" and isinstance(op.attrs["view"], Reshape)
        if not is_shape and not maps_in_place(op):
            return None
        maps = maps if is_shape else [op, *maps]
        op = op.operands[0].defining_op
    return None if op is None else (op, maps)


def _digits(whole: Dims, made: Dims) -> list[Dims]:
    """The dims that a result was put together with, of each of its own: `[32, 2]` of 64."""
    found, rest = list[Dims](), list(made)
    for dim in whole:
        digits = [rest.pop(0)] if rest else []
        while rest and (product(digits) != dim or rest[0] == ONE):
            digits.append(rest.pop(0))
        found.append(tuple(digits))
    if rest or any(product(digits) != dim for digits, dim in zip(found, whole, strict=True)):
        raise NoTiles("parts of a result that has another shape")
    return found


def _store(program: Program, position: int, tile: Value, digits: Sequence[Dims], at: Sequence[Value]) -> None:
    lead = () if program.lead is None else (program.lead,)
    program.builder.op("tile.store", (tile, program.result_argument(position, digits), *lead, *at))


def _store_parts(
    program: Program, position: int, assemble: Op, parts: Sequence[Value], digits: Sequence[Dims]
) -> None:
    whole = tensor_type(assemble.result).dims
    places = assembled_boxes(assemble)
    boxes = [Box(place, tensor_type(part).dims) for place, part in zip(places, parts, strict=True)]
    if not all(never_meet(*pair, whole) for pair in combinations(boxes, 2)):
        raise NoTiles("parts of a result that lie over each other")
    for part, box in zip(parts, boxes, strict=True):
        if any(step != 1 for step in box.place.steps):
            raise NoTiles("parts of a result with steps")
        at = [_axis_of(program, *along) for along in zip(box.place.starts, box.sizes, whole, strict=True)]
        _store(program, position, program.value(part), digits, at)


def _axis_of(program: Program, start: Dim, size: Dim, own: Dim) -> Value:
    """The axis of a part along a dim of the result."""
    if size == own:
        return program.axis(own)
    if size in program.sizes or own in program.sizes or start.symbols() & {d.symbol for d in program.sizes}:
        raise NoTiles("a part of a dim that is cut into blocks")
    stop = program.size(start + size)
    return program.builder.value("tile.axis", (program.size(start), stop), AxisType(program.extent(size)))
