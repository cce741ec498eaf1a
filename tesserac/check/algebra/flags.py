"""What is known of an operator: flags that follow from its kind and the laws.

Enters: a tree. Leaves: proven flags. What is not proven is unknown, unless sizes or known numbers refute it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from tesserac.check.algebra import closed
from tesserac.check.algebra.base import Kind
from tesserac.check.algebra.combined import Compose, Eye, Inverse, Scaled, Sum, Zero, canonical, composed, scaled
from tesserac.check.algebra.elements import numbers_in
from tesserac.check.algebra.kinds import Adjoint, Conv1d, Dense, Diag, Fourier, LowRank, Projector, Spectral
from tesserac.check.algebra.operands import lacks_size
from tesserac.check.algebra.pool import Pool
from tesserac.check.algebra.products import DirectSum, Kronecker, is_square
from tesserac.check.algebra.structured import Triangular, TriangularAdjoint
from tesserac.types.algebra import leaves_of

FLAGS = ("unitary", "self_adjoint", "normal", "psd", "diagonal", "lower", "upper", "triangular")
_OF_TRIANGLES = ("lower", "upper", "triangular")
"""Those that are of rectangular operators too."""


def proven(pool: Pool, tree: Kind, flag: str) -> bool:
    if isinstance(tree, Eye):
        return True
    if flag not in ("unitary", "diagonal", *_OF_TRIANGLES) and lacks_size(tree):
        return tree.is_unitary(pool) if flag == "normal" else False
    return _PROOFS[flag](pool, tree)


def refuted(pool: Pool, tree: Kind, flag: str) -> bool:
    """Whether an operator certainly is not so: what is not square for any sizes is none of these but a triangle, and a
    matrix of known numbers tells."""
    domain, codomain = tree.shape(pool.types)
    if domain is None or codomain is None:
        return False
    is_uneven = flag not in _OF_TRIANGLES and pool.body.facts.refutes("equal", domain, codomain)
    return is_uneven or closed.refutes(pool, tree, flag)


def flags_of(pool: Pool, tree: Kind) -> tuple[str, ...]:
    return tuple(flag for flag in FLAGS if proven(pool, tree, flag))


def is_real(pool: Pool, tree: Kind) -> bool:
    """Whether it takes real vectors to real ones: it has no complex numbers, and no transforms."""
    numbers = numbers_in(pool.types[place] for place in leaves_of(tree))
    return not any(type_.dtype.is_complex for type_ in numbers) and not _has_transform(tree)


def _has_transform(part: object) -> bool:
    if isinstance(part, tuple):
        return any(map(_has_transform, part))
    if not isinstance(part, Kind):
        return False
    return isinstance(part, Fourier) or any(_has_transform(getattr(part, f.name)) for f in fields(part))  # type: ignore[arg-type]


def is_self_adjoint(pool: Pool, tree: Kind) -> bool:
    return not lacks_size(tree) and canonical(tree.adjoint(pool)) == canonical(tree)


def is_skew(pool: Pool, tree: Kind) -> bool:
    return canonical(tree.adjoint(pool)) == canonical(scaled(pool, -1.0, (), tree))


def is_normal(pool: Pool, tree: Kind) -> bool:
    """Whether it is known to commute with its adjoint."""
    if lacks_size(tree):
        return tree.is_unitary(pool)
    if is_diagonal(pool, tree) or is_circulant(tree) or _has_normal_parts(pool, tree):
        return True
    turned = tree.adjoint(pool)
    orders = [canonical(composed(pool, pair)) for pair in ([tree, turned], [turned, tree])]
    return is_skew(pool, tree) or tree.is_unitary(pool) or orders[0] == orders[1]


def _has_normal_parts(pool: Pool, tree: Kind) -> bool:
    """Whether it was promised, or is made of what is normal in a way that keeps that."""
    match tree:
        case Dense(normal=normal) | Adjoint(of=Dense(normal=normal)):
            return normal
        case Scaled(of=of) | Inverse(of=of):
            return is_normal(pool, of)
        case Kronecker(left=one, right=two) | DirectSum(first=one, second=two):
            return is_square(pool, one) and is_normal(pool, one) and is_normal(pool, two)
    return False


def is_circulant(tree: Kind) -> bool:
    """Whether it commutes with shifts: such operators commute with each other."""
    match tree:
        case Eye() | Conv1d() | Adjoint(of=Conv1d()):
            return True
        case Scaled(of=of) | Inverse(of=of):
            return is_circulant(of)
        case Sum(terms=parts) | Compose(factors=parts):
            return all(map(is_circulant, parts))
    return False


def is_diagonal(pool: Pool, tree: Kind) -> bool:
    return _is_shaped(pool, tree, lambda leaf: False)


def is_lower(pool: Pool, tree: Kind) -> bool:
    return _is_shaped(pool, tree, lambda leaf: _triangle(leaf) is True)


def is_upper(pool: Pool, tree: Kind) -> bool:
    return _is_shaped(pool, tree, lambda leaf: _triangle(leaf) is False)


def _triangle(leaf: Kind) -> bool | None:
    """Whether a leaf is a lower triangle, not an upper one; None where it is neither."""
    match leaf:
        case Triangular(is_lower=is_lower):
            return is_lower
        case TriangularAdjoint(of=of):
            return not of.is_lower
    return None


def _is_shaped(pool: Pool, tree: Kind, has_shape: Callable[[Kind], bool]) -> bool:
    """Whether all of an operator's leaves are diagonal or have a shape that sums, products and inverses keep."""
    match tree:
        case Eye() | Diag() | Adjoint(of=Diag()):
            return True
        case Zero():
            return is_square(pool, tree)
        case Scaled(of=of) | Inverse(of=of):
            return _is_shaped(pool, of, has_shape)
        case Sum(terms=parts) | Compose(factors=parts):
            return all(_is_shaped(pool, part, has_shape) for part in parts)
        case Kronecker(left=one, right=two) | DirectSum(first=one, second=two):
            return _is_shaped(pool, one, has_shape) and _is_shaped(pool, two, has_shape)
    return has_shape(tree)


