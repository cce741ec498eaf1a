"""Scatter kernels: each program walks the new elements in order and writes its part of every one of them.

    tile.kernel {grid = [`ceil_div(D, 4096)`]} { for i in K { t = load index[i];  scatter v[i, block] at x[t, block] } }
"""

from __future__ import annotations

from tesserac.ir.core import Block, Op
from tesserac.ir.types import INDEX
from tesserac.schedule.model.space import computing, read_reach
from tesserac.tile.launches.frame import Frame
from tesserac.tile.launches.points import scatter_tile


def build_scatter(frame: Frame) -> None:
    frame.enter_grid()
    serial = [i for i, loop in enumerate(frame.loops) if loop.kind == "serial"]
    _walk(frame, serial, computing(frame.launch)[0])


def _walk(frame: Frame, serial: list[int], op: Op) -> None:
    """One loop inside the other, each one element at a time."""
    if not serial:
        reach = read_reach(frame.launch, op, 1)
        assert reach is not None, "what is scattered stands in memory"
        scatter_tile(frame, op, 0, frame.load(reach, frame.block_dims(op, 1)))
        return
    first, *rest = serial
    body = Block([INDEX], ["i"])
    bounds = (frame.size(0), frame.size(frame.loops[first].size))
    with frame.inside(body):
        frame.at[first] = body.args[0]
        _walk(frame, rest, op)
        frame.builder.op("tile.yield")
    frame.builder.op("tile.for", bounds, (), {"step": 1}, (body,))
