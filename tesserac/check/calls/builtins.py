"""Functions that the checker itself knows: `float`, `int`, `len`, `ceil_div`, `narrow`, `transpose`, `key`,
`next_key`, `zip`, `enumerate`, `rearrange`.

Enters: checked arguments. Leaves: a typed expression. `range` and `print` belong to statements.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from math import isfinite

from tesserac.base.source import Span
from tesserac.check.calls.pairing import ENUMERATE, ZIP, enumerated, zip_items
from tesserac.check.devices import collectives, distribution
from tesserac.check.guards.guarding import require_divisor
from tesserac.check.kernels import tiles
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, dims_text, type_text
from tesserac.check.operators.apply import apply_operator
from tesserac.check.operators.calls import call_operator
from tesserac.check.operators.keys import key_of, next_key
from tesserac.check.operators.pattern_calls import call_pattern
from tesserac.check.operators.statics import read_axis, read_dtype
from tesserac.check.provenance.in_use import in_use
from tesserac.check.state.arguments import Arg, Callee, Slot, sort_arguments
from tesserac.check.state.body import Body
from tesserac.check.values.scalars import to_float
from tesserac.diag.codes.effects import E0607
from tesserac.diag.codes.names import E0210
from tesserac.diag.codes.precision import E0406
from tesserac.diag.codes.shapes import E0311, E0315
from tesserac.diag.sink import Draft
from tesserac.ops.convert import Cast
from tesserac.ops.shape import Permute
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import F32, I64, DType
from tesserac.types.ty import (
    DictType,
    DTypeType,
    ErrorType,
    FloatType,
    IntType,
    ListType,
    RunIntType,
    StrType,
    TensorType,
    TupleType,
    parts,
)

_PLACES = {"print": "a statement of its own"}
Rule = Callable[[Body, Callee, dict[str, typed.Expr]], typed.Expr]


def call_builtin(body: Body, name: str, args: Sequence[Arg], callee: Callee) -> typed.Expr:
    if name in _FREE:
        return _FREE[name](body, args, callee)
    if name not in _RULES:
        place = _PLACES.get(name, "a `with`")
        body.sink.error(E0607, at=callee.at, name=name, place=place)
        return body.error(callee.span)
    slots, rule = _RULES[name]
    given = sort_arguments(body, callee, args, slots)
    if given is None or any(isinstance(value.type, ErrorType) for value in given.values()):
        return body.error(callee.span)
    return rule(body, callee, given)


_SPELT = ("inf", "+inf", "-inf", "infinity", "-infinity", "nan")
"""Floats that Python has no other way to write."""


def _float(body: Body, callee: Callee, given: dict[str, typed.Expr]) -> typed.Expr:
    value = given["x"]
    if isinstance(value.type, IntType | RunIntType | FloatType):
        return to_float(value)
    if isinstance(value.type, StrType) and value.type.value.lower() in _SPELT:
        return typed.Static(FloatType(float(value.type.value)), callee.span)
    draft = body.sink.error(E0210, at=value.span, expected="an int or a float", found=type_text(value.type))
    if isinstance(value.type, TensorType):
        is_method = callee.at.start > callee.span.start  # PyTorch's, which gives f32 whatever it is called on
        _suggest_cast(body, draft, value, callee, F32 if is_method else in_use(body, "f", F32, [value]))
    return body.error(callee.span)


def _suggest_cast(body: Body, draft: Draft, value: typed.Expr, callee: Callee, dtype: DType) -> None:
    converted = f"cast({body.rules.text(value.span)}, {dtype})"
    title = "a tensor is converted by `cast`"
    draft.replace(title, callee.span, converted, advice=f"{title}: `{converted}`")


def _int(body: Body, callee: Callee, given: dict[str, typed.Expr]) -> typed.Expr:
    """An int as it is; a float rounded towards zero, in the run where only that knows it."""
    value, type_ = given["x"], given["x"].type
    if isinstance(type_, IntType | RunIntType):
        return value
    if isinstance(type_, FloatType) and type_.value is not None and isfinite(type_.value):
        return typed.Static(IntType(Dim.const(int(type_.value))), callee.span)
    if isinstance(type_, FloatType):
        return typed.Coerce(RunIntType(), callee.span, value)
    draft = body.sink.error(E0210, at=value.span, expected="an int or a float", found=type_text(type_))
    if isinstance(type_, TensorType):
        _suggest_cast(body, draft, value, callee, in_use(body, "iu", I64, [value]))
    return body.error(callee.span)


def _len(body: Body, callee: Callee, given: dict[str, typed.Expr]) -> typed.Expr:
    type_ = given["x"].type
    if isinstance(type_, TupleType | DictType):
        return typed.Static(IntType(Dim.const(len(parts(type_) or ()))), callee.span)
    if isinstance(type_, TensorType) and type_.dims:
        return typed.Static(IntType(type_.dims[0]), callee.span)
    if isinstance(type_, ListType):
        return typed.Static(IntType(type_.count), callee.span)
    body.sink.error(E0210, at=callee.span, expected="a tuple or a tensor with dims", found=type_text(type_))
    return body.error(callee.span)


def _ceil_div(body: Body, callee: Callee, given: dict[str, typed.Expr]) -> typed.Expr:
    """The quotient of two sizes, rounded up: how many blocks of `b` hold `a` elements."""
    sizes = [value.type.value for value in (given["a"], given["b"]) if isinstance(value.type, IntType)]
    if len(sizes) < 2:
        wrong = next(value for value in given.values() if not isinstance(value.type, IntType))
        body.sink.error(E0210, at=wrong.span, expected="an int", found=type_text(wrong.type))
        return body.error(callee.span)
    dividend, divisor = sizes
    if divisor == ZERO:
        body.sink.error(E0315, at=callee.at, problem=f"{dim_text(dividend)} is divided by zero")
        return body.error(callee.span)
    require_divisor(body, divisor, callee.span)
    return typed.Static(IntType(dividend.ceil_div(divisor)), callee.span)


def _narrow(body: Body, callee: Callee, given: dict[str, typed.Expr]) -> typed.Expr:
    """`narrow(y)` rounds to the dtype that the function returns, `narrow(y, dtype)` to that one."""
    target = read_dtype(body, given["dtype"]) if "dtype" in given else _result_storage(body, callee)
    if target is None:
        return body.error(callee.span)
    value = given["x"]
    if isinstance(value.type, TensorType) and (value.type.dtype, value.type.policy) == (target.dtype, target.policy):
        return value
    return apply_operator(body, Cast(target.dtype, target.policy), [value], callee.at, callee.span)


def _result_storage(body: Body, callee: Callee) -> DTypeType | None:
    if body.declared.result_storage is not None:
        return DTypeType(body.declared.result_storage.dtype, body.declared.result_storage.policy)
    body.sink.error(E0406, at=callee.at, operation="`narrow`").remark(
        "the function does not say what dtype it returns; write `narrow(y, x.dtype)`"
    )
    return None


def _transpose(body: Body, callee: Callee, given: dict[str, typed.Expr]) -> typed.Expr:
    """Of the last two dims, or by an order as NumPy's, or of two axes as PyTorch's."""
    value, order, other = given["x"], given.get("order"), given.get("other")
    if order is None:
        return transpose(body, value, callee)
    if other is None:
        return call_operator(body, Permute, [Arg(None, v.span, v) for v in (value, order)], callee)
    first, second = (read_axis(body, axis.type, axis.span, value) for axis in (order, other))
    if first is None or second is None or not isinstance(value.type, TensorType):
        return body.error(callee.span)
    exchanged = {first: second, second: first}
    moved = tuple(exchanged.get(axis, axis) for axis in range(value.type.rank))
    return apply_operator(body, Permute(moved), [value], callee.at, callee.span)


def transpose(body: Body, value: typed.Expr, callee: Callee) -> typed.Expr:
    """The last two dims exchanged."""
    if not isinstance(value.type, TensorType):
        return apply_operator(body, Permute(()), [value], callee.at, callee.span)
    rank = value.type.rank
    if rank < 2:
        problem = f"`{callee.name}` exchanges the last two dims; this has {dims_text(value.type.dims)}"
        draft = body.sink.error(E0311, at=callee.at, problem=problem).note(value.span, dims_text(value.type.dims))
        if callee.name.startswith(".") and rank == 1:
            _suggest_of_a_vector(body, draft, value, callee)
        return body.error(callee.span)
    order = (*range(rank - 2), rank - 1, rank - 2)
    return apply_operator(body, Permute(order), [value], callee.at, callee.span)


def _suggest_of_a_vector(body: Body, draft: Draft, value: typed.Expr, callee: Callee) -> None:
    """`x.T` of a vector does nothing elsewhere, so it is left out; between others a column may be what was meant."""
    file, start, end = callee.at
    before = body.rules.text(Span(file, 0, value.span.start)).rstrip("( ")
    after = body.rules.text(Span(file, end, sys.maxsize)).lstrip(") ")
    dot = callee.at._replace(start=start - len("."))
    if before[-1:] in _SIGNS or after[:1] in _SIGNS:
        draft.replace("as a column", dot, "[:, None]")
    draft.replace("leave it out: elsewhere it does nothing to a vector", dot, "")


_SIGNS = tuple("+-*/")


def _key(body: Body, callee: Callee, given: dict[str, typed.Expr]) -> typed.Expr:
    return key_of(body, given["seed"]) or body.error(callee.span)


def _next_key(body: Body, callee: Callee, given: dict[str, typed.Expr]) -> typed.Expr:
    return next_key(body, callee.at, callee.span)


_FREE = {ZIP: zip_items, ENUMERATE: enumerated, "rearrange": call_pattern}
"""Those whose arguments have no names of their own."""
_X = Slot("x", True, False, others=("input",))
_RULES: dict[str, tuple[tuple[Slot, ...], Rule]] = {
    **{f"tile.{name}": rule for name, rule in tiles.RULES.items()},
    **{f"dist.{name}": rule for name, rule in distribution.RULES.items()},
    **collectives.RULES,
    "float": ((_X,), _float),
    "int": ((_X,), _int),
    "len": ((_X,), _len),
    "ceil_div": ((Slot("a", True, False), Slot("b", True, False)), _ceil_div),
    "narrow": ((_X, Slot("dtype", False, False)), _narrow),
    "transpose": (
        (_X, Slot("order", False, False, others=("dim0", "axes")), Slot("other", False, False, others=("dim1",))),
        _transpose,
    ),
    "key": ((Slot("seed", True, False),), _key),
    "next_key": ((), _next_key),
}
