"""The types of derivatives.

Enters: the type of a value. Leaves: that of its tangent: the same, without what has none. A float tensor has one of its
own type; integers, bools, strings and the buffers of structs have none, and leave None where they were; what is known
while compiling stays.
"""

from __future__ import annotations

from tesserac.check.state.body import is_static
from tesserac.types.ty import (
    Aggregate,
    FloatType,
    ListType,
    NoneType,
    StructType,
    TensorType,
    Type,
    parts,
    with_other_numbers,
)


def is_smooth(type_: Type) -> bool:
    """Whether single values of this type have a tangent."""
    if isinstance(type_, TensorType):
        return type_.dtype.kind in "fc" and not type_.is_scaled
    return isinstance(type_, FloatType) and type_.value is None


def moving_parts(type_: Type) -> tuple[Type, ...] | None:
    """The types of its parts, with None for those that no derivative is taken by."""
    if isinstance(type_, StructType):
        return tuple(NoneType() if name in type_.buffers else field for name, field in type_.fields)
    return parts(type_)


def has_tangent(type_: Type) -> bool:
    """Whether anything in a value of this type has a tangent."""
    if isinstance(type_, ListType):
        return has_tangent(type_.item)
    inner = moving_parts(type_)
    return is_smooth(type_) if inner is None else any(map(has_tangent, inner))


def tangent_type(type_: Type) -> Type:
    if isinstance(type_, ListType):
        return ListType(type_.count, tangent_type(type_.item))
    inner = moving_parts(type_)
    if inner is not None:
        assert isinstance(type_, Aggregate)
        return with_other_numbers(type_, map(tangent_type, inner))
    return type_ if is_smooth(type_) or is_static(type_) else NoneType()
