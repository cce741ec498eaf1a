"""What is known while compiling of a transform, as text: `vmap(f, in_axes=(0, None))` as a value of Python's.

Enters: the settings of a `TransformType`. Leaves: a text, and the settings of one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from tesserac.types.dims import Dim
from tesserac.types.ty import BoolType, FloatType, IntType, NoneType, StrType, TupleType, Type

Settings = Sequence[tuple[str, Type]]


class NotReturnable(Exception):
    """A value of this type stays inside the language."""


def setting_text(settings: Settings) -> str:
    """Raises NotReturnable for a schedule."""
    return json.dumps([[name, _row(type_)] for name, type_ in settings], separators=(",", ":"))


def read_settings(text: str) -> tuple[tuple[str, Type], ...]:
    return tuple((name, _type(row)) for name, row in json.loads(text))


def _row(type_: Type) -> object:
    match type_:
        case TupleType(items=items):
            return [_row(item) for item in items]
        case IntType(value=size) if size.constant is not None:
            return size.constant
        case BoolType(value=value) | StrType(value=value) | FloatType(value=float() as value):
            return value
        case NoneType():
            return None
    raise NotReturnable(type_.show())


def _type(row: object) -> Type:
    if isinstance(row, list):
        return TupleType(tuple(map(_type, row)))
    return static_type(row)


def static_type(value: object) -> Type:
    """The type of a value that is known while compiling."""
    match value:
        case bool():
            return BoolType(value)
        case int():
            return IntType(Dim.const(value))
        case float():
            return FloatType(value)
        case str():
            return StrType(value)
    return NoneType()
