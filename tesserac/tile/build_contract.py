"""Contraction kernels: one block of the product per program, k in segments that the aligned tree combines.

    rows = axis of m, cols = axis of n
    sum = tile.tree(ceil_div(K, 4096)) { chain over the blocks of one segment: acc = tile.dot(a, b, acc) }
    out = maps of (sum + 0), stored at rows, cols

A sum over iterations is a loop around that, which carries the block of the sum.
"""

from __future__ import annotations

from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.index import index_op
from tesserac.ir.types import INDEX, TileType
from tesserac.numerics.order import CONTRACTION, Chain
from tesserac.schedule.dialect import launch_stages
from tesserac.schedule.space import computing, read_reach, yielded_op
from tesserac.tile.bodies import combine_body, finished, pairwise
from tesserac.tile.dialect import Stage
from tesserac.tile.frame import Frame
from tesserac.tile.points import map_tile
from tesserac.types.dtype import DType


def build_contract(frame: Frame) -> None:
    last = len(frame.loops) - 1
    frame.matrix = rows, columns, _ = (last - 2, last - 1, last)
    frame.enter_grid(frame.matrix)
    contract = computing(frame.launch)[0]
    iterations = next((op for op in computing(frame.launch) if op.name == "form.accumulate"), None)
    if iterations is None:
        frame.remember(contract, _product(frame, contract))
    else:
        frame.remember(iterations, _over_iterations(frame, contract, iterations))
    for number, value in enumerate(frame.launch.body.terminator.operands):
        tile = _epilogue(frame, yielded_op(value), (rows, columns))
        frame.store(number, tile)


def _product(frame: Frame, contract: Op) -> Value:
    assert frame.matrix is not None
    total = _segments(frame, contract, frame.matrix)
    return finished(frame.builder, "sum", total, tensor_type(contract.result))


def _over_iterations(frame: Frame, contract: Op, iterations: Op) -> Value:
    """The block of a sum, carried through all iterations; the first loop counts them."""
    builder, reach = frame.builder, read_reach(frame.launch, iterations, 0)
    assert reach is not None, "what a sum begins with is read from memory"
    start, count = frame.load(reach), frame.size(frame.loops[0].size)
    body = Block([INDEX, start.type], ["iteration", "sum"])
    with frame.inside(body):
        iteration, so_far = body.args
        last = index_op(builder, "sub", count, frame.size(1))
        frame.at[0] = index_op(builder, "sub", last, iteration) if iterations.attrs["down"] is True else iteration
        builder.op("tile.yield", (pairwise(builder, "sum", so_far, _product(frame, contract)),))
        del frame.at[0]
    return builder.value("tile.for", (frame.size(0), count, start), start.type, {"step": 1}, (body,), hint="sum")


def _segments(frame: Frame, contract: Op, loops: tuple[int, int, int]) -> Value:
    rows, columns, terms = loops
    builder, loop = frame.builder, frame.loops[terms]
    order, accum = contract.attrs["order"], contract.attrs["accum"]
    assert isinstance(accum, DType)
    length = (order if isinstance(order, Chain) else CONTRACTION).length
    end_of_k = frame.size(loop.size)
    count = frame.size(loop.size.ceil_div(length))
    acc = TileType((frame.loops[rows].block, frame.loops[columns].block), accum)
    zero = builder.value("tile.full", (), acc, {"value": 0.0 if accum.kind in "fc" else 0}, hint="zero")
    segment = Block([INDEX], ["segment"])
    with frame.inside(segment):
        low = index_op(builder, "mul", segment.args[0], frame.size(length), "low")
        end = index_op(builder, "add", low, frame.size(length))
        high = index_op(builder, "min", end, end_of_k, "high")
        part = _chain(frame, contract, loops, (low, high, zero))
        builder.op("tile.yield", (part,))
    blocks = (segment, combine_body([acc], ["sum"]))
    return builder.value("tile.tree", (count, zero), acc, {}, blocks, hint="sum")


def _chain(
    frame: Frame, contract: Op, loops: tuple[int, int, int], bounds: tuple[Value, Value, Value]
) -> Value:
    """One segment: ascending blocks of k, each continuing the chain."""
    terms = loops[2]
    low, high, zero = bounds
    body = Block([INDEX, zero.type], ["k", "acc"])
    stages = {s.operand: Stage(s.layout, s.depth) for s in launch_stages(frame.launch)}
    with frame.inside(body):
        frame.at[terms] = frame.axis(frame.loops[terms], body.args[0], high)
        tiles = []
        for position in (0, 1):
            reach = read_reach(frame.launch, contract, position)
            assert reach is not None, "operands of a contraction are read from memory"
            tiles.append(frame.load(reach, frame.block_dims(contract, position), stages.get(position)))
        dot = frame.builder.value("tile.dot", (*tiles, body.args[1]), zero.type, hint="acc")
        frame.builder.op("tile.yield", (dot,))
        del frame.at[terms]
    step = {"step": frame.loops[terms].block}
    return frame.builder.value("tile.for", (low, high, zero), zero.type, step, (body,), hint="part")


def _epilogue(frame: Frame, op: Op, loops: tuple[int, int]) -> Value:
    """A map behind the product, on the whole block of rows and columns, whichever of them it names."""
    known = frame.known(op)
    if known is not None:
        return known
    tiles: list[Value] = []
    dims: list[tuple[int, ...]] = []
    for position, value in enumerate(op.operands):
        reach = read_reach(frame.launch, op, position)
        if reach is not None:
            tiles.append(frame.load(reach))
            dims.append(frame.blocked([i for i in frame.argument(reach).loops if i is not None]))
        else:
            assert value.defining_op is not None
            tiles.append(_epilogue(frame, value.defining_op, loops))
            dims.append(loops)
    return frame.remember(op, map_tile(frame, op, tiles, dims, loops))
