"""Kernels of loops that are one map over and over: a program takes a block of columns through all iterations.

    schedule.launch {kind = "map", steps = #steps<counter="t", low=`0`, high=`T`>, carried = [[1, 0]]}
becomes
    tile.kernel { tile.apart(%0, %T, %h) { ^(%t, %h): load row %t; tile.map; tile.yield } { ^(%h): tile.store } }

Where an operand begins may depend on the counter: it is so many elements further in each iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.ir.core import Block, Op, Value, attr, attr_tuple, tuple_of
from tesserac.ir.index import index_op
from tesserac.ir.types import INDEX
from tesserac.schedule.dialect import STEPS
from tesserac.schedule.loops.stepped import ADVANCES, CARRIED, Steps, parts_of
from tesserac.schedule.model.space import Reach, yielded_op
from tesserac.tile.launches.frame import Argument, Frame
from tesserac.tile.launches.maps import map_block
from tesserac.types.dims import ONE, Dim


class StepFrame(Frame):
    """A frame in which offsets of memory may mention the counter, whose value is `count` inside the loop."""

    def __init__(self, launch: Op) -> None:
        super().__init__(launch)
        self.steps = attr(launch, STEPS, Steps)
        self.count: Value | None = None
        self._advances = attr_tuple(launch, ADVANCES, Dim)

    def read(self, op: Op, position: int) -> Reach | None:
        reach = super().read(op, position)
        return None if reach is None else self._further(reach)

    def write(self, number: int) -> Reach:
        return self._further(super().write(number))

    def _further(self, reach: Reach) -> Reach:
        """A reach of what begins further on in each iteration."""
        done = Dim.sym(self.steps.counter) - self.steps.low
        return replace(reach, offset=reach.offset + self._advances[reach.operand] * done)

    def argument(self, reach: Reach, required: Sequence[int] = ()) -> Argument:
        """As that of a launch; what begins at a count has a first dim of any size, along which that is the place."""
        if self.steps.counter not in reach.offset.symbols():
            return super().argument(reach, required)
        return replace(super().argument(replace(reach, offset=ONE), required), offset=reach.offset)

    def size(self, dim: Dim | int) -> Value:
        if isinstance(dim, int) or self.steps.counter not in dim.symbols():
            return super().size(dim)
        known = self.known(dim)
        if known is not None:
            return known
        assert self.count is not None, "only inside the loop is there a count"
        first, step = parts_of(dim, self.steps.counter)
        done = index_op(self.builder, "mul", self.count, self.size(step))
        return self.remember(dim, index_op(self.builder, "add", self.size(first), done))

    def touched(self) -> Dim:
        return super().touched() * (self.steps.high - self.steps.low)


def build_steps(frame: StepFrame) -> StepFrame:
    frame.enter_grid()
    carried = [tuple_of(pair, int) for pair in attr_tuple(frame.launch, CARRIED, tuple)]
    reaches = [replace(frame.write(number), operand=operand) for operand, number in carried]
    inits = [frame.load(reach) for reach in reaches]
    bounds = frame.size(frame.steps.low), frame.size(frame.steps.high)
    types = [value.type for value in inits]
    step, last = Block([INDEX, *types], ["t"]), Block(types)
    with frame.inside(step):
        frame.count = step.args[0]
        for reach, value in zip(reaches, step.args[1:], strict=True):
            argument = frame.argument(reach)
            frame.remember((argument, *frame.coordinates(argument)), value)
        _step(frame, [number for _, number in carried])
        frame.count = None
    with frame.inside(last):
        for (_, number), value in zip(carried, last.args, strict=True):
            frame.store(number, value)
        frame.builder.op("tile.yield")
    frame.builder.op("tile.apart", (*bounds, *inits), blocks=[step, last])
    return frame


def _step(frame: StepFrame, carried: list[int]) -> None:
    """One iteration: everything is computed before anything is stored."""
    results = [map_block(frame, yielded_op(value)) for value in frame.launch.body.terminator.operands]
    for number, tile in enumerate(results):
        if number not in carried:
            frame.store(number, tile)
    frame.builder.op("tile.yield", [results[number] for number in carried])
