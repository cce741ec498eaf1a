"""Bodies of maps in a tile program: positions and sizes that vary with the block come in as operands.

Enters: a map of the forms, and the tiles of its operands. Leaves: the body of a `tile.map`, and what operands it has
besides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, clone_op
from tesserac.ir.forms import Slice, operand_maps, tensor_type
from tesserac.ir.index import index_op
from tesserac.ir.types import AxisType, ScalarType, TensorType, TileType
from tesserac.tile.dialect import compute_scalar, tile_type
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import I64

if TYPE_CHECKING:
    from tesserac.tile.programs.build import Program


class MapBody:
    """The body of a map over blocks: positions and sizes that vary come in as operands."""

    def __init__(
        self,
        program: Program,
        op: Op,
        result: TensorType,
        block: Block,
        tiles: list[Value],
        maps: list[tuple[int | None, ...]],
        mapping: dict[Value, Value],
        holds: Op | None = None,
    ) -> None:
        self.program, self.op, self.result, self.block, self.tiles, self.maps = program, op, result, block, tiles, maps
        self.mapping = mapping
        self.holds = holds
        """A choice whose condition holds of all that there is."""
        self.inner = Builder(block, op.span)

    def fill(self) -> None:
        needed = self._needed()
        for inner in self.op.body.ops:
            if inner in needed:
                with self.inner.spanned(inner.span):
                    self._add(inner)

    def _needed(self) -> set[Op]:
        """What the result is made of, once positions are taken as such."""
        needed, waiting = set[Op](), [self.op.body.terminator]
        while waiting:
            op = waiting.pop()
            needed.add(op)
            operands = () if self._absolute(op) is not None else op.operands
            operands = op.operands[1:2] if op is self.holds else operands
            waiting += [v.defining_op for v in operands if v.defining_op is not None and v.defining_op not in needed]
        return needed

    def _add(self, inner: Op) -> None:
        axis = self._absolute(inner)
        if inner is self.holds:
            self.mapping[inner.result] = self.mapping[inner.operands[1]]
        elif axis is not None:
            self.mapping[inner.result] = self._position(axis)
        elif inner.name == "scalar.index":
            self.mapping[inner.result] = self._relative(inner)
        elif inner.name == "scalar.dim":
            self.mapping[inner.result] = self._size(inner)
        else:
            self.block.append(clone_op(inner, self.mapping))

    def _absolute(self, op: Op) -> int | None:
        """The axis whose indices in the problem this adds up: where its block starts, and the place in the block."""
        if op.name != "scalar.add":
            return None
        for start, place in (op.operands, op.operands[::-1]):
            said, index = start.defining_op, place.defining_op
            if index is not None and index.name == "scalar.mul" and _is_one(index.operands[1]):
                index = index.operands[0].defining_op
            if said is None or index is None or said.name != "scalar.dim" or index.name != "scalar.index":
                continue
            axis = index.attrs["axis"]
            assert isinstance(axis, int)
            own = self.program.axes.get(self.result.dims[axis])
            if own is not None and said.attrs["dim"] == own.said and op.result.type == ScalarType(I64):
                return axis
        return None

    def _position(self, axis: int) -> Value:
        """The indices of an axis, as one more operand."""
        at = self.program.axis(self.result.dims[axis])
        assert isinstance(at.type, AxisType)
        key = ("iota", at)
        tile = self.program.known(key) or self.program.remember(
            key, self.program.builder.value("tile.iota", (at,), TileType((at.type.block,), I64))
        )
        return self._operand(tile, (axis,))

    def _operand(self, tile: Value, places: tuple[int | None, ...]) -> Value:
        self.tiles.append(tile)
        self.maps.append(places)
        return self.block.add_arg(compute_scalar(tile_type(tile)), "at")

    def _relative(self, inner: Op) -> Value:
        """The place in a block; of a whole dim that is the index."""
        axis = inner.attrs["axis"]
        assert isinstance(axis, int)
        dim = self.result.dims[axis]
        place = self._position(axis)
        if dim in self.program.axes:
            start = self._scalar(self.program.axes[dim].start)
            place = self.inner.value("scalar.sub", (place, start), ScalarType(I64))
        return self._cast(place, inner)

    def _cast(self, value: Value, inner: Op) -> Value:
        wanted = inner.result.type
        assert isinstance(wanted, ScalarType)
        if wanted == value.type:
            return value
        return self.inner.value("scalar.cast", (value,), wanted, {"dtype": wanted.dtype})

    def _size(self, inner: Op) -> Value:
        dim = inner.attrs["dim"]
        assert isinstance(dim, Dim)
        if not self.program.meant.isdisjoint(map(Dim.sym, dim.symbols())):
            return self._cast(self._scalar(self.program.count(dim)), inner)
        sizes = {block.symbol or "": Dim.const(size) for block, size in self.program.sizes.items()}
        fixed = dim.substitute(sizes)
        if fixed.symbols().isdisjoint(self.program.counters):
            return self.inner.value("scalar.dim", (), inner.result.type, {"dim": fixed})
        return self._cast(self._scalar(self.program.size(dim)), inner)

    def _scalar(self, index: Value) -> Value:
        """An index as a number."""
        program, one = self.program, self.program.size(1)
        end = index_op(program.builder, "add", index, one)
        axis = program.builder.value("tile.axis", (index, end), AxisType(1))
        return self._operand(program.builder.value("tile.iota", (axis,), TileType((1,), I64)), (None,))


def _is_one(value: Value) -> bool:
    op = value.defining_op
    return op is not None and op.name == "scalar.constant" and op.attrs["value"] == 1


def map_constant(op: Op) -> bool | int | float | None:
    """The number that a map without operands gives everywhere."""
    made = op.body.terminator.operands[0].defining_op
    if len(op.body.ops) != 2 or made is None or made.name != "scalar.constant":
        return None
    value = made.attrs["value"]
    assert isinstance(value, bool | int | float)
    return value


def maps_in_place(op: Op) -> bool:
    """Whether a map makes of one tensor, place by place, what does not depend on the place."""
    if op.name != "form.map" or len(op.operands) != 1 or any(inner.name == "scalar.index" for inner in op.body.ops):
        return False
    return operand_maps(op)[0] == tuple(range(tensor_type(op.result).rank))


def map_of(op: Op, value: Value, before: Op | None = None) -> Value:
    """What a map in place makes of another value, which may be of any rank, computed before the map or where said."""
    copy, dims = clone_op(op, {op.operands[0]: value}), tensor_type(value).dims
    ty = tensor_type(op.result)
    copy.result.type = TensorType(dims, ty.dtype, ty.policy)
    copy.attrs["maps"] = (tuple(range(len(dims))),)
    return Builder.before(before or op).add(copy).result


def part_of_map(view: Op) -> Value | None:
    """A part of what a map makes, as what it makes of those parts: arguments are read in parts, tiles in registers have
    none. None for any other view, and for a map that reads where it is."""
    made, cut = view.operands[0].defining_op, view.attrs["view"]
    if not isinstance(cut, Slice) or made is None or made.name != "form.map":
        return None
    if any(inner.name == "scalar.index" for inner in made.body.ops):
        return None
    dims = tensor_type(view.result).dims
    read = zip(made.operands, operand_maps(made), strict=True)
    parts = [part_read(made, value, places, cut, dims) for value, places in read]
    copy = clone_op(made, dict(zip(made.operands, parts, strict=True)))
    ty = tensor_type(made.result)
    copy.result.type = TensorType(dims, ty.dtype, ty.policy)
    part = Builder.before(made).add(copy).result
    view.result.replace_all_uses(part)
    return part


def part_read(made: Op, value: Value, places: tuple[int | None, ...], cut: Slice, dims: tuple[Dim, ...]) -> Value:
    """What a map or gather reads of an operand for a part of its result: the operand itself where it has none of the
    dims that are cut."""
    ty, whole = tensor_type(value), tensor_type(made.result).dims
    own = tuple(size if place is None else dims[place] for size, place in zip(ty.dims, places, strict=True))
    starts = tuple(ZERO if place is None else cut.starts[place] for place in places)
    steps = tuple(1 if place is None else cut.steps[place] for place in places)
    if all(place is None or dims[place] == whole[place] for place in places) and not any(map(_moves, starts, steps)):
        return value
    result = TensorType(own, ty.dtype, ty.policy)
    return Builder.before(made).value("form.view", (value,), result, {"view": Slice(starts, steps)})


def _moves(start: Dim, step: int) -> bool:
    return start != ZERO or step != 1
