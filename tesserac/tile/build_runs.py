"""Kernels that fold runs: each program folds one of them, a block of its rows at a time.

    tile.kernel {grid = [`J`, `ceil_div(D, 256)`]} {
        first = index(low[j]);  total = tree(index(high[j]) - first) { i: load v[index(order[first + i]), block] }
        store total }
"""

from __future__ import annotations

from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.index import index_op
from tesserac.ir.types import INDEX, TileType
from tesserac.schedule.space import computing, read_reach
from tesserac.tile.bodies import combine_body, identity_of
from tesserac.tile.frame import Frame


def build_runs(frame: Frame) -> None:
    frame.enter_grid()
    [op] = computing(frame.launch)
    kind, accum = str(op.attrs["kind"]), tensor_type(op.result).dtype
    first, last = (_as_index(frame, _element(frame, op, position)) for position in (2, 3))
    total = TileType(frame.tile_shape(range(len(frame.loops))), accum)
    empty = frame.builder.value("tile.full", (), total, {"value": identity_of(kind, accum)})
    body = Block([INDEX], ["i"])
    with frame.inside(body):
        place = index_op(frame.builder, "add", first, body.args[0])
        row = _as_index(frame, _element(frame, op, 1, place))
        frame.builder.op("tile.yield", (_widened(frame, _element(frame, op, 0, row), total),))
    count = index_op(frame.builder, "sub", last, first)
    regions = (body, combine_body([total], [kind]))
    folded = frame.builder.op("tile.tree", (count, empty), (total,), {}, regions).results[0]
    for number in range(len(frame.launch.body.terminator.operands)):
        frame.store(number, folded)


def _element(frame: Frame, op: Op, position: int, *computed: Value) -> Value:
    """What an operand has here, at the computed place if it is read at one."""
    reach = read_reach(frame.launch, op, position)
    assert reach is not None, "what is folded stands in memory"
    argument = frame.argument(reach, frame.block_dims(op, position))
    return frame.load_from(frame.memory_of(argument), (*frame.coordinates(argument), *computed))


def _as_index(frame: Frame, integer: Value) -> Value:
    return frame.builder.value("tile.index", (integer,), INDEX)


def _widened(frame: Frame, tile: Value, total: TileType) -> Value:
    return tile if tile.type == total else frame.builder.value("tile.cast", (tile,), total)
