"""Numbers that an operator has: trace, diagonal, determinant, norm, condition; each by its structure where that tells.

Enters: a tree and one use of it. Leaves: a tensor. What no structure tells is computed from the matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from tesserac.check.algebra.base import DENSE, Kind, Use
from tesserac.check.algebra.combined import Compose, Eye, Inverse, Scaled, Sum, Zero, composed, scaled
from tesserac.check.algebra.elements import element
from tesserac.check.algebra.flags import is_diagonal, is_lower, is_normal, is_real, is_self_adjoint, is_upper
from tesserac.check.algebra.kinds import (
    Adjoint,
    Conv1d,
    Dense,
    Diag,
    LowRank,
    Projector,
    Singular,
    Spectral,
)
from tesserac.check.algebra.pool import Pool
from tesserac.check.algebra.products import DirectSum, Kronecker, is_square, known
from tesserac.check.algebra.structured import Banded, Sparse, Triangular, TriangularAdjoint
from tesserac.check.model import typed
from tesserac.check.operators.apply import apply_operator
from tesserac.check.values.tuples import item_of
from tesserac.ops.create import Full
from tesserac.types.algebra import Leaf
from tesserac.types.dims import ONE, Dim
from tesserac.types.ty import BoolType, ErrorType, FloatType, TensorType

Measure = Callable[[Use, Kind], typed.Expr]


def number(use: Use, tree: Kind, value: float, *dims: Dim) -> typed.Expr:
    """A number of the operator's element, once or as a vector."""
    op = Full(dims, value=value, dtype=element(use.pool, tree))
    return apply_operator(use.pool.body, op, [], use.callee.at, use.span)


def _size(use: Use, tree: Kind) -> Dim:
    return known(tree.shape(use.pool.types)[0])


def _scaled(use: Use, tree: Scaled, y: typed.Expr) -> typed.Expr:
    return tree.times(use, y)


def _joined(use: Use, function: str, parts: list[typed.Expr]) -> typed.Expr:
    return reduce(lambda x, y: use.call(function, x, y), parts)


# ---------------------------------------------------------------------------------------------- diagonal and trace


def diagonal(use: Use, tree: Kind) -> typed.Expr:
    match tree:
        case Eye():
            return number(use, tree, 1.0, _size(use, tree))
        case Zero():
            return number(use, tree, 0.0, _size(use, tree))
        case Diag(entries=leaf):
            return use.value(leaf)
        case Adjoint(of=of) | TriangularAdjoint(of=of):
            return use.call("measures._conjugated", diagonal(use, of))
        case Scaled(of=of):
            return _scaled(use, tree, diagonal(use, of))
        case Sum(terms=terms):
            return _joined(use, "measures._add", [diagonal(use, term) for term in terms])
        case Kronecker(left=left, right=right) if is_square(use.pool, left):
            return use.call("measures._kron_vectors", diagonal(use, left), diagonal(use, right))
        case DirectSum(first=first, second=second) if is_square(use.pool, first):
            return use.call("measures._joined", diagonal(use, first), diagonal(use, second))
    return _diagonal_of_product(use, tree) if is_diagonal(use.pool, tree) else _diagonal_of_leaf(use, tree)


def _diagonal_of_product(use: Use, tree: Kind) -> typed.Expr:
    """Of a product or an inverse of diagonal operators."""
    if isinstance(tree, Inverse):
        return use.call("measures._over", number(use, tree, 1.0, _size(use, tree)), diagonal(use, tree.of))
    assert isinstance(tree, Compose)
    return _joined(use, "measures._multiply", [diagonal(use, factor) for factor in tree.factors])


