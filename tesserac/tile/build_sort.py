"""Sort kernels: each program finds the order of one row, or puts it in order.

    tile.kernel {grid = [`B`]} { ^(p, x, places): tile.sort x[p, 0 ...] into places[p, 0 ...] }
"""

from __future__ import annotations

from tesserac.ir.core import Attr
from tesserac.schedule.space import computing, read_reach, write_reach
from tesserac.tile.frame import Frame
from tesserac.types.dims import ZERO


def build_sort(frame: Frame) -> None:
    frame.enter_grid()
    [op], fold = computing(frame.launch), len(frame.loops) - 1
    frame.at[fold] = frame.size(ZERO)
    read = read_reach(frame.launch, op, 0)
    assert read is not None, "what is sorted stands in memory"
    source = frame.argument(read, frame.block_dims(op, 0))
    for number in range(len(frame.launch.body.terminator.operands)):
        target = frame.argument(write_reach(frame.launch, number), frame.result_dims(number))
        row = (frame.memory_of(source), *frame.coordinates(source))
        places = (frame.memory_of(target), *frame.coordinates(target))
        dims = (source.loops.index(fold), target.loops.index(fold))
        attrs: dict[str, Attr] = {key: op.attrs[key] for key in ("descending", "below", "elements") if key in op.attrs}
        attrs["dims"] = dims
        frame.builder.op("tile.sort", (*row, *places), (), attrs)
