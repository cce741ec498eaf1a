"""The declarations behind a value: the parameters that its elements and sizes come from.

Enters: a typed expression. Leaves: the parameters it is made of, and because-steps that show where they are declared.
As `origins.py`, it is walked only when there is something to explain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import storage_text, type_text
from tesserac.check.provenance.origins import MAX_STEPS
from tesserac.check.state.body import Body
from tesserac.diag.sink import Draft
from tesserac.ops.convert import Cast
from tesserac.types.dims import Dim
from tesserac.types.ty import TensorType, Type

MAX_VISITED = 200


def show_declared(body: Body, draft: Draft, *values: typed.Expr) -> None:
    """A step for each parameter that the values are made of: what it was declared as, and where."""
    for leaf in _shown(body, draft, values):
        draft.because(f"`{leaf.name}` is declared {type_text(leaf.type)}", _place(body, leaf.name))


def show_dtypes(body: Body, draft: Draft, *values: typed.Expr) -> None:
    """The same where only dtypes and policies matter."""
    for leaf in _shown(body, draft, values):
        if isinstance(leaf.type, TensorType):
            draft.because(f"`{leaf.name}` is declared {storage_text(leaf.type)}", _place(body, leaf.name))


def _shown(body: Body, draft: Draft, values: Sequence[typed.Expr]) -> list[typed.Local]:
    """The parameters that there is room for; for one there always is."""
    leaves = {leaf.name: leaf for value in values for leaf in _parameters(body, value)}
    return list(leaves.values())[: max(1, MAX_STEPS - draft.steps)]


def is_cast(body: Body, value: typed.Expr) -> bool:
    """Whether the body chose the dtype of a value, by a cast that it has kept since."""
    for _ in range(MAX_VISITED):
        if isinstance(value, typed.Local):
            binding = body.origins.get(value)
            if binding is None or binding.value is None:
                return False
            value = binding.value
            continue
        if isinstance(value, typed.Apply) and isinstance(value.op, Cast):
            return True
        same = [operand for operand in operands_of(value) if _storage(operand.type) == _storage(value.type)]
        if not same:
            return False
        value = same[0]
    return False


def declared_element(body: Body, value: typed.Expr) -> Span | None:
    """Where the dtype of a value that is a parameter is written."""
    known = isinstance(value, typed.Local) and _is_parameter(body, value)
    place = body.declared.parameter_elements.get(value.name) if known and isinstance(value, typed.Local) else None
    return place if place is not None and place.known else None


def dims_behind(body: Body, value: typed.Expr) -> frozenset[Dim]:
    """Every size of the tensors that a value is made of, and its own."""
    types = [node.type for node in _behind(body, value)]
    return frozenset(dim for type_ in types if isinstance(type_, TensorType) for dim in type_.dims)


def _storage(type_: Type) -> object:
    return (type_.dtype, type_.policy) if isinstance(type_, TensorType) else None


def _place(body: Body, name: str) -> Span:
    element, dims = body.declared.parameter_elements[name], body.declared.parameter_dims[name]
    return element if element.known or not dims else dims[0].span


def _parameters(body: Body, value: typed.Expr) -> Iterator[typed.Local]:
    elements = body.declared.parameter_elements
    for node in _behind(body, value):
        if isinstance(node, typed.Local) and node.name in elements and _is_parameter(body, node):
            yield node


def _is_parameter(body: Body, node: typed.Local) -> bool:
    binding = body.origins.get(node)
    return binding is None or binding.value is None


def _behind(body: Body, value: typed.Expr) -> Iterator[typed.Expr]:
    """The value and what it is made of, nearest first."""
    waiting, seen = [value], 0
    while waiting and seen < MAX_VISITED:
        node = waiting.pop(0)
        seen += 1
        yield node
        binding = body.origins.get(node) if isinstance(node, typed.Local) else None
        waiting += [binding.value] if binding is not None and binding.value is not None else operands_of(node)


def operands_of(node: typed.Expr) -> list[typed.Expr]:
    match node:
        case typed.Apply():
            return list(node.operands)
        case typed.Call():
            return list(node.args)
        case typed.TupleOf():
            return list(node.items)
        case typed.Item() | typed.Coerce() | typed.Checkpoint():
            return [node.value]
        case typed.Conditional():
            return [node.then, node.otherwise]
    return []
