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
from tesserac.ir.indexed import IN_RUNS, gather_source
from tesserac.ir.types import AxisType, ScalarType, TileType
from tesserac.schedule.dialect import launch_place
from tesserac.schedule.forms.views import is_copy
from tesserac.schedule.model.space import read_reach, write_reach
from tesserac.tile.dialect import compute_scalar, tile_type
from tesserac.tile.launches.frame import Frame
from tesserac.types.dims import Dim
from tesserac.types.dtype import BOOL, I64

BIT = ScalarType(BOOL)


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


def scatter_tile(frame: Frame, op: Op, number: int, new: Value) -> None:
    """Writes one block of new elements, which result `number` is made of, where single integers say."""
    argument = frame.argument(write_reach(frame.launch, number), frame.result_dims(number))
    indices = [_index(frame, op, position) for position in range(2, len(op.operands))]
    there = [_is_last_of_run(frame, op, indices)] if IN_RUNS in op.attrs else []
    at = (*frame.coordinates(argument), *indices, *there)
    operands = (new, frame.memory_of(argument), *at, *frame.status_of(op))
    frame.builder.op("tile.scatter", operands, (), {"bounds": op.attrs["bounds"], "kind": op.attrs["kind"]})


def _is_last_of_run(frame: Frame, op: Op, indices: Sequence[Value]) -> Value:
    """Whether the row behind this one names another place, or there is none."""
    rows = next(i for i, loop in enumerate(frame.loops) if 0 in loop.axes)
    here, last = frame.at[rows], tensor_type(op.operands[1]).dims[0] - 1
    following = index_op(frame.builder, "add", here, frame.size(1))
    frame.at[rows] = index_op(frame.builder, "min", following, frame.size(last))
    behind = [_index(frame, op, position) for position in range(2, len(op.operands))]
    frame.at[rows] = here
    tiles = [_indices(frame, rows), *indices, *behind]
    block = Block([compute_scalar(tile_type(tile)) for tile in tiles])
    place, *both = block.args
    builder, count = Builder(block, op.span), len(indices)
    ends = builder.value("scalar.eq", (place, _dim(builder, last)), BIT)
    for left, right, size in zip(both[:count], both[count:], _index_sizes(op), strict=True):
        counted = [_counted(builder, index, size, op.attrs["bounds"] == "wrap") for index in (left, right)]
        other = builder.value("scalar.not", (builder.value("scalar.eq", counted, BIT),), BIT)
        ends = builder.value("scalar.or", (ends, other), BIT)
    builder.op("form.yield", (ends,))
    return frame.builder.value("tile.map", tiles, TileType((), BOOL), {"maps": ((),) * len(tiles)}, (block,), "there")


def _index_sizes(op: Op) -> list[Dim]:
    """What each index of a scatter has to be below."""
    dims = tensor_type(op.operands[0]).dims
    return [dim for dim, place in zip(dims, gather_source(op), strict=True) if place is None]


def _counted(builder: Builder, index: Value, size: Dim, wraps: bool) -> Value:
    """An index from the start on."""
    wide = ScalarType(I64)
    if index.type != wide:
        index = builder.value("scalar.cast", (index,), wide, {"dtype": I64})
    if not wraps:
        return index
    below = builder.value("scalar.lt", (index, builder.value("scalar.constant", (), wide, {"value": 0})), BIT)
    from_end = builder.value("scalar.add", (index, _dim(builder, size)), wide)
    return builder.value("scalar.select", (below, from_end, index), wide)


def _dim(builder: Builder, size: Dim) -> Value:
    return builder.value("scalar.dim", (), ScalarType(I64), {"dim": size})


def _index(frame: Frame, op: Op, position: int) -> Value:
    reach = read_reach(frame.launch, op, position)
    assert reach is not None, "the places of a scatter stand in memory"
    return frame.load(reach, frame.block_dims(op, position))


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
