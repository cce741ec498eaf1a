"""What the structure of an operator says of its rank: a product of thin matrices has no inverse, whatever is in them.

Enters: a tree. Leaves: sizes that its rank does not exceed; a refusal where one is less than the operator's size.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from tesserac.check.algebra.base import Kind, Use
from tesserac.check.algebra.combined import Compose, Conjugate, Scaled, Sum, Zero
from tesserac.check.algebra.kinds import LowRank, Projector, Singular, Spectral, dims_at
from tesserac.check.algebra.operands import refuse
from tesserac.check.algebra.pool import Pool
from tesserac.check.algebra.products import DirectSum, Kronecker
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text
from tesserac.check.state.arguments import Callee
from tesserac.types.dims import ZERO, Dim
from tesserac.types.ty import FloatType


def limits(pool: Pool, tree: Kind) -> tuple[Dim, ...]:
    """Sizes that the rank does not exceed: those of the operator, and those of the parts that it goes through."""
    own = [size for size in tree.shape(pool.types) if size is not None]
    return tuple(dict.fromkeys([*own, *_inner(pool, tree)]))


def _inner(pool: Pool, tree: Kind) -> Iterable[Dim]:
    match tree:
        case Zero():
            return (ZERO,)
        case LowRank(left=basis) | Projector(basis=basis) | Spectral(vectors=basis) | Singular(left=basis):
            return dims_at(pool.types, basis)[1:]
        case Scaled(of=of) | Conjugate(of=of):
            return _inner(pool, of)
        case Compose(factors=factors):
            return [size for factor in factors for size in limits(pool, factor)]
        case Kronecker(left=left, right=right):
            return [a * b for a, b in product(limits(pool, left), limits(pool, right))]
        case DirectSum(first=first, second=second):
            return [a + b for a, b in product(limits(pool, first), limits(pool, second))]
        case Sum(terms=terms):
            least = [next(iter(_inner(pool, term)), None) for term in terms]
            known = [size for size in least if size is not None]
            return [sum(known, ZERO)] if len(known) == len(terms) else ()
    return ()


def _size(pool: Pool, tree: Kind) -> Dim:
    size = tree.shape(pool.types)[0]
    assert size is not None, "a size was asked for before"
    return size


def shortfall(pool: Pool, tree: Kind) -> Dim | None:
    """A size less than that of a square operator which its rank does not exceed: it has no inverse."""
    size = _size(pool, tree)
    return next((limit for limit in limits(pool, tree) if pool.body.facts.at_least(limit, size) is False), None)


def _open_limits(pool: Pool, tree: Kind) -> list[Dim]:
    """Those of which only a call tells whether they are less than the operator's size."""
    size = _size(pool, tree)
    return [limit for limit in limits(pool, tree) if pool.body.facts.at_least(limit, size) is None]


def require_inverse(pool: Pool, tree: Kind, value: typed.Expr, callee: Callee) -> bool:
    rank = shortfall(pool, tree) if tree.shape(pool.types)[0] is not None else None
    if rank is None:
        return True
    size = dim_text(_size(pool, tree))
    problem = f"an operator of {size} entries whose rank is at most {dim_text(rank)} has no inverse"
    refuse(pool.body, callee, value.span, problem, "`pseudoinverse(A) @ b` is the solution of least squares")
    return False


def looked_at(use: Use, tree: Kind, y: typed.Expr) -> typed.Expr:
    """The right side of a system, once the sizes of the call are known to leave a solution."""
    for rank in _open_limits(use.pool, tree):
        y = use.call("measures._of_full_rank", y, use.size(rank))
    return y


def unless_singular(use: Use, tree: Kind, number: typed.Expr, singular: float) -> typed.Expr:
    """A number of an operator; `singular` where the sizes of a call leave no inverse."""
    otherwise, size = typed.Static(FloatType(singular), use.span), use.size(_size(use.pool, tree))
    for rank in _open_limits(use.pool, tree):
        number = use.call("measures._unless_singular", number, use.size(rank), size, otherwise)
    return number
