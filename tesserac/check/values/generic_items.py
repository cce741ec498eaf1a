"""Lists whose length only a call knows: one item stands for all of them.

Enters: a value of type `List[N, T]` in a definition. Leaves: an item of type T, with which loops and comprehensions are
checked once. What is made of it is checked, never run: each call has an instance of its own, which knows the length.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.scope import HIDDEN
from tesserac.check.state.body import Body, is_static
from tesserac.diag.sink import Sink
from tesserac.types.dims import Dim
from tesserac.types.ty import ListType, Type, parts

_ITEM = f"{HIDDEN}item"


def stand_in(type_: Type, span: Span) -> typed.Expr:
    """Some value of a type, whose only use is its type."""
    return typed.Static(type_, span) if is_static(type_) else typed.Local(type_, span, _ITEM)


def any_item(body: Body, value: typed.Expr, span: Span) -> typed.Expr | None:
    """What stands for every item; None for what is no list, and for a list that no call makes longer or shorter."""
    if isinstance(value.type, ListType) and body.wants_value(value.type.count):
        return stand_in(value.type.item, span)
    return None


def join_lists(body: Body, left: typed.Expr, right: typed.Expr, span: Span) -> typed.Expr:
    """`a + b` where a call knows the length of one: a list, if all items have one type."""
    sides = [_listed(value.type) for value in (left, right)]
    for side in sides:
        if side is not None and side.count.constant is None and not body.wants_value(side.count):
            return body.unknown_count(side.count, span)
    first, second = sides
    if first is None or second is None or first.item != second.item:
        return body.error(span)
    return stand_in(ListType(first.count + second.count, first.item), span)


def _listed(type_: Type) -> ListType | None:
    """The type as that of a list; None for a tuple of several types, or of nothing."""
    items = set(parts(type_) or ())
    if isinstance(type_, ListType) or len(items) != 1:
        return type_ if isinstance(type_, ListType) else None
    return ListType(Dim.const(len(parts(type_) or ())), items.pop())


def lengths_in(type_: Type) -> Iterator[Dim]:
    """The lengths of the lists in a type that are not known."""
    if isinstance(type_, ListType):
        yield type_.count
    for inner in (type_.item,) if isinstance(type_, ListType) else parts(type_) or ():
        yield from lengths_in(inner)


@contextmanager
def quietly(body: Body) -> Iterator[None]:
    """Checks what only some calls come to: its mistakes are theirs, and so is what it returns."""
    sink, told, returns, at_definition = body.sink, set(body.sizes.told), list(body.flow.returns), body.at_definition
    body.sink, body.at_definition = Sink(), False
    try:
        yield
    finally:
        body.sink, body.sizes.told, body.flow.returns, body.at_definition = sink, told, returns, at_definition
