"""Sizes that a fact makes equal become one where they meet: the forms know no facts.

Enters: an operator, its operands and its type, in which sizes may meet that are equal because the program says so: N
and M after `where N == M`, or inside `if N == M`. Leaves: its lowering over operands that are seen under one name each,

    graph.add(%x: [N], %y: [M])     becomes     %r = form.view(%y) {renamed} : [N];  form.map(%x, %r) : [N]
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.lowering import seen_as
from tesserac.ops.registry import Operator
from tesserac.ops.unify import Mismatch
from tesserac.types.dims import Dim
from tesserac.types.ty import TensorType

Names = dict[Dim, Dim]


def lower_operator(builder: Builder, operator: Operator, operands: Sequence[Value], result: TensorType) -> Value:
    """What an operator lowers to, of the type `result`."""
    types = [tensor_type(v) for v in operands]
    met = _meetings(operator, types)
    for names in (_names(met), _names([pair[::-1] for pair in met])) if met else ():
        renamed = [_with_names(type_, names) for type_ in types]
        given = _inferred(operator, renamed)
        if given is not None:
            views = [seen_as(builder, value, type_.dims) for value, type_ in zip(operands, renamed, strict=True)]
            return seen_as(builder, operator.lower(builder, views, given), result.dims)
    return operator.lower(builder, operands, result)


def _meetings(operator: Operator, types: Sequence[TensorType]) -> list[tuple[Dim, Dim]]:
    """The sizes that must be equal and have other names, the one that comes first before the other."""
    met: list[tuple[Dim, Dim]] = []

    def same(left: Dim, right: Dim) -> bool:
        if left != right:
            met.append((left, right))
        return True

    operator.infer(types, same)
    return met


def _names(met: Sequence[tuple[Dim, Dim]]) -> Names:
    names: Names = {}
    for left, right in met:
        first, second = names.get(left, left), names.get(right, right)
        if first != second:
            names = {**{name: first if other == second else other for name, other in names.items()}, second: first}
    return names


def _with_names(type_: TensorType, names: Names) -> TensorType:
    return TensorType(tuple(names.get(dim, dim) for dim in type_.dims), type_.dtype, type_.policy)


def _inferred(operator: Operator, types: Sequence[TensorType]) -> TensorType | None:
    try:
        return operator.infer(types)
    except Mismatch:
        return None
