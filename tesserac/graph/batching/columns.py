"""Functions that compute each column alone, mapped over columns: one call, of the columns of all elements side by side.

    vmap(lambda x: solve(a, x))(b)      solve(a, b.T).T, one elimination

Enters: a `graph.custom` of such a function (`@columns("alone")`), whose first operand is the same for all elements.
Leaves: what the same function gives of more columns, taken apart; None where the call is no such one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tesserac.graph.autodiff.dialect import smooth
from tesserac.graph.dialect import COLUMNS, FORWARD_RULE, REVERSE_RULE
from tesserac.ir.calls import CALLED, named_dims
from tesserac.ir.core import Attr, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.types.ty import TensorType

if TYPE_CHECKING:
    from tesserac.graph.batching.rules import Mapping


def side_by_side(mapping: Mapping, op: Op, operands: Sequence[Value], flags: Sequence[bool]) -> list[Value] | None:
    callee = mapping.functions.lookup(str(op.attrs["callee"]))
    is_one = COLUMNS in callee.attrs and CALLED not in op.attrs and mapping.active is None and len(op.results) == 1
    columns = _columns(callee, flags) if is_one and not flags[0] else None
    if columns is None:
        return None
    given = [_joined(mapping, v) if flag else v for v, flag in zip(operands, flags, strict=True)]
    own = tensor_type(op.result)
    is_mapped = tensor_type(callee.body.terminator.operands[0]).dims[-1].symbol in columns
    like = replace(own, dims=(own.dims[0], mapping.size * own.dims[1])) if is_mapped else own
    attrs = _sized(mapping, op, [tensor_type(v) for v in given], like)
    if attrs is None:
        return None
    found = mapping.builder.op(op.name, given, [like], attrs, (), [op.result.name]).result
    if not is_mapped:  # what is mapped has columns that do not show
        return [mapping.whole(found)]
    write = mapping.writer(op)
    apart = write.reshape(found, (own.dims[0], mapping.size, own.dims[1]))
    return [write.permute(apart, (1, 0, 2))]


def _columns(callee: Op, flags: Sequence[bool]) -> set[str | None] | None:
    """The numbers of columns of what is mapped; None where that is not all matrices, or these are sizes of other
    operands."""
    params, result = _types(callee.body.args), tensor_type(callee.body.terminator.operands[0])
    mapped = [ty for ty, flag in zip(params, flags, strict=True) if flag]
    if any(ty.rank != 2 or ty.dims[-1].symbol is None for ty in (*mapped, result)):
        return None
    columns = {ty.dims[-1].symbol for ty in mapped}
    others = [dim for ty, flag in zip(params, flags, strict=True) for dim in ty.dims[: -1 if flag else None]]
    return columns if all(columns.isdisjoint(dim.symbols()) for dim in others) else None


def _types(values: Sequence[Value]) -> list[TensorType]:
    return [tensor_type(value) for value in values]


def _joined(mapping: Mapping, value: Value) -> Value:
    """The columns of all elements, those of each beside each other."""
    write, (size, rows, columns) = mapping.writer(), tensor_type(value).dims
    return write.reshape(write.permute(value, (1, 0, 2)), (rows, size * columns))


def _sized(mapping: Mapping, op: Op, given: Sequence[TensorType], result: TensorType) -> dict[str, Attr] | None:
    """The call's attributes, in which functions have the sizes of more columns."""
    smooth_ones = smooth(op.operands)
    tangents = [ty for ty, v in zip(given, op.operands, strict=True) if v in smooth_ones]
    arguments = {FORWARD_RULE: [*given, result, *tangents], REVERSE_RULE: [*given, result, result]}
    attrs: dict[str, Attr] = dict(op.attrs)
    attrs["dims"] = _dims_of(mapping, (op.attrs["callee"], op.attrs["dims"]), given)
    for name in arguments.keys() & attrs.keys():
        rule = attrs[name]
        assert isinstance(rule, tuple)
        sized = _dims_of(mapping, rule, arguments[name])
        attrs[name] = None if sized is None else (rule[0], sized)
    return None if None in (attrs["dims"], *map(attrs.get, arguments.keys() & attrs.keys())) else attrs


def _dims_of(mapping: Mapping, function: tuple[Attr, ...], given: Sequence[TensorType]) -> Attr:
    """What the sizes of a function are for arguments of these types; None where that does not show."""
    args = _types(mapping.functions.lookup(str(function[0])).body.args)
    if [ty.rank for ty in args] != [ty.rank for ty in given]:
        return None
    pairs = [pair for own, ty in zip(args, given, strict=True) for pair in zip(own.dims, ty.dims, strict=True)]
    found = named_dims(function[1]) | {own.symbol: dim for own, dim in pairs if own.symbol is not None}
    if any(own.substitute(found) != dim for own, dim in pairs):
        return None
    return tuple((name, found[name]) for name in named_dims(function[1]))
