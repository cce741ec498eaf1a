"""Forms that compute each point on its own, on blocks: maps, gathers, and the writes of a scatter.

Enters: a form of a launch and the tiles of what it follows. Leaves: the tile of its result at the coordinates that the
frame has now.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, attr, clone_op
from tesserac.ir.forms import tensor_type
from tesserac.ir.index import index_op
from tesserac.ir.types import AxisType, ScalarType, TileType
from tesserac.schedule.dialect import launch_place
from tesserac.schedule.space import read_reach, write_reach
from tesserac.schedule.views import is_copy
from tesserac.tile.dialect import compute_scalar, tile_type
from tesserac.tile.frame import Frame
from tesserac.types.dtype import I64


def computed_tile(frame: Frame, op: Op, tiles: Sequence[Value], dims: Sequence[tuple[int, ...]]) -> Value:
    """The block of a map's or gather's result, from the blocks of what it follows."""
    loops = frame.blocked(frame.walked(op))
    make = _gather if op.name == "form.gather" else map_tile
    return make(frame, op, tiles, dims, loops)


def _gather(
    frame: Frame, op: Op, tiles: Sequence[Value], dims: Sequence[tuple[int, ...]], loops: tuple[int, ...]
) -> Value:
    """A form.gather on blocks: index i is a tile over the loops `dims[i]`, the result one over `loops`."""
    reach = read_reach(frame.launch, op, 0)
    assert reach is not None, "a table stands in memory"
    argument, ty = frame.argument(reach), tensor_type(op.result)
    at = frame.coordinates(argument)
    followed = [(loops.index(i),) if i in loops else () for i in argument.loops if i is not None]
    fixed = [()] * (len(argument.loops) - len(followed))
    maps = (*fixed, *followed, *(tuple(loops.index(i) for i in d) for d in dims))
    status = frame.status_of(op)
    result = TileType(tuple(frame.loops[i].block for i in loops), ty.dtype, ty.policy)
    operands = (frame.memory_of(argument), *at, *tiles, *status)
    attrs = {"maps": maps, "bounds": op.attrs["bounds"]}
    return frame.builder.value("tile.gather", operands, result, attrs, hint=op.result.name)


def scatter_tile(frame: Frame, op: Op, new: Value, indices: Sequence[Value]) -> None:
    """Writes one block of new elements where single integers say."""
    argument = frame.argument(write_reach(frame.launch, 0), frame.result_dims(0))
    status = frame.status_of(op)
    operands = (new, frame.memory_of(argument), *frame.coordinates(argument), *indices, *status)
    frame.builder.op("tile.scatter", operands, (), {"bounds": op.attrs["bounds"], "kind": op.attrs["kind"]})


def map_tile(
    frame: Frame, op: Op, tiles: Sequence[Value], dims: Sequence[tuple[int, ...]], loops: tuple[int, ...]
) -> Value:
    """A form.map on blocks: operand i is a tile over the loops `dims[i]`, the result one over `loops`."""
    ty = tensor_type(op.result)
    result = TileType(tuple(frame.loops[i].block for i in loops), ty.dtype, ty.policy)
    if is_copy(op) and tuple(dims[0]) == loops and tile_type(tiles[0]) == result:
        return tiles[0]
    operands, maps = list(tiles), [tuple(loops.index(i) for i in d) for d in dims]
    block = Block([compute_scalar(tile_type(t)) for t in tiles], [a.name for a in op.body.args])
    mapping = dict(zip(op.body.args, block.args, strict=True))
    for inner in op.body.ops:
        if inner.name == "scalar.index":
            mapping[inner.result] = _position(frame, op, inner, block, operands, maps, loops)
        else:
            block.append(clone_op(inner, mapping))
    return frame.builder.value("tile.map", operands, result, {"maps": tuple(maps)}, (block,), op.result.name)


def _position(
    frame: Frame,
    op: Op,
    inner: Op,
    block: Block,
    operands: list[Value],
    maps: list[tuple[int, ...]],
    loops: tuple[int, ...],
) -> Value:
    """The position along an axis enters a body as one more operand: the indices of that axis."""
    axis = attr(inner, "axis", int)
    place = launch_place(frame.launch, op)[axis]
    loop = next(i for i, x in enumerate(frame.loops) if place in x.axes)
    operands.append(_indices(frame, loop))
    maps.append((loops.index(loop),) if loop in loops else ())
    arg = block.add_arg(ScalarType(I64), "position")
    if inner.result.type == arg.type:
        return arg
    assert isinstance(inner.result.type, ScalarType)
    cast = Builder(block, inner.span)
    return cast.value("scalar.cast", (arg,), inner.result.type, {"dtype": inner.result.type.dtype})


def _indices(frame: Frame, loop: int) -> Value:
    at = frame.at[loop]
    if isinstance(at.type, AxisType):
        return frame.builder.value("tile.iota", (at,), TileType((at.type.block,), I64))
    end = index_op(frame.builder, "add", at, frame.size(1))
    one = frame.builder.value("tile.axis", (at, end), AxisType(1))
    column = frame.builder.value("tile.iota", (one,), TileType((1,), I64))
    block = Block([ScalarType(I64)])
    Builder(block).op("form.yield", block.args)
    return frame.builder.value("tile.map", (column,), TileType((), I64), {"maps": ((None,),)}, (block,))
