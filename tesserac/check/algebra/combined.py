"""Sums, products by numbers, and compositions of operators, in the normal form that the laws give them.

Enters: operators in normal form. Leaves: one. Compositions and sums are flat, numbers stand in front of the terms of a
sum, equal terms are one, what is the identity is gone.

    2 (A + B.H).H - A          A + 2 B
    A ∘ I ∘ (B ∘ fft) ∘ ifft   A ∘ B
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from functools import reduce

from tesserac.base.dataclass import dataclass
from tesserac.base.source import NO_SPAN
from tesserac.check.algebra.base import Kind, Use
from tesserac.check.algebra.elements import own_dtypes, remembered
from tesserac.check.algebra.pool import Pool
from tesserac.check.model import typed
from tesserac.types.algebra import Leaf, Shape
from tesserac.types.dims import Dim
from tesserac.types.ty import FloatType, IntType, TensorType, Type


@dataclass(frozen=True)
class Eye(Kind):
    """The identity; without a size, that of any. Where a dtype is said, its matrix has that, and it takes no other."""

    size: Leaf | None
    dtype: str = ""

    def shape(self, types: Sequence[Type]) -> Shape:
        size = size_at(types, self.size)
        return size, size

    def adjoint(self, pool: Pool) -> Kind:
        return self

    def is_unitary(self, pool: Pool) -> bool:
        return True

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        return x


@dataclass(frozen=True)
class Zero(Kind):
    """Takes everything to 0."""

    domain: Leaf | None
    codomain: Leaf | None
    dtype: str = ""

    def shape(self, types: Sequence[Type]) -> Shape:
        return size_at(types, self.domain), size_at(types, self.codomain)

    def adjoint(self, pool: Pool) -> Kind:
        return Zero(self.codomain, self.domain, self.dtype)

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        if not isinstance(x.type, TensorType):
            return x  # an error, told where it is
        rows = use.size(x.type.dims[0]) if self.codomain is None else use.value(self.codomain)
        return use.call("_zero", x, rows)


@dataclass(frozen=True)
class Factor:
    """A number that only a run knows, in front of an operator."""

    leaf: Leaf
    conjugated: bool = False
    reciprocal: bool = False


@dataclass(frozen=True)
class Scaled(Kind):
    """A number times an operator: what is known of the number, and the factors that are not."""

    coefficient: float
    factors: tuple[Factor, ...]
    of: Kind

    def representation(self) -> str:
        return self.of.representation()

    def shape(self, types: Sequence[Type]) -> Shape:
        return self.of.shape(types)

    def adjoint(self, pool: Pool) -> Kind:
        turned = tuple(_conjugated(pool, factor) for factor in self.factors)
        return scaled(pool, self.coefficient, turned, self.of.adjoint(pool))

    def is_unitary(self, pool: Pool) -> bool:
        """Where its gain, which a transform has too, is taken away again."""
        gain = self.of.gain(pool)
        return not self.factors and gain is not None and abs(abs(self.coefficient) * gain - 1.0) <= _ROUNDING

    def inverted(self, pool: Pool) -> Kind | None:
        turned = tuple(replace(factor, reciprocal=not factor.reciprocal) for factor in self.factors)
        return scaled(pool, 1.0 / self.coefficient, turned, inverse(pool, self.of))

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        return self.times(use, use.applied(self.of, x))

    def matrix_of(self, use: Use) -> typed.Expr:
        return self.times(use, self.of.matrix_of(use))

    def times(self, use: Use, y: typed.Expr) -> typed.Expr:
        if self.coefficient != 1.0:
            y = use.scale(typed.Static(FloatType(self.coefficient), use.span), y, False)
        for factor in self.factors:
            number = use.value(factor.leaf)
            y = use.scale(use.call("_conj", number) if factor.conjugated else number, y, factor.reciprocal)
        return y


_ROUNDING = 2.0**-50


@dataclass(frozen=True)
class Sum(Kind):
    """Two or more operators, added in this order."""

    terms: tuple[Kind, ...]

    def shape(self, types: Sequence[Type]) -> Shape:
        shapes = [term.shape(types) for term in self.terms]
        return next((s for s in shapes if s[0] is not None), shapes[0])

    def adjoint(self, pool: Pool) -> Kind:
        return added(pool, [term.adjoint(pool) for term in self.terms])

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        return reduce(lambda y, z: use.call("_sum", y, z), [use.applied(term, x) for term in self.terms])

    def matrix_of(self, use: Use) -> typed.Expr:
        return reduce(lambda y, z: use.call("_sum", y, z), [term.matrix_of(use) for term in self.terms])

    def solve(self, use: Use, y: typed.Expr) -> typed.Expr:
        return use.solve_sum(self, y)


@dataclass(frozen=True)
class Compose(Kind):
    """Two or more operators; the last is applied first."""

    factors: tuple[Kind, ...]

    def shape(self, types: Sequence[Type]) -> Shape:
        return self.factors[-1].shape(types)[0], self.factors[0].shape(types)[1]

    def adjoint(self, pool: Pool) -> Kind:
        return composed(pool, [factor.adjoint(pool) for factor in reversed(self.factors)])

    def is_unitary(self, pool: Pool) -> bool:
        return all(factor.is_unitary(pool) for factor in self.factors)

    def inverted(self, pool: Pool) -> Kind | None:
        shapes = [factor.shape(pool.types) for factor in self.factors]
        if any(domain != codomain for domain, codomain in shapes):
            return None
        return composed(pool, [inverse(pool, factor) for factor in reversed(self.factors)])

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        return reduce(lambda y, factor: use.applied(factor, y), reversed(self.factors), x)

    def matrix_of(self, use: Use) -> typed.Expr:
        *others, last = self.factors
        return reduce(lambda y, factor: use.applied(factor, y), reversed(others), last.matrix_of(use))


@dataclass(frozen=True)
class Conjugate(Kind):
    """The operator of the conjugated matrix; what has real numbers only is its own."""

    of: Kind

    def representation(self) -> str:
        return self.of.representation()

    def shape(self, types: Sequence[Type]) -> Shape:
        return self.of.shape(types)

    def adjoint(self, pool: Pool) -> Kind:
        return Conjugate(self.of.adjoint(pool))

    def is_unitary(self, pool: Pool) -> bool:
        return self.of.is_unitary(pool)

    def matrix_of(self, use: Use) -> typed.Expr:
        return use.call("structured._conjugated", self.of.matrix_of(use))

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        y = use.applied(self.of, use.call("structured._conjugated", x))
        return use.call("structured._conjugated", y)


@dataclass(frozen=True)
class Inverse(Kind):
    """The inverse of an operator, by solving."""

    of: Kind

    def shape(self, types: Sequence[Type]) -> Shape:
        domain, codomain = self.of.shape(types)
        return codomain, domain

    def adjoint(self, pool: Pool) -> Kind:
        return inverse(pool, self.of.adjoint(pool))

    def inverted(self, pool: Pool) -> Kind | None:
        return self.of

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        return self.of.solve(use, x)


# ---------------------------------------------------------------------------------------------------------- laws


def scaled(pool: Pool, coefficient: float, factors: Iterable[Factor], of: Kind) -> Kind:
    """A number times an operator."""
    if isinstance(of, Sum):
        return added(pool, [scaled(pool, coefficient, factors, term) for term in of.terms])
    inner = of if isinstance(of, Scaled) else Scaled(1.0, (), of)
    coefficient, remaining = coefficient * inner.coefficient, _cancelled([*factors, *inner.factors])
    if coefficient == 0.0 or isinstance(inner.of, Zero):
        return zero_like(pool, of)
    return inner.of if coefficient == 1.0 and not remaining else Scaled(coefficient, remaining, inner.of)


def added(pool: Pool, terms: Iterable[Kind]) -> Kind:
    """A sum: equal terms are counted."""
    flat = [part for term in terms for part in (term.terms if isinstance(term, Sum) else (term,))]
    counts: dict[tuple[tuple[Factor, ...], Kind], float] = {}
    for term in flat:
        own = term if isinstance(term, Scaled) else Scaled(1.0, (), term)
        if not isinstance(own.of, Zero):
            key = _same_term(counts, own)
            counts[key] = counts.get(key, 0.0) + own.coefficient
    kept = [scaled(pool, count, factors, of) for (factors, of), count in counts.items() if count != 0.0]
    if not kept:
        return _remembering(pool, zero_like(pool, flat[0]), flat)
    return _remembering(pool, kept[0] if len(kept) == 1 else Sum(tuple(kept)), flat)


def _remembering(pool: Pool, tree: Kind, parts: Sequence[Kind]) -> Kind:
    """What a law makes of the parts, with the dtype of numbers that it left out where it has none of its own."""
    dtype = "" if own_dtypes(pool, tree) else remembered(pool, tuple(parts))
    return _with_dtype(tree, dtype) if dtype else tree


def _with_dtype(tree: Kind, dtype: str) -> Kind:
    parts = {field.name: getattr(tree, field.name) for field in fields(tree)}  # type: ignore[arg-type]
    changed = {name: _each_with_dtype(part, dtype) for name, part in parts.items()}
    return replace(tree, **(changed | ({"dtype": dtype} if "dtype" in parts else {})))  # type: ignore[type-var]


def _each_with_dtype(part: object, dtype: str) -> object:
    if isinstance(part, tuple):
        return tuple(_each_with_dtype(item, dtype) for item in part)
    return _with_dtype(part, dtype) if isinstance(part, Kind) else part


def _same_term(counts: dict[tuple[tuple[Factor, ...], Kind], float], term: Scaled) -> tuple[tuple[Factor, ...], Kind]:
    wanted = canonical(term.of)
    for factors, of in counts:
        if factors == term.factors and canonical(of) == wanted:
            return factors, of
    return term.factors, term.of


def composed(pool: Pool, factors: Iterable[Kind]) -> Kind:
    """A composition; the last factor is applied first."""
    given = [part for factor in factors for part in (factor.factors if isinstance(factor, Compose) else (factor,))]
    coefficient = 1.0
    numbers: list[Factor] = []
    plain: list[Kind] = []
    for factor in given:
        own = factor if isinstance(factor, Scaled) else Scaled(1.0, (), factor)
        coefficient, numbers = coefficient * own.coefficient, [*numbers, *own.factors]
        plain += own.of.factors if isinstance(own.of, Compose) else (own.of,)
    if any(isinstance(factor, Zero) for factor in plain):
        domain, codomain = plain[-1].shape(pool.types)[0], plain[0].shape(pool.types)[1]
        return _zero(pool, domain, codomain, remembered(pool, tuple(given)))
    return _remembering(pool, scaled(pool, coefficient, numbers, _reduced(pool, plain)), given)


def _reduced(pool: Pool, factors: Sequence[Kind]) -> Kind:
    """Neighbours are replaced by what they are together until none are."""
    done: list[Kind] = []
    waiting = [factor for factor in factors if not isinstance(factor, Eye)]
    while waiting:
        right = waiting.pop(0)
        together = _together(pool, done[-1], right) if done else None
        if together is None:
            done.append(right)
            continue
        done.pop()
        if isinstance(together, Scaled | Compose | Sum):
            return composed(pool, [*done, together, *waiting])
        waiting = waiting if isinstance(together, Eye) else [together, *waiting]
    if not done:
        return Eye(_common_size(pool, factors), remembered(pool, tuple(factors)))
    return done[0] if len(done) == 1 else Compose(tuple(done))


def _together(pool: Pool, left: Kind, right: Kind) -> Kind | None:
    """Two neighbours as one operator, if a law says so."""
    inverses = (isinstance(left, Inverse) and left.of == right) or (isinstance(right, Inverse) and right.of == left)
    opposite = left.is_unitary(pool) and canonical(right) == canonical(left.adjoint(pool))
    if inverses or opposite:
        return Eye(_common_size(pool, [left, right]), remembered(pool, (left, right)))
    return left.before(pool, right)


def inverse(pool: Pool, tree: Kind) -> Kind:
    """The inverse of a square operator."""
    if isinstance(tree, Eye):
        return tree
    if tree.is_unitary(pool):
        return tree.adjoint(pool)
    return tree.inverted(pool) or Inverse(tree)


def canonical(tree: Kind) -> Kind:
    """The tree with the terms of every sum in one order and without what is said of numbers, for comparing."""
    match tree:
        case Sum(terms=terms):
            return Sum(tuple(sorted(map(canonical, terms), key=repr)))
        case Compose(factors=factors):
            return Compose(_in_one_order([canonical(factor) for factor in factors]))
        case Scaled(factors=numbers, of=of):
            return replace(tree, factors=tuple(sorted(numbers, key=repr)), of=canonical(of))
    parts = {field.name: getattr(tree, field.name) for field in fields(tree)}  # type: ignore[arg-type]
    changed: dict[str, Kind | str] = {name: canonical(part) for name, part in parts.items() if isinstance(part, Kind)}
    if parts.get("dtype"):
        changed["dtype"] = ""
    return replace(tree, **changed) if changed else tree  # type: ignore[type-var]


def _in_one_order(factors: list[Kind]) -> tuple[Kind, ...]:
    """Neighbours that commute, sorted: diagonals, convolutions, and an operator beside powers of its inverse."""
    done: list[Kind] = []
    for factor in factors:
        place = len(done)
        while place and _commute(done[place - 1], factor) and repr(factor) < repr(done[place - 1]):
            place -= 1
        done.insert(place, factor)
    return tuple(done)


def _commute(left: Kind, right: Kind) -> bool:
    family = left.family()
    return (family is not None and family == right.family()) or (isinstance(left, Inverse) and left.of == right)


def zero_like(pool: Pool, tree: Kind) -> Kind:
    return _zero(pool, *tree.shape(pool.types), remembered(pool, tree))


def _zero(pool: Pool, domain: Dim | None, codomain: Dim | None, dtype: str) -> Kind:
    return Zero(_size_leaf(pool, domain), _size_leaf(pool, codomain), dtype)


def _size_leaf(pool: Pool, size: Dim | None) -> Leaf | None:
    return None if size is None else pool.size(size, NO_SPAN)


def _common_size(pool: Pool, factors: Sequence[Kind]) -> Leaf | None:
    sizes = [size for factor in factors for size in factor.shape(pool.types) if size is not None]
    return pool.size(sizes[0], NO_SPAN) if sizes else None


def _cancelled(factors: Sequence[Factor]) -> tuple[Factor, ...]:
    """Numbers without those that stand beside their own reciprocal."""
    kept: list[Factor] = []
    for factor in factors:
        opposite = replace(factor, reciprocal=not factor.reciprocal)
        if opposite in kept:
            kept.remove(opposite)
        else:
            kept.append(factor)
    return tuple(kept)


def _conjugated(pool: Pool, factor: Factor) -> Factor:
    type_ = pool.types[factor.leaf.index]
    is_complex = isinstance(type_, TensorType) and type_.dtype.is_complex
    return replace(factor, conjugated=not factor.conjugated) if is_complex else factor


def size_at(types: Sequence[Type], leaf: Leaf | None) -> Dim | None:
    """The size that stands at a place."""
    if leaf is None:
        return None
    type_ = types[leaf.index]
    assert isinstance(type_, IntType)
    return type_.value
