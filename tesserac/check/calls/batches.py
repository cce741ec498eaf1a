"""One item where a function of the library takes a batch: `conv2d(x, w)` of an image [C, H, W].

Enters: the signature of a function under `@batched("first")` and the arguments of a call. Leaves: the first of them in
a batch of one, and the result without it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.check.model import typed
from tesserac.check.model.library_annotations import BATCHED, annotation_of
from tesserac.check.model.specs import Signature, TensorSpec
from tesserac.check.operators.apply import apply_operator
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.ops.shape import Reshape
from tesserac.types.dims import ONE
from tesserac.types.ty import TensorType


def is_one_item(signature: Signature, values: Sequence[typed.Expr]) -> bool:
    """Whether the first argument lacks the dim of a batch, and no other."""
    if annotation_of(signature.node, BATCHED) is None:
        return False
    spec, first = signature.parameters[0].spec, values[0].type
    return isinstance(spec, TensorSpec) and isinstance(first, TensorType) and first.rank == len(spec.dims) - 1


def in_a_batch(values: Sequence[typed.Expr]) -> list[typed.Expr]:
    first = values[0]
    assert isinstance(first.type, TensorType)
    dims = (ONE, *first.type.dims)
    one = TensorType(dims, first.type.dtype, first.type.policy)
    return [typed.Apply(one, first.span, Reshape(dims), (first,)), *values[1:]]


def out_of_batch(body: Body, result: typed.Expr, callee: Callee) -> typed.Expr:
    """The only item of a result; as it is where the call was wrong."""
    if not isinstance(result.type, TensorType):
        return result
    return apply_operator(body, Reshape(result.type.dims[1:]), [result], callee.at, callee.span)
