"""A linear operator as an object of Python's: what a function of the language gave, or `tessera.op` made.

    A = m.precision(d, u)              an operator, as its parts and the expression that it is of them
    A @ x, A.H @ x, (A + B) @ x        laws are applied to the whole expression before anything is computed
    A.shape, A.to_dense(), A.solve(b)

It can be passed wherever a function takes an operator, alone or in a struct. All operations are the language's own, and
run where the operator's arrays lie.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from numbers import Number
from operator import index
from typing import TYPE_CHECKING, cast

from tessera.descriptor import NAMES, Descriptor, Representation, describe
from tessera.devices import CPU
from tessera.errors import WRONG_KIND, TesseraError, failure
from tessera.programs import FunctionValue
from tessera.structs import StructValue

if TYPE_CHECKING:
    import numpy as np

    from tessera.arguments import Array

_LONGEST = 400
"""Characters of an expression; a longer one is computed, so that a loop does not make ever longer programs."""
_EXPRESSION = "operator_expression"
"""What errors and warnings call the function that computes one."""


@lru_cache(maxsize=512)
def _function(text: str, kinds: tuple[str | None, ...], device: str) -> Callable[..., object]:
    """The expression `text` of values x0, x1, ..., for a device. Operators that are made in other ways have a function
    of their own, so that it is their sizes that are counted where it is compiled very often."""
    import tessera

    names = ", ".join(f"x{i}" for i in range(len(kinds)))
    program = tessera.compile(f"def {_EXPRESSION}({names}): return {text}\n", device=device)
    return cast("Callable[..., object]", program[_EXPRESSION])


def _computed(text: str, values: tuple[object, ...]) -> object:
    kinds = tuple(value.tree if isinstance(value, Operator) else None for value in values)
    return _function(text, kinds, device_of(values))(*values)


def _shape_of(text: str, values: tuple[object, ...]) -> tuple[int, int] | None:
    """None of an expression that is of any size, as one of `op.fft()` alone."""
    try:
        return cast("tuple[int, int]", _computed(f"{text}.shape", values))
    except TesseraError as told:
        if "is of any size" in told.text:
            return None
        raise


def device_of(values: Iterable[object]) -> str:
    """Where an expression of these values runs: on the GPU that one of them lies on, else on the CPU."""
    places = (value.device if isinstance(value, Operator) else _place_of(value) for value in _taken_apart(values))
    return next((place for place in places if place != CPU), CPU)


def _taken_apart(values: Iterable[object]) -> Iterator[object]:
    """What functions captured, and what structs and tuples hold, in their place."""
    for value in values:
        if isinstance(value, FunctionValue):
            yield from _taken_apart(value.items)
        elif isinstance(value, StructValue):
            yield from _taken_apart(vars(value).values())
        elif isinstance(value, tuple | list):
            yield from _taken_apart(value)
        else:
            yield value


def _place_of(value: object) -> str:
    from tessera.dlpack import CUDA, CUDA_MANAGED

    kind, number = value.__dlpack_device__() if hasattr(value, "__dlpack_device__") else (None, 0)
    return f"cuda:{number}" if kind in (CUDA, CUDA_MANAGED) else CPU


class Operator:
    """An expression over operators that were made, and numbers: a text whose x0, x1, ... are values. A value stands in
    it once, so that laws see in `A.H @ A` that both are of one matrix. What was made is no expression.

    `parts` are the arrays, numbers and sizes that it is made of; `tree` says how.
    """

    __slots__ = ("__weakref__", "_expression", "_made", "_shape")
    __array_ufunc__ = None  # so that `array @ A` asks the operator

    def __init__(self, tree: str, parts: Sequence[object]) -> None:
        self._made: tuple[str, tuple[object, ...]] | None = (tree, tuple(parts))
        self._expression: tuple[str, tuple[object, ...]] | None = None
        self._shape: tuple[int, int] | None = None

    @classmethod
    def _of(cls, text: str, values: tuple[object, ...]) -> Operator:
        """An expression as an operator. Its sizes are asked for, so that what does not fit is told at once; it is
        computed at once where it is long, or of an array, which may change later."""
        shape = _shape_of(text, values)
        if len(text) > _LONGEST or not all(isinstance(value, Operator | Number) for value in values):
            found = cast("Operator", _computed(text, values))
        else:
            found = cls.__new__(cls)
            found._made, found._expression = None, (text, values)
        found._shape = shape
        return found

    def _held(self) -> tuple[str, tuple[object, ...]]:
        if self._made is None:
            assert self._expression is not None
            made = cast("Operator", _computed(*self._expression))
            self._made = made.tree, made.parts
        return self._made

    @property
    def tree(self) -> str:
        return self._held()[0]

    @property
    def parts(self) -> tuple[object, ...]:
        return self._held()[1]

    @property
    def device(self) -> str:
        """Where its arrays lie, and what is asked of it is computed: "cpu" or "cuda:0"."""
        return device_of(self.parts if self._expression is None else self._expression[1])

    def _do(self, form: str, *others: object) -> object:
        """What `form`, whose `{0}` is this operator and `{1}` the other value, computes."""
        return _computed(*_written(form, (self, *others)))

    def _with(self, form: str, *others: object) -> Operator:
        """The operator that `form` is."""
        return Operator._of(*_written(form, (self, *others)))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of its matrix; an operator of any size, as `op.fft()`, has none, and says so."""
        if self._shape is None:
            self._shape = cast("tuple[int, int]", self._do("{0}.shape"))
        return self._shape

    def _sizes(self) -> tuple[int, int] | None:
        if self._shape is None:
            self._shape = _shape_of(*_expression(self))
        return self._shape

    @property
    def dtype(self) -> np.dtype[np.generic] | None:
        """That of its matrix; None of one without numbers of its own, as `op.eye(n)`."""
        if self._do("{0}.dtype is None"):
            return None
        return cast("Array", self._do("zeros(0, dtype={0}.dtype)")).dtype

    @property
    def flags(self) -> tuple[str, ...]:
        """What the laws prove of it: "unitary", "self_adjoint", "psd", ..."""
        return cast("tuple[str, ...]", self._do("{0}.flags"))

    @property
    def representation(self) -> Representation:
        """DENSE, FACTORIZED, IMPLICIT or BLOCK_SPARSE: how it is held."""
        return NAMES[str(self._do("{0}.representation"))]

    def descriptor(self) -> Descriptor:
        """How it is held, its parts, its rule and its flags, as the numbers of a binary interface."""
        return describe(str(self._do("{0}.representation")), self.tree, self.parts, self.flags)

    @property
    def H(self) -> Operator:
        return self._with("{0}.H")

    @property
    def T(self) -> Operator:
        return self._with("{0}.T")

    def __matmul__(self, other: object) -> object:
        return self._with(_PRODUCT, other) if isinstance(other, Operator) else self._do(_PRODUCT, other)

    def __rmatmul__(self, other: object) -> object:
        return self._do("{1} @ {0}", other)

    __call__ = __matmul__

    def matvec(self, x: object) -> object:
        """`A @ x`, under the name by which SciPy asks for it: its solvers take an operator as it is."""
        return self @ x

    def rmatvec(self, y: object) -> object:
        """`A.H @ y`, as SciPy calls it."""
        return self.H @ y

    matmat, rmatmat = matvec, rmatvec

    def __array__(self, dtype: object = None, copy: object = None) -> Array:
        """An array of one object would be silent: its matrix is made only where that is asked for."""
        raise failure(WRONG_KIND, "an operator is no array", ("`A.to_dense()` gives its matrix",))

    def __add__(self, other: object) -> Operator:
        return self._with("({0} + {1})", other)

    def __sub__(self, other: object) -> Operator:
        return self._with("({0} - {1})", other)

    def __mul__(self, factor: object) -> Operator:
        return self._with("({1} * {0})", self._number(factor))

    __rmul__ = __mul__

    def __truediv__(self, factor: object) -> Operator:
        return self._with("({0} / {1})", self._number(factor))

    def _number(self, factor: object) -> object:
        """A complex number of Python's as an array, which functions take, of the bits that the operator has; c64 where
        it has no numbers of its own."""
        if not isinstance(factor, complex):
            return factor
        import numpy as np

        return np.asarray(factor, np.result_type(self.dtype or "f4", "c8"))

    def __neg__(self) -> Operator:
        return self._with("(-{0})")

    def __pow__(self, times: int) -> Operator:
        return self._with(f"({{0}} ** {index(times)})")

    def __eq__(self, other: object) -> bool:
        """The language's: proven or refuted by the laws, and otherwise by both matrices, up to rounding."""
        if not isinstance(other, Operator):
            return NotImplemented
        if self is other:
            return True
        sizes, others = self._sizes(), other._sizes()
        fit = None in (sizes, others) or sizes == others
        return fit and bool(self._do("{0} == {1}", other))

    __hash__ = None  # type: ignore[assignment]  # equal operators may be made of different parts

    def to_dense(self) -> object:
        """Its matrix, as an array."""
        return self._do("to_dense({0})")

    def solve(self, b: object) -> object:
        return self._do("solve({0}, {1})", b)

    def inverse(self) -> Operator:
        return self._with("inverse({0})")

    def trace(self) -> object:
        return self._do("trace({0})")

    def diagonal(self) -> object:
        return self._do("diagonal({0})")

    def det(self) -> object:
        return self._do("det({0})")

    def logdet(self) -> object:
        """The logarithm of the determinant's magnitude."""
        return self._do("logdet({0})")

    def slogdet(self) -> object:
        """The sign of the determinant, and the logarithm of its magnitude."""
        return self._do("slogdet({0})")

    def norm(self) -> object:
        """The largest length that a vector of length 1 becomes."""
        return self._do("norm({0})")

    def cond(self) -> object:
        """The largest singular value over the least."""
        return self._do("cond({0})")

    def spectral_radius(self) -> object:
        """The largest magnitude of an eigenvalue."""
        return self._do("spectral_radius({0})")

    def is_unitary(self) -> bool:
        """Whether it is, by the laws or else by its matrix, up to rounding."""
        return bool(self._do("is_unitary({0})"))

    def conj(self) -> Operator:
        return self._with("conj({0})")

    def sym(self) -> Operator:
        """`(A + A.H) / 2`."""
        return self._with("sym({0})")

    def skew(self) -> Operator:
        """`(A - A.H) / 2`."""
        return self._with("skew({0})")

    def commutator(self, other: object) -> Operator:
        """`A @ B - B @ A`."""
        return self._with("commutator({0}, {1})", other)

    def resolvent(self, z: object) -> Operator:
        """The inverse of `z I - A`."""
        return self._with("resolvent({0}, {1})", self._number(z))

    def expm(self) -> Operator:
        return self._with("expm({0})")

    def sqrt(self) -> Operator:
        """Of one that is known to be self-adjoint, without negative eigenvalues."""
        return self._with("sqrt({0})")

    def spectral(self) -> Operator:
        """The operator by its eigenvalues, or singular values: U diag(S) V.H."""
        return cast("Operator", self._do("spectral({0})"))

    def truncate(self, k: int) -> Operator:
        """Of a spectral form: its k values of largest magnitude."""
        return cast("Operator", self._do(f"truncate({{0}}, {index(k)})"))

    def reconstruct(self) -> Operator:
        """Of a spectral form: the dense operator."""
        return cast("Operator", self._do("reconstruct({0})"))

    def pseudoinverse(self) -> Operator:
        """That of least squares, by singular values."""
        return cast("Operator", self._do("pseudoinverse({0})"))

    @property
    def U(self) -> object:
        """Of a spectral form: the left vectors, as columns."""
        return self._do("{0}.U")

    @property
    def S(self) -> object:
        """Of a spectral form: the values."""
        return self._do("{0}.S")

    @property
    def V(self) -> object:
        """Of a spectral form: the right vectors, as columns."""
        return self._do("{0}.V")

    def to_scipy(self) -> object:
        """A matrix of SciPy's in COO, with the stored entries of an operator that is sparse, block-sparse or diagonal,
        or of multiples, adjoints and sums of such."""
        from tessera.device_array import to_host
        from tessera.sparse import entries_of

        entries = entries_of(json.loads(self.tree), cast("Sequence[object]", to_host(self.parts)))
        if entries is None:
            raise failure(WRONG_KIND, "this operator is not sparse", ("`A.to_dense()` gives its matrix",))
        from scipy.sparse import coo_matrix

        values, rows, columns = entries
        return coo_matrix((values, (rows, columns)), shape=self.shape)

    def __repr__(self) -> str:
        shape = self._sizes()
        return f"<tessera operator, {f'{shape[0]} x {shape[1]}' if shape else 'of any size'}>"


_PRODUCT = "({0} @ {1})"


def _written(form: str, operands: Sequence[object]) -> tuple[str, tuple[object, ...]]:
    """A form of expressions as one expression, and its values, each once."""
    values: list[object] = []
    texts = [_renamed(*_expression(operand), values) for operand in operands]
    return form.format(*texts), tuple(values)


def _expression(operand: object) -> tuple[str, tuple[object, ...]]:
    """What an operand is as an expression: a value by itself, unless it is one."""
    own = operand._expression if isinstance(operand, Operator) else None
    return own or ("x0", (operand,))


def _renamed(text: str, values: tuple[object, ...], known: list[object]) -> str:
    """The text with the names that its values have among all that are known, to which new ones are added."""
    places = []
    for value in values:
        same = [i for i, other in enumerate(known) if other is value and isinstance(value, Operator)]
        places.append(same[0] if same else len(known))
        known += [] if same else [value]
    return re.sub(r"x(\d+)\b", lambda name: f"x{places[int(name[1])]}", text)
