"""What two values have in common where control flow joins: branches, iterations of a loop, returns.

Enters: the types of both. Leaves: the least type that holds them, or none; and a value as that type. Numbers that are
known while compiling, and differ, are values of the run. See Note [How numbers rise].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tesserac.check.model import typed
from tesserac.check.state.body import Body
from tesserac.check.values.tuples import make_value, tuple_items
from tesserac.types.dims import Dim
from tesserac.types.dtype import BOOL
from tesserac.types.ty import (
    Aggregate,
    BoolType,
    ErrorType,
    FloatType,
    IntType,
    OperatorType,
    RunIntType,
    StructType,
    TensorType,
    Type,
    parts,
    with_parts,
)

SameSize = Callable[[Dim, Dim], bool]
JoinOperators = Callable[[SameSize, OperatorType, OperatorType], OperatorType | None]


def meet(body: Body, left: Type, right: Type) -> Type | None:
    """The type that values of both types have, each as it is `converted`; None if none. Operators that are made alike
    have one as well."""
    return agree(left, right, body.facts.same, body.rules.common_operator)


def agree(left: Type, right: Type, same: SameSize, join: JoinOperators | None = None) -> Type | None:
    """The type that values of both types have, as results of two branches or iterations of a loop; None if none.
    `same` tells which sizes are equal, by other names: they have the left one's."""
    if isinstance(left, ErrorType) or isinstance(right, ErrorType):
        return ErrorType()
    if left == right or _differ_in_names(left, right, same):
        return left
    if isinstance(left, OperatorType) and isinstance(right, OperatorType):
        return _same_structure(left, right, same) if join is None else join(same, left, right)
    if isinstance(left, Aggregate) and isinstance(right, Aggregate):
        return _agree_parts(left, right, same, join)
    return _number(left, right) or _number(right, left)


def _differ_in_names(left: Type, right: Type, same: SameSize) -> bool:
    if not isinstance(left, TensorType) or not isinstance(right, TensorType) or left.is_scaled:
        return False
    return left.rank == right.rank and replace(left, dims=right.dims) == right and all(map(same, left.dims, right.dims))


def _same_structure(left: OperatorType, right: OperatorType, same: SameSize) -> Type | None:
    """Operators of one expression and one size."""
    sizes = zip(left.leaves, right.leaves, strict=False)
    differ = any(isinstance(a, IntType) and isinstance(b, IntType) and not same(a.value, b.value) for a, b in sizes)
    return None if differ or left.tree != right.tree else _agree_parts(left, right, same, None)


def _agree_parts(left: Aggregate, right: Aggregate, same: SameSize, join: JoinOperators | None) -> Type | None:
    ours, theirs = parts(left) or (), parts(right) or ()
    if len(ours) != len(theirs) or with_parts(left, theirs) != _in_sizes_of(left, right, same):
        return None
    items = [agree(a, b, same, join) for a, b in zip(ours, theirs, strict=True)]
    return None if None in items else with_parts(left, (item for item in items if item is not None))


def _in_sizes_of(left: Aggregate, right: Aggregate, same: SameSize) -> Aggregate:
    """A struct by the sizes of another, where they are equal by other names."""
    if not (isinstance(left, StructType) and isinstance(right, StructType)) or len(left.dims) != len(right.dims):
        return right
    return replace(right, dims=left.dims) if all(map(same, left.dims, right.dims)) else right


def _number(low: Type, high: Type) -> Type | None:
    """What a number and something at least as far up are together."""
    match low, high:
        case IntType() | RunIntType(), IntType() | RunIntType():
            return RunIntType()
        case IntType() | RunIntType() | FloatType(), FloatType():
            return FloatType()
        case BoolType(), BoolType():
            return TensorType((), BOOL)
        case _, TensorType(dims=(), is_scaled=False):
            return high if _takes(high, low) else None
    return None


def _takes(tensor: TensorType, number: Type) -> bool:
    """Whether a number may be one of this dtype, as beside such a tensor."""
    match number:
        case IntType(value=value):
            known = value.constant
            return tensor.dtype.kind != "b" and (known is None or tensor.dtype.holds(known))
        case RunIntType():
            return tensor.dtype.kind != "b"
        case FloatType():
            return tensor.dtype.kind in "fc"
    return isinstance(number, BoolType) and tensor.dtype == BOOL


def converted(body: Body, value: typed.Expr, type_: Type) -> typed.Expr:
    """A value as a type that it agrees with others on: one that has other names for equal sizes at most, or is as far
    up as a loop has come that is checked again where a number rises."""
    if value.type == type_ or isinstance(type_, ErrorType) or isinstance(value.type, ErrorType):
        return value
    if not isinstance(type_, Aggregate):
        assert agree(type_, value.type, body.facts.same) is not None, f"{type_} does not hold {value.type}"
        return typed.Coerce(type_, value.span, value)
    if isinstance(type_, OperatorType) and isinstance(value.type, OperatorType):
        alike = value.type.tree == type_.tree and _same_structure(type_, value.type, body.facts.same) is not None
        if not alike:  # the taps of a convolution may be fewer than those of its adjoint
            return body.rules.operator_as(body, value, type_)
    pairs = zip(tuple_items(value, value.span), parts(type_) or (), strict=True)
    return make_value(type_, [converted(body, item, own) for item, own in pairs], value.span)


# Note [How numbers rise]
# An int is known while compiling: its type holds it. Where two ways meet that leave different ints under one name, only
# the run knows which: it is an int of the run, without a dtype. A fraction among them makes it a float, which has none
# either, and a 0-d tensor makes it one of that dtype. So
#
#     int (3) < int < float < Tensor[f32]        int < Tensor[i32]        bool (True) < Tensor[bool]
#
# and operators keep the order: operands further up give results further up. A loop is checked with what is known before
# it; where an iteration leaves something further up under a name, the loop is checked again from there (`loops.py`).
