"""Loops that mix values and tangents, made two: one that computes values and keeps some of every iteration in stacks,
and one that is linear and reads them.

Enters: a loop that forward mode made, its body free of other such mixtures. Leaves: the two loops before it, and the
tangents that they give. See Notes [What is kept] in `residuals.py` and [Iterations that nobody knows].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.graph.autodiff.custom import Observe
from tesserac.graph.autodiff.dialect import EVERY, ITERATIONS, MAX_STEPS, ROWS
from tesserac.graph.autodiff.linear import (
    erase_unused,
    loop_bounds,
    replace_results,
    tangent_count,
    without_count,
)
from tesserac.graph.autodiff.residuals import ROW_COST, Residuals, bytes_of, room_for, typical
from tesserac.graph.autodiff.writing import writer
from tesserac.graph.substitute import copy_op
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import Writer
from tesserac.types.dims import ONE, ZERO, Dim, product
from tesserac.types.dtype import I64
from tesserac.types.ty import TensorType

COUNT = TensorType((), I64)
"""How a loop counts iterations whose number only the run knows."""
KNOWN_ROWS = 128
"""Rows of the stacks of such a loop."""
WHILE_STATES, WHILE_LEVELS = 512, 2
"""Segments on each level, and levels, where it has more iterations: together they serve 2**25."""
Iteration = Dim | Value
"""Which row of a stack: a size, or a value of the run."""


class _Parts:
    """What the body of a loop consists of. `skip` arguments stand before what it carries."""

    def __init__(self, op: Op, body: Block, skip: int, rows: Dim, tangents: set[Value]) -> None:
        self.op = op
        self.body = body
        self.count = tangent_count(op)
        self.args = body.args[skip : -self.count]
        self.changes = body.args[-self.count :]
        self._bounds = {str(op.attrs["counter"]): [loop_bounds(op)]} if "counter" in op.attrs else {}
        self._rows = typical(rows)
        self.kept = Residuals(op, body, {*self.changes, *tangents}, self._cost)
        self.linear = self.kept.linear
        self.inits = op.operands[len(op.operands) - len(op.results) :]

    def _cost(self, value: Value) -> int | None:
        row = room_for(value, self._bounds)
        return None if row is None else (ROW_COST + bytes_of(row)) * self._rows

    def tell(self, observe: Observe | None, rows: Dim) -> None:
        if observe is not None and self.kept.stored:
            observe(self.op, rows, self.kept.stored, self.inits[: -self.count])

    def stacks(self, write: Writer, rows: Dim) -> list[Value]:
        held = (room_for(value, self._bounds) for value in self.kept.stored)
        return [write("empty", shape=(rows, *ty.dims), dtype=ty.dtype, policy=ty.policy) for ty in held if ty]

    def primal(
        self, block: Block, values: dict[Value, Value], tops: Sequence[Value], iteration: Iteration
    ) -> list[Value]:
        """The values of an iteration, in `block`; what it carries on, and the stacks with one more row."""
        linear = set(self.linear)
        for inner in self.body.ops[:-1]:
            if inner not in linear:
                block.append(copy_op(inner, values, {}))
        write = writer(Builder(block, self.op.span), {})
        carried = [values.get(v, v) for v in self.body.terminator.operands[: -self.count]]
        pairs = zip(tops, self.kept.stored, strict=True)
        return [*carried, *(_push(write, top, values[value], iteration) for top, value in pairs)]

    def changed(self, block: Block, values: dict[Value, Value], stacks: Sequence[Value], iteration: Iteration) -> None:
        """The tangents of an iteration, in `block`."""
        builder = Builder(block, self.op.span)
        write = writer(builder, {})
        for value, stack in zip(self.kept.stored, stacks, strict=True):
            values[value] = _read(write, stack, tensor_type(value), iteration)
        for inner in (*self.kept.again, *self.linear):
            block.append(copy_op(inner, values, {}))
        builder.op("form.yield", [values.get(v, v) for v in self.body.terminator.operands[-self.count :]])


# ------------------------------------------------------------------------------------- loops that sizes count


def split_loop(op: Op, tangents: set[Value], observe: Observe | None) -> Sequence[Value]:
    low, high = loop_bounds(op)
    rows = op.attrs.get(ROWS, (high - low).max(ZERO))
    assert isinstance(rows, Dim)
    parts = _Parts(op, op.body, 1, rows, tangents)
    parts.tell(observe, rows)
    iteration = Dim.sym(str(op.attrs["counter"])) - low
    primal = _primal_loop(parts, rows, iteration)
    first = len(parts.args)
    new = _linear_loop(parts, primal.results[first:], iteration)
    replace_results(op, (*primal.results[:first], *new.results))
    return new.results


def _primal_loop(parts: _Parts, rows: Dim, iteration: Dim) -> Op:
    """The loop without its tangents; after what it carried it gives a stack for each value that is kept."""
    op = parts.op
    builder = Builder.before(op)
    operands = (*op.operands[:2], *parts.inits[: -parts.count], *parts.stacks(writer(builder, {}), rows))
    args = (parts.body.args[0], *parts.args)
    block = Block([v.type for v in operands[1:]], [a.name for a in args])  # a counter where the bounds were
    values = dict(zip(args, block.args, strict=False))
    carried = parts.primal(block, values, block.args[len(args) :], iteration)
    Builder(block, op.span).op("form.yield", carried)
    erase_unused(block)
    return builder.op(op.name, operands, [v.type for v in operands[2:]], without_count(op), (block,))


def _linear_loop(parts: _Parts, stacks: Sequence[Value], iteration: Dim) -> Op:
    op = parts.op
    args = (parts.body.args[0], *parts.changes)
    block = Block([a.type for a in args], [a.name for a in args])
    parts.changed(block, dict(zip(args, block.args, strict=True)), stacks, iteration)
    inits = parts.inits[-parts.count :]
    attrs = without_count(op)
    return Builder.before(op).op(op.name, (*op.operands[:2], *inits), [v.type for v in inits], attrs, (block,))


# ---------------------------------------------------------------------------------- loops that the run counts


def split_while(
    op: Op, tangents: set[Value], in_segments: Callable[[Block], None], observe: Observe | None
) -> Sequence[Value]:
    """`in_segments` writes the same tangents into a block, from the beginning of the loop, with what they need."""
    rows = rows_of(op)
    parts = _Parts(op, op.regions[1].block, 0, rows, tangents)
    parts.tell(observe, rows)
    primal = _primal_while(parts, rows)
    first = len(parts.args)
    iterations, stacks = primal.results[first], primal.results[first + 1 :]
    builder = Builder.before(op)
    if ROWS not in op.attrs:
        _check_iterations(builder, op, iterations)
    if ROWS in op.attrs or (MAX_STEPS in op.attrs and EVERY not in op.attrs):
        new = _linear_iterations(builder, parts, rows, iterations, stacks)
    else:
        short = Block()
        inside = Builder(short, op.span)
        inside.op("form.yield", _linear_iterations(inside, parts, rows, iterations, stacks).results)
        long = Block()
        in_segments(long)
        write = writer(builder, {})
        fits = write("less_equal", iterations, write.size(rows, COUNT))
        new = builder.op("form.cond", (fits,), [v.type for v in parts.changes], None, (short, long))
    replace_results(op, (*primal.results[:first], *new.results))
    return new.results


def rows_of(op: Op) -> Dim:
    """How many iterations of a `while` its stacks hold."""
    said = (op.attrs.get(name) for name in (ROWS, EVERY, MAX_STEPS))
    return next((rows for rows in said if isinstance(rows, Dim)), Dim.const(KNOWN_ROWS))


def segment_sizes(op: Op) -> list[Dim]:
    """Segments of segments for a `while` that has more iterations, the outermost first, and the iterations of the
    innermost."""
    most, rows = op.attrs.get(MAX_STEPS), rows_of(op)
    if isinstance(most, Dim):
        return [most.ceil_div(rows), rows] if EVERY in op.attrs else [most]
    return [*[Dim.const(WHILE_STATES)] * WHILE_LEVELS, rows]


def _check_iterations(builder: Builder, op: Op, iterations: Value) -> None:
    """A run with more iterations than can be gone back through ends."""
    most = op.attrs.get(MAX_STEPS, product(segment_sizes(op)))
    assert isinstance(most, Dim)
    write = writer(builder, {})
    said = "`max_steps`" if MAX_STEPS in op.attrs else "a derivative can go back through"
    text = f"this loop takes more iterations than {said}: more than {most}"
    builder.op("form.assert", (write("less_equal", iterations, write.size(most, COUNT)),), (), {"text": text})


def _primal_while(parts: _Parts, rows: Dim) -> Op:
    """The loop without its tangents. After what it carried it gives the number of its iterations, then stacks."""
    op = parts.op
    builder = Builder.before(op)
    write = writer(builder, {})
    inits = (*parts.inits[: -parts.count], write.full(0, COUNT), *parts.stacks(write, rows))
    test, block = (Block([v.type for v in inits], [a.name for a in parts.args]) for _ in range(2))
    values = dict(zip(op.regions[0].block.args, test.args, strict=False))
    for inner in op.regions[0].block.ops:
        test.append(copy_op(inner, values, {}))
    values = dict(zip(parts.args, block.args, strict=False))
    iteration, *tops = block.args[len(parts.args) :]
    inside = Builder(block, op.span)
    row = iteration if ROWS in op.attrs else _last_row_at_most(writer(inside, {}), iteration, rows)
    carried = parts.primal(block, values, tops, row)
    after = advance(writer(inside, {}), iteration)
    inside.op("form.yield", (*carried[: len(parts.args)], after, *carried[len(parts.args) :]))
    erase_unused(block)
    attrs = {name: attr for name, attr in without_count(op).items() if name == ROWS}
    return builder.op(op.name, inits, [v.type for v in inits], attrs, (test, block))


def _last_row_at_most(write: Writer, iteration: Value, rows: Dim) -> Value:
    return write("minimum", iteration, write.size(rows - 1, COUNT))


def advance(write: Writer, iteration: Value) -> Value:
    return write("add", iteration, write.full(1, COUNT))


def _linear_iterations(builder: Builder, parts: _Parts, rows: Dim, iterations: Value, stacks: Sequence[Value]) -> Op:
    block = Block([COUNT, *(a.type for a in parts.changes)], ["iteration", *(a.name for a in parts.changes)])
    values = dict(zip(parts.changes, block.args[1:], strict=True))
    parts.changed(block, values, stacks, block.args[0])
    inits = parts.inits[-parts.count :]
    return builder.op(ITERATIONS, (iterations, *inits), [v.type for v in inits], {ROWS: rows}, (block,))


# ------------------------------------------------------------------------------------------------------ stacks


def _push(write: Writer, stack: Value, value: Value, iteration: Iteration) -> Value:
    if isinstance(iteration, Value):
        return write("scatter", stack, value, iteration, axes=(0,))
    ty = tensor_type(value)
    row = write.reshape(value, (ONE, *ty.dims))
    return write("insert", stack, row, starts=(iteration, *(ZERO for _ in ty.dims)), steps=(1,) * (ty.rank + 1))


def _read(write: Writer, stack: Value, ty: TensorType, iteration: Iteration) -> Value:
    if isinstance(iteration, Value):
        return write("lookup", stack, iteration, axes=(0,))
    starts = (iteration, *(ZERO for _ in ty.dims))
    row = write("cut", stack, starts=starts, sizes=(ONE, *ty.dims), steps=(1,) * (ty.rank + 1))
    return write.reshape(row, ty.dims)


# Note [Iterations that nobody knows]
# How often a `while` iterates shows when it has ended, and no size may depend on that. So its stacks have a fixed
# number of rows: `max_steps`, where the program says it, else KNOWN_ROWS. Iterations beyond these write the last row
# again, and the loop counts. If the rows were enough, the linear part reads them, and nothing is computed twice. If
# not, the loop runs again from its beginning in segments, of which only the states at their starts are kept
# (`segments.py`): memory stays what it is for any number of iterations, and each iteration is computed once more per
# level of segments.
