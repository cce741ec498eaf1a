"""Reads what is left of a matrix: sums and means, its diagonal, some of its rows; and transforms that others undo.

Enters: an operation, and a reader of what leads to it. Leaves: a term; None where it is none of linear algebra.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tesserac.graph.algebra.terms import Term, leaf, make
from tesserac.graph.dialect import PREFIX, operator_of
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.join import Concat, Roll
from tesserac.ops.rearrange import Flip
from tesserac.ops.reduce import Mean, Sum
from tesserac.ops.shape import Slice
from tesserac.types.dims import ZERO

if TYPE_CHECKING:
    from tesserac.graph.algebra.reading import Reader

NOT_NARROW = 32
"""Bits of a type in which sums are held as they are: of others a sum of a sum would be rounded twice."""
_SUMS = {(0, 1): "sum_all", (1,): "row_sums", (0,): "column_sums"}
_MEANS = {(0, 1): "mean_all", (1,): "row_means", (0,): "column_means"}


def same_element(op: Op, *values: Value) -> bool:
    result = tensor_type(op.result)
    return all((ty.dtype, ty.policy) == (result.dtype, result.policy) for ty in map(tensor_type, values))


def _diagonal(reader: Reader, op: Op, depth: int) -> Term | None:
    found = reader.operand(op, 0, depth)
    return make("diagonal", found) if found.rank == 2 else None


def _sum(reader: Reader, op: Op, depth: int) -> Term | None:
    """A trace, or the sum of the elements of a matrix, of its rows or its columns."""
    inner = op.operands[0].defining_op
    if inner is not None and inner.name == PREFIX + "diagonal" and same_element(op, op.operands[0]):
        found = reader.operand(op, 0, depth)
        return make("trace", found.args[0]) if found.head == "diagonal" and not op.attrs["keep"] else None
    return _fold(reader, op, depth)


def _fold(reader: Reader, op: Op, depth: int) -> Term | None:
    """Of a matrix that linear algebra made."""
    operator = operator_of(op)
    assert isinstance(operator, Sum | Mean)
    axes, value = operator.axes, _unfolded(op.operands[0])
    ty = tensor_type(value)
    axes = (0, 1) if value is not op.operands[0] else axes
    if ty.rank != 2 or ty.dtype.bits < NOT_NARROW or not same_element(op, value) or (operator.keep and len(axes) > 1):
        return None
    found = reader.term(value, depth)
    heads = _SUMS if isinstance(operator, Sum) else _MEANS
    folded = make(heads[axes], found) if found.head else None
    if folded is None or not operator.keep:
        return folded
    return make("row" if axes == (0,) else "column", folded)


def _unfolded(value: Value) -> Value:
    """The matrix whose elements stand in a row."""
    op = value.defining_op
    if op is None or op.name != PREFIX + "reshape" or tensor_type(value).rank != 1 or len(value.uses) != 1:
        return value
    return op.operands[0] if tensor_type(op.operands[0]).rank == 2 else value


def _cut(reader: Reader, op: Op, depth: int) -> Term | None:
    """All of anything. Of what products make rows or columns, or both: which, the operation itself says, and stands in
    the term as a leaf."""
    operator = operator_of(op)
    assert isinstance(operator, Slice)
    found, dims = reader.operand(op, 0, depth), tensor_type(op.result).dims
    if op.result.type == op.operands[0].type and set(operator.steps) <= {1}:
        return found  # all of it: what `trace` takes of a square matrix
    if not is_cut(found):
        return None
    for axis, head in enumerate(("cut_rows", "cut_columns")[: found.rank]):
        if (operator.starts[axis], operator.steps[axis], dims[axis]) != (ZERO, 1, found.shape[axis]):
            part = leaf(op.result, dims[axis : axis + 1])
            found = make(head, found, make("by_columns", part) if axis else part)
    return found


def is_cut(found: Term) -> bool:
    """Whether it matters what is taken of something: it is computed."""
    return found.rank in (1, 2) and any(part.head in ("mm", "made", "eye") for part in found.distinct)


def _flip(reader: Reader, op: Op, depth: int) -> Term | None:
    """Rows or columns in another order, as the operation itself says it."""
    operator, dims = operator_of(op), tensor_type(op.result).dims
    assert isinstance(operator, Flip | Roll)
    found = reader.operand(op, 0, depth)
    if not is_cut(found):
        return None
    for axis in operator.axes if isinstance(operator, Flip) else (operator.axis,):
        found = make(("cut_rows", "cut_columns")[axis], found, leaf(op.result, dims[axis : axis + 1]))
    return found


def _cumsum(reader: Reader, op: Op, depth: int) -> Term | None:
    """Running sums of what products make."""
    found, axis = reader.operand(op, 0, depth), op.attrs["axis"]
    if found.rank not in (1, 2) or tensor_type(op.result).dtype.bits < NOT_NARROW or not is_cut(found):
        return None
    if found.rank == 1 or axis == 0:
        return make("running", found)
    return make("t", make("running", make("t", found)))


def _concat(reader: Reader, op: Op, depth: int) -> Term | None:
    """What stands one above the other, or side by side, where products made some of it, and vectors beside such."""
    operator = operator_of(op)
    assert isinstance(operator, Concat)
    if tensor_type(op.result).rank not in (1, 2) or not same_element(op, *op.operands):
        return None
    *first, found = [reader.term(value, depth) for value in op.operands]
    is_made = any(part.head == "mm" for term in (*first, found) for part in term.distinct)
    is_beside = found.rank == 1 and all(user.name == PREFIX + "matmul" for user, _ in op.result.uses)
    if not is_made and not is_beside:
        return None
    for term in reversed(first):
        found = make(("above", "beside")[operator.axis], term, found)
    return found


def _stop_gradient(reader: Reader, op: Op, depth: int) -> Term | None:
    """What is made of values through which no gradient flows."""
    found = reader.operand(op, 0, depth)
    return _stopped(found) if found.head and not any(part.head == "made" for part in found.distinct) else None


def _stopped(term: Term) -> Term:
    if term.leaf is not None:
        return make("stop", term)
    kept = ("cut_rows", "cut_columns", "take", "perm", "filled")
    """Their last argument says which rows, or which number."""
    args = term.args[:-1] if term.head in kept else term.args
    return Term(term.head, (*map(_stopped, args), *term.args[len(args) :]), term.shape)


# ------------------------------------------------------------------------------------------------------ transforms


def _transform(head: str) -> Callable[[Reader, Op, int], Term | None]:
    def read(reader: Reader, op: Op, depth: int) -> Term | None:
        found = reader.operand(op, 0, depth)
        return make(head, found if same_element(op, op.operands[0]) else make("cast", found))

    return read


def _irfft(reader: Reader, op: Op, depth: int) -> Term | None:
    """The inverse of a transform of real numbers, of that alone: what is between them is complex."""
    inner = _unpadded(op.operands[0]).defining_op
    if inner is None or inner.name != PREFIX + "rfft" or inner.operands[0].type != op.result.type:
        return None
    return Term("irfft", (make("rfft", reader.operand(inner, 0, depth)),), tensor_type(op.result).dims)


def _unpadded(value: Value) -> Value:
    """What a value is behind padding by nothing."""
    while (op := value.defining_op) is not None and op.name == PREFIX + "pad":
        if (op.attrs["before"], op.attrs["after"]) != (ZERO, ZERO):
            break
        value = op.operands[0]
    return value


FOLDS: dict[str, Callable[[Reader, Op, int], Term | None]] = {
    "diagonal": _diagonal,
    "sum": _sum,
    "mean": _fold,
    "cut": _cut,
    "flip": _flip,
    "roll": _flip,
    "cumsum": _cumsum,
    "concat": _concat,
    "stop_gradient": _stop_gradient,
    "fft": _transform("fft"),
    "ifft": _transform("ifft"),
    "irfft": _irfft,
}
