"""Reads rows that something else chooses: by number, by a mask, by ones.

Enters: an operation, and a reader of what leads to it. Leaves: a term; None where it is none of linear algebra.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tesserac.graph.algebra.masks import mask_of
from tesserac.graph.algebra.reading_elements import counts, is_factor, is_zero
from tesserac.graph.algebra.reading_folds import is_cut, same_element
from tesserac.graph.algebra.terms import Term, leaf, make, permutation
from tesserac.graph.dialect import PREFIX, operator_of
from tesserac.ir.core import Op
from tesserac.ir.forms import tensor_type
from tesserac.ops.index import Gather, Lookup, SliceAt
from tesserac.types.dims import ONE

if TYPE_CHECKING:
    from tesserac.graph.algebra.reading import Reader


def _gather(reader: Reader, op: Op, depth: int) -> Term | None:
    """Rows of the identity: a permutation, or any choice of rows; rows, or one row, of what products make."""
    operator = operator_of(op)
    assert isinstance(operator, Gather | Lookup)
    axes = (operator.axis,) if isinstance(operator, Gather) else operator.axes
    table, index = op.operands[:2]
    rank = tensor_type(index).rank
    if axes != (0,) or rank > 1:
        return None
    found = reader.term(table, depth)
    if rank == 0:
        is_row = found.rank == 2 and any(part.head == "mm" for part in found.distinct)
        return make("flat", make("take", found, leaf(index, (ONE,)))) if is_row else None
    if found.head == "eye":
        return permutation(reader.atom(index), found.shape[1])
    is_needed = found.rank in (1, 2) and any(part.head == "mm" for part in found.distinct)
    is_needed |= found.rank == 2 and is_factor(op)
    return make("take", found, reader.atom(index)) if is_needed else None


def _slice(reader: Reader, op: Op, depth: int) -> Term | None:
    """Rows or columns from a start on that only a run knows: which, the operation itself says."""
    operator = operator_of(op)
    assert isinstance(operator, SliceAt)
    found, axis = reader.operand(op, 0, depth), operator.axis
    if not is_cut(found):
        return None
    part = leaf(op.result, tensor_type(op.result).dims[axis : axis + 1])
    return make(("cut_rows", "cut_columns")[axis], found, part)


def _one_hot(reader: Reader, op: Op, depth: int) -> Term:
    """A matrix with one 1 in each row, or none; of one number, a row of it, or a column to the right of products."""
    dims, index = tensor_type(op.result).dims, op.operands[0]
    if len(dims) == 1:
        row = Term("hot", (leaf(index, (ONE,)),), (ONE, *dims))
        on_right = all((user.name, place) == (PREFIX + "matmul", 1) for user, place in op.result.uses)
        return make("flat", make("t", row) if on_right else row)
    return Term("hot", (reader.atom(index),), dims)


def _where(reader: Reader, op: Op, depth: int) -> Term | None:
    """What a mask over places keeps: `where(i == j, d, 0)` is a diagonal, `where(j <= i, a, 0)` a triangle; and rows or
    columns that a mask of these keeps."""
    kept, other = op.operands[1:]
    ty, result = tensor_type(kept), tensor_type(op.result)
    if result.rank != 2 or not same_element(op, kept, other) or not is_zero(other):
        return None
    mask = mask_of(op.operands[0])
    if mask == "diag" and ty.dims == (result.dims[1],) and result.dims[0] == result.dims[1]:
        return make("diag", reader.term(kept, depth))
    if ty.dims != result.dims:
        return None
    if mask is None:
        return _kept_lines(reader, op, depth)
    if mask == "diag":
        return make("diag", make("diagonal", reader.term(kept, depth))) if result.dims[0] == result.dims[1] else None
    return make(mask, reader.term(kept, depth))


def _kept_lines(reader: Reader, op: Op, depth: int) -> Term | None:
    dims, mask = tensor_type(op.result).dims, op.operands[0]
    own = tensor_type(mask).dims
    if own not in ((dims[1],), (ONE, dims[1]), (dims[0], ONE)):
        return None
    found = reader.operand(op, 1, depth)
    if not counts(op, found):
        return None
    lines = reader.atom(mask) if len(own) == 1 else make("flat", reader.atom(mask))
    if own == (dims[0], ONE):
        return make("kept", lines, found)
    return make("t", make("kept", lines, make("t", found)))


ROWS: dict[str, Callable[[Reader, Op, int], Term | None]] = {
    "gather": _gather,
    "lookup": _gather,
    "slice": _slice,
    "one_hot": _one_hot,
    "where": _where,
}
