"""Operators that are made of tensors, sizes and functions: one class each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from tesserac.base.dataclass import dataclass
from tesserac.check.algebra.base import DENSE, FACTORIZED, Kind, Use
from tesserac.check.algebra.combined import Compose, Eye, Factor, scaled, size_at
from tesserac.check.algebra.crossover import pays_to_transform
from tesserac.check.algebra.pool import Pool
from tesserac.check.model import typed
from tesserac.ops.held import ISOMETRY, PSD, SELF_ADJOINT, UNITARY
from tesserac.types.algebra import Leaf, Shape
from tesserac.types.dims import Dim
from tesserac.types.ty import TensorType, Type


@dataclass(frozen=True)
class Dense(Kind):
    """A matrix, with what its maker promises of it."""

    matrix: Leaf
    unitary: bool = False
    self_adjoint: bool = False
    psd: bool = False
    normal: bool = False

    def representation(self) -> str:
        return DENSE

    def shape(self, types: Sequence[Type]) -> Shape:
        rows, columns = dims_at(types, self.matrix)
        return columns, rows

    def adjoint(self, pool: Pool) -> Kind:
        return self if self.self_adjoint else Adjoint(self)

    def is_unitary(self, pool: Pool) -> bool:
        return self.unitary

    def unpromised(self) -> Kind:
        return Dense(self.matrix)

    def matrix_of(self, use: Use) -> typed.Expr:
        promises = {UNITARY: self.unitary, SELF_ADJOINT: self.self_adjoint, PSD: self.psd}
        return use.held(use.value(self.matrix), self, *(flag for flag, said in promises.items() if said))

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        return use.call("_dense", self.matrix_of(use), x)


@dataclass(frozen=True)
class Diag(Kind):
    """Each entry times its own number."""

    entries: Leaf

    def shape(self, types: Sequence[Type]) -> Shape:
        [size] = dims_at(types, self.entries)
        return size, size

    def adjoint(self, pool: Pool) -> Kind:
        return Adjoint(self) if _is_complex(pool, self.entries) else self

    def family(self) -> str | None:
        return "diagonal"

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        return use.call("_diag", use.value(self.entries), x)

    def matrix_of(self, use: Use) -> typed.Expr:
        return use.call("measures._diagonal_matrix", use.value(self.entries))

    def solve(self, use: Use, y: typed.Expr) -> typed.Expr:
        return use.call("_diag_solve", use.value(self.entries), y)


@dataclass(frozen=True)
class Conv1d(Kind):
    """The circular convolution of vectors of one size with some taps."""

    taps: Leaf
    size: Leaf

    def shape(self, types: Sequence[Type]) -> Shape:
        size = size_at(types, self.size)
        return size, size

    def adjoint(self, pool: Pool) -> Kind:
        return Adjoint(self)

    def family(self) -> str | None:
        return "convolution"

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        return self.applied(use, x, "")

    def solve(self, use: Use, y: typed.Expr) -> typed.Expr:
        [count], size = dims_at(use.pool.types, self.taps), size_at(use.pool.types, self.size)
        if size is None or not pays_to_transform(count, size):
            return super().solve(use, y)
        return use.call("structured._ring_solved", use.value(self.taps), y)

    def applied(self, use: Use, x: typed.Expr, suffix: str) -> typed.Expr:
        """By transforms where there are many taps, else by their windows."""
        [count], size = dims_at(use.pool.types, self.taps), size_at(use.pool.types, self.size)
        direct = "_conv1d" if size is None or not pays_to_transform(count, size) else "structured._conv1d_transformed"
        return use.call(direct + suffix, use.value(self.taps), x)


@dataclass(frozen=True)
class Adjoint(Kind):
    """The adjoint of a leaf that has no simpler form; that of any other operator is made of these."""

    of: Dense | Diag | Conv1d

    def representation(self) -> str:
        return self.of.representation()

    def shape(self, types: Sequence[Type]) -> Shape:
        domain, codomain = self.of.shape(types)
        return codomain, domain

    def adjoint(self, pool: Pool) -> Kind:
        return self.of

    def is_unitary(self, pool: Pool) -> bool:
        return self.of.is_unitary(pool)

    def family(self) -> str | None:
        return self.of.family()

    def matrix_of(self, use: Use) -> typed.Expr:
        if isinstance(self.of, Conv1d):
            return use.applied_to_identity(self)
        return use.call("measures._adjoint_matrix", self.of.matrix_of(use))

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        match self.of:
            case Dense() as dense:
                return use.call("_dense_adjoint", dense.matrix_of(use), x)
            case Diag(entries=leaf):
                return use.call("_diag_adjoint", use.value(leaf), x)
            case Conv1d() as convolution:
                return convolution.applied(use, x, "_adjoint")


@dataclass(frozen=True)
class Projector(Kind):
    """The projection onto the span of the columns of a matrix, which are orthonormal."""

    basis: Leaf

    def representation(self) -> str:
        return FACTORIZED

    def shape(self, types: Sequence[Type]) -> Shape:
        rows, _ = dims_at(types, self.basis)
        return rows, rows

    def adjoint(self, pool: Pool) -> Kind:
        return self

    def before(self, pool: Pool, right: Kind) -> Kind | None:
        return self if right == self else None

    def unpromised(self) -> Kind:
        return LowRank(self.basis, self.basis)

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        basis = orthonormal(use, self, self.basis)
        return use.call("_low_rank", basis, basis, x)

    def matrix_of(self, use: Use) -> typed.Expr:
        basis = orthonormal(use, self, self.basis)
        return use.call("measures._low_rank_matrix", basis, basis)


@dataclass(frozen=True)
class LowRank(Kind):
    """`left` times the adjoint of `right`."""

    left: Leaf
    right: Leaf

    def representation(self) -> str:
        return FACTORIZED

    def shape(self, types: Sequence[Type]) -> Shape:
        return dims_at(types, self.right)[0], dims_at(types, self.left)[0]

    def adjoint(self, pool: Pool) -> Kind:
        return LowRank(self.right, self.left)

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        return use.call("_low_rank", use.value(self.left), use.value(self.right), x)

    def matrix_of(self, use: Use) -> typed.Expr:
        return use.call("measures._low_rank_matrix", use.value(self.left), use.value(self.right))


@dataclass(frozen=True)
class Spectral(Kind):
    """A self-adjoint operator by its eigenvalues, and eigenvectors as columns. What was known of it before stays
    known: that no eigenvalue is negative, or that all are 1 or -1."""

    is_spectral: ClassVar[bool] = True
    values: Leaf
    vectors: Leaf
    psd: bool = False
    unitary: bool = False

    def is_unitary(self, pool: Pool) -> bool:
        return self.unitary

    def representation(self) -> str:
        return FACTORIZED

    def shape(self, types: Sequence[Type]) -> Shape:
        rows, _ = dims_at(types, self.vectors)
        return rows, rows

    def adjoint(self, pool: Pool) -> Kind:
        return self

    def unpromised(self) -> Kind:
        return _by_factors(self.vectors, self.values, self.vectors)

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        return use.call("_spectral", use.value(self.values), orthonormal(use, self, self.vectors), x)


@dataclass(frozen=True)
class Singular(Kind):
    """An operator by its singular values, and singular vectors as columns: `left` diag(values) `right`.H."""

    is_spectral: ClassVar[bool] = True
    left: Leaf
    values: Leaf
    right: Leaf
    unitary: bool = False

    def is_unitary(self, pool: Pool) -> bool:
        return self.unitary

    def representation(self) -> str:
        return FACTORIZED

    def shape(self, types: Sequence[Type]) -> Shape:
        return dims_at(types, self.right)[0], dims_at(types, self.left)[0]

    def adjoint(self, pool: Pool) -> Kind:
        return Singular(self.right, self.values, self.left, self.unitary)

    def unpromised(self) -> Kind:
        return _by_factors(self.left, self.values, self.right)

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        left, right = (orthonormal(use, self, leaf) for leaf in (self.left, self.right))
        return use.call("_singular", left, use.value(self.values), right, x)


@dataclass(frozen=True)
class Fourier(Kind):
    """`fft`, or its inverse, `ifft`; without a size, that of any."""

    size: Leaf | None
    is_inverse: bool
    dtype: str = ""

    def shape(self, types: Sequence[Type]) -> Shape:
        size = size_at(types, self.size)
        return size, size

    def adjoint(self, pool: Pool) -> Kind:
        """N times the inverse: the transform is unitary but for that. The rules ask for a size before."""
        assert self.size is not None, "the adjoint of a transform has a size"
        return scaled(pool, 1.0, (Factor(self.size, reciprocal=self.is_inverse),), self.inverted(pool))

    def gain(self, pool: Pool) -> float | None:
        size = size_at(pool.types, self.size)
        if size is None or not size.constant:
            return None
        return math.sqrt(size.constant) if not self.is_inverse else 1.0 / math.sqrt(size.constant)

    def before(self, pool: Pool, right: Kind) -> Kind | None:
        opposite = isinstance(right, Fourier) and right.is_inverse != self.is_inverse
        if not opposite or not isinstance(right, Fourier):
            return None
        return Eye(self.size or right.size, self.dtype or right.dtype)

    def inverted(self, pool: Pool) -> Kind:
        return Fourier(self.size, not self.is_inverse, self.dtype)

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        return use.call("_ifft" if self.is_inverse else "_fft", x)


@dataclass(frozen=True)
class Implicit(Kind):
    """A linear function and its adjoint, taken at their word."""

    forward: Leaf
    backward: Leaf
    domain: Leaf
    codomain: Leaf

    def shape(self, types: Sequence[Type]) -> Shape:
        return size_at(types, self.domain), size_at(types, self.codomain)

    def adjoint(self, pool: Pool) -> Kind:
        return Implicit(self.backward, self.forward, self.codomain, self.domain)

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        """The functions are those of a vector: a matrix goes column by column."""
        forward, rows = use.value(self.forward), use.value(self.codomain)
        if isinstance(x.type, TensorType) and x.type.rank > 1:
            return use.call("_of_columns", forward, x, rows)
        return use.call("_as_declared", use.function(forward, x), x, rows)


def _by_factors(left: Leaf, values: Leaf, right: Leaf) -> Kind:
    return Compose((Dense(left), Diag(values), Adjoint(Dense(right))))


def orthonormal(use: Use, tree: Kind, leaf: Leaf) -> typed.Expr:
    """A matrix whose columns are orthonormal, since its operator was made so."""
    return use.held(use.value(leaf), tree, ISOMETRY)


def dims_at(types: Sequence[Type], leaf: Leaf) -> tuple[Dim, ...]:
    """The dims of the tensor at a place."""
    type_ = types[leaf.index]
    assert isinstance(type_, TensorType)
    return type_.dims


def _is_complex(pool: Pool, leaf: Leaf) -> bool:
    type_ = pool.types[leaf.index]
    return isinstance(type_, TensorType) and type_.dtype.is_complex
