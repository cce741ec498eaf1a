"""What the fields of a struct are in one use of it: in its sizes, its dtype, and like the weights that it is of.

Enters: a `StructSpec`, as an annotation says it. Leaves: one spec per field. See docs/training.md for `S[T]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from tesserac.base.source import Span
from tesserac.check.model.specs import (
    AnyDType,
    AnySpec,
    DimSpec,
    FieldSpec,
    ListSpec,
    NoneSpec,
    OptionalSpec,
    Storage,
    StructDecl,
    StructSpec,
    TensorSpec,
    TupleSpec,
    TypeSpec,
    substitute_spec,
)
from tesserac.types.dims import ONE, Dim
from tesserac.types.dtype import F32
from tesserac.types.policy import NO_POLICY


def field_specs(spec: StructSpec) -> tuple[FieldSpec, ...]:
    """The fields in the sizes of one use of the struct, and in its dtype, where that is said."""
    if spec.args is None:
        return spec.decl.fields
    if spec.storage is not None:
        stored = tuple(replace(f, spec=_stored(f.spec, spec.storage)) for f in spec.decl.fields)
        return field_specs(replace(spec, decl=replace(spec.decl, fields=stored), storage=None))
    sizes = {name: arg.dim for name, arg in zip(spec.decl.parameters, spec.args, strict=True)}
    own = [replace(f, spec=substitute_spec(f.spec, sizes)) for f in spec.decl.fields]
    return tuple(replace(f, spec=_of_use(f, spec)) for f in own)


MASTER = "master"
"""The field in which an optimiser's state keeps its weights in f32."""


def _of_use(field: FieldSpec, use: StructSpec) -> TypeSpec:
    """What a field is in one use of its struct."""
    spec = field.spec
    if isinstance(spec, AnySpec) and use.tree is not None and not spec.is_apart:
        tree = with_unit(widened(use.tree), spec.unit)
        if use.has_masters and field.name == MASTER:
            return tree if is_narrow(use.tree) else NoneSpec(tree.span)
        return OptionalSpec(tree.span, tree)
    return with_unit(widened(spec) if use.is_wide else spec, use.unit)


def widened(spec: TypeSpec) -> TypeSpec:
    """The type with f32 in place of every float of fewer bits."""
    match spec:
        case TensorSpec(element=Storage(dtype=dtype)) if dtype.is_float and dtype.bits < F32.bits:
            return replace(spec, element=Storage(F32, NO_POLICY))
        case StructSpec():
            return replace(spec, is_wide=True)
        case ListSpec():
            return ListSpec(spec.span, spec.count, widened(spec.item))
        case TupleSpec():
            return TupleSpec(spec.span, tuple(map(widened, spec.items)))
    return spec


def with_unit(spec: TypeSpec, axis: int | None) -> TypeSpec:
    """The type with a size of 1 along an axis, counted from the right, of every tensor of two dims or more."""
    match spec:
        case TensorSpec(dims=dims) if axis is not None and len(dims) >= 2:
            place = len(dims) + axis
            unit = DimSpec(ONE, dims[place].span)
            return replace(spec, dims=(*dims[:place], unit, *dims[place + 1 :]))
        case StructSpec() if axis is not None:
            return replace(spec, unit=axis)
        case ListSpec():
            return ListSpec(spec.span, spec.count, with_unit(spec.item, axis))
        case TupleSpec():
            return TupleSpec(spec.span, tuple(with_unit(item, axis) for item in spec.items))
    return spec


def is_narrow(spec: TypeSpec) -> bool:
    """Whether some float of a type has fewer bits than f32."""
    match spec:
        case TensorSpec(element=Storage(dtype=dtype)):
            return dtype.is_float and dtype.bits < F32.bits
        case StructSpec():
            return any(is_narrow(field.spec) for field in field_specs(spec))
        case ListSpec():
            return is_narrow(spec.item)
        case TupleSpec():
            return any(map(is_narrow, spec.items))
    return False


def says_more_than_sizes(spec: StructSpec) -> bool:
    """Whether the fields of one use of a struct are not those of every other of these sizes."""
    return spec.storage is not None or spec.tree is not None or spec.is_wide or spec.unit is not None


def _stored(spec: TypeSpec, storage: Storage) -> TypeSpec:
    return replace(spec, element=storage) if leaves_dtype_open(spec) else spec


def leaves_dtype_open(spec: TypeSpec) -> TypeGuard[TensorSpec]:
    """Whether a tensor is declared without a dtype."""
    return isinstance(spec, TensorSpec) and isinstance(spec.element, AnyDType)


def field_spec(decl: StructDecl, dims: Sequence[Dim], position: int, span: Span) -> TypeSpec:
    """One field of a struct of these sizes."""
    return field_specs(StructSpec(span, decl, tuple(DimSpec(dim, span) for dim in dims)))[position].spec
