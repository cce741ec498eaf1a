"""Results that are put together of parts on their way: a processor computes and stores them part by part.

    t + roll(t, 1)                     ==>   [t[:1] + t[15:], t[1:] + t[:15]]
    t * c + concat([-b, a]) * s        ==>   [a * c[:8] + -b * s[:8], b * c[8:] + a * s[8:]]        with t = [a, b]

    dot(concat([a, b]), y)             ==>   dot(b, y[8:], dot(a, y[:8]))

Between two joints no element is chosen among parts, so that a part of the result is made of parts of arguments, whose
elements lie side by side. A product over parts is the chain of its terms, which goes on from part to part.
"""

from __future__ import annotations

from itertools import pairwise

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import Permute, Slice, operand_maps, tensor_type
from tesserac.ir.indexed import assembled_boxes
from tesserac.ir.types import TensorType
from tesserac.schedule.forms.views import through_view
from tesserac.types.dims import ZERO, Dim

MOST_PARTS = 16
"""More of them are no longer rows of vectors."""

AT_ONCE = 32
"""Terms of bf16 and f16 that matrix units add in an order of their own."""

Interval = tuple[int, int]


def terms_between_joints(product: Op, left: Value, right: Value) -> list[tuple[Value, Value]]:
    """Factors of a product part by part of the terms that it sums; the factors themselves where they have no joints, or
    where a matrix unit would add terms of two parts at a time."""
    joints = _Joints()
    found = joints.along(left, 1) | joints.along(right, 0)
    size, narrow = tensor_type(left).dims[1].constant, tensor_type(left).dtype != product.attrs["accum"]
    if not found or size is None or len(found) >= MOST_PARTS or (narrow and any(place % AT_ONCE for place in found)):
        return [(left, right)]
    ends = pairwise(sorted({0, size, *found}))
    return [(part_between(left, 1, along, product), part_between(right, 0, along, product)) for along in ends]


def parts_between_joints(value: Value) -> tuple[int, list[Interval]] | None:
    """The one dim along which a value has joints, and where it goes from one to the next; None where it has none."""
    joints = _Joints()
    found = {axis: at for axis in range(tensor_type(value).rank) if (at := joints.along(value, axis))}
    if len(found) != 1:
        return None
    ((axis, at),) = found.items()
    size = tensor_type(value).dims[axis].constant
    if size is None:
        return None
    ends = sorted({0, size, *at})
    intervals = list(pairwise(ends))
    return (axis, intervals) if len(intervals) <= MOST_PARTS else None


def part_between(value: Value, axis: int, interval: Interval, reader: Op) -> Value:
    """The part of a value along a dim, where the value is made, or for who reads an argument."""
    made, ty, (start, stop) = value.defining_op, tensor_type(value), interval
    own = TensorType((*ty.dims[:axis], Dim.const(stop - start), *ty.dims[axis + 1 :]), ty.dtype, ty.policy)
    if made is None:
        builder = Builder.before(reader)
    else:
        assert made.parent is not None
        builder = Builder.before(made.parent.ops[made.parent.ops.index(made) + 1])
    if made is not None and isinstance(made.attrs.get("view"), Permute):
        part = part_between(made.operands[0], _axis_below(made, axis), interval, reader)
        return builder.value("form.view", (part,), own, made.attrs)
    starts = tuple(Dim.const(start) if d == axis else ZERO for d in range(ty.rank))
    return builder.value("form.view", (value,), own, {"view": Slice(starts, (1,) * ty.rank)})


def _axis_below(view: Op, axis: int) -> int:
    """The dim of what is permuted that is a dim of the result."""
    places = through_view(view, tuple(range(tensor_type(view.result).rank)))
    assert places is not None
    return places.index(axis)


