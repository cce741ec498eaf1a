"""Sums of cotangents: what touches a part of a tensor is added there, in place of a sum with zeros everywhere else.

Enters: what a value's cotangent is so far, and one more. Leaves: their sum. So a loop that reads `x[i]` in iteration i
adds a row to the cotangent of x in each of its iterations, whatever the size of x. Cotangents of parts that never meet
are put side by side, without zeros to add them to: those of `a, b = split(x, 2)` are one `concat`. A part of a part, or
one seen through a view, is added there too: `x[i[t], 3]` in iteration t adds one element.
"""

from __future__ import annotations

from tesserac.graph.dialect import operator_of
from tesserac.ir.boxes import Box, never_meet, side_by_side
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import Slice, tensor_type
from tesserac.ops.calculus import Writer
from tesserac.ops.shape import Permute
from tesserac.ops.update import Insert, Scatter
from tesserac.types.dims import Dim


def total(write: Writer, known: Value, more: Value) -> Value:
    if is_zero(known) and tensor_type(known) == tensor_type(more):
        return more
    made = more.defining_op
    if made is None or not _is_of_parts(more):
        return write("add", known, more)
    match made.name:
        case "graph.insert":
            return _with_box(write, known, made)
        case "graph.scatter":
            return _with_places(write, known, made)
        case "graph.reshape" | "graph.permute":
            return _below_view(write, known, made)
    return write.apply(operator_of(made), (known, *made.operands[1:]))


def _is_of_parts(value: Value) -> bool:
    """Whether a value is zeros with something in some places, seen through views or not."""
    made = value.defining_op
    if made is None or not made.operands:
        return False
    if made.name in _VIEWS:
        return _is_of_parts(made.operands[0])
    adds = made.name == "graph.add_at" and made.attrs["kind"] == "sum"
    return (adds or made.name in _INTO_ZEROS) and is_zero(made.operands[0])


_VIEWS = ("graph.reshape", "graph.permute")
_INTO_ZEROS = ("graph.insert", "graph.scatter", "graph.scatter_add")


def _with_box(write: Writer, known: Value, made: Op) -> Value:
    others = _inserted(known)
    if others is not None and all(never_meet(_box(made), _box(op), _dims(made)) for op in others):
        return _beside(write, known, [*others, made])
    operator, part, before = operator_of(made), made.operands[1], known.defining_op
    assert isinstance(operator, Insert)
    if before is not None and before.name == "graph.insert" and _box(before) == _box(made):
        return write.apply(operator, (before.operands[0], total(write, before.operands[1], part)))
    there = write("cut", known, starts=operator.starts, sizes=tensor_type(part).dims, steps=operator.steps)
    return write.apply(operator, (known, total(write, there, part)))


def _with_places(write: Writer, known: Value, made: Op) -> Value:
    """Of elements with one place the last stays, and so does its sum."""
    operator, (_, part, *indices) = operator_of(made), made.operands
    assert isinstance(operator, Scatter)
    there = write("lookup", known, *indices, axes=operator.axes, at=operator.at)
    return write.apply(operator, (known, write("add", there, part), *indices))


def _below_view(write: Writer, known: Value, made: Op) -> Value:
    source, operator = made.operands[0], operator_of(made)
    if made.name == "graph.reshape":
        below = write.reshape(known, tensor_type(source).dims)
    else:
        assert isinstance(operator, Permute)
        below = write.permute(known, [operator.order.index(axis) for axis in range(len(operator.order))])
    return write.apply(operator, (total(write, below, source),))


def _inserted(value: Value) -> list[Op] | None:
    """The operations that put the parts of a value into zeros; None if something else has made it."""
    found: list[Op] = []
    while (made := value.defining_op) is not None and made.name == "graph.insert":
        found.append(made)
        value = made.operands[0]
    return found if found and is_zero(value) else None


def _beside(write: Writer, known: Value, inserted: list[Op]) -> Value:
    """The last part beside the others, which it never meets; all in a row where they leave no zeros between them."""
    last = inserted[-1]
    line = side_by_side([_box(op) for op in inserted], _dims(last))
    if line is None:
        return write.apply(operator_of(last), (known, last.operands[1]))
    axis, order = line
    return write("concat", *(inserted[number].operands[1] for number in order), axis=axis)


def _box(made: Op) -> Box:
    operator = operator_of(made)
    assert isinstance(operator, Insert)
    return Box(Slice(operator.starts, operator.steps), tensor_type(made.operands[1]).dims)


def _dims(made: Op) -> tuple[Dim, ...]:
    return tensor_type(made.result).dims


def is_zero(value: Value) -> bool:
    """Whether a value was put in for a tangent that is zero everywhere."""
    op = value.defining_op
    return op is not None and op.name == "graph.full" and op.attrs["value"] == 0
