"""Kernels that fold rows into places: each program folds its columns of all rows, or all rows of its places.

    tile.kernel {grid = [`ceil_div(D, 64)`]} { ^(p, v, index, x): tile.fold_at v[0 ..., block], x[block], index[0 ...] }
"""

from __future__ import annotations

from tesserac.ir.core import Value
from tesserac.ir.index import index_op
from tesserac.schedule.model.cuts import ROWS, cut_of
from tesserac.schedule.model.space import computing, read_reach, write_reach
from tesserac.tile.launches.frame import Argument, Frame
from tesserac.types.dims import ZERO, Dim, product


def build_folds(frame: Frame) -> None:
    [op], fold = computing(frame.launch), len(frame.loops) - 1
    target = product([size for size, _ in write_reach(frame.launch, 0).computed])
    cut = cut_of(frame.launch) is not None
    frame.enter_grid(parts=target.ceil_div(Dim.sym(ROWS)) if cut else None)
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
    frame.builder.op("tile.fold_at", (*operands, *_range(frame, target), *frame.status_of(op)), (), attrs)


def _range(frame: Frame, places: Dim) -> tuple[Value, Value]:
    """The places of a program: the first of them, and the one behind the last."""
    if frame.part is None:
        return frame.size(ZERO), frame.size(places)
    size = frame.size(Dim.sym(ROWS))
    first = index_op(frame.builder, "mul", frame.part, size)
    return first, index_op(frame.builder, "min", index_op(frame.builder, "add", first, size), frame.size(places))


def _read(frame: Frame, position: int) -> Argument:
    [op] = computing(frame.launch)
    reach = read_reach(frame.launch, op, position)
    assert reach is not None, "what is folded stands in memory"
    return frame.argument(reach, frame.block_dims(op, position))


def _from(frame: Frame, argument: Argument) -> list[Value]:
    return [frame.memory_of(argument), *frame.coordinates(argument)]
