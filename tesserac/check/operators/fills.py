"""`full` and `pad` with a number that only the run knows: `full(N, 1.0 / float(N))`.

Enters: checked arguments of such a call. Leaves: the number stretched to the shape, or joined at both ends; with a
number that is known while compiling these are operators of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tesserac.check.model import typed
from tesserac.check.model.message_text import storage_text, type_text
from tesserac.check.operators.apply import apply_operator, meet_storage
from tesserac.check.operators.statics import read_axis, read_dims, read_dtype, read_size
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0210
from tesserac.diag.codes.precision import E0407
from tesserac.ops.create import Full
from tesserac.ops.join import Concat, Pad
from tesserac.ops.registry import Operator
from tesserac.ops.shape import Expand
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import BoolType, DTypeType, FloatType, IntType, RunIntType, TensorType

Given = Mapping[str, typed.Expr]


def is_fill(operator: type[Operator], given: Given) -> bool:
    """Whether a call fills with a number that only the run knows."""
    return operator in (Full, Pad) and "value" in given and not _is_known(given["value"])


def _is_known(value: typed.Expr) -> bool:
    type_ = value.type
    if isinstance(type_, IntType):
        return type_.value.constant is not None
    return not isinstance(type_, TensorType | RunIntType) and type_ != FloatType()


def fill(
    body: Body, operator: type[Operator], given: Given, grouped: tuple[typed.Expr, ...], callee: Callee
) -> typed.Expr:
    filled = _full(body, given, grouped, callee) if operator is Full else _pad(body, given, callee)
    return body.error(callee.span) if filled is None else filled


def _full(body: Body, given: Given, grouped: tuple[typed.Expr, ...], callee: Callee) -> typed.Expr | None:
    value = given["value"]
    own = DTypeType(value.type.dtype, value.type.policy) if isinstance(value.type, TensorType) else DTypeType(F32)
    dtype = read_dtype(body, given["dtype"]) if "dtype" in given else own
    shape = read_dims(body, grouped)
    number = None if dtype is None else _number(body, value, dtype)
    return None if number is None or shape is None else _stretched(body, number, shape, callee)


def _number(body: Body, value: typed.Expr, dtype: DTypeType) -> typed.Expr | None:
    """The number as one of this dtype; None after a diagnostic."""
    type_ = value.type
    if (isinstance(type_, TensorType) and type_.dims) or not isinstance(type_, _NUMBERS):
        body.sink.error(E0210, at=value.span, expected="one number", found=type_text(type_))
        return None
    if isinstance(type_, TensorType) and type_.dtype != dtype.dtype:
        wanted, text = f"{dtype.dtype}{dtype.policy}", body.rules.text(value.span)
        draft = body.sink.error(E0407, at=value.span, expected=wanted, found=storage_text(type_))
        draft.replace("cast it", value.span, f"cast({text}, {wanted})")
        return None
    return meet_storage(body, value, dtype.dtype, dtype.policy)


_NUMBERS = TensorType | IntType | RunIntType | FloatType | BoolType


def _stretched(body: Body, number: typed.Expr, shape: Sequence[Dim], callee: Callee) -> typed.Expr:
    return apply_operator(body, Expand(tuple(shape)), [number], callee.at, callee.span)


def _pad(body: Body, given: Given, callee: Callee) -> typed.Expr | None:
    x = given["x"]
    sizes = [read_size(body, given[name]) for name in ("before", "after")]
    axis = read_axis(body, given["axis"].type, given["axis"].span, x)
    if axis is None or not isinstance(x.type, TensorType) or any(size is None for size in sizes):
        return None
    number = _number(body, given["value"], DTypeType(x.type.dtype, NO_POLICY))
    if number is None:
        return None
    shapes = [(*x.type.dims[:axis], size, *x.type.dims[axis + 1 :]) for size in sizes if size is not None]
    before, after = (_stretched(body, number, shape, callee) for shape in shapes)
    return apply_operator(body, Concat(axis), [before, x, after], callee.at, callee.span)
