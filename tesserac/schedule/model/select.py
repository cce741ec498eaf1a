"""Variants of launches in one place of a host program, chosen by predicates on sizes."""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op
from tesserac.schedule.dialect import Predicate


def select(choices: Sequence[tuple[Predicate, Sequence[Op]]], otherwise: Sequence[Op], place: Op) -> Op:
    """The launches of each predicate go into a region, `otherwise` into the last one, all to where `place` stands.
    Gives the operation that chooses."""
    blocks = [Block() for _ in range(len(choices) + 1)]
    predicates = tuple(predicate for predicate, _ in choices)
    made = Builder.before(place).op("schedule.select", (), (), {"predicates": predicates}, blocks)
    for block, ops in zip(blocks, (*(ops for _, ops in choices), otherwise), strict=True):
        for op in ops:
            if op.parent is not None:
                op.detach()
            block.append(op)
        Builder(block).op("schedule.end")
    return made
