"""Reads sums and multiples of matrices, and products element by element that are linear algebra.

Enters: an operation, and a reader of what leads to it. Leaves: a term; None where it is none of linear algebra.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tesserac.graph.algebra.reading_folds import NOT_NARROW, same_element
from tesserac.graph.algebra.terms import HEADS, Term, make
from tesserac.graph.dialect import PREFIX
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.create import Full
from tesserac.types.dims import ONE, Dim

if TYPE_CHECKING:
    from tesserac.graph.algebra.reading import Reader


def is_structure(term: Term) -> bool:
    """Whether a term is a matrix of known structure, or such a one transposed or scaled."""
    if term.head == "t" and not term.args[0].head:
        return True
    if term.head in ("t", "conj", "neg"):
        return is_structure(term.args[0])
    if term.head == "scale":
        return is_structure(term.args[1])
    return bool(term.head) and HEADS[term.head].structured


def is_zero(value: Value) -> bool:
    """Whether a value is zero everywhere, as the program writes it."""
    op = value.defining_op
    if op is None:
        return False
    if op.name == PREFIX + "zeros":
        return True
    return op.name == PREFIX + Full.name and op.attrs["value"] == 0


def _sum_of_two(head: str) -> Callable[[Reader, Op, int], Term | None]:
    def read(reader: Reader, op: Op, depth: int) -> Term | None:
        left, right = op.operands
        dims = tensor_type(op.result).dims
        for zero, other in ((left, right), (right, left)) if head == "add" else ():
            if is_zero(zero) and tensor_type(other).dims == dims and is_structure(reader.term(other, depth)):
                return reader.term(other, depth)
        if any(tensor_type(value).dims != dims for value in op.operands) or len(dims) > 2:
            return None
        terms = [reader.term(value, depth) for value in op.operands]
        return make(head, *terms) if any(term.head for term in terms) else None

    return read


def _mul(reader: Reader, op: Op, depth: int) -> Term | None:
    """A multiple of a matrix, of its rows or columns, or of a vector between two products; a column times a row; what a
    diagonal leaves of a matrix. Other products of elements are no linear algebra."""
    if tensor_type(op.result).rank == 2:
        found = _outer(reader, op, depth) or _by_elements(reader, op, depth)
        if found is not None:
            return found
    for scalar, other in (op.operands, op.operands[::-1]):
        number = _number(scalar)
        if number is not None and tensor_type(other).rank in (1, 2):
            return _multiple(reader, op, reader.atom(number), other, depth)
    return _scaled_lines(reader, op, depth)


def _div(reader: Reader, op: Op, depth: int) -> Term | None:
    """A multiple by the inverse of a number; where few bits are stored, the inverse might have none of them."""
    other, divisor = op.operands
    number, ty = _number(divisor), tensor_type(other)
    if number is None or ty.rank not in (1, 2) or ty.dtype.bits < NOT_NARROW or not same_element(op, *op.operands):
        return None
    return _multiple(reader, op, make("inverse", reader.atom(number)), other, depth)


def _multiple(reader: Reader, op: Op, number: Term, other: Value, depth: int) -> Term | None:
    found = reader.term(other, depth)
    is_any = counts(op, found) if found.rank == 2 else is_structure(found) or _innermost(found).head == "mm"
    return make("scale", number, found) if is_any else None


def counts(op: Op, matrix: Term) -> bool:
    """Whether what is done to each element of a matrix is of any meaning: this has a known structure, or linear algebra
    makes it, or products are all that need the result."""
    return matrix.head not in ("", "t") or is_factor(op)


def is_factor(op: Op) -> bool:
    """Whether products are all that need a value."""
    return all(user.name == PREFIX + "matmul" for user, _ in op.result.uses)


def _scaled_lines(reader: Reader, op: Op, depth: int) -> Term | None:
    """A matrix whose rows or columns have a number each: `d[:, None] * a`, `a * d`; of the identity a diagonal."""
    dims = tensor_type(op.result).dims
    if len(dims) != 2 or not same_element(op, *op.operands):
        return None
    for line, matrix in (op.operands, op.operands[::-1]):
        row, column = vector_of(line, (ONE, dims[1])), vector_of(line, (dims[0], ONE))
        vector = column if row is None else row
        if tensor_type(matrix).dims != dims or vector is None:
            continue
        found = reader.term(matrix, depth)
        if found.head in ("eye", "diag"):
            d = reader.term(vector, depth)
            return make("diag", make("times", found.args[0], d) if found.args else d)
        if counts(op, found):
            d = reader.term(vector, depth)
            return make("rows", d, found) if row is None else make("columns", found, d)
    return None


def vector_of(value: Value, dims: tuple[Dim, ...]) -> Value | None:
    """The vector that a column or a row of a matrix is."""
    while value.defining_op is not None and value.defining_op.name == PREFIX + "expand":
        value = value.defining_op.operands[0]
    ty = tensor_type(value)
    if ty.rank == 1 and dims == (ONE, *ty.dims):
        return value
    op = value.defining_op
    is_turned = ty.dims == dims and op is not None and op.name == PREFIX + "reshape"
    return op.operands[0] if is_turned and op is not None and tensor_type(op.operands[0]).rank == 1 else None


def _outer(reader: Reader, op: Op, depth: int) -> Term | None:
    """`x[:, None] * y[None, :]`, in whichever order."""
    sides = [value.defining_op for value in op.operands]
    if not same_element(op, *op.operands) or any(side is None or side.name != PREFIX + "reshape" for side in sides):
        return None
    vectors = [side.operands[0] for side in sides if side is not None]
    if any(tensor_type(vector).rank != 1 for vector in vectors):
        return None
    first, second = vectors
    m, n = (tensor_type(vector).dims[0] for vector in vectors)
    dims = tuple(tensor_type(value).dims for value in op.operands)
    if dims == ((ONE, m), (n, ONE)):
        first, second = second, first
    elif dims != ((m, ONE), (ONE, n)):
        return None
    return make("outer", reader.term(first, depth), reader.term(second, depth))


def _by_elements(reader: Reader, op: Op, depth: int) -> Term | None:
    """Two matrices, element by element, where one is a diagonal or an outer product, or products or Kronecker products
    made one."""
    dims = tensor_type(op.result).dims
    if any(tensor_type(value).dims != dims for value in op.operands) or not any(map(_may_say_more, op.operands)):
        return None
    terms = [reader.term(value, depth) for value in op.operands]
    is_any = says_more if same_element(op, *op.operands) else _is_diagonal
    return make("times", *terms) if any(map(is_any, terms)) else None


def says_more(term: Term) -> bool:
    """Whether laws know what is left of a matrix of which each element is multiplied."""
    while term.head in ("t", "neg", "scale", "rows", "columns"):
        term = term.args[0 if term.head in ("t", "neg", "columns") else 1]
    return term.head in ("eye", "diag", "outer", "kron", "mm", "times")


def _is_diagonal(term: Term) -> bool:
    return term.head in ("eye", "diag")


def _may_say_more(value: Value) -> bool:
    """As far as is seen without reading what leads to it."""
    op = value.defining_op
    return op is not None and op.name in _SAY_MORE


_SAY_MORE = {
    PREFIX + name for name in ("eye", "where", "mul", "div", "neg", "einsum", "matmul", "power", "reshape", "permute")
}


def _number(value: Value) -> Value | None:
    """One number, or the one that a vector has everywhere."""
    op = value.defining_op
    while op is not None and tensor_type(value).rank == 1 and op.name in (PREFIX + "reshape", PREFIX + "expand"):
        value = op.operands[0]
        op = value.defining_op
    return value if tensor_type(value).rank == 0 else None


def _innermost(term: Term) -> Term:
    while term.head == "scale":
        term = term.args[1]
    return term


def _neg(reader: Reader, op: Op, depth: int) -> Term | None:
    found = reader.operand(op, 0, depth)
    return make("neg", found) if found.rank == 2 and counts(op, found) else None


ELEMENTS: dict[str, Callable[[Reader, Op, int], Term | None]] = {
    "add": _sum_of_two("add"),
    "sub": _sum_of_two("sub"),
    "mul": _mul,
    "div": _div,
    "neg": _neg,
}
