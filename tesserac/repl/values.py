"""Values of the session: a type of the language, and the arrays that a value of it consists of.

Structs and tuples are kept flat, as compiled code takes and returns them; what is known from the type alone (ints,
strings, ...) has no array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.syntax import ast
from tesserac.types.ty import (
    BoolType,
    FloatType,
    IntType,
    NoneType,
    RunIntType,
    StrType,
    TensorType,
    TupleType,
    Type,
    parts,
    scaled_parts,
)

if TYPE_CHECKING:
    from tessera.arguments import Array


@dataclass(frozen=True, eq=False)
class Value:
    """`span` is where it was computed."""

    type: Type
    leaves: tuple[Array, ...]
    span: Span

    def items(self) -> Iterator[Value]:
        """The values that it consists of, for a tuple or a struct."""
        leaves = iter(self.leaves)
        for part in _parts(self.type) or ():
            yield Value(part, tuple(next(leaves) for _ in range(count_leaves(part))), self.span)


def count_leaves(type_: Type) -> int:
    """How many arrays a value of this type has; a float that only a run knows is one."""
    inner = _parts(type_)
    if inner is not None:
        return sum(map(count_leaves, inner))
    return int(isinstance(type_, TensorType | RunIntType) or type_ == FloatType(None))


def _parts(type_: Type) -> tuple[Type, ...] | None:
    """What a value consists of; a scaled tensor is two."""
    return scaled_parts(type_).items if isinstance(type_, TensorType) and type_.is_scaled else parts(type_)


def literal(type_: Type, span: Span) -> ast.Expr | None:
    """A value that its type tells, as an expression; None for any other."""
    match type_:
        case BoolType(value=truth):
            return ast.BoolLiteral(span, truth)
        case IntType(value=size) if size.constant is not None:
            return ast.IntLiteral(span, size.constant)
        case FloatType(value=float() as number):
            return ast.FloatLiteral(span, number, repr(number))
        case StrType(value=text):
            return ast.StringLiteral(span, text)
        case NoneType():
            return ast.NoneLiteral(span)
    return None


def split(type_: Type, leaves: Sequence[Array], span: Span) -> list[Value]:
    """The items of a tuple as values."""
    assert isinstance(type_, TupleType)
    return list(Value(type_, tuple(leaves), span).items())
