"""Control flow that mixes values and tangents becomes two: one that computes values, and one that is linear.

Enters: operations in order that forward mode made, and the tangents they start from. Leaves: the same operations, in
place, without such a mixture. A branch gives its linear part what it needs, a checkpoint computes it once more
(`branches.py`); a loop keeps it (`iterations.py`), for all iterations or, where the program says so, for a part of them
at a time (`segments.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.graph.autodiff.branches import split_branches
from tesserac.graph.autodiff.custom import Functions, silence
from tesserac.graph.autodiff.dialect import TANGENT, TANGENTS
from tesserac.graph.autodiff.iterations import split_loop, split_while
from tesserac.graph.autodiff.linear import erase_unused, tangent_count, used_values
from tesserac.graph.autodiff.segments import in_segments, while_in_segments
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value


class PartialEvaluator:
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
                return split_loop(op, tangents, self._functions.observe)
            case "form.while":
                segments = lambda block: self._in_segments(op, block, tangents)  # noqa: E731
                return split_while(op, tangents, segments, self._functions.observe)
            case _:
                return split_branches(op, tangents)

    def _in_segments(self, op: Op, block: Block, tangents: set[Value]) -> None:
        """The tangents that a `while` gives, in a block, however often it iterates. What it asserts, it did before."""
        builder = Builder(block, op.span)
        nest = while_in_segments(builder, op)
        builder.op("form.yield", nest.results[-tangent_count(op) :])
        self._separate(nest, tangents)
        silence(block.ops)
        erase_unused(block)
