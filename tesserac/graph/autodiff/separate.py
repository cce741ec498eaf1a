"""Control flow that mixes values and tangents becomes two: one that computes values, and one that is linear.

Enters: operations in order that forward mode made, and the tangents they start from. Leaves: the same operations, in
place, without such a mixture. A branch or a checkpoint computes what its linear part needs once more; a loop keeps it
(`turns.py`), for all turns or, where the program says so, for a part of them at a time (`segments.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.graph.autodiff.custom import Functions, silence
from tesserac.graph.autodiff.dialect import CHECKPOINT, TANGENT, TANGENTS
from tesserac.graph.autodiff.linear import erase_unused, replace_results, tangent_count, used_values, without_count
from tesserac.graph.autodiff.segments import in_segments, while_in_segments
from tesserac.graph.autodiff.turns import separate_loop, separate_while
from tesserac.graph.dialect import REPLAY
from tesserac.graph.substitute import copy_op
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value


class Separator:
    def __init__(self, functions: Functions) -> None:
        self._functions = functions

    def run(self, ops: Sequence[Op], tangents: set[Value]) -> None:
        """`tangents` are those to start from."""
        known = set(tangents)
        for op in ops:
            if op.name != TANGENT and known.isdisjoint(used_values(op)):
                continue
            known.update(self._separate(op, known) if TANGENTS in op.attrs else op.results)

    def _separate(self, op: Op, tangents: set[Value]) -> Sequence[Value]:
        if op.name == "form.loop" and (nest := in_segments(op, self._functions)) is not None:
            return self._separate(nest, tangents)
        for region in op.regions:
            own = set(region.block.args[-tangent_count(op) :]) if op.name in ("form.loop", "form.while") else set()
            self.run(list(region.block.ops[:-1]), tangents | own)
        match op.name:
            case "form.loop":
                return separate_loop(op, tangents, self._functions.observe)
            case "form.while":
                segments = lambda block: self._in_segments(op, block, tangents)  # noqa: E731
                return separate_while(op, tangents, segments, self._functions.observe)
            case _:
                return _separate_branches(op)

    def _in_segments(self, op: Op, block: Block, tangents: set[Value]) -> None:
        """The tangents that a `while` gives, in a block, however often it turns. What it asserts, it did before."""
        builder = Builder(block, op.span)
        nest = while_in_segments(builder, op)
        builder.op("form.yield", nest.results[-tangent_count(op) :])
        self._separate(nest, tangents)
        silence(block.ops)
        erase_unused(block)


def _separate_branches(op: Op) -> Sequence[Value]:
    """Values once more in the linear branch: only what the tangents need of them stays there."""
    builder, count = Builder.before(op), tangent_count(op)
    values, changes = op.results[:-count], op.results[-count:]
    blocks = _branches(op, slice(None, -count)), _branches(op, slice(-count, None), pure=True)
    attrs = without_count(op)
    first = builder.op(op.name, op.operands, [v.type for v in values], attrs, blocks[0])
    replayed = {**attrs, REPLAY: True} if op.name == CHECKPOINT else attrs
    second = builder.op(op.name, op.operands, [v.type for v in changes], replayed, blocks[1])
    replace_results(op, (*first.results, *second.results))
    return second.results


def _branches(op: Op, kept: slice, *, pure: bool = False) -> list[Block]:
    blocks = []
    for region in op.regions:
        block, values = Block(), dict[Value, Value]()
        for inner in region.block.ops[:-1]:
            block.append(copy_op(inner, values, {}))
        if pure:
            silence(block.ops)
        outcome = [values.get(v, v) for v in region.block.terminator.operands[kept]]
        Builder(block, op.span).op("form.yield", outcome)
        erase_unused(block)
        blocks.append(block)
    return blocks
