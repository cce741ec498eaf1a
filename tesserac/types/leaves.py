"""What a value is at run time: the tensors it consists of, in order.

Enters: a type. Leaves: the types of the tensors that compiled code takes or gives for a value of it. What is known
while compiling has none.
"""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.types.dtype import F64, I64
from tesserac.types.policy import without_drawing
from tesserac.types.ty import (
    SCALED_NAMES,
    Aggregate,
    FloatType,
    RunIntType,
    TensorType,
    Type,
    part_names,
    parts,
    scaled_parts,
)


def run_time_parts(ty: Type) -> list[tuple[str, Type]] | None:
    """The names and types of what a value consists of; from here on a scaled tensor is two."""
    if isinstance(ty, TensorType) and ty.is_scaled:
        return list(zip(SCALED_NAMES, scaled_parts(ty).items, strict=True))
    return list(zip(part_names(ty), parts(ty) or (), strict=True)) if isinstance(ty, Aggregate) else None


def run_time_type(ty: Type) -> TensorType | None:
    """What a value of this type is at run time; a float that is not known yet is one f64, an int one i64."""
    if isinstance(ty, TensorType):
        return TensorType(ty.dims, ty.dtype, without_drawing(ty.policy))
    if isinstance(ty, RunIntType):
        return TensorType((), I64)
    return TensorType((), F64) if isinstance(ty, FloatType) and ty.value is None else None


def leaf_types(ty: Type) -> Iterator[TensorType]:
    if (inner := run_time_parts(ty)) is not None:
        for _, item in inner:
            yield from leaf_types(item)
    elif (tensor := run_time_type(ty)) is not None:
        yield tensor
