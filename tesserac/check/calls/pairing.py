"""`zip` and `enumerate`: the items of tuples, lists and dicts side by side, for loops that are written out.

Enters: checked arguments. Leaves: a tuple of tuples. What is paired must have equally many items: one that would be
left out without a word is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.places.iteration import not_iterable, written_out
from tesserac.check.state.arguments import Arg, Callee, Slot, sort_arguments
from tesserac.check.state.body import Body
from tesserac.check.values.generic_items import any_item, stand_in
from tesserac.check.values.tuples import make_tuple
from tesserac.diag.codes.names import E0210
from tesserac.types.dims import ZERO, Dim
from tesserac.types.ty import ErrorType, IntType, ListType, TupleType, Type

ZIP, ENUMERATE = "zip", "enumerate"
_ENUMERATED = (Slot("x", True, False), Slot("start", False, False))


def zip_items(body: Body, args: Sequence[Arg], callee: Callee) -> typed.Expr:
    """`zip(a, b, ...)`: the first items of all, then the second ones."""
    slots = tuple(Slot(f"x{place}", True, False) for place in range(max(len(args), 1)))
    given = sort_arguments(body, callee, args, slots)
    rows = None if given is None else _any_row(body, list(given.values()), callee)
    if rows is not None:
        return rows
    columns = [] if given is None else [_items(body, value) for value in given.values()]
    if given is None or any(column is None for column in columns):
        return body.error(callee.span)
    known = [column for column in columns if column is not None]
    for value, column in zip(given.values(), known, strict=True):
        if len(column) != len(known[0]):
            expected = f"{len(known[0])} items, as the first has"
            body.sink.error(E0210, at=value.span, expected=expected, found=f"{len(column)} items")
            return body.error(callee.span)
    return make_tuple([make_tuple(row, callee.span) for row in zip(*known, strict=True)], callee.span)


def _any_row(body: Body, values: Sequence[typed.Expr], callee: Callee) -> typed.Expr | None:
    """Lists of one length that only a call knows, side by side; None for anything else."""
    lists = [value.type for value in values if isinstance(value.type, ListType)]
    count = lists[0].count if lists else ZERO
    if len(lists) < len(values) or not all(body.facts.same(list_.count, count) for list_ in lists):
        return None
    if not body.wants_value(count):
        return None
    return stand_in(ListType(count, TupleType(tuple(list_.item for list_ in lists))), callee.span)


def enumerated(body: Body, args: Sequence[Arg], callee: Callee) -> typed.Expr:
    """`enumerate(x, start=0)`: each item behind its number."""
    given = sort_arguments(body, callee, args, _ENUMERATED)
    if given is not None and (item := any_item(body, given["x"], callee.span)) is not None:
        return _numbered(given["x"].type, item, callee)
    items = None if given is None else _items(body, given["x"])
    if given is None or items is None:
        return body.error(callee.span)
    start = given["start"].type if "start" in given else IntType(Dim.const(0))
    if not isinstance(start, IntType):
        body.sink.error(E0210, at=given["start"].span, expected="an int", found=type_text(start))
        return body.error(callee.span)
    numbers = [typed.Static(IntType(start.value + Dim.const(place)), callee.span) for place in range(len(items))]
    return make_tuple([make_tuple(row, callee.span) for row in zip(numbers, items, strict=True)], callee.span)


def _numbered(list_: Type, item: typed.Expr, callee: Callee) -> typed.Expr:
    """A list whose length only a call knows, each item behind a number of which nothing is known."""
    assert isinstance(list_, ListType)
    return stand_in(ListType(list_.count, TupleType((ErrorType(), item.type))), callee.span)


def _items(body: Body, value: typed.Expr) -> tuple[typed.Expr, ...] | None:
    if isinstance(value.type, ErrorType):
        return None
    found = written_out(value, value.span)
    if found is None:
        not_iterable(body, value)
    return found