def _diagonal_of_leaf(use: Use, tree: Kind) -> typed.Expr:
    match tree:
        case LowRank(left=left, right=right):
            return use.call("measures._low_rank_diagonal", use.value(left), use.value(right))
        case Projector(basis=basis):
            return use.call("measures._low_rank_diagonal", use.value(basis), use.value(basis))
        case Spectral(values=values, vectors=vectors):
            both = use.value(vectors)
            return use.call("measures._spectral_diagonal", use.value(values), both, both)
        case Singular(left=left, values=values, right=right):
            return use.call("measures._spectral_diagonal", *map(use.value, (values, left, right)))
        case Banded(bands=bands, upper=upper, is_adjoint=False):
            return use.call("structured._banded_diagonal", use.value(bands), use.value(upper))
        case Sparse(is_adjoint=False) as sparse:
            parts = map(use.value, (sparse.rows, sparse.columns, sparse.values, sparse.domain))
            return use.call("structured._sparse_diagonal", *parts)
        case Triangular(matrix=matrix):
            return use.call("measures._matrix_diagonal", use.value(matrix))
        case Conv1d(taps=taps):
            return use.call("structured._ring_diagonal", use.value(taps), use.size(_size(use, tree)))
        case Compose():
            return _diagonal_in_parts(use, tree)
    return use.call("measures._matrix_diagonal", use.dense(tree))


def _diagonal_in_parts(use: Use, tree: Compose) -> typed.Expr:
    """Of a product: a diagonal at an end, or a low rank anywhere, spares the matrix of the rest."""
    first, *middle, last = tree.factors
    for end, others in ((first, [*middle, last]), (last, [first, *middle])):
        if is_diagonal(use.pool, end):
            rest = diagonal(use, composed(use.pool, others))
            return use.call("measures._multiply", diagonal(use, end), rest)
    for place, factor in enumerate(tree.factors):
        if isinstance(factor, LowRank | Projector):
            return _diagonal_around(use, tree.factors[:place], factor, tree.factors[place + 1 :])
    return use.call("measures._matrix_diagonal", _product(use, tree))


def _diagonal_around(
    use: Use, before: tuple[Kind, ...], factor: LowRank | Projector, after: tuple[Kind, ...]
) -> typed.Expr:
    """Of X ∘ U ∘ V.H ∘ Y: that of (X @ U) @ (Y.H @ V).H."""
    left, right = (factor.left, factor.right) if isinstance(factor, LowRank) else (factor.basis, factor.basis)
    x, y = use.value(left), use.value(right)
    for one in reversed(before):
        x = one.apply(use, x)
    for one in after:
        y = one.adjoint(use.pool).apply(use, y)
    return use.call("measures._low_rank_diagonal", x, y)


def _product(use: Use, tree: Compose) -> typed.Expr:
    """The matrix of a product. Of stored ones it is written as such: laws of tensors take what is needed of it."""
    return tree.matrix_of(use) if _is_stored(tree) else use.dense(tree)


def _is_stored(tree: Compose) -> bool:
    return all(factor.representation() == DENSE for factor in tree.factors)


def trace(use: Use, tree: Kind) -> typed.Expr:
    match tree:
        case Scaled(of=of):
            return _scaled(use, tree, trace(use, of))
        case Sum(terms=terms):
            return _joined(use, "measures._add", [trace(use, term) for term in terms])
        case Kronecker(left=left, right=right) if is_square(use.pool, left):
            return use.call("measures._multiply", trace(use, left), trace(use, right))
        case DirectSum(first=first, second=second) if is_square(use.pool, first):
            return use.call("measures._add", trace(use, first), trace(use, second))
        case Compose() if _is_stored(tree):
            return use.call("measures._matrix_trace", tree.matrix_of(use))
    return use.call("measures._total", diagonal(use, tree))


# ---------------------------------------------------------------------------------------------------- determinants

Parts = tuple[typed.Expr, typed.Expr]


def slogdet(use: Use, tree: Kind) -> Parts:
    """The sign of the determinant, and the logarithm of its magnitude."""
    match tree:
        case Eye():
            return number(use, tree, 1.0), number(use, tree, 0.0)
        case Scaled(of=of):
            return _scaled_determinant(use, tree, of)
        case Inverse(of=of):
            sign, logarithm = slogdet(use, of)
            inverted = use.call("measures._times", logarithm, use.size(Dim.const(-1)))
            return use.call("measures._conjugated", sign), inverted
        case Compose(factors=factors) if all(is_square(use.pool, factor) for factor in factors):
            return reduce(lambda a, b: _both(use, a, b), [slogdet(use, factor) for factor in factors])
        case DirectSum(first=first, second=second) if is_square(use.pool, first):
            return _both(use, slogdet(use, first), slogdet(use, second))
        case Kronecker(left=left, right=right) if is_square(use.pool, left):
            m, p = _size(use, left), _size(use, right)
            return _both(use, _repeated(use, slogdet(use, left), p), _repeated(use, slogdet(use, right), m))
        case _ if is_diagonal(use.pool, tree) or is_lower(use.pool, tree) or is_upper(use.pool, tree):
            entries = diagonal(use, tree)
            return use.call("measures._signs", entries), use.call("measures._log_magnitudes", entries)
    return _determinant_of_leaf(use, tree)