def part_of_part(view: Op) -> Value | None:
    """A part of a part, as one of the whole; None for any other view."""
    made, cut = view.operands[0].defining_op, view.attrs["view"]
    below = made.attrs.get("view") if made is not None else None
    if made is None or not isinstance(cut, Slice) or not isinstance(below, Slice):
        return None
    along = zip(cut.starts, cut.steps, below.starts, below.steps, strict=True)
    starts, steps = zip(*((first + start * step, own * step) for start, own, first, step in along), strict=True)
    attrs = {"view": Slice(starts, steps)}
    found = Builder.before(made).value("form.view", made.operands, view.result.type, attrs)
    view.result.replace_all_uses(found)
    return found


def part_of_assembly(view: Op) -> Value | None:
    """A part of what is put together that lies in one of its parts, as a part of that; None for any other view."""
    made, cut = view.operands[0].defining_op, view.attrs["view"]
    if made is None or made.name != "form.assemble" or not isinstance(cut, Slice) or set(cut.steps) != {1}:
        return None
    for part, box in reversed(list(zip(made.operands, assembled_boxes(made), strict=True))):
        starts = _starts_in(part, box, view)
        if starts is None:
            return None
        if len(starts) == len(cut.starts):
            inside = Slice(tuple(starts), cut.steps)
            found = Builder.before(made).value("form.view", (part,), view.result.type, {"view": inside})
            view.result.replace_all_uses(found)
            return found
    return None


def _starts_in(part: Value, box: Slice, view: Op) -> list[Dim] | None:
    """Where a view begins in a part that has all of it; fewer places where the part has nothing of it, and None where
    it has some, or nobody knows."""
    cut, sizes, whole = view.attrs["view"], tensor_type(view.result).dims, tensor_type(view.operands[0]).dims
    assert isinstance(cut, Slice)
    starts = list[Dim]()
    for axis, own in enumerate(tensor_type(part).dims):
        if (own, box.starts[axis], box.steps[axis]) == (whole[axis], ZERO, 1):
            starts.append(cut.starts[axis])
            continue
        first, size, begin, length = (d.constant for d in (box.starts[axis], own, cut.starts[axis], sizes[axis]))
        if first is None or size is None or begin is None or length is None or box.steps[axis] != 1:
            return None
        if first <= begin and begin + length <= first + size:
            starts.append(Dim.const(begin - first))
        elif begin < first + size and first < begin + length:
            return None
    return starts


class _Joints:
    """Where along dims elements begin to be of another part, by what was asked."""

    def __init__(self) -> None:
        self.found: dict[tuple[Value, int], set[int]] = {}

    def along(self, value: Value, axis: int) -> set[int]:
        if (value, axis) not in self.found:
            self.found[value, axis] = self._along(value, axis)
        return self.found[value, axis]

    def _along(self, value: Value, axis: int) -> set[int]:
        op = value.defining_op
        if op is None:
            return set()
        if op.name == "form.map":
            read = zip(op.operands, operand_maps(op), strict=True)
            return {at for v, places in read if axis in places for at in self.along(v, places.index(axis))}
        if op.name == "form.assemble":
            return self._of_parts(op, axis)
        cut = op.attrs.get("view")
        if isinstance(cut, Permute):
            return self.along(op.operands[0], _axis_below(op, axis))
        if not isinstance(cut, Slice) or cut.steps[axis] != 1:
            return set()
        start, size = cut.starts[axis].constant, tensor_type(value).dims[axis].constant
        if start is None or size is None:
            return set()
        return {at - start for at in self.along(op.operands[0], axis) if start < at < start + size}

    def _of_parts(self, assemble: Op, axis: int) -> set[int]:
        whole, found = tensor_type(assemble.result).dims[axis].constant, set[int]()
        for part, box in zip(assemble.operands, assembled_boxes(assemble), strict=True):
            start, size = box.starts[axis].constant, tensor_type(part).dims[axis].constant
            if start is not None and size is not None and box.steps[axis] == 1:
                found |= {start, start + size, *(start + at for at in self.along(part, axis))}
        return found - {0, whole}
