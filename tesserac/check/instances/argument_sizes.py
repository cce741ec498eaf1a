"""Which sizes of an argument an annotation names, and which types are taken with all sizes that they have.

Enters: annotations, and types of arguments in the caller's sizes. Leaves: pairs of both; `binding.py` solves them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tesserac.check.model.operator_types import sized
from tesserac.check.model.specs import (
    AnySpec,
    DimSpec,
    FunctionSpec,
    ListSpec,
    OperatorSpec,
    OptionalSpec,
    StructSpec,
    TensorSpec,
    TupleSpec,
    TypeSpec,
    has_trees,
    holds_operators,
)
from tesserac.check.sizes.facts import Facts
from tesserac.types.dims import Dim
from tesserac.types.ty import OperatorType, StructType, TensorType, TupleType, Type, map_dims, sizes_in


def has_operators(spec: TypeSpec) -> bool:
    """Whether an argument is an operator, or has one in it."""
    return isinstance(spec, OperatorSpec) or holds_operators(spec)


def with_one_name(types: Sequence[Type], facts: Facts) -> Sequence[Type]:
    """Types in which sizes that a fact of the caller makes equal have one name, and one that it makes a number is that
    number: a callee that takes them as they are knows no such facts."""
    doubtful = dict.fromkeys(dim for type_ in types for dim in sizes_in(type_) if facts.nearby(dim))
    names: dict[Dim, Dim] = {}
    for dim in doubtful:
        number = facts.normal(dim)
        alike = (first for first in names.values() if facts.same(first, dim))
        names[dim] = number if number.constant is not None else next(alike, dim)
    if all(dim == name for dim, name in names.items()):
        return types
    return [map_dims(type_, lambda dim: names.get(dim, dim)) for type_ in types]


def takes_any(spec: TypeSpec) -> bool:
    """Whether the argument's own type, with its sizes, is that of the parameter or of a part of it. A function has
    sizes in what it captured and in its own signature."""
    spec = spec.inner if isinstance(spec, OptionalSpec) and isinstance(spec.inner, FunctionSpec) else spec
    return isinstance(spec, AnySpec | OperatorSpec | FunctionSpec) or has_trees(spec) or holds_operators(spec)


def named_sizes(spec: TypeSpec, found: Type) -> Iterable[tuple[DimSpec, Dim]]:
    """The dims that an annotation writes, each with the size that it is in an argument."""
    match spec, found:
        case TensorSpec(), TensorType():
            return zip(spec.dims, found.dims[max(found.rank - len(spec.dims), 0) :], strict=False)
        case StructSpec(), StructType():
            return zip(spec.args or (), found.dims, strict=False)
        case OperatorSpec(), OperatorType():
            return sized(spec, found)
        case TupleSpec(), TupleType():
            parts = zip(spec.items, found.items, strict=False)
            return [pair for own, item in parts for pair in named_sizes(own, item)]
        case ListSpec(), TupleType(items=(first, *_)):
            return named_sizes(spec.item, first)
    return ()
