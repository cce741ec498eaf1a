"""Sums of cotangents: what touches a part of a tensor is added there, in place of a sum with zeros everywhere else.

Enters: what a value's cotangent is so far, and one more. Leaves: their sum. So a loop that reads `x[i]` in turn i adds
a row to the cotangent of x in each of its turns, whatever the size of x. Cotangents of parts that never meet are put
side by side, without zeros to add them to: those of `a, b = split(x, 2)` are one `concat`.
"""

from __future__ import annotations

from tesserac.graph.dialect import operator_of
from tesserac.ir.boxes import Box, never_meet, side_by_side
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import Slice, tensor_type
from tesserac.ops.calculus import Writer
from tesserac.ops.update import Insert
from tesserac.types.dims import Dim


def total(write: Writer, known: Value, more: Value) -> Value:
    made = more.defining_op
    if made is None or not made.operands or not is_zero(made.operands[0]):
        return write("add", known, more)
    if made.name == "graph.insert":
        others = _inserted(known)
        meets = others is None or not all(never_meet(_box(made), _box(op), _dims(made)) for op in others)
        return _added_in_box(write, known, made) if meets else _beside(write, known, [*(others or ()), made])
    if made.name == "graph.scatter_add" or (made.name == "graph.add_at" and made.attrs["kind"] == "sum"):
        return write.apply(operator_of(made), (known, *made.operands[1:]))
    return write("add", known, more)


def _added_in_box(write: Writer, known: Value, made: Op) -> Value:
    operator, part = operator_of(made), made.operands[1]
    assert isinstance(operator, Insert)
    sizes = tensor_type(part).dims
    there = write("cut", known, starts=operator.starts, sizes=sizes, steps=operator.steps)
    return write.apply(operator, (known, write("add", there, part)))


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