def is_psd(pool: Pool, tree: Kind) -> bool:
    """Whether it is known to be self-adjoint without a negative eigenvalue."""
    match tree:
        case Eye() | Projector():
            return True
        case Zero():
            return is_square(pool, tree)
        case Dense(psd=psd) | Spectral(psd=psd):
            return psd
        case LowRank(left=left, right=right):
            return left == right
        case Scaled(coefficient=coefficient, factors=()):
            return coefficient >= 0.0 and is_psd(pool, tree.of)
        case Inverse(of=of):
            return is_psd(pool, of)
        case Sum(terms=terms):
            return all(is_psd(pool, term) for term in terms)
        case Kronecker(left=one, right=two) | DirectSum(first=one, second=two):
            return is_psd(pool, one) and is_psd(pool, two)
        case Compose(factors=factors):
            return _is_congruence(pool, factors)
    return False


def _is_congruence(pool: Pool, factors: tuple[Kind, ...]) -> bool:
    """Whether a product is X.H ∘ B ∘ X with B without negative eigenvalues, or without B."""
    while len(factors) >= 2:
        if canonical(factors[0]) != canonical(factors[-1].adjoint(pool)):
            return False
        factors = factors[1:-1]
    return not factors or is_psd(pool, factors[0])


_PROOFS: dict[str, Callable[[Pool, Kind], bool]] = {
    "unitary": lambda pool, tree: tree.is_unitary(pool),
    "self_adjoint": is_self_adjoint,
    "normal": is_normal,
    "psd": is_psd,
    "diagonal": is_diagonal,
    "lower": is_lower,
    "upper": is_upper,
    "triangular": lambda pool, tree: is_lower(pool, tree) or is_upper(pool, tree),
}
CHECKS = {
    "unitary": "_matrix_is_unitary",
    "self_adjoint": "measures._is_self_adjoint",
    "normal": "measures._is_normal",
    "psd": "measures._is_positive",
    "diagonal": "measures._is_diagonal",
    "lower": "measures._is_lower",
    "upper": "measures._is_upper",
    "triangular": "measures._is_triangular",
}
"""What computes a flag of a matrix, up to rounding."""
OF_SQUARES = ("self_adjoint", "normal", "psd", "diagonal")
"""Those that are computed of square matrices only; of any other, which is none of them, sizes tell."""
