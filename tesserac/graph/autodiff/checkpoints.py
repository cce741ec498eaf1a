"""Checkpoints become what is inside them, once all derivatives are taken.

Enters: a function with `graph.checkpoint` in it. Leaves: one without. What is computed again is marked, each place with
a number of its own, so that `cse` does not merge it with where it was computed first: then it would be kept after all.
"""

from __future__ import annotations

from tesserac.graph.autodiff.dialect import CHECKPOINT
from tesserac.graph.dialect import REPLAY, is_operator
from tesserac.ir.core import Op


def open_checkpoints(function: Op) -> None:
    found = [op for op in function.walk() if op.name == CHECKPOINT]
    for number, op in enumerate(reversed(found)):  # what stands inside another comes first
        block, outcome = op.parent, op.body.terminator.operands
        assert block is not None
        place = block.place(op)
        for inner in op.body.ops[:-1]:
            inner.detach()
            block.insert(place, inner)
            place += 1
            if REPLAY in op.attrs:
                _mark(inner, number)
        for old, new in zip(op.results, outcome, strict=True):
            old.replace_all_uses(new)
        op.erase()


def _mark(op: Op, number: int) -> None:
    for inner in op.walk():
        if is_operator(inner):
            inner.attrs.setdefault(REPLAY, number)
