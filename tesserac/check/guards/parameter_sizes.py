"""The sizes that parameters bring with them, under the names that their annotations give.

Enters: an annotation, and the type of the argument. Leaves: what these names stand for in this instance.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.check.model.specs import DimSpec, ListSpec, OperatorSpec, StructSpec, TensorSpec, TupleSpec, TypeSpec
from tesserac.check.state.body import Body
from tesserac.types.dims import Dim
from tesserac.types.ty import OperatorType, StructType, TensorType, TupleType, Type


def enter_tensor(body: Body, name: str, spec: TensorSpec, type_: Type) -> None:
    """What messages say of a tensor's dims and element; sizes that have another name or a number in this instance."""
    body.declared.parameter_dims[name] = spec.dims
    body.declared.parameter_elements[name] = spec.element_span
    body.declared.element_spans.append(spec.element_span)
    if isinstance(type_, TensorType):
        own = type_.rank - len(spec.dims)
        _enter_dims(body, spec.dims, type_.dims[own:])
        body.declared.leading = type_.dims[:own] if spec.leading else body.declared.leading


def enter_sizes(body: Body, spec: TypeSpec, type_: Type) -> None:
    """The sizes of a struct or an operator, under the names that the annotation gives them."""
    if isinstance(spec, StructSpec) and isinstance(type_, StructType):
        _enter_dims(body, spec.args or (), type_.dims)
    elif isinstance(spec, OperatorSpec) and isinstance(type_, OperatorType):
        domain, codomain = type_.shape
        if domain is not None and codomain is not None:
            _enter_dims(body, spec.args, (domain, codomain))
    elif isinstance(spec, TupleSpec | ListSpec) and isinstance(type_, TupleType):
        _enter_items(body, spec, type_)


def _enter_items(body: Body, spec: TupleSpec | ListSpec, type_: TupleType) -> None:
    """The length of a list that a call has given, and the sizes of its items, or of those of a tuple."""
    if isinstance(spec, ListSpec):
        _enter_dims(body, (spec.count,), (Dim.const(len(type_.items)),))
    specs = spec.items if isinstance(spec, TupleSpec) else (spec.item,) * len(type_.items)
    for own, item in zip(specs, type_.items, strict=True):
        if isinstance(own, TensorSpec) and isinstance(item, TensorType):
            _enter_dims(body, own.dims, item.dims[item.rank - len(own.dims) :])
        else:
            enter_sizes(body, own, item)


def _enter_dims(body: Body, specs: Sequence[DimSpec], dims: Sequence[Dim]) -> None:
    pairs = zip(specs, dims, strict=False)
    body.sizes.symbols.update((spec.dim.symbol, size) for spec, size in pairs if spec.dim.symbol)
