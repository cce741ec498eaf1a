"""Reads at computed places in a tile program: rows of a table by a tile of integers.

    form.gather(%k, %at)      ==>   tile.gather(%k, %at, %columns, %status)      the table is not copied before

The table is an argument, which lies in memory, or a computed tile that the program keeps there
(`programs/kept.py`); the integers may be computed. One that is out of range is told to a word
of the launch's, one for every such form, which the host looks at. Places that lie outside the axes of the integers are
neither read nor told of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tesserac.ir.core import Attr, Op, Value
from tesserac.ir.forms import Slice, operand_maps, tensor_type
from tesserac.ir.indexed import gather_source
from tesserac.ir.types import TensorType, TileType
from tesserac.tile.no_tiles import NoTiles
from tesserac.tile.programs.kept import as_computed, kept, own_axis
from tesserac.tile.programs.maps import part_read
from tesserac.types.dims import Dim

if TYPE_CHECKING:
    from tesserac.tile.programs.build import Program


def build_gather(program: Program, op: Op, value: Value) -> Value:
    return _gathered(program, op, op.operands, tensor_type(value))


def part_of_gather(program: Program, view: Op) -> Value | None:
    """A part of what a gather reads: its own places in parts of the table. None for any other view."""
    made, cut = view.operands[0].defining_op, view.attrs["view"]
    if not isinstance(cut, Slice) or made is None or made.name != "form.gather":
        return None
    dims = tensor_type(view.result).dims
    read = zip(made.operands, (gather_source(made), *operand_maps(made)), strict=True)
    parts = [part_read(made, value, places, cut, dims) for value, places in read]
    return _gathered(program, made, parts, tensor_type(view.result))


def _gathered(program: Program, op: Op, operands: Sequence[Value], result: TensorType) -> Value:
    """The tile that a gather, or part of one, reads of these operands."""
    table, dims = operands[0], tensor_type(operands[0]).dims
    indices, read = [program.value(index) for index in operands[1:]], program.read(table)
    followed, computed = gather_source(op), iter(zip(indices, operand_maps(op), strict=True))
    if any(program.varies(dim) for dim, place in zip(dims, followed, strict=True) if place is None):
        raise NoTiles("a gather within a block")
    argument, fixed = program.memory_at(*read, dims) if read is not None else (kept(program, table), [])
    pairs = [
        next(computed) if place is None else (program.axis(dim) if read else own_axis(program, dim), (place,))
        for dim, place in zip(dims, followed, strict=True)
    ]
    maps = (*((),) * len(fixed), *(places for _, places in pairs))
    tile = TileType(program.shape(result.dims), result.dtype, result.policy)
    at = (*fixed, *(coordinate for coordinate, _ in pairs), *program.status_of(op))
    attrs: dict[str, Attr] = {"maps": maps, "bounds": op.attrs["bounds"], **(program.staging(read[0]) if read else {})}
    found = program.builder.value("tile.gather", (argument, *at), tile, attrs, hint=op.result.name)
    return found if read is not None else as_computed(program, found, result)


def gathered_along(program: Program, value: Value, axis: int, dim: Dim, places: Value) -> Value:
    """The tile of what an argument has along one dim at places that are all in range; `dim` counts them."""
    read, ty = program.read(value), tensor_type(value)
    assert read is not None
    argument, fixed = program.memory_at(*read, ty.dims)
    at = [places if place == axis else program.axis(own) for place, own in enumerate(ty.dims)]
    shape = program.shape((*ty.dims[:axis], dim, *ty.dims[axis + 1 :]))
    attrs: dict[str, Attr] = {"maps": (*((),) * len(fixed), *((place,) for place in range(ty.rank))), "bounds": "known"}
    tile = TileType(shape, ty.dtype, ty.policy)
    return program.builder.value("tile.gather", (argument, *fixed, *at), tile, attrs, hint=value.name)
