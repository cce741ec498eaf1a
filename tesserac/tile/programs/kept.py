"""Computed tiles that a program keeps in its own memory: what is read of one at other places, sorted, or put together.

    sort(p * 2, axis=1)[:, :4]      ==>   %m = tile.alloc();  tile.store(%t, %m, rows, columns)
                                          tile.for(row) { tile.sort(%m, row, 0, %o, row, 0) }
                                          tile.load(%o, rows, axis(0, 4))

Registers have no places that another element could read. Scratch of a program has: of a processor it lies in its
caches, of a GPU in shared memory. There a block begins at 0, whichever block of its dim it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Block, Op, Value
from tesserac.ir.forms import Slice, tensor_type
from tesserac.ir.index import index_op
from tesserac.ir.indexed import assembled_boxes, gives_elements, sorted_axis
from tesserac.ir.types import INDEX, AxisType, MemRefType, ScalarType, TensorType, TileType
from tesserac.tile.cpu.shapes import LIGHT_BODY, operation_cost
from tesserac.tile.dialect import EXCHANGED
from tesserac.tile.no_tiles import NoTiles
from tesserac.tile.programs.parts import identity
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import I64

if TYPE_CHECKING:
    from tesserac.tile.programs.build import Program

Attrs = dict[str, Attr]


def kept(program: Program, value: Value) -> Value:
    """The memory that has the tile of a value, from its first element on."""
    known = program.known(("kept", value))
    if known is not None:
        return known
    at = [own_axis(program, dim) for dim in tensor_type(value).dims]  # before a product, which may be stored at once
    tile = program.value(value)
    known = program.known(("kept", value))  # what is sorted, or put together, is made there
    if known is not None:
        return known
    room = _room(program, tensor_type(value))
    program.builder.op("tile.store", (tile, room, *at))
    return program.remember(("kept", value), room)


def is_kept_for_readers(view: Op) -> bool:
    """Whether a part is of neighbours, and of a value that has several readers and of which an element takes more
    operations than a light body has."""
    cut, value = view.attrs["view"], view.operands[0]
    cost, waiting = 0, [value] if isinstance(cut, Slice) and set(cut.steps) == {1} and len(value.uses) > 1 else []
    while waiting and cost <= LIGHT_BODY:
        op = waiting.pop().defining_op
        if op is not None and op.name == "form.map":
            cost += sum(map(operation_cost, op.body.ops))
            waiting += op.operands
    return cost > LIGHT_BODY


def own_axis(program: Program, dim: Dim) -> Value:
    """The places of a dim in memory of the program's own: those of a block begin at 0."""
    if dim not in program.axes:
        return program.axis(dim)
    key = ("own", dim)
    known = program.known(key)
    if known is not None:
        return known
    made = program.axes[dim].axis.defining_op
    assert made is not None
    start, stop = made.operands
    count = index_op(program.builder, "sub", stop, start)
    axis = program.builder.value("tile.axis", (program.size(0), count), AxisType(program.sizes[dim]))
    return program.remember(key, axis)


def part_of_kept(program: Program, view: Op) -> Value:
    """A part of a computed tile: what lies there."""
    cut, source = view.attrs["view"], view.operands[0]
    assert isinstance(cut, Slice)
    room, result = kept(program, source), tensor_type(view.result)
    ends = zip(result.dims, tensor_type(source).dims, cut.starts, cut.steps, strict=True)
    places = [_along(program, *end) for end in ends]
    tile = TileType(program.shape(result.dims), result.dtype, result.policy)
    if set(cut.steps) == {1}:
        return as_computed(program, program.builder.value("tile.load", (room, *places), tile), result)
    attrs: Attrs = {"maps": tuple((dim,) for dim in range(result.rank)), "bounds": "known"}
    return as_computed(program, program.builder.value("tile.gather", (room, *places), tile, attrs), result)


def put_together(program: Program, op: Op) -> Value:
    """A tile of parts, each of which is written where it stands; the last writes last."""
    result = tensor_type(op.result)
    room = _room(program, result)
    for part, box in zip(op.operands, assembled_boxes(op), strict=True):
        if set(box.steps) != {1}:
            raise NoTiles("parts that are put together with steps")
        ends = zip(tensor_type(part).dims, result.dims, box.starts, box.steps, strict=True)
        program.builder.op("tile.store", (program.value(part), room, *(_along(program, *end) for end in ends)))
    return _loaded(program, op.result, room)


