"""One item where a function of the library takes a batch: `conv2d(x, w)` of an image [C, H, W].

Enters: the signature of a function under `@batched("first")` or `@batched("all")`, and the arguments of a call. Leaves:
the first of them, or all, in a batch of one, and the result without it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.check.model import typed
from tesserac.check.model.library_annotations import BATCHED, FIRST, annotation_of
from tesserac.check.model.specs import Signature, TensorSpec
from tesserac.check.operators.apply import apply_operator
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.ops.shape import Reshape
from tesserac.types.dims import ONE
from tesserac.types.ty import TensorType, Type


def items(signature: Signature, values: Sequence[typed.Expr]) -> tuple[int, ...]:
    """The places of the arguments that lack the dim of a batch, and no other: the first, or under `@batched("all")` all
    whose dims are declared. None where one of them has it."""
    word = annotation_of(signature.node, BATCHED)
    if word is None:
        return ()
    specs = [parameter.spec for parameter in signature.parameters[: 1 if word == FIRST else None]]
    declared = [(place, spec) for place, spec in enumerate(specs) if isinstance(spec, TensorSpec) and spec.dims]
    is_one = all(_lacks_one(spec, values[place].type) for place, spec in declared)
    return tuple(place for place, _ in declared) if is_one else ()


def _lacks_one(spec: TensorSpec, type_: Type) -> bool:
    return isinstance(type_, TensorType) and type_.rank == len(spec.dims) - 1


def in_a_batch(values: Sequence[typed.Expr], places: Sequence[int]) -> list[typed.Expr]:
    return [_alone(value) if place in places else value for place, value in enumerate(values)]


def _alone(value: typed.Expr) -> typed.Expr:
    assert isinstance(value.type, TensorType)
    dims = (ONE, *value.type.dims)
    one = TensorType(dims, value.type.dtype, value.type.policy)
    return typed.Apply(one, value.span, Reshape(dims), (value,))


def out_of_batch(body: Body, result: typed.Expr, callee: Callee) -> typed.Expr:
    """The only item of a result; as it is where the call was wrong."""
    if not isinstance(result.type, TensorType):
        return result
    return apply_operator(body, Reshape(result.type.dims[1:]), [result], callee.at, callee.span)
