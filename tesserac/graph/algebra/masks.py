"""Masks over the places of a matrix: `arange(N)[:, None] == arange(N)[None, :]` and its like.

Enters: a tensor of bools. Leaves: which part of a matrix it keeps (`diag`, `tril`, `triu`, and these two without the
diagonal: `below`, `over`), where that can be read.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.graph.dialect import PREFIX, operator_of
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.create import Arange, Full
from tesserac.types.dims import ONE, ZERO, Dim


@dataclass(frozen=True)
class _Places:
    """The number of the row (axis 0) or of the column (axis 1), and something added to it."""

    axis: int
    offset: int


def mask_of(value: Value) -> str | None:
    op = value.defining_op
    if op is None or op.name not in _COMPARISONS or tensor_type(value).rank != 2:
        return None
    left, right = map(_places, op.operands)
    if left is None or right is None or left.axis == right.axis:
        return None
    offset = right.offset - left.offset
    if op.name == PREFIX + "equal":
        return "diag" if offset == 0 else None
    if op.name == PREFIX + "less":
        offset -= 1
    if left.axis == 0:
        return {0: "triu", -1: "over"}.get(offset)
    return {0: "tril", -1: "below"}.get(offset)


_COMPARISONS = {PREFIX + name for name in ("equal", "less", "less_equal")}


def _places(value: Value) -> _Places | None:
    op = value.defining_op
    if op is None:
        return None
    if op.name in (PREFIX + "add", PREFIX + "sub"):
        return _moved(op.operands[0], op.operands[1], 1 if op.name == PREFIX + "add" else -1)
    if op.name != PREFIX + "reshape" or not _counts(op.operands[0]):
        return None
    dims, size = tensor_type(value).dims, tensor_type(op.operands[0]).dims[0]
    if dims == (size, ONE):
        return _Places(0, 0)
    return _Places(1, 0) if dims == (ONE, size) else None


def _moved(value: Value, by: Value, sign: int) -> _Places | None:
    places, offset = _places(value), _number(by)
    if places is None or offset is None:
        return None
    return _Places(places.axis, places.offset + sign * offset)


def _number(value: Value) -> int | None:
    op = value.defining_op
    if op is None or op.name != PREFIX + Full.name or tensor_type(value).rank > 0:
        return None
    number = op.attrs["value"]
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _counts(value: Value) -> bool:
    """Whether a vector is 0, 1, 2, ..."""
    op = value.defining_op
    if op is None or op.name != PREFIX + Arange.name:
        return False
    operator = operator_of(op)
    assert isinstance(operator, Arange)
    start, stop = operator.start, operator.stop
    return operator.step == 1 and (stop is None or (isinstance(start, Dim) and start == ZERO))
