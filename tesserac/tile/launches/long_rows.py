"""Rows that are few and long: programs take parts of a row, and a second kernel puts the parts together.

    schedule.launch {kind = "rows", portion = 64}
becomes, in the host program,
    tile.launch(%x, %parts) {every part of every row};  tile.launch(%parts, %y) {the rest}

A part is an aligned subtree of the row's blocks, so the tree over the parts is the tree over the blocks.
"""

from __future__ import annotations

from tesserac.ir.core import Op, Value
from tesserac.ir.index import index_op
from tesserac.ir.types import MemRefType
from tesserac.schedule.dialect import launch_portion
from tesserac.schedule.model.space import computing
from tesserac.tile.launches.frame import Frame
from tesserac.tile.launches.rows import Rows
from tesserac.types.dims import Dim


def partial_types(launch: Op) -> list[MemRefType]:
    """Memory for what the parts of each reduction give."""
    frame = Frame(launch)
    *rows, fold = frame.loops
    dims = (fold.size.ceil_div(_part_size(launch)), *(row.size for row in rows))
    return [MemRefType(dims, Rows(frame).partial(op).dtype) for op in _reductions(launch)]


def build_parts(frame: Frame) -> None:
    """The kernel of the parts; behind the arguments of the launch it takes memory for what they give."""
    parts, cut = _parts(frame), launch_portion(frame.launch)
    assert cut is not None
    frame.enter_grid(parts=parts)
    held, rows, ops = _partials(frame), Rows(frame), _reductions(frame.launch)
    assert frame.part is not None
    fold = frame.loops[-1]
    first = index_op(frame.builder, "mul", frame.part, frame.size(cut))
    left = index_op(frame.builder, "sub", frame.size(fold.size.ceil_div(fold.block)), first)
    done = rows.tree(ops, index_op(frame.builder, "min", left, frame.size(cut)), first)
    for memory, total in zip(held, done.results, strict=True):
        frame.builder.op("tile.store", (total, memory, frame.part, *_row(frame)))


def build_joined(frame: Frame) -> None:
    """The kernel that puts the parts together, and computes what follows from a row."""
    frame.enter_grid()
    held, rows, ops = _partials(frame), Rows(frame), _reductions(frame.launch)

    def part(number: Value) -> list[Value]:
        return [frame.load_from(memory, [number, *_row(frame)]) for memory in held]

    rows.finish(ops, rows.combined(ops, frame.size(_parts(frame)), part).results)
    rows.results()


def _partials(frame: Frame) -> list[Value]:
    return [frame.block.add_arg(type_, "parts") for type_ in partial_types(frame.launch)]


def _row(frame: Frame) -> list[Value]:
    """The place of the program's row; a dim of size 1 has no loop in the grid."""
    return [frame.at.get(number, frame.size(0)) for number in range(len(frame.loops) - 1)]


def _parts(frame: Frame) -> Dim:
    return frame.loops[-1].size.ceil_div(_part_size(frame.launch))


def _part_size(launch: Op) -> int:
    cut = launch_portion(launch)
    assert cut is not None
    return cut * Frame(launch).loops[-1].block


def _reductions(launch: Op) -> list[Op]:
    return [op for op in computing(launch) if op.name == "form.reduce"]
