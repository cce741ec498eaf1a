"""Whether an operation stands in a mapped function, and what it reads may differ between the elements.

Enters: an operation, and what is known of its matrix. Leaves: whether a form that looks at what it found would have to
compute all of its branches.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.check.model.library_annotations import POSITIVE
from tesserac.graph.batching.dialect import VMAP, in_axes
from tesserac.ir.core import Block, Op, Value


def is_mapped(op: Op, structure: str) -> bool:
    """Whether what a form looks at may differ between the elements of a mapped dim: of a positive matrix that is the
    matrix alone, whatever it is solved for."""
    looked_at = op.operands[:1] if structure == POSITIVE else op.operands
    outer = op.parent.parent_op if op.parent is not None else None
    while outer is not None:
        if outer.name == VMAP and (structure != POSITIVE or _may_differ(looked_at, outer)):
            return True
        outer = outer.parent.parent_op if outer.parent is not None else None
    return False


def _may_differ(values: Sequence[Value], mapped: Op) -> bool:
    """Whether values inside of a mapped function need one of its elements."""
    elements = {arg for arg, axis in zip(mapped.body.args, in_axes(mapped), strict=True) if axis is not None}
    seen, waiting = set[Value](), list(values)
    while waiting:
        value = waiting.pop()
        if value in elements:
            return True
        if value in seen:
            continue
        seen.add(value)
        made = value.defining_op
        if made is None:
            block = value.owner
            if isinstance(block, Block) and block is not mapped.body and _stands_in(block, mapped):
                return True
            continue
        if made.regions:
            return True
        waiting += made.operands
    return False


def _stands_in(block: Block, mapped: Op) -> bool:
    outer = block.parent_op
    while outer is not None and outer is not mapped:
        outer = outer.parent.parent_op if outer.parent is not None else None
    return outer is mapped
