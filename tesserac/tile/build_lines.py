"""Kernels of lines: each program computes a block of points, of which each reads and writes several elements.

    schedule.launch {kind = "lines"} { form.lines(%x, %turns) }
becomes
    tile.kernel { load every element's block; a tile.map per scalar that several read; store every element's block }
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, clone_op
from tesserac.ir.forms import operand_maps, tensor_type
from tesserac.ir.lines import line_places, lines_out
from tesserac.ir.types import AxisType, ScalarType, TensorType, TileType
from tesserac.schedule.space import computing, read_reach, write_reach
from tesserac.tile.frame import Frame


def build_lines(frame: Frame) -> None:
    frame.enter_grid()
    (op,) = computing(frame.launch)
    loops = frame.blocked(range(len(frame.loops)))
    tiles = _Tiles(frame, tuple(frame.loops[i].block for i in loops))
    _read(frame, op, tiles, loops)
    argument = frame.argument(write_reach(frame.launch, 0), frame.result_dims(0))
    for inner in op.body.ops[:-1]:
        if len(inner.result.uses) > 1 or _is_yielded(inner.result):
            tiles.compute(inner.result)
    ty = tensor_type(op.result)
    for place, yielded in zip(line_places(ty, lines_out(op)), op.body.terminator.operands, strict=True):
        tile = tiles.stored(yielded, ty)
        at = [*frame.coordinates(argument), *map(frame.size, place)]
        frame.builder.op("tile.store", (tile, frame.memory_of(argument), *at))


def _read(frame: Frame, op: Op, tiles: _Tiles, loops: tuple[int, ...]) -> None:
    """The blocks of all that a point reads, in the order of the body's arguments."""
    args = iter(op.body.args)
    for position, (value, dim_map) in enumerate(zip(op.operands, operand_maps(op), strict=True)):
        reach = read_reach(frame.launch, op, position)
        assert reach is not None, "a launch of lines computes nothing else"
        argument = frame.argument(reach)
        at, memory = frame.coordinates(argument), frame.memory_of(argument)
        walked = [i for i in argument.loops if i is not None and isinstance(frame.at[i].type, AxisType)]
        for place in line_places(tensor_type(value), dim_map):
            tile = frame.load_from(memory, [*at, *map(frame.size, place)])
            tiles.known[next(args)] = tile, tuple(map(loops.index, walked))


class _Tiles:
    """The tiles of scalars of a body: of its arguments, and of what several others read. What one alone reads is
    computed in the map of that one."""

    def __init__(self, frame: Frame, shape: tuple[int, ...]) -> None:
        self.frame = frame
        self.shape = shape
        self.known: dict[Value, tuple[Value, tuple[int, ...]]] = {}
        """Each with the dims of the block that it follows."""

    def compute(self, scalar: Value) -> Value:
        type_ = scalar.type
        assert isinstance(type_, ScalarType)
        tile = self._map(scalar, TileType(self.shape, type_.dtype))
        self.known[scalar] = tile, tuple(range(len(self.shape)))
        return tile

    def stored(self, scalar: Value, ty: TensorType) -> Value:
        """A yielded scalar as it is written."""
        whole = TileType(self.shape, ty.dtype, ty.policy)
        tile = self.known[scalar][0]
        return tile if tile.type == whole else self._map(scalar, whole)

    def _map(self, scalar: Value, whole: TileType) -> Value:
        """A map over the tiles that are known, with what is between them and the scalar."""
        block, maps, operands = Block(), list[tuple[int, ...]](), list[Value]()
        values: dict[Value, Value] = {}

        def take(value: Value) -> None:
            if value in values:
                return
            if value in self.known:
                tile, dims = self.known[value]
                values[value] = block.add_arg(value.type, value.name)
                operands.append(tile)
                maps.append(dims)
                return
            made = value.defining_op
            assert made is not None, "every argument is known"
            for operand in made.operands:
                take(operand)
            block.append(clone_op(made, values))

        take(scalar)
        Builder(block, self.frame.builder.span).op("form.yield", (values[scalar],))
        return self.frame.builder.value("tile.map", operands, whole, {"maps": tuple(maps)}, (block,), scalar.name)


def _is_yielded(value: Value) -> bool:
    return any(user.opdef.terminator for user, _ in value.uses)
