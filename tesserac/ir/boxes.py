"""Boxes of a tensor: whether two of them meet, and whether some fill it without a gap.

Enters: where boxes stand (`Slice`) and their sizes, which are at least 0. Leaves: what can be proved about them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.forms import Slice
from tesserac.types.dims import ZERO, Dim
from tesserac.types.polynomial import Symbol

Dims = tuple[Dim, ...]


@dataclass(frozen=True)
class Box:
    place: Slice
    sizes: Dims

    def end(self, axis: int) -> Dim:
        """Nothing of the box lies here or behind."""
        return self.place.starts[axis] + self.sizes[axis] * self.place.steps[axis]


def never_meet(first: Box, second: Box, whole: Dims) -> bool:
    """Whether two boxes of a tensor of these sizes are proved to have no element in common."""
    if any(step < 1 for box in (first, second) for step in box.place.steps):
        return False
    return any(
        is_size(later.place.starts[axis] - earlier.end(axis), whole)
        for axis in range(len(whole))
        for earlier, later in ((first, second), (second, first))
    )


def lies_inside(box: Box, whole: Dims) -> bool:
    """Whether all of a box is proved to be in a tensor of these sizes."""
    if any(step < 1 for step in box.place.steps):
        return False
    ends = (size - box.end(axis) for axis, size in enumerate(whole))
    return all(is_size(gap, whole) for gap in (*box.place.starts, *box.sizes, *ends))


def is_size(dim: Dim, whole: Dims) -> bool:
    """Whether a number is at least 0, being a sum of products of sizes. A counter of a loop is none."""
    sizes = {name for size in whole for name in size.symbols()}
    plain = all(isinstance(atom, Symbol) and atom.name in sizes for atom in dim.atoms())
    return plain and all(c >= 0 and all(power > 0 for _, power in monomial) for monomial, c in dim.terms)


def side_by_side(boxes: Sequence[Box], whole: Dims) -> tuple[int, list[int]] | None:
    """The axis along which the boxes fill a tensor one behind the other, and their order there; None if they do not."""
    for axis in range(len(whole)):
        if all(_spans_others(box, axis, whole) for box in boxes):
            order = _in_line(boxes, axis, whole[axis])
            return None if order is None else (axis, order)
    return None


def _spans_others(box: Box, axis: int, whole: Dims) -> bool:
    """Whether a box is as wide as the tensor in all dims but one, and has no gaps in that one."""
    others = [a for a in range(len(whole)) if a != axis]
    full = all(box.place.starts[a] == ZERO and box.sizes[a] == whole[a] for a in others)
    return full and set(box.place.steps) <= {1}


def _in_line(boxes: Sequence[Box], axis: int, size: Dim) -> list[int] | None:
    at = {box.place.starts[axis]: number for number, box in enumerate(boxes)}
    order: list[int] = []
    end = ZERO
    while end in at:
        order.append(at.pop(end))
        end = boxes[order[-1]].end(axis)
    return order if end == size and len(order) == len(boxes) else None