def _determinant_of_leaf(use: Use, tree: Kind) -> Parts:
    ring, grid = as_ring(use, tree), as_grid(use, tree)
    if ring is not None:
        return _pair(use, use.call("structured._ring_slogdet", ring))
    if grid is not None:
        return _pair(use, use.call("grids._slogdet_grid", *grid))
    update = as_update(use, tree)
    if update is not None:
        return _pair(use, use.call("_slogdet_update", *update))
    match tree:
        case Adjoint(of=Dense() as of) if not _is_complex(use, of.matrix):
            return slogdet(use, of)
    return _pair(use, use.call("slogdet", use.dense(tree)))


def _pair(use: Use, both: typed.Expr) -> Parts:
    if isinstance(both.type, ErrorType):
        return both, both
    return item_of(both, 0, use.span), item_of(both, 1, use.span)


def _both(use: Use, one: Parts, two: Parts) -> Parts:
    return use.call("measures._multiply", one[0], two[0]), use.call("measures._add", one[1], two[1])


def _repeated(use: Use, one: Parts, count: Dim) -> Parts:
    size = use.size(count)
    return use.call("measures._raised", one[0], size), use.call("measures._times", one[1], size)


def _scaled_determinant(use: Use, tree: Scaled, of: Kind) -> Parts:
    factor = tree.times(use, number(use, tree, 1.0))
    both = use.call("measures._sign_of", factor), use.call("measures._log_of", factor)
    return _both(use, _repeated(use, both, _size(use, tree)), slogdet(use, of))


def as_update(use: Use, tree: Kind) -> tuple[typed.Expr, ...] | None:
    """A diagonal, U and V of an operator that is a diagonal one and `U @ V`; None where it is none."""
    if not isinstance(tree, Sum):
        return None
    low = [term for term in tree.terms if isinstance(_plain(term), LowRank | Projector)]
    rest = [term for term in tree.terms if term not in low]
    if len(low) != 1 or not rest or not all(is_diagonal(use.pool, term) for term in rest):
        return None
    core = _plain(low[0])
    left, right = (core.left, core.right) if isinstance(core, LowRank) else (_basis(core), _basis(core))
    if any(_is_complex(use, leaf) for leaf in (left, right)):
        return None
    u = use.value(left) if core is low[0] else _scaled_by(use, low[0], use.value(left))
    others = rest[0] if len(rest) == 1 else Sum(tuple(rest))
    return diagonal(use, others), u, use.call("measures._adjoint_matrix", use.value(right))


def as_ring(use: Use, tree: Kind) -> typed.Expr | None:
    """The first column of an operator that is a circular convolution, a sum of such ones and of multiples of the
    identity; None where it is none. Its transform are the eigenvalues."""
    return _ring_column(use, tree, tree) if isinstance(tree, Conv1d | Adjoint | Sum) and _is_ring(tree) else None


def _is_ring(tree: Kind) -> bool:
    match tree:
        case Conv1d() | Eye() | Adjoint(of=Conv1d()):
            return True
        case Scaled(of=of):
            return _is_ring(of)
    return isinstance(tree, Sum) and all(map(_is_ring, tree.terms))


def _ring_column(use: Use, tree: Kind, whole: Kind) -> typed.Expr:
    size = use.size(_size(use, whole))
    match tree:
        case Conv1d(taps=taps):
            return use.call("structured._ring_of", use.value(taps), size)
        case Adjoint(of=Conv1d(taps=taps)):
            return use.call("structured._turned_ring", use.value(taps), size)
        case Scaled(of=of):
            return tree.times(use, _ring_column(use, of, whole))
        case Sum(terms=terms):
            return _joined(use, "_sum", [_ring_column(use, term, whole) for term in terms])
    return use.call("structured._ring_of", number(use, whole, 1.0, ONE), size)


