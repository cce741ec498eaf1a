"""Kernels that fold rows into places: each program folds its columns of all rows.

    tile.kernel {grid = [`ceil_div(D, 64)`]} { ^(p, v, index, x): tile.fold_at v[0 ..., block], x[block], index[0 ...] }
"""

from __future__ import annotations

from tesserac.ir.core import Value
from tesserac.schedule.space import computing, read_reach, write_reach
from tesserac.tile.frame import Argument, Frame
from tesserac.types.dims import ZERO


def build_folds(frame: Frame) -> None:
    frame.enter_grid()
    [op], fold = computing(frame.launch), len(frame.loops) - 1
    frame.at[fold] = frame.size(ZERO)
    out = frame.argument(write_reach(frame.launch, 0), frame.result_dims(0))
    rows, *places = (_read(frame, position) for position in range(1, len(op.operands)))
    column = fold - 1 if fold and frame.loops[fold - 1].block > 1 else None
    operands = [value for argument in (rows, out, *places) for value in _from(frame, argument)]
    attrs = {
        "kind": op.attrs["kind"],
        "bounds": op.attrs["bounds"],
        "along": tuple(argument.loops.index(fold) for argument in (rows, *places)),
        "columns": () if column is None else tuple(argument.loops.index(column) for argument in (rows, out)),
    }
    frame.builder.op("tile.fold_at", (*operands, *frame.status_of(op)), (), attrs)


def _read(frame: Frame, position: int) -> Argument:
    [op] = computing(frame.launch)
    reach = read_reach(frame.launch, op, position)
    assert reach is not None, "what is folded stands in memory"
    return frame.argument(reach, frame.block_dims(op, position))


def _from(frame: Frame, argument: Argument) -> list[Value]:
    return [frame.memory_of(argument), *frame.coordinates(argument)]
