"""A linear operator as an object of Python's: what a function of the language gave, or `tessera.op` made.

    A = m.precision(d, u)              an operator, as its parts and the expression that it is of them
    A @ x, A.H @ x, (A + B) @ x        laws are applied to the whole expression before anything is computed
    A.shape, A.to_dense(), A.solve(b)

It can be passed wherever a function takes an operator, alone or in a struct. All operations are the language's own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from tessera.descriptor import NAMES, Descriptor, Representation, describe
from tessera.errors import WRONG_KIND, failure

if TYPE_CHECKING:
    from tessera.module import Module

_SPARSE = "Sparse"
"""What the compiler calls operators that are made of rows, columns and values."""
_OPERATIONS = {
    "matmul": ("a, b", "a @ b"),
    "add": ("a, b", "a + b"),
    "subtract": ("a, b", "a - b"),
    "scaled": ("a, c", "c * a"),
    "divided": ("a, c", "a / c"),
    "adjoint": ("a", "a.H"),
    "transposed": ("a", "a.T"),
    "negative": ("a", "-a"),
    "dense": ("a", "to_dense(a)"),
    "solved": ("a, b", "solve(a, b)"),
    "inverse": ("a", "inverse(a)"),
    "traced": ("a", "trace(a)"),
    "diagonal": ("a", "diagonal(a)"),
    "determinant": ("a", "det(a)"),
    "logarithm": ("a", "logdet(a)"),
    "size": ("a", "norm(a)"),
    "decomposed": ("a", "spectral(a)"),
    "sizes": ("a", "a.shape"),
    "flags": ("a", "a.flags"),
    "representation": ("a", "a.representation"),
}


@lru_cache(maxsize=1)
def _operations() -> Module:
    import tessera

    bodies = [f"def {name}({given}):\n    return {body}\n" for name, (given, body) in _OPERATIONS.items()]
    return tessera.compile("\n".join(bodies))


class Operator:
    """`parts` are the arrays, numbers and sizes that it is made of; `tree` says how."""

    __slots__ = ("_shape", "parts", "tree")
    __array_ufunc__ = None  # so that `array @ A` asks the operator

    def __init__(self, tree: str, parts: Sequence[object]) -> None:
        self.tree = tree
        self.parts = tuple(parts)
        self._shape: tuple[int, int] | None = None

    def _do(self, name: str, *args: object) -> object:
        return _operations()[name](*args)

    @property
    def shape(self) -> tuple[int, int]:
        if self._shape is None:
            self._shape = self._do("sizes", self)  # type: ignore[assignment]
        assert self._shape is not None
        return self._shape

    @property
    def flags(self) -> tuple[str, ...]:
        """What the laws prove of it: "unitary", "self_adjoint", "psd", ..."""
        return self._do("flags", self)  # type: ignore[return-value]

    @property
    def representation(self) -> Representation:
        """DENSE, FACTORIZED, IMPLICIT or BLOCK_SPARSE: how it is held."""
        return NAMES[str(self._do("representation", self))]

    def descriptor(self) -> Descriptor:
        """How it is held, its parts, its rule and its flags, as the numbers of a binary interface."""
        return describe(str(self._do("representation", self)), self.tree, self.parts, self.flags)

    @property
    def H(self) -> object:
        return self._do("adjoint", self)

    @property
    def T(self) -> object:
        return self._do("transposed", self)

    def __matmul__(self, other: object) -> object:
        return self._do("matmul", self, other)

    def __rmatmul__(self, other: object) -> object:
        return self._do("matmul", other, self)

    def __call__(self, x: object) -> object:
        return self._do("matmul", self, x)

    def __add__(self, other: object) -> object:
        return self._do("add", self, other)

    def __sub__(self, other: object) -> object:
        return self._do("subtract", self, other)

    def __mul__(self, factor: object) -> object:
        return self._do("scaled", self, factor)

    __rmul__ = __mul__

    def __truediv__(self, factor: object) -> object:
        return self._do("divided", self, factor)

    def __neg__(self) -> object:
        return self._do("negative", self)

    def to_dense(self) -> object:
        """Its matrix, as an array."""
        return self._do("dense", self)

    def solve(self, b: object) -> object:
        return self._do("solved", self, b)

    def inverse(self) -> object:
        return self._do("inverse", self)

    def trace(self) -> object:
        return self._do("traced", self)

    def diagonal(self) -> object:
        return self._do("diagonal", self)

    def det(self) -> object:
        return self._do("determinant", self)

    def logdet(self) -> object:
        """The logarithm of the determinant's magnitude."""
        return self._do("logarithm", self)

    def norm(self) -> object:
        return self._do("size", self)

    def spectral(self) -> object:
        return self._do("decomposed", self)

    def to_scipy(self) -> object:
        """A sparse operator as a matrix of SciPy's in COO, with its stored entries."""
        kind, *_ = json.loads(self.tree)
        if kind != _SPARSE:
            raise failure(WRONG_KIND, "this operator is not sparse", ("`A.to_dense()` gives its matrix",))
        from scipy.sparse import coo_matrix

        values, rows, columns = self.parts[:3]
        is_adjoint = bool(json.loads(self.tree)[-1])
        places = (columns, rows) if is_adjoint else (rows, columns)
        return coo_matrix((values.conj() if is_adjoint else values, places), shape=self.shape)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<tessera operator, {rows} x {columns}>"