def as_grid(use: Use, tree: Kind) -> tuple[typed.Expr, ...] | None:
    """Matrices a and b, a number c, and whether both are added, of an operator that is kron(a, b) + c, or a Kronecker
    sum + c, with real self-adjoint a and b; None where it is none."""
    if not isinstance(tree, Sum) or not is_real(use.pool, tree):
        return None
    shifts = [term for term in tree.terms if isinstance(_plain(term), Eye)]
    rest = [term for term in tree.terms if term not in shifts]
    halves = kronecker_sum_of(use.pool, Sum(tuple(rest))) if len(rest) == 2 else None
    is_sum = halves is not None
    if halves is None and len(rest) == 1 and shifts:
        halves = _factors(use, rest[0])
    if halves is None or not all(is_self_adjoint(use.pool, part) for part in halves):
        return None
    one = number(use, tree, 1.0)
    numbers = [term.times(use, one) if isinstance(term, Scaled) else one for term in shifts]
    shift = _joined(use, "measures._add", numbers) if numbers else number(use, tree, 0.0)
    flag = typed.Static(BoolType(is_sum), use.span)
    return *(use.dense(part) for part in halves), shift, flag


def _factors(use: Use, tree: Kind) -> tuple[Kind, Kind] | None:
    """The factors of a Kronecker product; a number in front goes with the first."""
    product = _plain(tree)
    if not isinstance(product, Kronecker) or not is_square(use.pool, product.left):
        return None
    left = product.left
    if isinstance(tree, Scaled):
        left = scaled(use.pool, tree.coefficient, tree.factors, left)
    return left, product.right


def kronecker_sum_of(pool: Pool, tree: Kind) -> tuple[Kind, Kind] | None:
    """A and B of an operator that is A ⊗ I + I ⊗ B, also with numbers in front; None where it is none."""
    if not isinstance(tree, Sum) or len(tree.terms) != 2:
        return None
    found: dict[bool, Kind] = {}
    for term in tree.terms:
        number, product = (term, term.of) if isinstance(term, Scaled) else (None, term)
        if not isinstance(product, Kronecker) or isinstance(product.left, Eye) == isinstance(product.right, Eye):
            return None
        is_right = isinstance(product.left, Eye)
        part = product.right if is_right else product.left
        found[is_right] = part if number is None else scaled(pool, number.coefficient, number.factors, part)
    return (found[False], found[True]) if len(found) == 2 else None


def _basis(tree: Kind) -> Leaf:
    assert isinstance(tree, Projector)
    return tree.basis


def _plain(tree: Kind) -> Kind:
    return tree.of if isinstance(tree, Scaled) else tree


def _scaled_by(use: Use, tree: Kind, y: typed.Expr) -> typed.Expr:
    assert isinstance(tree, Scaled)
    return tree.times(use, y)


def _is_complex(use: Use, leaf: Leaf) -> bool:
    type_ = use.pool.types[leaf.index]
    return isinstance(type_, TensorType) and type_.dtype.is_complex


# ------------------------------------------------------------------------------------------------------ magnitudes


def norm(use: Use, tree: Kind) -> typed.Expr:
    """The largest that a vector of length 1 becomes."""
    if tree.is_unitary(use.pool):
        return typed.Static(FloatType(1.0), use.span)
    match tree:
        case Diag(entries=values) | Spectral(values=values) | Singular(values=values):
            return use.call("_largest", use.value(values))
        case Scaled(of=of):
            return use.call("measures._multiply", _magnitude(use, tree), _as_tensor(use, tree, norm(use, of)))
        case Adjoint(of=of) | TriangularAdjoint(of=of):
            return norm(use, of)
        case Kronecker(left=left, right=right):
            return use.call("measures._multiply", *(_as_tensor(use, tree, norm(use, p)) for p in (left, right)))
        case DirectSum(first=first, second=second):
            return use.call("measures._greater", *(_as_tensor(use, tree, norm(use, p)) for p in (first, second)))
        case _ if is_diagonal(use.pool, tree):
            return use.call("_largest", diagonal(use, tree))
    ring = as_ring(use, tree)
    if ring is not None:
        return use.call("_largest", use.call("structured._ring_values", ring))
    return use.call("_matrix_norm", use.dense(tree))


