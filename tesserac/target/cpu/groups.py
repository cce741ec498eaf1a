"""Loops over elements: several vectors at a time while there are enough elements, then one vector, then one element.

The body is written once per way of taking elements, always the same operations in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Op, attr
from tesserac.target.cpu.accesses import prepare_addresses
from tesserac.target.cpu.bodies import emit_body
from tesserac.target.cpu.frame import REST, Entry, Frame, Mode, Run
from tesserac.target.dims import floor_div
from tesserac.target.flow import for_loop
from tesserac.target.llvm_types import Value, const_i64
from tesserac.tile.cpu.dialect import Shape

Group = Callable[[Value, Mode, list[Value]], Sequence[Value]]
"""Writes the group of elements that starts at an index, in a mode; takes and gives what the loop carries."""


def modes(op: Op) -> list[Mode]:
    """The ways of taking elements, from the widest to one by one."""
    shape = attr(op, "shape", Shape)
    vector = [Mode(shape.lanes, 1, rest=True)] if shape.parts > 1 else []
    return [Mode(shape.lanes, shape.parts), *vector, REST]


def group_index(start: Value, mode: Mode) -> Entry:
    """The index of a group's elements, as its body sees it."""
    if not mode.lanes:
        return start
    return Run(start, tuple(p * mode.lanes for p in range(mode.parts)))


def loop_over(frame: Frame, low: Value, high: Value, mode: Mode, held: Sequence[Value], group: Group) -> list[Value]:
    """Whole groups of a mode from `low` on; gives where they end, then what was carried."""
    end = high if not mode.lanes else _last_whole(frame, low, high, mode.size)

    def body(i: Value, carried: list[Value]) -> Sequence[Value]:
        return group(i, mode, carried)

    return [end, *for_loop(frame.b, low, end, const_i64(mode.size), held, body)]


def _last_whole(frame: Frame, low: Value, high: Value, size: int) -> Value:
    """The end of the last whole group of `size` elements."""
    b, count = frame.b, frame.b.sub(high, low)
    if size & (size - 1) == 0:
        return b.add(low, b.binary("and", count, const_i64(-size)))
    return b.add(low, b.mul(floor_div(b, count, const_i64(size)), const_i64(size)))


def emit_vector_loop(frame: Frame, op: Op) -> None:
    prepare_addresses(frame, op.body)
    low, high = (frame.value(v) for v in op.operands)

    def group(i: Value, mode: Mode, _: list[Value]) -> Sequence[Value]:
        emit_body(frame, op.body, [group_index(i, mode)], mode)
        return []

    for mode in modes(op):
        (low,) = loop_over(frame, low, high, mode, [], group)
