"""The dtype that a message proposes: one that is in use around, not always f32.

Enters: a body, and what stands beside the value that is to get a dtype. Leaves: the dtype of what that is computed
from, else of the function's result, else of the first tensor in reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tesserac.check.model import typed
from tesserac.check.model.message_text import storage_text
from tesserac.check.state.body import Body
from tesserac.types.dtype import DType
from tesserac.types.policy import NO_POLICY, Policy
from tesserac.types.ty import TensorType


def in_use(body: Body, kinds: str, default: DType, beside: Sequence[typed.Expr] = ()) -> DType:
    """The first dtype of one of these kinds."""
    return next((dtype for dtype, _ in _elements(body, beside) if dtype.kind in kinds), default)


def storage_in_use(body: Body, kinds: Sequence[str], default: DType, beside: Sequence[typed.Expr]) -> str:
    """The same with its policy, as it is written; kinds that come first are sought first."""
    elements = list(_elements(body, beside))
    found = [element for group in kinds for element in elements if element[0].kind in group]
    return storage_text(TensorType((), *(found[0] if found else (default, NO_POLICY))))


def _elements(body: Body, beside: Sequence[typed.Expr]) -> Iterator[tuple[DType, Policy]]:
    waiting = list(beside)
    while waiting:
        operand = waiting.pop(0)
        if isinstance(operand.type, TensorType):
            yield operand.type.dtype, operand.type.policy
        waiting += operand.operands if isinstance(operand, typed.Apply) else ()
    if body.declared.result_storage is not None:
        yield body.declared.result_storage.dtype, body.declared.result_storage.policy
    for binding in body.scope.bindings.values():
        if isinstance(binding.type, TensorType):
            yield binding.type.dtype, binding.type.policy
