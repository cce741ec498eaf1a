"""Tiles read at other places than they stand: parts of computed tiles, and tiles that are put together of parts.

    roll(t * 2, 1)[r, c]       ==>   c == 0 ? (t * 2)[r, 15] : (t * 2)[r, c - 1]      with t gathered at either place
    pad(t, (3, 0))[:, 1:17]    ==>   c + 1 < 3 ? 0 : t[r, c - 2]

Registers have no places that another element could read. What is computed element by element is computed once more
where it is read: its arguments are gathered there, at places that are known to be in range. Threads of a GPU read what
lies side by side at once, from wherever it begins; a processor would take element after element (5.7 times the time of
the meaning for a convolution of four taps on a Neoverse N1). It stores results and adds products part by part instead
(`programs/joints.py`). What is left, of either, is read of the program's own memory (`programs/kept.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import Slice, operand_maps, tensor_type
from tesserac.ir.indexed import assembled_boxes
from tesserac.ir.types import AxisType, ScalarType, TensorType, TileType
from tesserac.schedule.dialect import launch_stages
from tesserac.schedule.forms.views import through_view
from tesserac.schedule.model.access import Dims, is_view
from tesserac.tile.dialect import compute_scalar, tile_type
from tesserac.tile.no_tiles import NoTiles
from tesserac.tile.programs.gathers import gathered_along
from tesserac.tile.programs.joints import part_of_assembly, part_of_part
from tesserac.tile.programs.kept import is_kept_for_readers, part_of_kept, put_together
from tesserac.tile.programs.maps import MapBody, part_of_map
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import BOOL, I64

if TYPE_CHECKING:
    from tesserac.tile.programs.build import Program

PLACE = ScalarType(I64)
MOST_TAKEN = 128
"""Values that are computed once more for elements that are read at other places: parts of parts double them."""

MOST_AGAIN = 48
"""Maps that a part of what they make computes once more."""


@dataclass(frozen=True, eq=False)
class Along:
    """The places along a dim, a tile of i64, at which elements of another dim are read."""

    dim: Dim
    places: Value


def build_assemble(program: Program, op: Op, value: Value) -> Value:
    """A tile that is put together of parts along one dim."""
    axes = _joined_axes(op)
    dims = [tensor_type(value).dims[axis] for axis in axes]
    if any(dim in program.sizes for dim in dims):
        raise NoTiles("parts that are put together along a block")
    if len(axes) != 1 or not _is_made_again(program, value, axis := axes.pop()):
        return put_together(program, op)
    return _picked(program, op, axis, _all_of(program, dims[0]))


def part_made(program: Program, view: Op) -> Value | None:
    """The value that a part is, in terms of parts of what it is made of; None where there is none. What is costly and
    has other readers is kept, and a part of it read there, not computed once more. Threads of a GPU, which wait for
    each other before they read, compute more again: parts of parts of parts double it."""
    costs_much = _is_made_of_many if launch_stages(program.launch) else is_kept_for_readers
    keeps = costs_much(view)
    part = None if keeps else part_of_map(view)
    return part or part_of_part(view) or part_of_assembly(view)


def _is_made_of_many(view: Op) -> bool:
    """Whether a part is of a value that has several readers and that many maps make, each counted as often as it is
    read."""
    count, waiting = 0, [view.operands[0]] if len(view.operands[0].uses) > 1 else []
    while waiting and count <= MOST_AGAIN:
        op = waiting.pop().defining_op
        if op is not None and (op.name == "form.map" or is_view(op)):
            count += op.name == "form.map"
            waiting += op.operands
    return count > MOST_AGAIN


def part_of_computed(program: Program, view: Op) -> Value | None:
    """A part of a computed tile along one dim; None for any other view."""
    cut, source, dims = view.attrs["view"], view.operands[0], tensor_type(view.result).dims
    if not isinstance(cut, Slice):
        return None
    whole = tensor_type(source).dims
    parts = zip(dims, whole, cut.starts, cut.steps, strict=True)
    moved = [axis for axis, (dim, own, start, step) in enumerate(parts) if (dim, start, step) != (own, ZERO, 1)]
    axis = moved[0]
    if len(moved) != 1 or dims[axis] in program.sizes or not _is_made_again(program, source, axis):
        return part_of_kept(program, view)
    here = _all_of(program, dims[axis])
    return _taken(program, source, axis, _moved(program, here, cut.starts[axis], cut.steps[axis]))


def _taken(program: Program, value: Value, axis: int, along: Along) -> Value:
    """The tile of a value whose elements along one dim are read at the given places."""
    program.taken += 1
    if program.read(value) is not None:
        return gathered_along(program, value, axis, along.dim, along.places)
    op = value.defining_op
    assert op is not None
    if op.name == "form.map":
        return _taken_map(program, op, axis, along)
    return _picked(program, op, axis, along) if op.name == "form.assemble" else _taken_view(program, op, axis, along)


def _is_made_again(program: Program, value: Value, axis: int) -> bool:
    """Whether a value is computed once more where it is read at other places along a dim: by threads of a GPU, element
    by element of arguments, at places that are numbers, and not too often."""
    return bool(launch_stages(program.launch)) and program.taken + _made_again(program, value, axis) <= MOST_TAKEN


def _made_again(program: Program, value: Value, axis: int) -> int:
    """How many values are computed once more; more than there may be where one cannot be."""
    op = value.defining_op
    if program.read(value) is not None:
        return 1
    if op is None:
        return MOST_TAKEN + 1
    parts: list[tuple[Value, int]] | None = None
    if op.name == "form.map" and not any(inner.name == "scalar.index" for inner in op.body.ops):
        operands = zip(op.operands, operand_maps(op), strict=True)
        parts = [(operand, at.index(axis)) for operand, at in operands if axis in at]
    elif op.name == "form.assemble" and _joined_axes(op) == {axis}:
        ends = [*(box.starts[axis] for box in assembled_boxes(op)), *(tensor_type(p).dims[axis] for p in op.operands)]
        parts = [(part, axis) for part in op.operands] if all(end.constant is not None for end in ends) else None
    elif is_view(op):
        parts = _seen_along(op, axis)
    if parts is None:
        return MOST_TAKEN + 1
    count = 1
    for part, own in parts:
        count += _made_again(program, part, own) if count <= MOST_TAKEN else 0
    return count


def _seen_along(view: Op, axis: int) -> list[tuple[Value, int]] | None:
    """What a view reads along a dim; None where a part of it has no places that are numbers."""
    cut, source, dims = view.attrs["view"], view.operands[0], tensor_type(view.result).dims
    if isinstance(cut, Slice):
        others = [d for d in range(len(dims)) if d != axis and tensor_type(source).dims[d] != dims[d]]
        return [(source, axis)] if not others and cut.starts[axis].constant is not None else None
    places = through_view(view, tuple(range(len(dims))))
    return None if places is None else [(source, places.index(axis))] if axis in places else []


def _taken_view(program: Program, view: Op, axis: int, along: Along) -> Value:
    cut, source = view.attrs["view"], view.operands[0]
    result = _with_dim(tensor_type(view.result), axis, along.dim)
    if isinstance(cut, Slice):
        return _taken(program, source, axis, _moved(program, along, cut.starts[axis], cut.steps[axis]))
    places = through_view(view, tuple(range(result.rank)))
    assert places is not None
    tile = _taken(program, source, places.index(axis), along) if axis in places else program.value(source)
    return program.mapped([tile], [places], result, lambda _, args: args[0])


def _taken_map(program: Program, op: Op, axis: int, along: Along) -> Value:
    """A map computed at other places: it reads its operands there."""
    maps = list(operand_maps(op))
    tiles = [
        _taken(program, value, places.index(axis), along) if axis in places else program.value(value)
        for value, places in zip(op.operands, maps, strict=True)
    ]
    result = _with_dim(tensor_type(op.result), axis, along.dim)
    block = Block([compute_scalar(tile_type(t)) for t in tiles], [a.name for a in op.body.args])
    MapBody(program, op, result, block, tiles, maps, dict(zip(op.body.args, block.args, strict=True))).fill()
    ty = TileType(program.shape(result.dims), result.dtype, result.policy)
    return program.builder.value("tile.map", tiles, ty, {"maps": tuple(maps)}, (block,), op.result.name)


def _picked(program: Program, op: Op, axis: int, along: Along) -> Value:
    """Of parts that are put together, at each place the last that has it."""
    result = _with_dim(tensor_type(op.result), axis, along.dim)
    sizes = [tensor_type(part).dims[axis] for part in op.operands]
    boxes = [(_number(box.starts[axis]), box.steps[axis]) for box in assembled_boxes(op)]
    own = [_within(program, along, *box, _number(size)) for box, size in zip(boxes, sizes, strict=True)]
    tiles = [_taken(program, part, axis, at) for part, at in zip(op.operands, own, strict=True)]

    def fill(builder: Builder, args: list[Value]) -> Value:
        place, count = args[-1], len(tiles)
        picked = args[0]
        for number in range(1, count):
            start, step = boxes[number]
            back = _linear(builder, args[count + number], start, step)
            here = builder.value("scalar.eq", (back, place), ScalarType(BOOL))
            picked = builder.value("scalar.select", (here, args[number], picked), picked.type)
        return picked

    whole, row = tuple(range(result.rank)), (axis,)
    operands = [*tiles, *(at.places for at in own), along.places]
    return program.mapped(operands, [*[whole] * len(tiles), *[row] * (len(own) + 1)], result, fill, op.result.name)


def _joined_axes(op: Op) -> set[int]:
    """The dims along which parts are put together."""
    whole = tensor_type(op.result).dims
    return {
        axis
        for part, box in zip(op.operands, assembled_boxes(op), strict=True)
        for axis, dim in enumerate(tensor_type(part).dims)
        if (dim, box.starts[axis], box.steps[axis]) != (whole[axis], ZERO, 1)
    }


# ------------------------------------------------------------------------------------------------------------- places


def _all_of(program: Program, dim: Dim) -> Along:
    at = program.axis(dim)
    assert isinstance(at.type, AxisType)
    return Along(dim, program.builder.value("tile.iota", (at,), TileType((at.type.block,), I64)))


def _moved(program: Program, along: Along, start: Dim, step: int) -> Along:
    """The places in a tensor of those in a part of it."""
    first = _number(start)
    return _mapped(program, along, lambda builder, place: _linear(builder, place, first, step))


def _within(program: Program, along: Along, start: int, step: int, size: int) -> Along:
    """The places in a part of those in all of it, or some that the part has."""

    def fill(builder: Builder, place: Value) -> Value:
        place = builder.value("scalar.sub", (place, _constant(builder, start)), PLACE)
        if step != 1:
            place = builder.value("scalar.floor_div", (place, _constant(builder, step)), PLACE)
        place = builder.value("scalar.max", (place, _constant(builder, 0)), PLACE)
        return builder.value("scalar.min", (place, _constant(builder, size - 1)), PLACE)

    return _mapped(program, along, fill)


def _mapped(program: Program, along: Along, fill: Callable[[Builder, Value], Value]) -> Along:
    result = TensorType((along.dim,), I64)
    return Along(along.dim, program.mapped([along.places], [(0,)], result, lambda b, args: fill(b, args[0])))


def _linear(builder: Builder, place: Value, start: int, step: int) -> Value:
    scaled = place if step == 1 else builder.value("scalar.mul", (place, _constant(builder, step)), PLACE)
    return scaled if start == 0 else builder.value("scalar.add", (scaled, _constant(builder, start)), PLACE)


def _constant(builder: Builder, value: int) -> Value:
    return builder.value("scalar.constant", (), PLACE, {"value": value})


def _number(dim: Dim) -> int:
    if dim.constant is None:
        raise NoTiles(f"a part of a computed tile that begins at, or has, {dim} elements")
    return dim.constant


def _with_dim(ty: TensorType, axis: int, dim: Dim) -> TensorType:
    return TensorType(_replaced(ty.dims, axis, dim), ty.dtype, ty.policy)


def _replaced(dims: Dims, axis: int, dim: Dim) -> Dims:
    return (*dims[:axis], dim, *dims[axis + 1 :])
