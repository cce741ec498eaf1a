"""Indexing: `x[i]`, `x[a:b]`, `x[:, None]`, `x[..., 0]`, `x[tokens]`, and items of tuples.

Enters: a checked value and index expressions as written. Leaves: a slice of the tensor, reshaped where dims are
dropped or added, read at the places that integer tensors say. Bounds are proved, refuted, or become guards; those of
tensors are checked as they are read.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.guards.guarding import require_guard, require_position
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, dims_text, type_text
from tesserac.check.names.foreign_operators import ITS_MATRIX
from tesserac.check.operators.apply import apply_operator
from tesserac.check.operators.ported_meaning import tell_of_results
from tesserac.check.operators.scaled import refuse_scaled
from tesserac.check.places.listed_numbers import IN_PLACE_OF_LIST, tensor_in_place
from tesserac.check.places.loop_ends import leaves_in_loop
from tesserac.check.places.moving_slices import suggest_moving
from tesserac.check.places.paired_rows import tell_of_pairs
from tesserac.check.provenance.declared import show_declared
from tesserac.check.state.body import Body
from tesserac.check.state.run_ints import refuse_run_int
from tesserac.check.values.dicts import dict_item
from tesserac.check.values.generic_items import any_item
from tesserac.check.values.tuples import item_of, make_tuple, tuple_items
from tesserac.diag.codes.names import E0210, E0215
from tesserac.diag.codes.shapes import E0311, E0313
from tesserac.diag.sink import Draft
from tesserac.ops.convert import Cast
from tesserac.ops.index import Lookup
from tesserac.ops.shape import Reshape, Slice
from tesserac.syntax import ast
from tesserac.types.dims import LARGEST_SIZE, ONE, ZERO, Dim
from tesserac.types.dtype import BOOL, I64, U64
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import (
    DictType,
    ErrorType,
    FloatType,
    FunctionType,
    IntType,
    ListType,
    OperatorType,
    RunIntType,
    TensorType,
    TupleType,
)

INSTEAD_OF_MASK = "use `where(mask, x, y)`; `x[mask] = v` with one v for all is allowed"


@dataclass(frozen=True)
class Cut:
    """What one index takes of one dim; a position drops it."""

    start: Dim
    size: Dim
    step: int
    dropped: bool


@dataclass(frozen=True)
class Selection:
    """What all indices together take: a box of the tensor, seen under `shape`, and of that the `lookups`: axes with the
    integer tensors that say where to read along them. Their dims stand before dim `at` of those that stay."""

    cuts: tuple[Cut, ...]
    shape: tuple[Dim, ...]
    lookups: tuple[tuple[int, typed.Expr], ...]
    at: int


def index_value(body: Body, value: typed.Expr, node: ast.Subscript) -> typed.Expr:
    """`value[...]`."""
    ty = value.type
    if isinstance(ty, ErrorType):
        return value
    if isinstance(ty, TupleType):
        return _item(body, value, ty, [argument.value for argument in node.arguments], node.span)
    if isinstance(ty, DictType):
        return dict_item(body, value, node)
    if isinstance(ty, ListType):
        return _item_of_list(body, value, ty, entries_of(node), node.span)
    if not isinstance(ty, TensorType):
        draft = body.sink.error(E0210, at=node.value.span, expected="a tensor, a tuple or a dict", found=type_text(ty))
        if isinstance(ty, OperatorType):
            draft.remark(ITS_MATRIX)
        elif isinstance(ty, FunctionType):
            behind = Span(node.span.file, node.value.span.end, node.span.end)
            draft.replace("no grid is said: it follows from the result", behind, "")
        return body.error(node.span)
    if ty.is_scaled:
        return refuse_scaled(body, value, "indexing", node.span)
    tell_of_results(body, node, ty.rank)
    return _index_tensor(body, value, ty, entries_of(node), node.span)


def _item_of_list(
    body: Body, value: typed.Expr, ty: ListType, entries: Sequence[ast.Expr], span: Span
) -> typed.Expr:
    """`blocks[i]` of a list whose length only a call knows, which tells whether it is that long."""
    if len(entries) == 1 and not isinstance(entries[0], ast.Slice):
        body.expression(entries[0])
        item = any_item(body, value, span)
        return body.unknown_count(ty.count, value.span) if item is None else item
    return body.unknown_count(ty.count, value.span)


def entries_of(node: ast.Subscript) -> list[ast.Expr]:
    """What stands in the brackets; `x[(i, j)]` is `x[i, j]`."""
    entries = [argument.value for argument in node.arguments]
    if len(entries) == 1 and isinstance(entries[0], ast.TupleExpr):
        return list(entries[0].items)
    return list(entries)


def _item(body: Body, value: typed.Expr, ty: TupleType, entries: Sequence[ast.Expr], span: Span) -> typed.Expr:
    if len(entries) == 1 and isinstance(entries[0], ast.Slice):
        return _part_of_tuple(body, value, entries[0], span)
    position = tuple_position(body, ty, entries, value)
    return body.error(span) if position is None else item_of(value, position, span)


def _part_of_tuple(body: Body, value: typed.Expr, node: ast.Slice, span: Span) -> typed.Expr:
    """`t[1:]`: bounds that a list of Python would take."""
    bounds: list[int | None] = []
    for part in (node.start, node.stop, node.step):
        size = _bound(body, part, None)
        if part is not None and (size is None or size.constant is None):
            if size is not None and not body.wants_value(size):
                body.sink.error(E0215, at=part.span, what="a bound of a slice of a tuple")
            return body.error(span)
        bounds.append(None if size is None else size.constant)
    if bounds[2] == 0:
        body.sink.error(E0215, at=span, what="the step of a slice, not zero,")
        return body.error(span)
    return make_tuple(tuple_items(value, span)[builtins.slice(*bounds)], span)


def tuple_position(
    body: Body, ty: TupleType, entries: Sequence[ast.Expr], value: typed.Expr, *, is_read: bool = True
) -> int | None:
    """The item that `t[i]` means; None after a diagnostic."""
    index = body.expression(entries[0])
    position = index.type.value.constant if isinstance(index.type, IntType) else None
    if position is None:
        _refuse_position(body, index, entries[0].span, value, is_read)
        return None
    if not -len(ty.items) <= position < len(ty.items):
        body.sink.error(E0313, at=entries[0].span, index=position, size=len(ty.items))
        return None
    return position % len(ty.items)


def _refuse_position(body: Body, index: typed.Expr, at: Span, value: typed.Expr, is_read: bool) -> None:
    if isinstance(index.type, ErrorType):
        return
    if isinstance(index.type, RunIntType):
        draft = refuse_run_int(body, index, at, "the index of a tuple")
    else:
        draft = body.sink.error(E0215, at=at, what="the index of a tuple")
    gather, made = _one_tensor_of(value), tensor_in_place(body, value)
    if made is not None:
        draft.fix(IN_PLACE_OF_LIST, made, advice=IN_PLACE_OF_LIST)
    elif is_read and gather:
        draft.replace("what is read at any place is a tensor", value.span, f"{gather}({body.rules.text(value.span)})")


def _one_tensor_of(value: typed.Expr) -> str:
    """The function that makes a tensor of a tuple whose items are alike; none where they are not."""
    items = value.type.items if isinstance(value.type, TupleType) else ()
    if items and all(isinstance(item, IntType | FloatType | RunIntType) for item in items):
        return "array"
    tensors = {(item.dims, item.dtype) for item in items if isinstance(item, TensorType)}
    return "stack" if len(tensors) == 1 and all(isinstance(item, TensorType) for item in items) else ""


def _index_tensor(body: Body, value: typed.Expr, ty: TensorType, entries: list[ast.Expr], span: Span) -> typed.Expr:
    taken = select(body, ty, entries, span)
    if taken is None:
        return body.error(span)
    if taken.lookups:
        tell_of_pairs(body, value, entries, [index for _, index in taken.lookups], span)
    return read_selection(body, value, ty, taken, span)


def read_selection(body: Body, value: typed.Expr, ty: TensorType, taken: Selection, span: Span) -> typed.Expr:
    """The elements that indices select."""
    box = read_box(value, ty, taken, span)
    if not taken.lookups:
        return box
    axes, indices = zip(*taken.lookups, strict=True)
    return apply_operator(body, Lookup(axes, taken.at), [box, *indices], span, span)


def select(
    body: Body, ty: TensorType, entries: Sequence[ast.Expr], span: Span, only: typed.Expr | None = None
) -> Selection | None:
    """What the entries of `x[...]`, which stands at `span`, mean for a tensor of this type; None after a diagnostic.
    `only`: what the one entry was found to be."""
    entries = _without_ellipsis(list(entries), ty.rank)
    used = [entry for entry in entries if not isinstance(entry, ast.NoneLiteral)]
    names = [entry for entry in used if isinstance(entry, ast.Name | ast.Attribute)]
    if any(isinstance(body.expression(name).type, ErrorType) for name in names):
        return None  # it may stand for a new dim
    if len(used) > ty.rank:
        problem = f"{len(used)} indices for a tensor with dims {dims_text(ty.dims)}"
        body.sink.error(E0311, at=used[ty.rank].span, problem=problem)
        return None
    cuts: list[Cut] = []
    shape: list[Dim] = []
    lookups: list[tuple[int, typed.Expr]] = []
    stays: list[bool] = []
    for entry in entries:
        found = _entry(body, entry, ty.dims[len(cuts)] if len(cuts) < ty.rank else ONE, span, only)
        if found is None:
            return None
        cut, index = found
        stays.append(cut is None or not (cut.dropped or index is not None))
        lookups += [(len(shape), index)] if index is not None else []
        shape += [] if cut is not None and cut.dropped else [ONE if cut is None else cut.size]
        cuts += [] if cut is None else [cut]
    rest = ty.dims[len(cuts) :]
    cuts += [_whole(dim) for dim in rest]
    return Selection(tuple(cuts), (*shape, *rest), _of_one_dtype(lookups), _place(stays))


def _of_one_dtype(lookups: Sequence[tuple[int, typed.Expr]]) -> tuple[tuple[int, typed.Expr], ...]:
    """Positions are numbers: `x[arange(N), labels]` takes its tensors whatever integers they hold. Only what has no
    common type, u64 beside a signed one, is left for a decision."""
    dtypes = {index.type.dtype for _, index in lookups if isinstance(index.type, TensorType)}
    if len(dtypes) < 2 or U64 in dtypes:
        return tuple(lookups)
    return tuple((axis, _as_i64(index)) for axis, index in lookups)


def _as_i64(index: typed.Expr) -> typed.Expr:
    assert isinstance(index.type, TensorType)
    return typed.Apply(TensorType(index.type.dims, I64), index.span, Cast(I64, NO_POLICY), (index,))


def _entry(
    body: Body, entry: ast.Expr, size: Dim, span: Span, known: typed.Expr | None
) -> tuple[Cut | None, typed.Expr | None] | None:
    """The cut of one entry, none for a new dim; and the tensor, if it is one."""
    if isinstance(entry, ast.NoneLiteral):
        return None, None
    if isinstance(entry, ast.Slice):
        cut = _cut_slice(body, entry, size, span)
        return None if cut is None else (cut, None)
    index = known or body.expression(entry)
    if isinstance(index.type, IntType):
        if not _is_size(body, index.type.value, index.span):
            return None
        position = _from_end(body, index.type.value, size, span)
        return (Cut(position, ONE, 1, True), None) if _in_range(body, position, size, index, span) else None
    if isinstance(index.type, RunIntType):
        return _whole(size), typed.Coerce(TensorType((), I64), index.span, index)
    if isinstance(index.type, TensorType) and index.type.dtype.is_integer:
        return _whole(size), index
    if not isinstance(index.type, ErrorType):
        _refuse_entry(body, entry, index)
    return None


def _refuse_entry(body: Body, entry: ast.Expr, index: typed.Expr) -> None:
    expected = "an int, a slice, None or an integer tensor"
    draft = body.sink.error(E0210, at=entry.span, expected=expected, found=type_text(index.type))
    show_declared(body, draft, index)
    text = body.rules.text(entry.span)
    if isinstance(index.type, TensorType) and index.type.dtype == BOOL:
        draft.remark(f"how many elements a mask picks is not known while compiling; {INSTEAD_OF_MASK}")
    elif isinstance(index.type, TensorType):
        draft.replace("places are integers", entry.span, f"cast({text}, i64)")
    elif isinstance(index.type, TupleType) and text.startswith("["):
        _suggest_places(draft, entry.span, text[1:-1].strip())
    elif _one_tensor_of(index) == "array":
        draft.replace("places are a tensor", entry.span, f"array({text})")


def _suggest_places(draft: Draft, at: Span, places: str) -> None:
    """A list of places is a tensor of them; one place keeps its dim as a slice."""
    if places == "-1":
        draft.replace("a slice keeps the dim", at, "-1:")
    elif places.isdigit():
        draft.replace("a slice keeps the dim", at, f"{places}:{int(places) + 1}")
    else:
        draft.replace("places are a tensor", at, f"array([{places}])")


def _whole(size: Dim) -> Cut:
    return Cut(ZERO, size, 1, False)


def _place(stays: Sequence[bool]) -> int:
    """Where the dims of indices stand, as in NumPy: in place of them if they are neighbours, else first."""
    taken = [place for place, stay in enumerate(stays) if not stay]
    neighbours = bool(taken) and taken[-1] - taken[0] + 1 == len(taken)
    return taken[0] if neighbours else 0


def _without_ellipsis(entries: list[ast.Expr], rank: int) -> list[ast.Expr]:
    """`...` becomes as many full slices as there are dims left for it."""
    for place, entry in enumerate(entries):
        if isinstance(entry, ast.EllipsisLiteral):
            others = [e for e in entries if not isinstance(e, ast.NoneLiteral | ast.EllipsisLiteral)]
            full: list[ast.Expr] = [ast.Slice(entry.span, None, None, None)] * max(rank - len(others), 0)
            return [*entries[:place], *full, *entries[place + 1 :]]
    return entries


def read_box(value: typed.Expr, ty: TensorType, taken: Selection, span: Span) -> typed.Expr:
    """The box that the cuts make, under the shape of the selection."""
    cuts, shape = taken.cuts, taken.shape
    sizes = tuple(cut.size for cut in cuts)
    if any((cut.start, cut.size) != (ZERO, dim) for cut, dim in zip(cuts, ty.dims, strict=True)):
        op = Slice(tuple(cut.start for cut in cuts), sizes, tuple(cut.step for cut in cuts))
        value = typed.Apply(TensorType(sizes, ty.dtype, ty.policy), span, op, (value,))
    if shape != sizes:
        value = typed.Apply(TensorType(shape, ty.dtype, ty.policy), span, Reshape(shape), (value,))
    return value


def _from_end(body: Body, index: Dim, size: Dim, at: Span) -> Dim:
    """A negative index counts from the end: one that is known to be so, or that is written so, as `-k`; of that it is
    checked that k is at least 1."""
    if body.facts.at_least(index, ZERO):
        return index
    written = all(coefficient < 0 for _, coefficient in index.terms)
    if not (written or body.facts.at_least(index, ZERO) is False):
        return index
    _at_least(body, -index, ONE, at)
    return size + index


def _in_range(body: Body, position: Dim, size: Dim, index: typed.Expr, span: Span) -> bool:
    """Whether a position may be one of a dim; what is not known of it is checked."""
    assert isinstance(index.type, IntType)
    holds = [body.facts.at_least(left, right) for left, right in ((position, ZERO), (size, position + 1))]
    if False in holds:
        label = f"positions are 0 to {size - 1}" if size.constant is not None else ""
        index_text = dim_text(index.type.value)
        draft = body.sink.error(E0313, at=index.span, label=label, index=index_text, size=dim_text(size))
        if size.constant:
            draft.replace("take the last one", index.span, str(size - 1))
        elif position == size:
            draft.remark(f"places are counted from 0, so that the last one is {dim_text(size - 1)}")
            draft.replace("take the last one", index.span, "-1")
        return False
    if None in holds:
        if leaves_in_loop(body, position, size, index):
            return False
        require_position(body, position, size, index.type.value, span)
    return True


def _at_least(body: Body, left: Dim, right: Dim, at: Span) -> bool:
    """Whether sizes are so: known, or to be checked on entry. False only if it can never be."""
    holds = body.facts.at_least(left, right)
    if holds is None:
        require_guard(body, "at_least", left, right, at)
    return holds is not False


def _cut_slice(body: Body, node: ast.Slice, size: Dim, span: Span) -> Cut | None:
    step = _bound(body, node.step, ONE)
    start = _bound(body, node.start, None)
    if start is None and node.start is not None and suggest_moving(body, node, span):
        return None
    stop = _bound(body, node.stop, None)
    if step is None or (node.start and start is None) or (node.stop and stop is None):
        return None
    if step.constant is None or step.constant == 0:
        body.sink.error(E0215, at=(node.step or node).span, what="the step of a slice, not zero,")
        return None
    if step.constant < 0:
        return _cut_backwards(body, node, size, (start, stop), step.constant, span)
    low = ZERO if start is None or node.start is None else _from_end(body, start, size, span)
    high = size if stop is None or node.stop is None else _from_end(body, stop, size, span)
    last = step.constant - 1  # `x[1::2]` of no elements has none: the start may lie that far behind the end
    for left, right, at in ((low, ZERO, node.start), (size, high, node.stop), (high + last, low, node)):
        if at is not None and not _at_least(body, left, right, span):
            body.sink.error(E0313, at=at.span, index=_slice_text(start, stop), size=dim_text(size))
            return None
    return Cut(low, (high - low).ceil_div(step), step.constant, False)


def _cut_backwards(
    body: Body, node: ast.Slice, size: Dim, bounds: tuple[Dim | None, Dim | None], step: int, span: Span
) -> Cut | None:
    """From the start down to behind the stop; without bounds, from the last element to the first."""
    start, stop = bounds
    high = size - 1 if start is None or node.start is None else _from_end(body, start, size, span)
    low = -ONE if stop is None or node.stop is None else _from_end(body, stop, size, span)
    for left, right, at in ((size, high + 1, node.start), (low, ZERO, node.stop), (high, low, node)):
        if at is not None and (at is not node or bounds != (None, None)) and not _at_least(body, left, right, span):
            draft = body.sink.error(E0313, at=at.span, index=_slice_text(start, stop), size=dim_text(size))
            if at is node.start and body.facts.same(high, size):
                draft.replace("begin at the last one", at.span, "")
            return None
    return Cut(high, (high - low).ceil_div(-step), step, False)


def _bound(body: Body, node: ast.Expr | None, default: Dim | None) -> Dim | None:
    if node is None:
        return default
    value = body.expression(node)
    if isinstance(value.type, IntType):
        return value.type.value if _is_size(body, value.type.value, node.span) else None
    if isinstance(value.type, RunIntType):
        draft = refuse_run_int(body, value, node.span, "a bound of a slice")
        draft.remark("`slice(x, start, size)` starts where the run says, `for j in range(...)` goes any steps")
    elif not isinstance(value.type, ErrorType):
        draft = body.sink.error(E0210, at=node.span, expected="an int", found=type_text(value.type))
        if isinstance(value.type, TensorType):
            draft.remark("sizes are known while compiling: `slice(x, start, size)` starts where the run says")
    return None


def _is_size(body: Body, value: Dim, at: Span) -> bool:
    """Whether an index fits into the integers of a run; also where it is only compared with one that does."""
    if value.magnitude() <= LARGEST_SIZE:
        return True
    body.refuse_size(value, at)
    return False


def _slice_text(start: Dim | None, stop: Dim | None) -> str:
    return f"{'' if start is None else start}:{'' if stop is None else stop}"
