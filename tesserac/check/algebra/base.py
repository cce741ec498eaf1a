"""What every kind of operator answers for itself.

Enters: nothing. Leaves: `Kind`, whose subclasses are the one place that knows each kind: sizes, adjoint, flags, how it
simplifies beside another, and how it applies.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from tesserac.base.source import Span
from tesserac.check.algebra.pool import Pool
from tesserac.check.model import typed
from tesserac.check.state.arguments import Callee
from tesserac.types.algebra import Leaf, Tree
from tesserac.types.dims import Dim


class Use(Protocol):
    """One application of an operator: access to its values, and to the library's functions that apply operators."""

    @property
    def pool(self) -> Pool: ...
    @property
    def span(self) -> Span: ...
    @property
    def callee(self) -> Callee: ...
    def value(self, leaf: Leaf) -> typed.Expr: ...
    def call(self, function: str, *args: typed.Expr) -> typed.Expr: ...
    def function(self, function: typed.Expr, x: typed.Expr) -> typed.Expr: ...
    def size(self, dim: Dim) -> typed.Expr: ...
    def applied(self, tree: Kind, x: typed.Expr) -> typed.Expr: ...
    def held(self, matrix: typed.Expr, tree: Kind, *flags: str) -> typed.Expr: ...
    def dense(self, tree: Kind) -> typed.Expr: ...
    def applied_to_identity(self, tree: Kind) -> typed.Expr: ...
    def solve(self, matrix: typed.Expr, y: typed.Expr) -> typed.Expr: ...
    def solve_matrix(self, tree: Kind, y: typed.Expr) -> typed.Expr: ...
    def solve_sum(self, tree: Kind, y: typed.Expr) -> typed.Expr: ...
    def scale(self, factor: typed.Expr, y: typed.Expr, divide: bool) -> typed.Expr: ...


DENSE, FACTORIZED, IMPLICIT, BLOCK_SPARSE = "Dense", "Factorized", "Implicit", "BlockSparse"
"""How an operator is held: as a matrix, as factors, as the numbers of a rule, as entries or blocks at their places."""


class Kind(Tree):
    """An operator expression in normal form."""

    def representation(self) -> str:
        """One of the four above."""
        return IMPLICIT

    @abstractmethod
    def adjoint(self, pool: Pool) -> Kind:
        """The adjoint, in normal form."""

    @abstractmethod
    def apply(self, use: Use, x: typed.Expr) -> typed.Expr:
        """The operator applied to a vector, or to the columns of a matrix, of the right size."""

    def matrix_of(self, use: Use) -> typed.Expr:
        """The matrix, written as tensors so that its structure can be read off: `diag(d)`, `kron(a, b)`."""
        return use.applied_to_identity(self)

    def is_unitary(self, pool: Pool) -> bool:
        """Whether it is known to be; that it is self-adjoint follows from its adjoint."""
        return False

    def gain(self, pool: Pool) -> float | None:
        """By how much it makes every vector longer; None where that is not known, or not the same for all."""
        return 1.0 if self.is_unitary(pool) else None

    def family(self) -> str | None:
        """Of operators that all commute with each other: what they have in common."""
        return None

    def before(self, pool: Pool, right: Kind) -> Kind | None:
        """This composed with `right` as something simpler; None if there is no such law."""
        return None

    def inverted(self, pool: Pool) -> Kind | None:
        """The inverse as an expression; None if there is none but to solve."""
        return None

    def solve(self, use: Use, y: typed.Expr) -> typed.Expr:
        """The inverse applied."""
        return use.solve_matrix(self, y)
