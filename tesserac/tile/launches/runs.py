"""Kernels that fold runs: each program folds one of them, a block of its rows at a time.

    tile.kernel {grid = [`J`, `ceil_div(D, 256)`]} {
        first = index(low[j]);  count = index(high[j]) - first
        total = tree(ceil_div(count, 512)) { s: for i in 512 s .. min(512 s + 512, count):
                                                    so_far + load v[index(order[first + i]), block] }
        store total }

and what is computed of the total, with what is gathered beside it, in place of the store; or a scatter of that.
"""

from __future__ import annotations

from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.index import index_op
from tesserac.ir.types import INDEX, TileType
from tesserac.numerics.order import RUN_SEGMENT
from tesserac.schedule.model.space import computing, read_reach, yielded_op
from tesserac.tile.bodies import combine_body, identity_of, pairwise
from tesserac.tile.launches.frame import Frame
from tesserac.tile.launches.maps import map_block
from tesserac.tile.launches.points import scatter_tile


def build_runs(frame: Frame) -> None:
    frame.enter_grid()
    op = computing(frame.launch)[0]
    kind, accum = str(op.attrs["kind"]), tensor_type(op.result).dtype
    first, last = (_as_index(frame, _element(frame, op, position)) for position in (2, 3))
    total = TileType(frame.tile_shape(range(len(frame.loops))), accum)
    empty = frame.builder.value("tile.full", (), total, {"value": identity_of(kind, accum)})
    count = index_op(frame.builder, "sub", last, first)
    segment = Block([INDEX], ["segment"])
    with frame.inside(segment):
        low = index_op(frame.builder, "mul", segment.args[0], frame.size(RUN_SEGMENT))
        end = index_op(frame.builder, "add", low, frame.size(RUN_SEGMENT))
        ends = low, index_op(frame.builder, "min", end, count)
        frame.builder.op("tile.yield", (_chain(frame, op, first, ends, total),))
    segments = index_op(frame.builder, "ceil_div", count, frame.size(RUN_SEGMENT))
    regions = (segment, combine_body([total], [kind]))
    folded = frame.builder.op("tile.tree", (segments, empty), (total,), {}, regions).results[0]
    frame.remember(op, folded)
    for number, value in enumerate(frame.launch.body.terminator.operands):
        made = yielded_op(value)
        if made.name == "form.scatter":
            rows = made.operands[1].defining_op
            assert rows is not None, "it has joined what computes its rows"
            scatter_tile(frame, made, number, map_block(frame, rows))
        else:
            frame.store(number, map_block(frame, made))


def _chain(frame: Frame, op: Op, first: Value, ends: tuple[Value, Value], total: TileType) -> Value:
    """The rows of one segment, folded one after the other."""
    kind = str(op.attrs["kind"])
    start = -0.0 if kind == "sum" else identity_of(kind, total.dtype)  # a sum of -0 alone is -0
    nothing = frame.builder.value("tile.full", (), total, {"value": start})
    body = Block([INDEX, total], ["i", "so_far"])
    with frame.inside(body):
        place = index_op(frame.builder, "add", first, body.args[0])
        row = _as_index(frame, _element(frame, op, 1, place))
        term = _widened(frame, _element(frame, op, 0, row), total)
        frame.builder.op("tile.yield", (pairwise(frame.builder, kind, body.args[1], term),))
    return frame.builder.value("tile.for", (*ends, nothing), total, {"step": 1}, (body,))


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