def _as_tensor(use: Use, tree: Kind, value: typed.Expr) -> typed.Expr:
    known_ = value.type.value if isinstance(value.type, FloatType) else None
    return value if known_ is None else number(use, tree, known_)


def _magnitude(use: Use, tree: Scaled) -> typed.Expr:
    return use.call("measures._magnitude", tree.times(use, number(use, tree, 1.0)))


def spectral_radius(use: Use, tree: Kind) -> typed.Expr:
    """The largest magnitude of an eigenvalue."""
    if is_normal(use.pool, tree):
        return norm(use, tree)
    match tree:
        case Scaled(of=of):
            inner = _as_tensor(use, tree, spectral_radius(use, of))
            return use.call("measures._multiply", _magnitude(use, tree), inner)
        case Kronecker(left=left, right=right) if is_square(use.pool, left):
            both = (_as_tensor(use, tree, spectral_radius(use, part)) for part in (left, right))
            return use.call("measures._multiply", *both)
        case DirectSum(first=first, second=second) if is_square(use.pool, first):
            both = (_as_tensor(use, tree, spectral_radius(use, part)) for part in (first, second))
            return use.call("measures._greater", *both)
        case _ if is_lower(use.pool, tree) or is_upper(use.pool, tree):
            return use.call("_largest", diagonal(use, tree))
    return use.call("_matrix_spectral_radius", use.dense(tree))


def condition(use: Use, tree: Kind) -> typed.Expr:
    """How much larger an error of a system can become: the largest singular value over the least."""
    if tree.is_unitary(use.pool):
        return typed.Static(FloatType(1.0), use.span)
    match tree:
        case Scaled(of=of):
            return condition(use, of)
        case Adjoint(of=of) | TriangularAdjoint(of=of):
            return condition(use, of)
        case Kronecker(left=left, right=right):
            return use.call("measures._multiply", *(_as_tensor(use, tree, condition(use, p)) for p in (left, right)))
    values = _magnitudes(use, tree)
    return use.call("measures._condition", use.call("_largest", values), use.call("measures._least_magnitude", values))


def _magnitudes(use: Use, tree: Kind) -> typed.Expr:
    match tree:
        case Spectral(values=values) | Singular(values=values):
            return use.value(values)
        case _ if is_diagonal(use.pool, tree):
            return diagonal(use, tree)
    ring = as_ring(use, tree)
    if ring is not None:
        return use.call("structured._ring_values", ring)
    return use.call("measures._singular_numbers", use.dense(tree))


def determinant(use: Use, tree: Kind) -> typed.Expr:
    match tree:
        case Eye():
            return number(use, tree, 1.0)
        case Scaled(of=of):
            factor = tree.times(use, number(use, tree, 1.0))
            return use.call("measures._multiply", _power(use, factor, _size(use, tree)), determinant(use, of))
        case Inverse(of=of):
            return use.call("measures._over", number(use, tree, 1.0), determinant(use, of))
        case Compose(factors=factors) if all(is_square(use.pool, factor) for factor in factors):
            return _joined(use, "measures._multiply", [determinant(use, factor) for factor in factors])
        case DirectSum(first=first, second=second) if is_square(use.pool, first):
            return use.call("measures._multiply", determinant(use, first), determinant(use, second))
        case Kronecker(left=left, right=right) if is_square(use.pool, left):
            one = _power(use, determinant(use, left), _size(use, right))
            return use.call("measures._multiply", one, _power(use, determinant(use, right), _size(use, left)))
        case _ if is_diagonal(use.pool, tree) or is_lower(use.pool, tree) or is_upper(use.pool, tree):
            return use.call("measures._product", diagonal(use, tree))
    ring, grid, update = as_ring(use, tree), as_grid(use, tree), as_update(use, tree)
    if ring is not None:
        return use.call("structured._ring_det", ring)
    if grid is not None:
        return use.call("grids._det_grid", *grid)
    return use.call("det", use.dense(tree)) if update is None else use.call("_det_update", *update)


def _power(use: Use, number: typed.Expr, count: Dim) -> typed.Expr:
    return use.call("measures._power", number, use.size(count))
