"""What the oracle of the mutation test computes with: arrays of which only the shape and the storage are known.

The oracle is not the checker: nothing here imports it. Every symbol of a signature is a prime of its own, so two dims
are equal only where the program makes them so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tesserac.syntax import ast


class Rejected(Exception):
    """The program is wrong: two sizes, two dtypes, an axis that is not there."""


class Unjudged(Exception):
    """The oracle has no rule for this."""


@dataclass(frozen=True)
class DType:
    name: str
    policy: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Array:
    shape: tuple[int, ...]
    dtype: DType

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass
class Struct:
    """A value of a struct: its sizes in the order of its parameters, and its fields."""

    of: ast.StructDef
    sizes: tuple[int, ...]
    fields: dict[str, Value]


@dataclass
class Closure:
    """A function with the names around it; `bound` is the struct of a method, `native` a rule instead of a body."""

    name: str
    definition: ast.FunctionDef | ast.Lambda | None
    around: dict[str, Value]
    bound: Struct | None = None
    native: Callable[[Sequence[Value], dict[str, Value]], Value] | None = None


@dataclass(frozen=True)
class StructType:
    definition: ast.StructDef
    sizes: tuple[int, ...] | None = None


@dataclass
class Sizes:
    """The primes: one for each name, in the order they are asked for."""

    taken: dict[str, int] = field(default_factory=dict)

    def of(self, name: str) -> int:
        return self.taken.setdefault(name, PRIMES[len(self.taken)])


Value = (
    Array | Struct | Closure | StructType | DType | int | float | str | None | slice
    | tuple["Value", ...] | list["Value"]
)  # fmt: skip

FLOATS = ("f64", "f32", "tf32", "bf16", "f16", "fp8_e4m3", "fp8_e5m2")
INTEGERS = ("i64", "i32", "i16", "i8", "u64", "u32", "u8")
COMPLEX = ("c64", "c128")
NAMES = {
    **{name: name for name in (*FLOATS, *INTEGERS, *COMPLEX, "bool", "i4")},
    "fp32": "f32", "fp16": "f16", "fp64": "f64", "int8": "i8", "int32": "i32",
}  # fmt: skip
FIRST_PRIME = 101


def _primes(count: int) -> list[int]:
    found: list[int] = []
    candidate = FIRST_PRIME
    while len(found) < count:
        if all(candidate % d for d in range(2, int(candidate**0.5) + 1)):
            found.append(candidate)
        candidate += 2
    return found


PRIMES = _primes(200)


def type_of(value: Value) -> object:
    """What two values must share where they meet in a branch or a loop; numbers are not told apart."""
    if isinstance(value, Array):
        return value.shape, value.dtype.name
    if isinstance(value, Struct):
        return value.of.name, value.sizes
    if isinstance(value, tuple):
        return tuple(map(type_of, value))
    return None if isinstance(value, int | float) else type(value)
