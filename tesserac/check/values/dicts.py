"""Dicts: values under keys that are known while compiling.

Enters: dict literals, `d[key]`, `d.items()`. Leaves: the values as one, and parts of it; the keys are in the type.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.names.foreign_names import OF_DISTRIBUTIONS
from tesserac.check.names.refs import FunctionRef
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.check.values.tuples import item_of, make_tuple, make_value, tuple_items
from tesserac.diag.codes.names import E0202, E0205, E0208, E0210, E0215, E0938
from tesserac.diag.sink import Draft
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.ty import BoolType, DictType, ErrorType, IntType, Key, StrType

METHODS = ("keys", "values", "items")


def infer_dict(body: Body, node: ast.DictExpr) -> typed.Expr:
    keys: list[Key] = []
    values: list[typed.Expr] = []
    for entry in node.entries:
        key, value = read_key(body, entry.key), body.expression(entry.value)
        if key is not None and new_key(body, key, keys, entry.key.span):
            keys.append(key)
            values.append(value)
    wrong = len(keys) != len(node.entries) or any(isinstance(value.type, ErrorType) for value in values)
    return body.error(node.span) if wrong else make_dict(keys, values, node.span)


def make_dict(keys: Sequence[Key], values: Sequence[typed.Expr], span: Span) -> typed.Expr:
    entries = zip(keys, (value.type for value in values), strict=True)
    return make_value(DictType(tuple(entries)), values, span)


def read_key(body: Body, node: ast.Expr) -> Key | None:
    """A key as written; None after a diagnostic."""
    type_ = body.expression(node).type
    match type_:
        case StrType(value=text):
            return text
        case BoolType(value=flag):
            return flag
        case IntType(value=size) if size.constant is not None:
            return size.constant
        case IntType(value=size):
            if not body.wants_value(size):
                body.sink.error(E0215, at=node.span, what="a key of a dict")
        case ErrorType():
            pass
        case _:
            body.sink.error(E0210, at=node.span, expected="a key: a string, an int or a bool", found=type_text(type_))
    return None


def new_key(body: Body, key: Key, known: Sequence[Key], at: Span) -> bool:
    """Whether a key is not among those before it; if it is, there is a diagnostic."""
    if key in known:
        body.sink.error(E0202, at=at, name=repr(key)).remark("each key of a dict has one value")
    return key not in known


def dict_item(body: Body, value: typed.Expr, node: ast.Subscript) -> typed.Expr:
    """`d[key]`."""
    assert isinstance(value.type, DictType)
    key = read_key(body, node.arguments[0].value)
    position = None if key is None else value.type.position(key)
    if position is not None:
        return item_of(value, position, node.span)
    if key is not None:
        _report_missing(body, value.type, key, node.arguments[0].value)
    return body.error(node.span)


def _report_missing(body: Body, type_: DictType, key: Key, at: ast.Expr) -> None:
    draft = body.sink.error(E0938, at=at.span, key=repr(key))
    names = [known for known, _ in type_.entries if isinstance(known, str)]
    if isinstance(key, str):
        draft.did_you_mean(key, names, at.span, quote="'", written='"{}"')
    if type_.entries:
        draft.remark(f"its keys are {', '.join(repr(known) for known, _ in type_.entries)}")


def dict_with(body: Body, dict_: typed.Expr, node: ast.Expr, value: typed.Expr) -> typed.Expr:
    """The dict with one entry set: one that it has, or a new last one."""
    assert isinstance(dict_.type, DictType)
    key = read_key(body, node)
    if key is None:
        return body.error(node.span)
    keys, values = [own for own, _ in dict_.type.entries], list(tuple_items(dict_, node.span))
    position = dict_.type.position(key)
    if position is None:
        return make_dict([*keys, key], [*values, value], node.span)
    values[position] = value
    return make_dict(keys, values, node.span)


def dict_keys(value: typed.Expr, span: Span) -> tuple[typed.Expr, ...]:
    assert isinstance(value.type, DictType)
    return tuple(typed.Static(_key_type(key), span) for key, _ in value.type.entries)


def is_distribution(type_: DictType) -> bool:
    """Whether a dict is what `Normal(m, s)` gives: a function of the library would take it."""
    kind = type_.position("kind")
    return kind is not None and isinstance(type_.entries[kind][1], StrType)


def what_has(type_: DictType) -> str:
    """A dict, in words."""
    return "a distribution" if is_distribution(type_) else "a dict"


def tell_of_attribute(body: Body, draft: Draft, type_: DictType, node: ast.Attribute) -> None:
    """An attribute of a dict may be one of its keys; of a distribution it may be a function."""
    behind = Span(node.span.file, node.value.span.end, node.span.end)
    here = OF_DISTRIBUTIONS.get(node.name, node.name)
    if type_.position(node.name) is not None:
        draft.replace("a value of a dict stands under its key", behind, f'["{node.name}"]')
    elif is_distribution(type_) and isinstance(body.rules.resolve(here), FunctionRef):
        draft.replace(f"`{here}` is a function of it", behind, f".{here}()")


def call_dict_method(body: Body, value: typed.Expr, node: ast.Call, callee: Callee) -> typed.Expr:
    """`d.keys()`, `d.values()` and `d.items()`, as tuples."""
    if callee.name not in METHODS:
        assert isinstance(value.type, DictType)
        draft = body.sink.error(E0208, at=callee.at, what=what_has(value.type), name=callee.name)
        if is_distribution(value.type) and callee.name in OF_DISTRIBUTIONS:
            here = OF_DISTRIBUTIONS[callee.name]
            draft.replace(f"here it is `{here}`", callee.at, here, advice=f"here it is `{here}`")
            return body.error(callee.span)
        if is_distribution(value.type):
            draft.remark("it has `log_prob`, `cdf`, `icdf`, `sample`, `entropy`, `kl`, `expectation`, `variance`")
            return body.error(callee.span)
        draft.remark(f"there are {', '.join(f'`d.{name}()`' for name in METHODS)}")
        draft.did_you_mean(callee.name, METHODS, callee.at)
        return body.error(callee.span)
    if node.arguments:
        body.sink.error(E0205, at=node.arguments[0].span, problem=f"`{callee.name}` takes no arguments")
        return body.error(callee.span)
    keys, values = dict_keys(value, callee.span), tuple_items(value, callee.span)
    if callee.name == "items":
        return make_tuple([make_tuple(pair, callee.span) for pair in zip(keys, values, strict=True)], callee.span)
    return make_tuple(keys if callee.name == "keys" else values, callee.span)


def _key_type(key: Key) -> StrType | BoolType | IntType:
    if isinstance(key, str):
        return StrType(key)
    return BoolType(key) if isinstance(key, bool) else IntType(Dim.const(key))
