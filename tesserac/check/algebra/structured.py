"""Operators whose matrix has a known structure: permutations, triangles, bands, Toeplitz, sparse; and Jacobians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from tesserac.base.dataclass import dataclass
from tesserac.check.algebra.base import BLOCK_SPARSE, DENSE, Kind, Use
from tesserac.check.algebra.combined import size_at
from tesserac.check.algebra.crossover import is_small_matrix
from tesserac.check.algebra.kinds import dims_at
from tesserac.check.algebra.pool import Pool
from tesserac.check.model import typed
from tesserac.types.algebra import Leaf, Shape
from tesserac.types.dims import Dim
from tesserac.types.ty import TensorType, Type


@dataclass(frozen=True)
class Permutation(Kind):
    """Entry i of what it gives is entry `order[i]` of what it takes."""

    order: Leaf
    is_adjoint: bool = False
    dtype: str = ""

    def shape(self, types: Sequence[Type]) -> Shape:
        [size] = dims_at(types, self.order)
        return size, size

    def adjoint(self, pool: Pool) -> Kind:
        return Permutation(self.order, not self.is_adjoint, self.dtype)

    def is_unitary(self, pool: Pool) -> bool:
        return True

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        return use.call("structured._permuted_back" if self.is_adjoint else "structured._permuted", self._order(use), x)

    def _order(self, use: Use) -> typed.Expr:
        return use.value(self.order)


@dataclass(frozen=True)
class Triangular(Kind):
    """One triangle of a matrix, with its diagonal; the other is not read."""

    matrix: Leaf
    is_lower: bool

    def representation(self) -> str:
        return DENSE

    def shape(self, types: Sequence[Type]) -> Shape:
        rows, columns = dims_at(types, self.matrix)
        return columns, rows

    def adjoint(self, pool: Pool) -> Kind:
        return TriangularAdjoint(self)

    def matrix_of(self, use: Use) -> typed.Expr:
        return use.call("structured._lower" if self.is_lower else "structured._upper", use.value(self.matrix))

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        return use.call("_dense", self.matrix_of(use), x)

    def solve(self, use: Use, y: typed.Expr) -> typed.Expr:
        return use.solve(self.matrix_of(use), y)


@dataclass(frozen=True)
class TriangularAdjoint(Kind):
    """The adjoint of a triangle."""

    of: Triangular

    def representation(self) -> str:
        return DENSE

    def shape(self, types: Sequence[Type]) -> Shape:
        domain, codomain = self.of.shape(types)
        return codomain, domain

    def adjoint(self, pool: Pool) -> Kind:
        return self.of

    def matrix_of(self, use: Use) -> typed.Expr:
        return use.call("measures._adjoint_matrix", self.of.matrix_of(use))

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        return use.call("_dense", self.matrix_of(use), x)

    def solve(self, use: Use, y: typed.Expr) -> typed.Expr:
        return use.solve(self.matrix_of(use), y)


@dataclass(frozen=True)
class Banded(Kind):
    """Diagonals of a square matrix as SciPy stores them: `bands[upper + i - j, j]` stands in row i and column j."""

    bands: Leaf
    upper: Leaf
    is_adjoint: bool = False

    def shape(self, types: Sequence[Type]) -> Shape:
        size = dims_at(types, self.bands)[1]
        return size, size

    def adjoint(self, pool: Pool) -> Kind:
        return Banded(self.bands, self.upper, not self.is_adjoint)

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        function = "structured._banded_adjoint" if self.is_adjoint else "structured._banded"
        return use.call(function, use.value(self.bands), x, use.value(self.upper))

    def solve(self, use: Use, y: typed.Expr) -> typed.Expr:
        """By elimination within the bands; of complex numbers, as of any matrix."""
        bands = use.value(self.bands)
        if any(isinstance(part.type, TensorType) and part.type.dtype.is_complex for part in (bands, y)):
            return super().solve(use, y)
        function = "bands._banded_adjoint_solve" if self.is_adjoint else "bands._banded_solve"
        return use.call(function, bands, y, use.value(self.upper))


@dataclass(frozen=True)
class Toeplitz(Kind):
    """The first column and the first row of a matrix that is constant along its diagonals."""

    column: Leaf
    row: Leaf

    def shape(self, types: Sequence[Type]) -> Shape:
        return dims_at(types, self.row)[0], dims_at(types, self.column)[0]

    def adjoint(self, pool: Pool) -> Kind:
        """Itself, where its first row is its first column and both are real."""
        column = pool.types[self.column.index]
        own = self.column == self.row and isinstance(column, TensorType) and not column.dtype.is_complex
        return self if own else ToeplitzAdjoint(self)

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        column, row = use.value(self.column), use.value(self.row)
        return use.call("structured._toeplitz" + _how(column, row), column, row, x)


@dataclass(frozen=True)
class ToeplitzAdjoint(Kind):
    """Rows and columns exchanged, and conjugated."""

    of: Toeplitz

    def shape(self, types: Sequence[Type]) -> Shape:
        domain, codomain = self.of.shape(types)
        return codomain, domain

    def adjoint(self, pool: Pool) -> Kind:
        return self.of

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        column, row = use.value(self.of.column), use.value(self.of.row)
        return use.call("structured._toeplitz_adjoint" + _how(column, row), column, row, x)


def _how(column: typed.Expr, row: typed.Expr) -> str:
    """What the name of the function that applies a Toeplitz matrix ends with: by its matrix, or by transforms."""
    sides = [dim for part in (column, row) if isinstance(part.type, TensorType) for dim in part.type.dims]
    return "_matrix" if is_small_matrix(sides) else ""


@dataclass(frozen=True)
class Placed(Kind):
    """Values at their places in rows and columns, 0 elsewhere; what stands at one place adds. `is_adjoint` is whether
    rows and columns are exchanged."""

    function: ClassVar[str]
    """Of the library, which applies it; the one of the adjoint has its name and a suffix."""
    values: Leaf
    rows: Leaf
    columns: Leaf
    domain: Leaf
    codomain: Leaf
    is_adjoint: bool = False

    def representation(self) -> str:
        return BLOCK_SPARSE

    def shape(self, types: Sequence[Type]) -> Shape:
        return size_at(types, self.domain), size_at(types, self.codomain)

    def adjoint(self, pool: Pool) -> Kind:
        return replace(self, domain=self.codomain, codomain=self.domain, is_adjoint=not self.is_adjoint)

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        parts = [use.value(leaf) for leaf in (self.values, self.rows, self.columns)]
        return use.call(self.function + "_adjoint" * self.is_adjoint, *parts, x, use.value(self.codomain))


@dataclass(frozen=True)
class Sparse(Placed):
    """Values are numbers."""

    function: ClassVar[str] = "structured._sparse"


@dataclass(frozen=True)
class BlockSparse(Placed):
    """Values are blocks of one size, and places those in a grid of such blocks."""

    function: ClassVar[str] = "_block_sparse"


@dataclass(frozen=True)
class Jacobian(Kind):
    """The derivative of a function at a point, by `jvp`, and its adjoint, by `vjp`."""

    function: Leaf
    point: Leaf
    codomain: Leaf
    is_adjoint: bool = False

    def shape(self, types: Sequence[Type]) -> Shape:
        domain: Dim | None = dims_at(types, self.point)[0]
        codomain = size_at(types, self.codomain)
        return (codomain, domain) if self.is_adjoint else (domain, codomain)

    def adjoint(self, pool: Pool) -> Kind:
        return Jacobian(self.function, self.point, self.codomain, not self.is_adjoint)

    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        """Of a complex vector, the parts one by one: the function is one of real numbers."""
        point, given = use.value(self.point).type, x.type
        assert isinstance(point, TensorType) and isinstance(given, TensorType)
        if given.dtype.is_complex and not point.dtype.is_complex:
            parts = [use.call(f"structured.{name}", x) for name in ("_real_part", "_imaginary_part")]
            return use.call("structured._both_parts", *(self.apply(use, part) for part in parts))
        function = "structured._jacobian_adjoint" if self.is_adjoint else "structured._jacobian"
        return use.call(function, use.value(self.function), use.value(self.point), x)
