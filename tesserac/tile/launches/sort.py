"""Sort kernels: each program finds the order of one row, or puts it in order.

    tile.kernel {grid = [`B`]} { ^(p, x, places): tile.sort x[p, 0 ...] into places[p, 0 ...] }

Of rows that are cut (`schedule/rows/sorts.py`), a program of a first kernel sorts one part, and one of a second merges
a range of all parts:

    tile.launch(%x, %runs, ...) {the parts of every row};  tile.launch(%runs, ..., %y) {their ranges}
"""

from __future__ import annotations

from tesserac.ir.core import Attr, Op, Value
from tesserac.ir.index import index_op
from tesserac.ir.indexed import gives_elements
from tesserac.ir.types import MemRefType
from tesserac.schedule.model.cuts import ROWS
from tesserac.schedule.model.space import computing, read_reach, write_reach
from tesserac.tile.launches.frame import Argument, Frame
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import I64


def build_sort(frame: Frame) -> None:
    frame.enter_grid()
    [op], fold = computing(frame.launch), len(frame.loops) - 1
    frame.at[fold] = frame.size(ZERO)
    source = _source(frame)
    for number in range(len(frame.launch.body.terminator.operands)):
        target = frame.argument(write_reach(frame.launch, number), frame.result_dims(number))
        attrs = _attrs(op) | {"dims": (source.loops.index(fold), target.loops.index(fold))}
        frame.builder.op("tile.sort", (*_place(frame, source), *_place(frame, target)), (), attrs)


def build_runs(frame: Frame) -> None:
    """The kernel that sorts parts; behind the arguments of the launch it takes memory for what it sorts."""
    fold = _enter_parts(frame)
    source, held = _source(frame), _held(frame)
    attrs = _attrs(computing(frame.launch)[0]) | {"dim": source.loops.index(fold)}
    operands = [*_place(frame, source), *_rows_of(frame, held[:2]), *_range(frame)]
    frame.builder.op("tile.sort_run", operands, (), attrs)


def build_merged(frame: Frame) -> None:
    """The kernel that merges ranges; it takes the same memory."""
    fold = _enter_parts(frame)
    held = _held(frame)
    target = frame.argument(write_reach(frame.launch, 0), frame.result_dims(0))
    [op] = computing(frame.launch)
    attrs = _attrs(op) | {"dim": target.loops.index(fold), "sorts": _source(frame).type.dtype}
    length = frame.size(Dim.sym(ROWS))
    operands = [*_place(frame, target), *_rows_of(frame, held), *_range(frame), length]
    frame.builder.op("tile.merge_runs", operands, (), attrs)


def run_types(launch: Op) -> list[MemRefType]:
    """Memory for parts that are sorted, and room for as much twice: of elements, of keys above their places in one
    word, or of both in two."""
    frame, [op] = Frame(launch), computing(launch)
    dims, dtype = tuple(loop.size for loop in frame.loops), _source(frame).type.dtype
    if gives_elements(op):
        return [MemRefType(dims, dtype)] * 3
    words = dims if dtype.bits <= I64.bits // 2 else (*dims, Dim.const(2))
    return [MemRefType(words, I64)] * 3


def _enter_parts(frame: Frame) -> int:
    """The loop whose parts are programs."""
    fold = len(frame.loops) - 1
    frame.enter_grid(parts=frame.loops[fold].size.ceil_div(Dim.sym(ROWS)))
    frame.at[fold] = frame.size(ZERO)
    return fold


def _source(frame: Frame) -> Argument:
    [op] = computing(frame.launch)
    read = read_reach(frame.launch, op, 0)
    assert read is not None, "what is sorted stands in memory"
    return frame.argument(read, frame.block_dims(op, 0))


def _attrs(op: Op) -> dict[str, Attr]:
    return {key: op.attrs[key] for key in ("descending", "below", "elements") if key in op.attrs}


def _place(frame: Frame, argument: Argument) -> list[Value]:
    return [frame.memory_of(argument), *frame.coordinates(argument)]


def _held(frame: Frame) -> list[Value]:
    return [frame.block.add_arg(type_, "runs") for type_ in run_types(frame.launch)]


def _rows_of(frame: Frame, held: list[Value]) -> list[Value]:
    """The program's row of each memory; a dim of size 1 has no loop in the grid, that of both words none at all."""
    row = [frame.at.get(number, frame.size(0)) for number in range(len(run_types(frame.launch)[0].dims))]
    return [value for memory in held for value in (memory, *row)]


def _range(frame: Frame) -> list[Value]:
    """The first element of a program, and the one behind its last."""
    assert frame.part is not None
    length, size = frame.size(Dim.sym(ROWS)), frame.size(frame.loops[-1].size)
    first = index_op(frame.builder, "mul", frame.part, length)
    return [first, index_op(frame.builder, "min", index_op(frame.builder, "add", first, length), size)]
