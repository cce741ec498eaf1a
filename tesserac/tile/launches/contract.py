"""Contraction kernels: one block of the product per program, k in segments that the aligned tree combines.

    rows = axis of m, cols = axis of n
    sum = tile.tree(ceil_div(K, 4096)) { chain over the blocks of one segment: acc = tile.dot(a, b, acc) }
    out = maps of (sum + 0), stored at rows, cols

A sum over iterations is a loop around that, which carries the block of the sum. A product of few terms may walk its
columns in strips, each of which is finished before the next one:

    for j in cols by 64 { acc = tile.dot(a, b[.., j + 64], zero);  out[rows, j + 64] = maps of (acc + 0) }
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.ir.core import Block, Op, Value, attr
from tesserac.ir.forms import tensor_type
from tesserac.ir.index import index_op
from tesserac.ir.types import INDEX, TileType
from tesserac.numerics.order import CONTRACTION, Chain
from tesserac.schedule.dialect import launch_stages
from tesserac.schedule.model.space import computing, read_reach, yielded_op
from tesserac.schedule.products.contract import STRIP
from tesserac.tile.bodies import combine_body, finished, pairwise
from tesserac.tile.dialect import Stage, tile_type
from tesserac.tile.launches.frame import Frame
from tesserac.tile.launches.points import map_tile
from tesserac.types.dtype import DType


def build_contract(frame: Frame) -> None:
    last = len(frame.loops) - 1
    frame.matrix = (last - 2, last - 1, last)
    frame.enter_grid(frame.matrix)
    contract = computing(frame.launch)[0]
    iterations = next((op for op in computing(frame.launch) if op.name == "form.accumulate"), None)
    if STRIP in frame.launch.attrs:
        _in_strips(frame, contract)
        return
    if iterations is None:
        frame.remember(contract, _product(frame, contract))
    else:
        frame.remember(iterations, _over_iterations(frame, contract, iterations))
    _store(frame)


def _store(frame: Frame) -> None:
    """What is computed of the product, at the present rows and columns."""
    assert frame.matrix is not None
    for number, value in enumerate(frame.launch.body.terminator.operands):
        tile = _epilogue(frame, yielded_op(value), frame.matrix[:2])
        frame.store(number, tile)


def _in_strips(frame: Frame, contract: Op) -> None:
    """One chain of one block of terms, strip by strip."""
    assert frame.matrix is not None
    _, columns, terms = frame.matrix
    strip = replace(frame.loops[columns], block=attr(frame.launch, STRIP, int))
    frame.loops = tuple(strip if number == columns else loop for number, loop in enumerate(frame.loops))
    frame.at[terms] = frame.axis(frame.loops[terms], frame.size(0))
    whole = frame.at[columns].defining_op
    assert whole is not None
    start, end = whole.operands
    body = Block([INDEX], ["column"])
    with frame.inside(body):
        frame.at[columns] = frame.axis(strip, body.args[0], end)
        product = _dot(frame, contract, _zero(frame, contract))
        frame.remember(contract, finished(frame.builder, "sum", product, tensor_type(contract.result)))
        del frame.at[terms]
        _store(frame)
        frame.builder.op("tile.yield")
    frame.builder.op("tile.for", (start, end), (), {"step": strip.block}, (body,))


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
    terms = loops[2]
    builder, loop = frame.builder, frame.loops[terms]
    order = contract.attrs["order"]
    length = (order if isinstance(order, Chain) else CONTRACTION).length
    end_of_k = frame.size(loop.size)
    count = frame.size(loop.size.ceil_div(length))
    zero = _zero(frame, contract)
    acc = tile_type(zero)
    segment = Block([INDEX], ["segment"])
    with frame.inside(segment):
        low = index_op(builder, "mul", segment.args[0], frame.size(length), "low")
        end = index_op(builder, "add", low, frame.size(length))
        high = index_op(builder, "min", end, end_of_k, "high")
        part = _chain(frame, contract, loops, (low, high, zero))
        builder.op("tile.yield", (part,))
    blocks = (segment, combine_body([acc], ["sum"]))
    return builder.value("tile.tree", (count, zero), acc, {}, blocks, hint="sum")


def _zero(frame: Frame, contract: Op) -> Value:
    assert frame.matrix is not None
    rows, columns, _ = frame.matrix
    accum = attr(contract, "accum", DType)
    acc = TileType((frame.loops[rows].block, frame.loops[columns].block), accum)
    return frame.builder.value("tile.full", (), acc, {"value": 0.0 if accum.kind in "fc" else 0}, hint="zero")


def _chain(
    frame: Frame, contract: Op, loops: tuple[int, int, int], bounds: tuple[Value, Value, Value]
) -> Value:
    """One segment: ascending blocks of k, each continuing the chain."""
    terms = loops[2]
    low, high, zero = bounds
    body = Block([INDEX, zero.type], ["k", "acc"])
    with frame.inside(body):
        frame.at[terms] = frame.axis(frame.loops[terms], body.args[0], high)
        frame.builder.op("tile.yield", (_dot(frame, contract, body.args[1]),))
        del frame.at[terms]
    step = {"step": frame.loops[terms].block}
    return frame.builder.value("tile.for", (low, high, zero), zero.type, step, (body,), hint="part")


def _dot(frame: Frame, contract: Op, acc: Value) -> Value:
    """The products of the present terms, added to what there is."""
    stages = {s.operand: Stage(s.layout, s.depth) for s in launch_stages(frame.launch)}
    tiles = []
    for position in (0, 1):
        reach = read_reach(frame.launch, contract, position)
        assert reach is not None, "operands of a contraction are read from memory"
        tiles.append(frame.load(reach, frame.block_dims(contract, position), stages.get(position)))
    return frame.builder.value("tile.dot", (*tiles, acc), acc.type, hint="acc")


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
