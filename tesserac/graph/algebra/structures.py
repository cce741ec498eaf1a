"""The structure of a matrix that a call is given, as the forms of library functions take it.

Enters: a call with forms (`solve(a, b)`). Leaves: the name of the structure of its matrix and the parts of that.
"""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.base.dataclass import dataclass
from tesserac.check.model.library_annotations import (
    DIAGONAL,
    FACTORS,
    GRAM,
    KRONECKER,
    LOWER,
    ORTHONORMAL,
    OUTER,
    POSITIVE,
    PRODUCT,
    RANK_ONE,
    UPDATE,
    UPPER,
)
from tesserac.check.transforms.form_rules import RANK, ROWS_OF_FIRST, ROWS_OF_SECOND
from tesserac.graph.algebra.costs import Facts, counted, counted_all
from tesserac.graph.algebra.engine import Engine
from tesserac.graph.algebra.known import best_known, flags_of, held_flags, is_adjoint
from tesserac.graph.algebra.reading import Reader
from tesserac.graph.algebra.terms import Term, leaf, make, ones
from tesserac.graph.dialect import CALL
from tesserac.ir.core import Op
from tesserac.ir.forms import tensor_type
from tesserac.ops.held import PSD, UNITARY
from tesserac.types.dims import ONE, ZERO, Dim


@dataclass(frozen=True)
class Structure:
    """`sizes` are those of the parts, by the names that forms have for them; `cost` is that of its form and `whole`
    that of the matrix as any other, where the form is not always the cheaper one."""

    name: str
    parts: tuple[Term, ...]
    sizes: tuple[tuple[str, Dim], ...] = ()
    cost: Dim = ZERO
    whole: Dim = ONE


def structures_of(call: Op, facts: Facts) -> Iterator[Structure]:
    """Of the first operand of a call: what it is made of, then what is known of it as a whole."""
    matrix = call.operands[0]
    term = Engine(facts).normal(Reader(call, shared=True).term(matrix, 0))
    yield from _made_of(call, term)
    flags = flags_of(term) | held_flags(best_known(matrix, call))
    whole = (leaf(matrix, tensor_type(matrix).dims),)
    if UNITARY in flags:
        yield Structure(ORTHONORMAL, whole)
    if PSD in flags:
        yield Structure(POSITIVE, whole)


def _made_of(call: Op, term: Term) -> Iterator[Structure]:
    match term:
        case Term(head="eye"):
            yield Structure(DIAGONAL, (ones(term.shape[0]),))
        case Term(head="diag"):
            yield Structure(DIAGONAL, term.args)
        case Term(head="tril"):
            yield Structure(LOWER, term.args)
        case Term(head="triu"):
            yield Structure(UPPER, term.args)
        case Term(head="outer"):
            yield Structure(OUTER, term.args)
        case Term(head="kron"):
            yield from _kronecker(*term.args)
        case Term(head="add" | "sub"):
            yield from _update(call, term)
        case Term(head="mm"):
            yield from _factors(call, *term.args)
            yield from _product(call, *term.args)


def _kronecker(a: Term, b: Term) -> Iterator[Structure]:
    if a.shape[0] == a.shape[1] and b.shape[0] == b.shape[1]:
        yield Structure(KRONECKER, (a, b), ((ROWS_OF_FIRST, a.shape[0]), (ROWS_OF_SECOND, b.shape[0])))


def _factors(call: Op, a: Term, b: Term) -> Iterator[Structure]:
    """Of a product of any two matrices that nobody else needs: what is left of it may be that of smaller products."""
    if _is_needed(call) or a.rank != 2 or b.rank != 2:
        return
    size, rank = counted(a.shape[0]), counted(a.shape[1])
    sizes, small, whole = ((RANK, a.shape[1]),), size * rank * rank, size * size * rank + size * size
    if is_adjoint(a, b):
        yield Structure(GRAM, (a,), sizes, small + rank * rank, whole)
    yield Structure(FACTORS, (a, b), sizes, 2 * small + rank * rank, whole)


def _product(call: Op, a: Term, b: Term) -> Iterator[Structure]:
    """Of square matrices: two systems have half of the operations of a product and one, and lose fewer digits. Where
    others need the product, too, it is there."""
    if _is_needed(call) or any(part.rank != 2 or part.shape[0] != part.shape[1] for part in (a, b)):
        return
    size, columns = counted(a.shape[0]), _columns_of(call)
    one = size * size * size
    yield Structure(PRODUCT, (a, b), (), 2 * one + 2 * size * size * columns, 4 * one + size * size * columns)


def _is_needed(call: Op) -> bool:
    return any(user.name != CALL for user, _ in call.operands[0].uses)


def _columns_of(call: Op) -> Dim:
    """How many systems a call solves; an inverse has one for each row."""
    gives_inverse = len(call.operands) == 1 and len(call.results) == 1 and tensor_type(call.result).rank == 2
    columns = counted(tensor_type(call.operands[0]).dims[0]) if gives_inverse else ONE
    for value in call.operands[1:]:
        columns = counted_all(tensor_type(value).dims[1:])
    return columns


def _update(call: Op, term: Term) -> Iterator[Structure]:
    """A diagonal matrix and a product of two others, or of a column and a row, added or subtracted."""
    first, second = term.args
    if term.head == "add" and first.head in ("mm", "outer"):
        first, second = second, first
    if first.head not in ("diag", "eye") or second.head not in ("mm", "outer"):
        return
    diagonal = first.args[0] if first.head == "diag" else ones(first.shape[0])
    u, v = second.args
    u = make("neg", u) if term.head == "sub" else u
    if second.head == "outer":
        yield Structure(RANK_ONE, (diagonal, u, v), (), *_update_costs(call, counted(u.shape[0]), ONE))
        u, v = make("column", u), make("row", v)
    if u.rank == 2 and v.rank == 2:
        size, rank = counted(u.shape[0]), counted(u.shape[1])
        yield Structure(UPDATE, (diagonal, u, v), ((RANK, u.shape[1]),), *_update_costs(call, size, rank))


def _update_costs(call: Op, size: Dim, rank: Dim) -> tuple[Dim, Dim]:
    """Of a system of the rank of the update, the residual of whose solution is looked at, and of one of the size of the
    matrix."""
    columns = _columns_of(call)
    whole = size * size * size + size * size * columns
    return size * rank * rank + rank * rank * rank + 4 * size * rank * columns, whole
