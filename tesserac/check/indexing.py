"""Indexing: `x[i]`, `x[a:b]`, `x[:, None]`, `x[..., 0]`, and items of tuples.

Enters: a checked value and index expressions as written. Leaves: a slice of the tensor, reshaped where dims are
dropped or added. Bounds are proved, refuted, or become guards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tesserac.base.source import Span
from tesserac.check import typed
from tesserac.check.body import Body
from tesserac.check.scalars import require_guard
from tesserac.check.words import dim_text, dims_text, type_text
from tesserac.diag.codes.names import E0210, E0215, E0299
from tesserac.diag.codes.shapes import E0311, E0313
from tesserac.ops.shape import Reshape, Slice
from tesserac.syntax import ast
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.ty import ErrorType, IntType, TensorType, TupleType


@dataclass(frozen=True)
class _Cut:
    """What one index takes of one dim; a position drops it."""

    start: Dim
    size: Dim
    step: int
    dropped: bool


def index_value(body: Body, value: typed.Expr, node: ast.Subscript) -> typed.Expr:
    """`value[...]`."""
    ty = value.type
    if isinstance(ty, ErrorType):
        return value
    entries = [argument.value for argument in node.arguments]
    if isinstance(ty, TupleType):
        return _item(body, value, ty, entries, node.span)
    if not isinstance(ty, TensorType):
        body.sink.error(E0210, at=node.value.span, expected="a tensor or a tuple", found=type_text(ty))
        return body.error(node.span)
    return _index_tensor(body, value, ty, _flatten(entries), node.span)


def _flatten(entries: Sequence[ast.Expr]) -> list[ast.Expr]:
    """`x[(i, j)]` is `x[i, j]`."""
    if len(entries) == 1 and isinstance(entries[0], ast.TupleExpr):
        return list(entries[0].items)
    return list(entries)


def _item(
    body: Body, value: typed.Expr, ty: TupleType, entries: Sequence[ast.Expr], span: Span
) -> typed.Expr:
    index = body.expression(entries[0])
    position = index.type.value.constant if isinstance(index.type, IntType) else None
    if position is None:
        if not isinstance(index.type, ErrorType):
            body.sink.error(E0215, at=entries[0].span, what="the index of a tuple")
        return body.error(span)
    if not -len(ty.items) <= position < len(ty.items):
        body.sink.error(E0313, at=entries[0].span, index=position, size=len(ty.items))
        return body.error(span)
    position %= len(ty.items)
    if isinstance(value, typed.Static):
        return typed.Static(ty.items[position], span)
    if isinstance(value, typed.TupleOf):
        return value.items[position]
    return typed.Item(ty.items[position], span, value, position)


def _index_tensor(
    body: Body, value: typed.Expr, ty: TensorType, entries: list[ast.Expr], span: Span
) -> typed.Expr:
    entries = _without_ellipsis(entries, ty.rank)
    used = [entry for entry in entries if not isinstance(entry, ast.NoneLiteral)]
    if len(used) > ty.rank:
        problem = f"{len(used)} indices for a tensor with dims {dims_text(ty.dims)}"
        body.sink.error(E0311, at=used[ty.rank].span, problem=problem)
        return body.error(span)
    cuts: list[_Cut] = []
    shape: list[Dim] = []
    for entry in entries:
        if isinstance(entry, ast.NoneLiteral):
            shape.append(ONE)
            continue
        cut = _cut(body, entry, ty.dims[len(cuts)])
        if cut is None:
            return body.error(span)
        cuts.append(cut)
        shape += [] if cut.dropped else [cut.size]
    rest = ty.dims[len(cuts) :]
    cuts += [_Cut(ZERO, dim, 1, False) for dim in rest]
    return _take(value, ty, cuts, (*shape, *rest), span)


def _without_ellipsis(entries: list[ast.Expr], rank: int) -> list[ast.Expr]:
    """`...` becomes as many full slices as there are dims left for it."""
    for place, entry in enumerate(entries):
        if isinstance(entry, ast.EllipsisLiteral):
            others = [e for e in entries if not isinstance(e, ast.NoneLiteral | ast.EllipsisLiteral)]
            full: list[ast.Expr] = [ast.Slice(entry.span, None, None, None)] * max(rank - len(others), 0)
            return [*entries[:place], *full, *entries[place + 1 :]]
    return entries


def _take(
    value: typed.Expr, ty: TensorType, cuts: list[_Cut], shape: tuple[Dim, ...], span: Span
) -> typed.Expr:
    sizes = tuple(cut.size for cut in cuts)
    if any(cut.start != ZERO or cut.size != dim for cut, dim in zip(cuts, ty.dims, strict=True)):
        op = Slice(tuple(cut.start for cut in cuts), sizes, tuple(cut.step for cut in cuts))
        value = typed.Apply(TensorType(sizes, ty.dtype, ty.policy), span, op, (value,))
    if shape != sizes:
        value = typed.Apply(TensorType(shape, ty.dtype, ty.policy), span, Reshape(shape), (value,))
    return value


def _cut(body: Body, entry: ast.Expr, size: Dim) -> _Cut | None:
    if isinstance(entry, ast.Slice):
        return _cut_slice(body, entry, size)
    index = body.expression(entry)
    if isinstance(index.type, IntType):
        position = _from_end(index.type.value, size)
        return _Cut(position, ONE, 1, True) if _in_range(body, position, size, index) else None
    if isinstance(index.type, TensorType):
        body.sink.error(E0299, at=entry.span, feature="indexing with a tensor")
    elif not isinstance(index.type, ErrorType):
        body.sink.error(E0210, at=entry.span, expected="an int, a slice or None", found=type_text(index.type))
    return None


def _from_end(index: Dim, size: Dim) -> Dim:
    """A negative number counts from the end."""
    negative = index.constant is not None and index.constant < 0
    return size + index if negative else index


def _in_range(body: Body, position: Dim, size: Dim, index: typed.Expr) -> bool:
    assert isinstance(index.type, IntType)
    for left, right in ((position, ZERO), (size, position + 1)):
        if not _at_least(body, left, right, index.span):
            body.sink.error(E0313, at=index.span, index=dim_text(index.type.value), size=dim_text(size))
            return False
    return True


def _at_least(body: Body, left: Dim, right: Dim, at: Span) -> bool:
    """Whether sizes are so: known, or to be checked on entry. False only if it can never be."""
    holds = body.facts.at_least(left, right)
    if holds is None:
        require_guard(body, "at_least", left, right, at)
    return holds is not False


def _cut_slice(body: Body, node: ast.Slice, size: Dim) -> _Cut | None:
    step = _bound(body, node.step, ONE)
    start, stop = _bound(body, node.start, None), _bound(body, node.stop, None)
    if step is None or (node.start and start is None) or (node.stop and stop is None):
        return None
    if step.constant is None or step.constant == 0:
        body.sink.error(E0215, at=(node.step or node).span, what="the step of a slice, not zero,")
        return None
    if step.constant < 0:
        return _cut_backwards(body, node, size, step.constant)
    low = ZERO if start is None else _from_end(start, size)
    high = size if stop is None else _from_end(stop, size)
    for left, right, at in ((low, ZERO, node.start), (size, high, node.stop), (high, low, node)):
        if at is not None and not _at_least(body, left, right, at.span):
            body.sink.error(E0313, at=at.span, index=_slice_text(start, stop), size=dim_text(size))
            return None
    return _Cut(low, (high - low).ceil_div(step), step.constant, False)


def _cut_backwards(body: Body, node: ast.Slice, size: Dim, step: int) -> _Cut | None:
    if node.start is not None or node.stop is not None:
        body.sink.error(E0299, at=node.span, feature="a slice with bounds and a negative step")
        return None
    return _Cut(size - 1, size.ceil_div(-step), step, False)


def _bound(body: Body, node: ast.Expr | None, default: Dim | None) -> Dim | None:
    if node is None:
        return default
    value = body.expression(node)
    if isinstance(value.type, IntType):
        return value.type.value
    if isinstance(value.type, TensorType):
        body.sink.error(E0299, at=node.span, feature="a slice whose bounds are tensors")
    elif not isinstance(value.type, ErrorType):
        body.sink.error(E0210, at=node.span, expected="an int", found=type_text(value.type))
    return None


def _slice_text(start: Dim | None, stop: Dim | None) -> str:
    return f"{'' if start is None else start}:{'' if stop is None else stop}"
