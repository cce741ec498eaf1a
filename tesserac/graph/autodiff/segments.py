"""Loops in segments: a loop of checkpointed loops, so that the states at the starts of segments are kept, and what
happens inside one is computed again when the way back comes to it.

Enters: a loop that mixes values and tangents, and how long its segments are. Leaves: the nest in its place. Segments
of segments make a treeverse. See Note [A treeverse of loops].
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.graph.autodiff.custom import Functions
from tesserac.graph.autodiff.dialect import CHECKPOINT, EVERY, ROWS, SLOTS, TANGENTS
from tesserac.graph.autodiff.iterations import COUNT, advance, segment_sizes
from tesserac.graph.autodiff.linear import loop_bounds, replace_results, tangent_count
from tesserac.graph.autodiff.writing import writer
from tesserac.graph.substitute import copy_op
from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Block, Op, Value
from tesserac.ir.index import dim_value
from tesserac.ir.types import INDEX
from tesserac.types.dims import ZERO, Dim

BRANCHES = 4
"""Segments of a segment, where the number of iterations is not known: four need the fewest states for iterations they
serve, and of those numbers four computes the least again."""


def in_segments(op: Op, functions: Functions) -> Op | None:
    """The nest in the place of a loop that asks for one."""
    low, high = loop_bounds(op)
    iterations = (high - low).max(ZERO)
    lengths = _lengths(op, iterations)
    if not lengths:
        return None
    nest = _Nest(op, functions).level(Builder.before(op), op.operands[2:], low, iterations, iterations, lengths)
    replace_results(op, nest.results)
    return nest


def _lengths(op: Op, iterations: Dim) -> list[Dim]:
    """How long segments are, outer ones first."""
    every, slots = op.attrs.get(EVERY), op.attrs.get(SLOTS)
    if isinstance(every, Dim):
        return [every]
    if not isinstance(slots, int):
        return []
    branches, levels = _shape(slots, iterations.constant)
    lengths = [iterations.ceil_div(branches).max(1)]
    for _ in range(levels - 1):
        lengths.append(lengths[-1].ceil_div(branches).max(1))
    return lengths


def _shape(slots: int, iterations: int | None) -> tuple[int, int]:
    """How many segments a segment has, and how deep segments lie in each other, with `slots` states kept in all. The
    innermost iterations keep everything, so that the least depth that leaves few of them computes the least again."""
    if iterations is None:
        return BRANCHES, max(1, slots // BRANCHES)
    deepest = max(1, slots // 2)
    shapes = [(slots // depth, depth) for depth in range(1, deepest + 1)]
    enough = [shape for shape in shapes if shape[0] ** shape[1] >= iterations]
    return enough[0] if enough else max(shapes, key=lambda shape: shape[0] ** shape[1])


class _Nest:
    def __init__(self, op: Op, functions: Functions) -> None:
        self._op = op
        self._name = str(op.attrs["counter"])
        self._functions = functions
        self._count = tangent_count(op)

    def level(
        self, builder: Builder, inits: Sequence[Value], start: Dim, iterations: Dim, most: Dim, lengths: Sequence[Dim]
    ) -> Op:
        """`iterations` iterations from `start` on, `most` of them at most whatever loops around say, in such
        segments."""
        if not lengths:
            return self._iterations(builder, inits, start, iterations, most)
        length, *inner = lengths
        counter = self._functions.fresh(self._name)
        place = Dim.sym(counter) * length
        block = self._block(inits, counter)
        inside = Builder(block, self._op.span)
        with inside.at(Block()) as segment:
            rest = (iterations - place).min(length)
            made = self.level(inside, block.args[1:], start + place, rest, length, inner)
            inside.op("form.yield", made.results)
        types, attrs = [v.type for v in inits], {TANGENTS: self._count}
        inside.op("form.yield", inside.op(CHECKPOINT, (), types, attrs, (segment,)).results)
        return self._loop(builder, inits, iterations.ceil_div(length), most.ceil_div(length), counter, block)

    def _iterations(self, builder: Builder, inits: Sequence[Value], start: Dim, iterations: Dim, most: Dim) -> Op:
        counter = self._functions.fresh(self._name)
        block = self._block(inits, counter)
        values = dict(zip(self._op.body.args, block.args, strict=True))
        for inner in self._op.body.ops:
            block.append(copy_op(inner, values, {self._name: start + Dim.sym(counter)}))
        return self._loop(builder, inits, iterations, most, counter, block)

    def _block(self, inits: Sequence[Value], counter: str) -> Block:
        return Block((INDEX, *(v.type for v in inits)), (counter, *(a.name for a in self._op.body.args[1:])))

    def _loop(
        self, builder: Builder, inits: Sequence[Value], iterations: Dim, most: Dim, counter: str, block: Block
    ) -> Op:
        bounds = [dim_value(builder, bound) for bound in (ZERO, iterations)]
        attrs = {"counter": counter, TANGENTS: self._count, ROWS: most}
        return builder.op("form.loop", (*bounds, *inits), [v.type for v in inits], attrs, (block,))


# ---------------------------------------------------------------------------------- loops that the run counts


def while_in_segments(builder: Builder, op: Op) -> Op:
    """The nest of a `while`; it stands where the builder does."""
    return _while_level(builder, op, op.operands, segment_sizes(op))


def _while_level(builder: Builder, op: Op, inits: Sequence[Value], limits: Sequence[Dim]) -> Op:
    """A `while` that ends after as many iterations as the first limit says, too; an iteration is one of the next level,
    or of the loop itself. It counts behind what it carries, before the tangents."""
    limit, *inner = limits
    first = len(inits) - tangent_count(op)
    write = writer(builder, {})
    operands = (*inits[:first], write.full(0, COUNT), *inits[first:])
    test, body = (Block([v.type for v in operands]) for _ in range(2))
    _write_test(op, test, first, limit)
    inside = Builder(body, op.span)
    carried = [*body.args[:first], *body.args[first + 1 :]]
    if inner:
        with inside.at(Block()) as segment:
            made = _while_level(inside, op, carried, inner).results
            inside.op("form.yield", (*made[:first], *made[first + 1 :]))
        attrs = {TANGENTS: tangent_count(op)}
        after = inside.op(CHECKPOINT, (), [v.type for v in inits], attrs, (segment,)).results
    else:
        after = _write_turn(op, body, carried)
    inside.op("form.yield", (*after[:first], advance(writer(inside, {}), body.args[first]), *after[first:]))
    limited: dict[str, Attr] = {TANGENTS: tangent_count(op), ROWS: limit}
    return builder.op("form.while", operands, [v.type for v in operands], limited, (test, body))


def _write_test(op: Op, test: Block, first: int, limit: Dim) -> None:
    source = op.regions[0].block
    values = dict(zip(source.args[:first], test.args, strict=False))
    for inner in source.ops[:-1]:
        test.append(copy_op(inner, values, {}))
    builder = Builder(test, op.span)
    write = writer(builder, {})
    goes_on = values.get(source.terminator.operands[0], source.terminator.operands[0])
    in_time = write("less", test.args[first], write.size(limit, COUNT))
    builder.op("form.yield", (write("bitwise_and", goes_on, in_time),))


def _write_turn(op: Op, body: Block, carried: Sequence[Value]) -> list[Value]:
    source = op.regions[1].block
    values = dict(zip(source.args, carried, strict=True))
    for inner in source.ops[:-1]:
        body.append(copy_op(inner, values, {}))
    return [values.get(v, v) for v in source.terminator.operands]


# Note [A treeverse of loops]
# A treeverse keeps few states of a long computation and recomputes what lies between them, each part from the nearest
# state before it; parts are cut in turn. As loops: T iterations are a loop of segments, a segment a loop of smaller
# ones, down to iterations. Each level is a checkpoint, so that a level keeps the states at the starts of its own
# segments while the way back is in it, and nothing of the others. With b segments on each of d levels that is b * d
# states and T / b**d iterations with all that they need; each iteration is computed once more per level. Loops nest to
# a fixed depth, so the depth is chosen while compiling: from T, where it is a number, else from the number of states
# alone.
