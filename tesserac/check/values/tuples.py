"""Values made of values: tuples, lists, structs, and functions with what they captured."""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.state.body import is_static
from tesserac.types.ty import Aggregate, TupleType, parts, with_other_numbers, with_parts


def make_tuple(items: Sequence[typed.Expr], span: Span) -> typed.Expr:
    """Expressions as one value; static if all of them are."""
    return make_value(TupleType(tuple(item.type for item in items)), items, span)


def make_value(type_: Aggregate, items: Sequence[typed.Expr], span: Span) -> typed.Expr:
    """The parts of a value of this type as that value, static if all of them are."""
    if all(isinstance(item, typed.Static) for item in items):
        return typed.Static(type_, span)
    return typed.TupleOf(type_, span, tuple(items))


def tuple_items(value: typed.Expr, span: Span) -> tuple[typed.Expr, ...]:
    """The parts of a value, each as an expression."""
    inner = parts(value.type)
    assert inner is not None
    if isinstance(value, typed.TupleOf):
        return value.items
    if isinstance(value, typed.Static):
        return tuple(typed.Static(item, span) for item in inner)
    return tuple(item_of(value, index, span) for index in range(len(inner)))


def item_of(value: typed.Expr, index: int, span: Span) -> typed.Expr:
    """One part of a value; one that is known while compiling needs no value."""
    inner = parts(value.type)
    assert inner is not None
    if isinstance(value, typed.TupleOf):
        return value.items[index]
    static = isinstance(value, typed.Static) or is_static(inner[index])
    return typed.Static(inner[index], span) if static else typed.Item(inner[index], span, value, index)


def rebuilt(value: typed.Expr, items: Sequence[typed.Expr]) -> typed.Expr:
    """A value of the same kind with other parts."""
    assert isinstance(value.type, Aggregate)
    return make_value(with_parts(value.type, (item.type for item in items)), items, value.span)


def recomputed(value: typed.Expr, items: Sequence[typed.Expr]) -> typed.Expr:
    """A value of the same kind whose parts are computed from the parts of others."""
    assert isinstance(value.type, Aggregate)
    return make_value(with_other_numbers(value.type, (item.type for item in items)), items, value.span)


def join_tuples(left: typed.Expr, right: typed.Expr, span: Span) -> typed.Expr:
    return make_tuple([*tuple_items(left, span), *tuple_items(right, span)], span)