def build_sort(program: Program, op: Op, value: Value) -> Value:
    """The order of each row of a tile, or its elements in order."""
    source, axis = op.operands[0], sorted_axis(op)
    dims, result = tensor_type(source).dims, tensor_type(value)
    block = dims[axis]
    if block in program.sizes and not (block in program.meant and program.is_full(block)):
        raise NoTiles("a sort within a block")
    given, made = kept(program, source), _room(program, result)
    attrs: Attrs = {"dims": (axis, axis), "descending": op.attrs["descending"]}
    if gives_elements(op):
        attrs["elements"] = True
    _sort_rows(program, dims, [], (given, made), attrs)
    return _loaded(program, value, made)


def _sort_rows(program: Program, dims: Sequence[Dim], at: list[Value], rooms: tuple[Value, Value], how: Attrs) -> None:
    """One loop for each dim but that along which rows lie."""
    builder, (given, made) = program.builder, rooms
    if len(at) == len(dims):
        builder.op("tile.sort", (given, *at, made, *at), (), how)
        return
    if how["dims"] == (len(at), len(at)):
        _sort_rows(program, dims, [*at, program.size(0)], rooms, how)
        return
    along = own_axis(program, dims[len(at)]).defining_op
    assert along is not None
    body = Block([INDEX], ["row"])
    with program.inside(body):
        _sort_rows(program, dims, [*at, body.args[0]], rooms, how)
        builder.op("tile.yield")
    limit = index_op(builder, "min", along.operands[1], program.size(program.extent(dims[len(at)])))
    builder.op("tile.for", (along.operands[0], limit), (), {"step": 1}, (body,))


def _room(program: Program, ty: TensorType) -> Value:
    """Memory for a tile of this type; a dim that only a run knows is as long as it is there."""
    dims = tuple(Dim.const(program.sizes[dim]) if dim in program.sizes else dim for dim in ty.dims)
    for dim in ty.dims:
        program.extent(dim)
    type_ = MemRefType(dims, ty.dtype, ty.policy, space="local")
    start = Builder.before(program.block.ops[0]) if program.block.ops else program.builder
    return start.value("tile.alloc", (), type_, {EXCHANGED: True}, hint="kept")


def _loaded(program: Program, value: Value, room: Value) -> Value:
    program.remember(("kept", value), room)
    result = tensor_type(value)
    tile = TileType(program.shape(result.dims), result.dtype, result.policy)
    at = [own_axis(program, dim) for dim in result.dims]
    return as_computed(program, program.builder.value("tile.load", (room, *at), tile), result)


def as_computed(program: Program, tile: Value, result: TensorType) -> Value:
    """A tile that was read of the program's own memory: no copy of it is under way while others are computed, as of
    what a product reads of arguments."""
    return program.mapped([tile], [tuple(range(result.rank))], result, identity)


def _along(program: Program, dim: Dim, whole: Dim, start: Dim, step: int) -> Value:
    """The places of a part along one dim: an axis, or where elements stand that are no neighbours."""
    if (dim, start, step) == (whole, ZERO, 1):
        return own_axis(program, dim)
    if dim in program.sizes:
        raise NoTiles("a part of a computed tile along a block")
    if step != 1:
        return _steps(program, dim, start, step)
    first = program.size(start)
    behind = index_op(program.builder, "add", first, program.size(dim))
    return program.builder.value("tile.axis", (first, behind), AxisType(program.extent(dim)))


def _steps(program: Program, dim: Dim, start: Dim, step: int) -> Value:
    """The places of every so many elements."""
    count = program.builder.value("tile.iota", (program.axis(dim),), TileType((program.extent(dim),), I64))
    if start.constant is None:
        raise NoTiles(f"a part of a computed tile that begins at {start}")
    place = ScalarType(I64)

    def fill(builder: Builder, args: list[Value]) -> Value:
        by, first = (builder.value("scalar.constant", (), place, {"value": n}) for n in (step, start.constant))
        return builder.value("scalar.add", (builder.value("scalar.mul", (args[0], by), place), first), place)

    return program.mapped([count], [(0,)], TensorType((dim,), I64), fill)
