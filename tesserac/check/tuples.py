"""Tuples of typed expressions."""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.source import Span
from tesserac.check import typed
from tesserac.types.ty import TupleType


def make_tuple(items: Sequence[typed.Expr], span: Span) -> typed.Expr:
    """Expressions as one value; static if all of them are."""
    type_ = TupleType(tuple(item.type for item in items))
    if all(isinstance(item, typed.Static) for item in items):
        return typed.Static(type_, span)
    return typed.TupleOf(type_, span, tuple(items))


def tuple_items(value: typed.Expr, span: Span) -> tuple[typed.Expr, ...]:
    """The items of a value that is a tuple, each as an expression."""
    assert isinstance(value.type, TupleType)
    if isinstance(value, typed.TupleOf):
        return value.items
    if isinstance(value, typed.Static):
        return tuple(typed.Static(item, span) for item in value.type.items)
    return tuple(typed.Item(item, span, value, index) for index, item in enumerate(value.type.items))


def join_tuples(left: typed.Expr, right: typed.Expr, span: Span) -> typed.Expr:
    return make_tuple([*tuple_items(left, span), *tuple_items(right, span)], span)
