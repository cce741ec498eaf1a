"""Types of operators: `Operator[Din, Dout, T = f32, P = T @accum(f32)]`, `SpectralOperator[D, f32]`.

Enters: the type as written, and the reader of the annotation it stands in. Leaves: an `OperatorSpec`, or None after a
diagnostic; and which operators are of such a type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from tesserac.base.dataclass import dataclass
from tesserac.check.model.specs import DimSpec, Element, OperatorSpec, Storage
from tesserac.diag.codes.names import E0204
from tesserac.diag.sink import Sink
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.ty import OperatorType, TensorType, number_types

HEADS = {"Operator": 2, "SpectralOperator": 1}
"""How many sizes each takes."""
_FORMS = {
    "Operator": "the size of what it takes and of what it gives, then a dtype: `Operator[Din, Dout, f32]`",
    "SpectralOperator": "one size, then a dtype: `SpectralOperator[D, f32]`",
}
_DTYPE, _POLICY = "T", "P"
NOTHING_BOUND: Mapping[str, Element] = {}


class Reader(Protocol):
    """What the reader of an annotation answers."""

    def dim_spec(self, entry: ast.Expr) -> DimSpec | None: ...
    def element(self, node: ast.Expr, bound: Mapping[str, Element] = NOTHING_BOUND) -> Element | None: ...


@dataclass(frozen=True)
class _Numbers:
    """What stands after the sizes; None where nothing does."""

    storage: Storage | None


def read_operator(reader: Reader, sink: Sink, node: ast.Subscript, head: str) -> OperatorSpec | None:
    """A type of operators with its arguments."""
    count = HEADS[head]
    sizes, rest = node.arguments[:count], node.arguments[count:]
    if len(sizes) < count or any(argument.name for argument in sizes) or len(rest) > 2:
        sink.error(E0204, at=node.span, problem=f"`{head}` takes {_FORMS[head]}")
        return None
    found = [reader.dim_spec(argument.value) for argument in sizes]
    numbers = _read_numbers(reader, sink, rest)
    args = tuple(size for size in found if size is not None)
    if numbers is None or len(args) < count:
        return None
    return OperatorSpec(node.span, args if count == 2 else args * 2, numbers.storage, head == "SpectralOperator")


def _read_numbers(reader: Reader, sink: Sink, arguments: Sequence[ast.Argument]) -> _Numbers | None:
    """The dtype, and after it the same with its policy; a later one may name an earlier one."""
    bound: dict[str, Element] = {}
    storage: Storage | None = None
    for argument, name in zip(arguments, (_DTYPE, _POLICY), strict=False):
        element = reader.element(argument.value, bound)
        if element is None or argument.name not in (None, name):
            problem = "this is not a dtype" if element is None else f"an operator's type has no `{argument.name}`"
            draft = sink.error(E0204, at=argument.span, problem=problem)
            draft.remark("after the sizes stand a dtype `T` and the same with its policy: `T = f32, P = T @accum(f32)`")
            return None
        if not isinstance(element, Storage):
            return None
        if storage is not None and element.dtype != storage.dtype:
            sink.error(E0204, at=argument.span, problem=f"the policy is of {element.dtype}, the dtype {storage.dtype}")
            return None
        bound[name] = storage = element
    return _Numbers(storage)


def is_of(spec: OperatorSpec, found: OperatorType) -> bool:
    """Whether an operator has the form and the numbers that a type says; its sizes are compared elsewhere."""
    wanted = spec.element
    if spec.is_spectral and not found.tree.is_spectral:
        return False
    return wanted is None or all(_takes(wanted, leaf) for leaf in number_types(found.leaves))


def with_policy(spec: OperatorSpec, found: OperatorType) -> OperatorType:
    """Numbers without a policy take that of the type."""
    if spec.element is None:
        return found
    policy = spec.element.policy
    taking = {leaf: replace(leaf, policy=policy) for leaf in number_types(found.leaves)}
    leaves = [taking.get(leaf, leaf) if isinstance(leaf, TensorType) else leaf for leaf in found.leaves]
    return replace(found, leaves=tuple(leaves))


def _takes(wanted: Storage, leaf: TensorType) -> bool:
    return leaf.dtype == wanted.dtype and (leaf.policy == wanted.policy or not str(leaf.policy))


def sized(spec: OperatorSpec, found: OperatorType) -> Iterator[tuple[DimSpec, Dim]]:
    """The sizes of a type, each with that of the operator where it has one."""
    return ((own, size) for own, size in zip(spec.args, found.shape, strict=False) if size is not None)
