"""Some value of a type: what stands where there has to be one that nobody reads, or that adds nothing.

Enters: a type. Leaves: a value of it, zero wherever it holds numbers of the run.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.state.body import is_static
from tesserac.check.values.tuples import make_value
from tesserac.ops.create import Zeros
from tesserac.types.dims import ZERO
from tesserac.types.ty import Aggregate, FloatType, IntType, RunIntType, TensorType, Type, parts


def some_value(type_: Type, span: Span) -> typed.Expr:
    if isinstance(type_, RunIntType) or type_ == FloatType():
        zero: Type = IntType(ZERO) if isinstance(type_, RunIntType) else FloatType(0.0)
        return typed.Coerce(type_, span, typed.Static(zero, span))
    if is_static(type_):
        return typed.Static(type_, span)
    if isinstance(type_, TensorType):
        return typed.Apply(type_, span, Zeros(type_.dims, type_.dtype, type_.policy), ())
    assert isinstance(type_, Aggregate), f"{type_} has no value of its own"
    return make_value(type_, [some_value(part, span) for part in parts(type_) or ()], span)
