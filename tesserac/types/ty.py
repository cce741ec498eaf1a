"""Types of values in a program: tensors, and the kinds that exist only while compiling.

Enters: dims, dtypes and policies. Leaves: frozen types compared by value. `TensorType` is the tensor type of
every IR level too; the other kinds stop at the typed AST, except where an IR says otherwise.
See Note [A compile-time kind carries its value].
"""

from __future__ import annotations

from dataclasses import dataclass

from tesserac.types.dims import Dim
from tesserac.types.dtype import DType
from tesserac.types.policy import NO_POLICY, Policy


@dataclass(frozen=True)
class TensorType:
    """A tensor value: every dim, the dtype it is stored as, and its precision policy."""

    dims: tuple[Dim, ...]
    dtype: DType
    policy: Policy = NO_POLICY

    @property
    def rank(self) -> int:
        return len(self.dims)

    def __str__(self) -> str:
        """The IR's spelling; `show` gives the language's."""
        return f"tensor<[{', '.join(map(str, self.dims))}], {self.dtype}{self.policy}>"

    def show(self) -> str:
        return f"Tensor[{', '.join([*map(str, self.dims), f'{self.dtype}{self.policy}'])}]"


@dataclass(frozen=True)
class IntType:
    """An integer known as a size: a literal, a dim, a loop index, or arithmetic on them."""

    value: Dim

    def show(self) -> str:
        return f"int ({self.value})"


@dataclass(frozen=True)
class FloatType:
    """An untyped scalar, which takes the float dtype it meets; `value` is None where only a run knows it."""

    value: float | None = None

    def show(self) -> str:
        return "float" if self.value is None else f"float ({self.value!r})"


@dataclass(frozen=True)
class BoolType:
    """A compile-time bool. A condition that only a run can decide is a `Tensor[bool]`."""

    value: bool

    def show(self) -> str:
        return f"bool ({self.value})"


@dataclass(frozen=True)
class StrType:
    """A compile-time string."""

    value: str

    def show(self) -> str:
        return f"str ({self.value!r})"


@dataclass(frozen=True)
class NoneType:
    """The value None: an absent optional argument, or the result of a call made for its effect."""

    def show(self) -> str:
        return "None"


@dataclass(frozen=True)
class DTypeType:
    """A dtype used as a value: `bf16 @accum(f32)` as an argument, or `x.dtype`."""

    dtype: DType
    policy: Policy = NO_POLICY

    def show(self) -> str:
        return f"dtype ({self.dtype}{self.policy})"


@dataclass(frozen=True)
class TupleType:
    """A tuple, or a list literal: a fixed number of values, each with its own type."""

    items: tuple[Type, ...]

    def show(self) -> str:
        return f"({', '.join(item.show() for item in self.items)}{',' if len(self.items) == 1 else ''})"


@dataclass(frozen=True)
class FunctionType:
    """A named function used as a value, passed to a function that calls it."""

    module: str
    name: str

    def show(self) -> str:
        return f"function `{self.name}`"


@dataclass(frozen=True)
class ErrorType:
    """The type of an expression that has a diagnostic already; it agrees with every other type."""

    def show(self) -> str:
        return "<error>"


Scalar = IntType | FloatType | BoolType | StrType | NoneType | DTypeType
Type = TensorType | Scalar | TupleType | FunctionType | ErrorType

# Note [A compile-time kind carries its value]
# An int is always known as a polynomial in the function's symbols and loop indices, so `x[i*4:(i + 1)*4]` has
# four rows without any analysis of values; an integer that only data determines is a `Tensor[i32]`. For the
# same reason a loop cannot carry an int: its type, which holds its value, would change.
