"""Static arguments of operators: axes, shapes, orders, dtypes, numbers.

Enters: checked argument expressions. Leaves: plain values for an operator's fields, or None after a diagnostic.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, dims_text, type_text
from tesserac.check.names.foreign_names import AXIS_FIRST, COUNTS
from tesserac.check.provenance.declared import show_declared
from tesserac.check.state.body import Body
from tesserac.check.state.run_ints import refuse_run_int
from tesserac.check.values.tuples import tuple_items
from tesserac.diag.codes.names import E0210, E0215
from tesserac.diag.codes.shapes import E0310, E0314
from tesserac.diag.sink import Draft
from tesserac.types import dtype as dtypes
from tesserac.types.dims import ONE, Dim, DimError, parse_dim
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import (
    BoolType,
    DTypeType,
    ErrorType,
    FloatType,
    IntType,
    NoneType,
    RunIntType,
    StrType,
    TensorType,
    TupleType,
    Type,
)


def read_axes(body: Body, arg: typed.Expr | None, operand: typed.Expr) -> tuple[int, ...] | None:
    """Positions of axes, sorted; no argument, or None, means all."""
    rank = operand.type.rank if isinstance(operand.type, TensorType) else 0
    if arg is None or isinstance(arg.type, NoneType):
        return tuple(range(rank))
    axes = read_order(body, arg.type, arg.span, operand)
    return None if axes is None else tuple(sorted(axes))


def read_unit_axes(body: Body, arg: typed.Expr | None, operand: typed.Expr) -> tuple[int, ...] | None:
    """Positions of axes, sorted; no argument, or None, means all whose size is known to be 1."""
    if arg is not None and not isinstance(arg.type, NoneType):
        return read_axes(body, arg, operand)
    dims = operand.type.dims if isinstance(operand.type, TensorType) else ()
    return tuple(axis for axis, size in enumerate(dims) if body.facts.same(size, ONE))


def read_order(body: Body, type_: Type, span: Span, operand: typed.Expr) -> tuple[int, ...] | None:
    """Positions of axes, as given, each at most once."""
    items = type_.items if isinstance(type_, TupleType) else (type_,)
    axes: list[int] = []
    for item in items:
        axis = read_axis(body, item, span, operand)
        if axis is None:
            return None
        if axis in axes:
            body.sink.error(E0314, at=span, problem=f"axis {axis} is named twice")
            return None
        axes.append(axis)
    return tuple(axes)


def read_axis(body: Body, type_: Type, span: Span, operand: typed.Expr, function: str = "") -> int | None:
    """The position of one axis of a function, given by position or by the name of a dim."""
    if not isinstance(operand.type, TensorType):
        if not isinstance(operand.type, ErrorType):
            body.sink.error(E0210, at=operand.span, expected="a tensor", found=type_text(operand.type))
        return None
    if isinstance(type_, IntType) and type_.value.constant is not None:
        return _position(body, type_.value.constant, span, operand, operand.type, function)
    if isinstance(type_, IntType):
        return _axis_of_dim(body, type_.value, span, operand, operand.type)
    if isinstance(type_, StrType):
        try:
            dim = parse_dim(type_.value).substitute(body.sizes.symbols)
        except DimError:
            dim = Dim.sym(type_.value)
        return _axis_of_dim(body, dim, span, operand, operand.type)
    if not isinstance(type_, ErrorType):
        expected = "an axis: a position or the name of a dim"
        draft = body.sink.error(E0210, at=span, expected=expected, found=type_text(type_))
        if isinstance(type_, TensorType) and function in AXIS_FIRST:
            draft.remark(f"what PyTorch calls `{function}` is here {AXIS_FIRST[function]}")
    return None


def _position(
    body: Body, axis: int, span: Span, operand: typed.Expr, ty: TensorType, function: str
) -> int | None:
    if -ty.rank <= axis < ty.rank:
        return axis % ty.rank
    problem = f"axis {axis} is out of range for {dims_text(ty.dims)}"
    draft = body.sink.error(E0314, at=span, problem=problem)
    if function in COUNTS:
        draft.remark(f"what PyTorch calls `{function}` is here {COUNTS[function]}")
    elif ty.rank:
        names = ", ".join(f"{place} is {dim_text(dim)}" for place, dim in enumerate(ty.dims))
        draft.note(operand.span, f"axis {names}")
        draft.replace(f"take the last axis, {dim_text(ty.dims[-1])}", span, "-1")
    else:
        draft.note(operand.span, "one number, without dims")
    return None


def _axis_of_dim(body: Body, dim: Dim, span: Span, operand: typed.Expr, ty: TensorType) -> int | None:
    axes = [axis for axis, own in enumerate(ty.dims) if body.facts.same(own, dim)]
    if len(axes) == 1:
        return axes[0]
    if not axes and body.wants_value(dim):
        return None
    if axes:
        problem = f"{dim_text(dim)} names {len(axes)} dims of {dims_text(ty.dims)}"
        draft = body.sink.error(E0314, at=span, problem=problem).remark("give the axis by position")
        show_declared(body, draft, operand)
        for axis in (axes[-1], axes[0]):
            draft.replace(f"take axis {axis}, of {len(ty.dims)}", span, str(axis))
        return None
    text = body.rules.text(operand.span)
    shown = f"`{text}`" if text.isidentifier() else "this tensor"
    draft = body.sink.error(
        E0310, at=span, label=f"dims of {shown} are {dims_text(ty.dims)}", name=dim_text(dim), operand=shown
    )
    written = '"{}"' if body.rules.text(span).startswith('"') else "{}"
    named = [str(own) for own in ty.dims if own.constant is None]
    draft.did_you_mean(str(dim), named, span, quote="", written=written)
    return None


def read_dims(body: Body, args: Sequence[typed.Expr]) -> tuple[Dim, ...] | None:
    """A shape, given as one tuple or as several ints; a quoted name is a size too."""
    items = [item for arg in args for item in (tuple_items(arg, arg.span) if _is_tuple(arg) else (arg,))]
    dims = [_dim(body, item) for item in items]
    return None if any(dim is None for dim in dims) else tuple(dim for dim in dims if dim is not None)


def _is_tuple(value: typed.Expr) -> bool:
    return isinstance(value.type, TupleType)


def _dim(body: Body, arg: typed.Expr) -> Dim | None:
    type_, span = arg.type, arg.span
    if isinstance(type_, IntType):
        return type_.value
    if isinstance(type_, RunIntType):
        draft = refuse_run_int(body, arg, span)
        draft.remark("sizes never depend on data: take the largest there may be, and a mask for what counts")
        return None
    if isinstance(type_, StrType):
        return _written_dim(body, type_, span)
    if not isinstance(type_, ErrorType):
        draft = body.sink.error(E0210, at=span, expected="a size (an int)", found=type_text(type_))
        if isinstance(type_, FloatType):
            draft.remark("points between whole numbers are `linspace(0.0, 1.0, 5)`, or `0.25 * arange(4, dtype=f32)`")
        _suggest_known_int(body, draft, arg)
    return None


def _suggest_known_int(body: Body, draft: Draft, arg: typed.Expr) -> None:
    """A parameter that is one integer of a run can be one that compiling knows."""
    is_whole = isinstance(arg.type, TensorType) and arg.type.rank == 0 and arg.type.dtype.is_integer
    declared = body.declared.parameter_elements.get(arg.name) if is_whole and isinstance(arg, typed.Local) else None
    if declared is not None and declared.known and dtypes.lookup(body.rules.text(declared)) is not None:
        draft.replace("make it an int, which is known while compiling", declared, "int")


def _written_dim(body: Body, type_: StrType, span: Span) -> Dim | None:
    """A size in quotes, `"3*D"`, of names that are sizes here."""
    ints = {name: b.type.value for name, b in body.scope.bindings.items() if isinstance(b.type, IntType)}
    known = {**body.sizes.symbols, **ints}
    try:
        size = parse_dim(type_.value)
        unknown = sorted(size.symbols() - known.keys())
        if not unknown:
            return size.substitute(known)
    except DimError:
        unknown = []
    draft = body.sink.error(E0210, at=span, expected="a size (an int)", found=type_text(type_))
    if unknown:
        draft.remark(f"no size here is called `{unknown[0]}`").did_you_mean(type_.value, known, span, written='"{}"')
    return None


def read_dtype(body: Body, arg: typed.Expr) -> DTypeType | None:
    if isinstance(arg.type, DTypeType):
        return arg.type
    if isinstance(arg.type, StrType):
        dtype = dtypes.lookup(arg.type.value)
        if dtype is not None:
            return DTypeType(dtype, NO_POLICY)
    if not isinstance(arg.type, ErrorType):
        draft = body.sink.error(E0210, at=arg.span, expected="a dtype", found=type_text(arg.type))
        if isinstance(arg.type, StrType):
            draft.did_you_mean(arg.type.value, dtypes.spellings(), arg.span, written='"{}"')
    return None


def read_bool(body: Body, arg: typed.Expr) -> bool | None:
    if isinstance(arg.type, BoolType):
        return arg.type.value
    if not isinstance(arg.type, ErrorType):
        body.sink.error(E0210, at=arg.span, expected="True or False", found=type_text(arg.type))
    return None


def read_size(body: Body, arg: typed.Expr) -> Dim | None:
    return _dim(body, arg)


def read_int(body: Body, arg: typed.Expr) -> int | None:
    size = _dim(body, arg)
    if size is not None and size.constant is None and not body.wants_value(size):
        body.sink.error(E0215, at=arg.span, what=f"{dim_text(size)}")
    return None if size is None else size.constant


def read_number(body: Body, arg: typed.Expr) -> int | float | None:
    """A number known while compiling; a bool is one of dtype bool."""
    if isinstance(arg.type, FloatType | BoolType) and arg.type.value is not None:
        return arg.type.value
    if isinstance(arg.type, IntType) and arg.type.value.constant is not None:
        return arg.type.value.constant
    if isinstance(arg.type, RunIntType):
        refuse_run_int(body, arg, arg.span, "this value")
    elif not isinstance(arg.type, ErrorType):
        body.sink.error(E0215, at=arg.span, what="this value")
    return None
