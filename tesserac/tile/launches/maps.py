"""Map kernels: each program computes one block of every result.

    schedule.launch {kind = "map", loops = [#loop<axes=[0, 1], size=`M*N`, block=4096, kind="parallel">]}
becomes
    tile.kernel {grid = [`ceil_div(M*N, 4096)`]} { load every operand's block; tile.map; tile.store }

Launches of kind `pack` are the same, with panels as the memory they write.
"""

from __future__ import annotations

from tesserac.ir.core import Op, Value
from tesserac.schedule.dialect import launch_kind
from tesserac.schedule.model.space import yielded_op
from tesserac.tile.launches.frame import Frame
from tesserac.tile.launches.points import computed_tile


def build_map(frame: Frame) -> None:
    panels = launch_kind(frame.launch) == "pack"
    frame.enter_grid(range(len(frame.loops)) if panels else ())
    for number, value in enumerate(frame.launch.body.terminator.operands):
        frame.store(number, map_block(frame, yielded_op(value)))


def map_block(frame: Frame, op: Op) -> Value:
    """The block of a map's or gather's result at the present coordinates."""
    known = frame.known(op)
    if known is not None:
        return known
    tiles: list[Value] = []
    dims: list[tuple[int, ...]] = []
    first = 1 if op.name == "form.gather" else 0
    for position, value in enumerate(op.operands[first:], first):
        reach = frame.read(op, position)
        if reach is not None:
            tiles.append(frame.load(reach))
            dims.append(frame.blocked([i for i in frame.argument(reach).loops if i is not None]))
        else:
            assert value.defining_op is not None
            tiles.append(map_block(frame, value.defining_op))
            dims.append(frame.blocked(frame.walked(value.defining_op)))
    return frame.remember(op, computed_tile(frame, op, tiles, dims))
