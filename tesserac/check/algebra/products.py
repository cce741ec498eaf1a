"""Operators on vectors that are cut into parts: Kronecker products and direct sums."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tesserac.base.dataclass import dataclass
from tesserac.base.source import NO_SPAN
from tesserac.check.algebra.base import Kind, Use
from tesserac.check.algebra.combined import Eye, Zero, composed, inverse, scaled, zero_like
from tesserac.check.algebra.pool import Pool
from tesserac.check.model import typed
from tesserac.types.algebra import Leaf, Shape
from tesserac.types.dims import ZERO, Dim
from tesserac.types.ty import Type


def known(size: Dim | None) -> Dim:
    """A size that the rules have asked for before they made the operator."""
    assert size is not None, "a part of a product has a size"
    return size


@dataclass(frozen=True)
class Kronecker(Kind):
    """`left` on the rows and `right` on the columns of a vector taken as a matrix, row by row."""

    left: Kind
    right: Kind

    def shape(self, types: Sequence[Type]) -> Shape:
        (n, m), (p, q) = self.left.shape(types), self.right.shape(types)
        return known(n) * known(p), known(m) * known(q)

    def adjoint(self, pool: Pool) -> Kind:
        return kronecker(pool, self.left.adjoint(pool), self.right.adjoint(pool))

    def is_unitary(self, pool: Pool) -> bool:
        return self.left.is_unitary(pool) and self.right.is_unitary(pool)

    def before(self, pool: Pool, right: Kind) -> Kind | None:
        if not isinstance(right, Kronecker) or not fits(pool, self.left, right.left):
            return None
        return kronecker(pool, composed(pool, [self.left, right.left]), composed(pool, [self.right, right.right]))

    def inverted(self, pool: Pool) -> Kind | None:
        if not all(is_square(pool, part) for part in (self.left, self.right)):
            return None
        return kronecker(pool, inverse(pool, self.left), inverse(pool, self.right))

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        """On a matrix of N rows and P columns, and on its transpose; columns of x go along as they are."""
        n = known(self.left.shape(use.pool.types)[0])
        y = use.applied(self.left, use.call("_as_matrix", x, use.size(n)))
        z = use.applied(self.right, use.call("_exchanged", y, x))
        return use.call("_as_vector", z, x)

    def matrix_of(self, use: Use) -> typed.Expr:
        return use.call("measures._kron", self.left.matrix_of(use), self.right.matrix_of(use))


@dataclass(frozen=True)
class DirectSum(Kind):
    """`first` on the first entries of a vector and `second` on the others."""

    first: Kind
    second: Kind

    def shape(self, types: Sequence[Type]) -> Shape:
        (n, m), (p, q) = self.first.shape(types), self.second.shape(types)
        return known(n) + known(p), known(m) + known(q)

    def adjoint(self, pool: Pool) -> Kind:
        return direct_sum(pool, self.first.adjoint(pool), self.second.adjoint(pool))

    def is_unitary(self, pool: Pool) -> bool:
        return self.first.is_unitary(pool) and self.second.is_unitary(pool)

    def before(self, pool: Pool, right: Kind) -> Kind | None:
        if not isinstance(right, DirectSum) or not fits(pool, self.first, right.first):
            return None
        return direct_sum(pool, composed(pool, [self.first, right.first]), composed(pool, [self.second, right.second]))

    def inverted(self, pool: Pool) -> Kind | None:
        if not all(is_square(pool, part) for part in (self.first, self.second)):
            return None
        return direct_sum(pool, inverse(pool, self.first), inverse(pool, self.second))

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        count = use.size(known(self.first.shape(use.pool.types)[0]))
        head, tail = use.call("_head", x, count), use.call("_tail", x, count)
        return use.call("_stacked", use.applied(self.first, head), use.applied(self.second, tail))


@dataclass(frozen=True)
class Grid(Kind):
    """Operators in rows and columns: those of a row give the same, those of a column take the same."""

    rows: tuple[tuple[Kind, ...], ...]

    def shape(self, types: Sequence[Type]) -> Shape:
        return _added([known(part.shape(types)[0]) for part in self.rows[0]]), _added(
            [known(row[0].shape(types)[1]) for row in self.rows]
        )

    def adjoint(self, pool: Pool) -> Kind:
        return Grid(tuple(tuple(part.adjoint(pool) for part in column) for column in zip(*self.rows, strict=True)))

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        parts: list[typed.Expr] = []
        start = ZERO
        for part in self.rows[0]:
            count = known(part.shape(use.pool.types)[0])
            parts.append(use.call("structured._part", x, use.size(start), use.size(count)))
            start = start + count
        rows = [[use.applied(part, own) for part, own in zip(row, parts, strict=True)] for row in self.rows]
        sums = [reduce(lambda y, z: use.call("_sum", y, z), row) for row in rows]
        return reduce(lambda y, z: use.call("_stacked", y, z), sums)


def _added(sizes: Sequence[Dim]) -> Dim:
    return reduce(lambda a, b: a + b, sizes)


def kronecker(pool: Pool, left: Kind, right: Kind) -> Kind:
    """The product of identities is one, and so is what a zero makes of it."""
    product = Kronecker(left, right)
    if isinstance(left, Eye) and isinstance(right, Eye):
        return Eye(_size(pool, product), left.dtype or right.dtype)
    return zero_like(pool, product) if isinstance(left, Zero) or isinstance(right, Zero) else product


def direct_sum(pool: Pool, first: Kind, second: Kind) -> Kind:
    whole = DirectSum(first, second)
    if isinstance(first, Eye) and isinstance(second, Eye):
        return Eye(_size(pool, whole), first.dtype or second.dtype)
    return scaled(pool, 0.0, (), whole) if isinstance(first, Zero) and isinstance(second, Zero) else whole


def _size(pool: Pool, tree: Kind) -> Leaf:
    return pool.size(known(tree.shape(pool.types)[0]), NO_SPAN)


def fits(pool: Pool, left: Kind, right: Kind) -> bool:
    """Whether `left` takes what `right` gives."""
    takes, gives = left.shape(pool.types)[0], right.shape(pool.types)[1]
    return takes is None or gives is None or pool.body.facts.same(takes, gives)


def is_square(pool: Pool, tree: Kind) -> bool:
    domain, codomain = tree.shape(pool.types)
    return domain is None or codomain is None or pool.body.facts.same(domain, codomain)
