"""Kernels of lines: each program computes a block of points, of which each reads and writes several elements.

    schedule.launch {kind = "lines"} { form.lines(%x, %turns) }
becomes
    tile.kernel { load every element's block; a tile.map per scalar that several read; store every element's block }
"""

from __future__ import annotations

from collections import defaultdict

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, clone_op
from tesserac.ir.forms import operand_maps, tensor_type
from tesserac.ir.lines import line_places, lines_body, lines_out
from tesserac.ir.types import AxisType, ScalarType, TensorType, TileType
from tesserac.schedule.model.space import computing
from tesserac.tile.launches.frame import Argument, Frame


def build_lines(frame: Frame) -> None:
    """Elements are read where they are needed and written where they are there, so that few wait in registers."""
    frame.enter_grid()
    (op,) = computing(frame.launch)
    tiles, ty, body = _Tiles(frame, op), tensor_type(op.result), lines_body(op)
    argument = frame.argument(frame.write(0), frame.result_dims(0))
    places = defaultdict[Value, list[tuple[int, ...]]](list)
    for place, yielded in zip(line_places(ty, lines_out(op)), body.terminator.operands, strict=True):
        places[yielded].append(place)
    for scalar in (*body.args, *(inner.result for inner in body.ops[:-1])):
        if scalar.defining_op is not None and (len(scalar.uses) > 1 or scalar in places):
            tiles.compute(scalar)
        for place in places.get(scalar, ()):
            at = [*frame.coordinates(argument), *map(frame.size, place)]
            frame.builder.op("tile.store", (tiles.stored(scalar, ty), frame.memory_of(argument), *at))


class _Tiles:
    """The tiles of scalars of a body: of its arguments, and of what several others read. What one alone reads is
    computed in the map of that one."""

    def __init__(self, frame: Frame, op: Op) -> None:
        loops = frame.blocked(range(len(frame.loops)))
        self.frame = frame
        self.shape = tuple(frame.loops[i].block for i in loops)
        self.known: dict[Value, tuple[Value, tuple[int, ...]]] = {}
        """Each with the dims of the block that it follows."""
        self._reads: dict[Value, tuple[Argument, tuple[int, ...], tuple[int, ...]]] = {}
        """Where arguments stand: the memory, the place in a line, and the dims of the block that they follow."""
        args = iter(lines_body(op).args)
        for position, (value, dim_map) in enumerate(zip(op.operands, operand_maps(op), strict=True)):
            reach = frame.read(op, position)
            assert reach is not None, "a launch of lines computes nothing else"
            argument = frame.argument(reach)
            walked = [i for i in argument.loops if i is not None and isinstance(frame.at[i].type, AxisType)]
            for place in line_places(tensor_type(value), dim_map):
                self._reads[next(args)] = argument, place, tuple(map(loops.index, walked))

    def tile(self, scalar: Value) -> tuple[Value, tuple[int, ...]] | None:
        """The tile of an argument, or of what was computed; none of what is computed with its reader."""
        if scalar not in self.known and scalar in self._reads:
            argument, place, dims = self._reads[scalar]
            at = [*self.frame.coordinates(argument), *map(self.frame.size, place)]
            self.known[scalar] = self.frame.load_from(self.frame.memory_of(argument), at), dims
        return self.known.get(scalar)

    def compute(self, scalar: Value) -> Value:
        type_ = scalar.type
        assert isinstance(type_, ScalarType)
        tile = self._map(scalar, TileType(self.shape, type_.dtype))
        self.known[scalar] = tile, tuple(range(len(self.shape)))
        return tile

    def stored(self, scalar: Value, ty: TensorType) -> Value:
        """A yielded scalar as it is written."""
        whole, found = TileType(self.shape, ty.dtype, ty.policy), self.tile(scalar)
        return found[0] if found is not None and found[0].type == whole else self._map(scalar, whole)

    def _map(self, scalar: Value, whole: TileType) -> Value:
        """A map over the tiles that are known, with what is between them and the scalar."""
        block, maps, operands = Block(), list[tuple[int, ...]](), list[Value]()
        values: dict[Value, Value] = {}

        def take(value: Value) -> None:
            if value in values:
                return
            if (found := self.tile(value)) is not None:
                tile, dims = found
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
