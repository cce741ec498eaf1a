"""What can be iterated: ranges, tuples, lists.

Enters: the expression after `in`. Leaves: the bounds of a range, or the items of what is written out.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.operators.apply import meet_storage
from tesserac.check.state.body import MAPPED, Body
from tesserac.check.values.dicts import dict_keys
from tesserac.check.values.generic_items import any_item
from tesserac.check.values.tuples import tuple_items
from tesserac.check.values.unknown_names import unknown_name
from tesserac.diag.codes.names import E0205, E0210, E0213, E0215
from tesserac.diag.codes.precision import E0407
from tesserac.diag.diagnostic import Edit
from tesserac.syntax import ast
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.dtype import I64
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import DictType, ErrorType, IntType, ListType, RunIntType, TensorType, TupleType

REVERSED = "reversed"


def is_range(body: Body, node: ast.Expr) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.function, ast.Name):
        return False
    return node.function.id == "range" and "range" not in body.scope.bindings


def refuse_reversed(body: Body, node: ast.Expr) -> bool:
    """Python's `reversed(range(N))`, which counts down: told with the loop that does."""
    if not isinstance(node, ast.Call) or not isinstance(node.function, ast.Name) or len(node.arguments) != 1:
        return False
    known = body.binds(REVERSED) or body.rules.resolve(REVERSED) is not None
    if node.function.id != REVERSED or known or not is_range(body, node.arguments[0].value):
        return False
    unknown_name(body, node.function, node)
    body.error(node.span)
    return True


_HELD = "a tensor holds any number of numbers"


@dataclass(frozen=True)
class AnyItem:
    """What stands for the items of a list whose length only a call knows."""

    count: Dim
    item: typed.Expr


def items_of(
    body: Body, node: ast.Expr, span: Span, mapped: Edit | None = None
) -> tuple[typed.Expr, ...] | AnyItem | None:
    """The items of a tuple, a list, or a range whose bounds are known; None after a diagnostic, which for a range that
    is not known, and for a tensor, offers what is `mapped` over its numbers or rows."""
    if isinstance(node, ast.Call) and is_range(body, node):
        return numbers_of(body, node, span, mapped)
    value = body.expression(node)
    item = any_item(body, value, span)
    if isinstance(value.type, ListType) and item is not None:
        return AnyItem(value.type.count, item)
    items = written_out(value, span)
    if items is None:
        not_iterable(body, value, mapped)
    return items


def numbers_of(
    body: Body, node: ast.Call, span: Span, mapped: Edit | None = None, title: str = MAPPED
) -> tuple[typed.Expr, ...] | None:
    """The numbers of a range whose bounds are known; None after a diagnostic."""
    bounds = range_bounds(body, node)
    if bounds is None:
        return None
    if isinstance(bounds, RunBounds):
        body.sink.error(E0215, at=node.span, what="the number of items that are written out")
        return None
    start, stop, step = bounds
    for bound in (start, stop):
        if bound.constant is None:
            body.unknown_count(bound, node.span, mapped, title)
            return None
    assert start.constant is not None and stop.constant is not None
    numbers = range(start.constant, stop.constant, step)
    return tuple(typed.Static(IntType(Dim.const(number)), span) for number in numbers)


def numbers_alone(body: Body, node: ast.Call) -> tuple[typed.Expr, ...] | None:
    """The numbers of a range where a value stands, as in `x[range(B), y]`."""
    return numbers_of(body, node, node.span, Edit(node.function.span, "arange"), _HELD)


def written_out(value: typed.Expr, span: Span) -> tuple[typed.Expr, ...] | None:
    """The items of a tuple or list, the keys of a dict; None for what has none that can be told apart."""
    if isinstance(value.type, TupleType):
        return tuple_items(value, span)
    return dict_keys(value, span) if isinstance(value.type, DictType) else None


def not_iterable(body: Body, value: typed.Expr, mapped: Edit | None = None) -> None:
    """Says why a value has no items that could be told apart; of a tensor what is `mapped` over its rows."""
    if isinstance(value.type, ListType):
        body.unknown_count(value.type.count, value.span)
    elif isinstance(value.type, TensorType):
        draft = body.sink.error(E0213, at=value.span)
        if mapped is not None and value.type.dims:
            draft.fix("all rows at once, as one tensor", mapped)
        else:
            draft.remark("loop over `range(N)` and index, or use `scan` or `vmap`")
    elif not isinstance(value.type, ErrorType):
        expected = "a range, a tuple, a list or a dict"
        body.sink.error(E0210, at=value.span, expected=expected, found=type_text(value.type))


@dataclass(frozen=True)
class RunBounds:
    """A range that only a run knows: one of its bounds is. `type` is that of its index: of the integer tensors among
    the bounds, or an int without a dtype."""

    start: typed.Expr
    stop: typed.Expr
    step: typed.Expr
    type: TensorType | RunIntType


def range_bounds(body: Body, call: ast.Call) -> tuple[Dim, Dim, int] | RunBounds | None:
    """Start, stop and step; None after a diagnostic."""
    values = [body.expression(argument.value) for argument in call.arguments]
    if not 1 <= len(values) <= 3 or any(argument.name for argument in call.arguments):
        body.sink.error(E0205, at=call.span, problem="`range` takes a stop, or a start, a stop and a step")
        return None
    if not all([_is_bound(body, value) for value in values]):
        return None
    zero, one = (typed.Static(IntType(size), call.span) for size in (ZERO, ONE))
    start, stop, step = (zero, *values, one) if len(values) == 1 else (*values, one)[:3]
    by = step.type.value if isinstance(step.type, IntType) else None
    if by == ZERO:
        body.sink.error(E0215, at=step.span, what="the step of a range, not zero,")
        return None
    if by is not None and body.wants_value(by):
        return None
    if by is None or by.constant is None or any(isinstance(v.type, TensorType | RunIntType) for v in values):
        return _run_bounds(body, start, stop, step)
    first, last = (value.type.value for value in (start, stop) if isinstance(value.type, IntType))
    return first, last, by.constant


def _is_bound(body: Body, value: typed.Expr) -> bool:
    type_ = value.type
    one = isinstance(type_, TensorType) and not type_.dims and type_.dtype.is_integer
    if one or isinstance(type_, IntType | RunIntType):
        return True
    if not isinstance(type_, ErrorType):
        body.sink.error(E0210, at=value.span, expected="an int or one integer", found=type_text(type_))
    return False


def _run_bounds(body: Body, start: typed.Expr, stop: typed.Expr, step: typed.Expr) -> RunBounds | None:
    """Bounds of one dtype: that of the tensors among them."""
    dtypes = [value.type.dtype for value in (start, stop, step) if isinstance(value.type, TensorType)]
    if not dtypes:
        wide = [typed.Coerce(TensorType((), I64), value.span, value) for value in (start, stop, step)]
        return RunBounds(wide[0], wide[1], wide[2], RunIntType())
    met = [meet_storage(body, value, dtypes[0], NO_POLICY) for value in (start, stop, step)]
    for value in (start, stop, step):
        if isinstance(value.type, TensorType) and value.type.dtype != dtypes[0]:
            draft = body.sink.error(E0407, at=value.span, expected=dtypes[0].name, found=value.type.dtype.name)
            draft.replace("cast it", value.span, f"cast({body.rules.text(value.span)}, {dtypes[0]})")
            return None
    if met[0] is None or met[1] is None or met[2] is None:
        return None
    return RunBounds(met[0], met[1], met[2], TensorType((), dtypes[0]))
