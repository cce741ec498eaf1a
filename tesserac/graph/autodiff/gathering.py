"""Sums of cotangents: what touches a part of a tensor is added there, in place of a sum with zeros everywhere else.

Enters: what a value's cotangent is so far, and one more. Leaves: their sum. So a loop that reads `x[i]` in turn i adds
a row to the cotangent of x in each of its turns, whatever the size of x.
"""

from __future__ import annotations

from tesserac.graph.dialect import operator_of
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import Writer
from tesserac.ops.update import Insert


def total(write: Writer, known: Value, more: Value) -> Value:
    made = more.defining_op
    if made is None or not made.operands or not is_zero(made.operands[0]):
        return write("add", known, more)
    if made.name == "graph.insert":
        return _added_in_box(write, known, made)
    if made.name == "graph.scatter_add" or (made.name == "graph.add_at" and made.attrs["kind"] == "sum"):
        return write.apply(operator_of(made), (known, *made.operands[1:]))
    return write("add", known, more)


def _added_in_box(write: Writer, known: Value, made: Op) -> Value:
    operator, part = operator_of(made), made.operands[1]
    assert isinstance(operator, Insert)
    sizes = tensor_type(part).dims
    there = write("cut", known, starts=operator.starts, sizes=sizes, steps=operator.steps)
    return write.apply(operator, (known, write("add", there, part)))


def is_zero(value: Value) -> bool:
    """Whether a value was put in for a tangent that is zero everywhere."""
    op = value.defining_op
    return op is not None and op.name == "graph.full" and op.attrs["value"] == 0
