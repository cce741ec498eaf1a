"""Powers, shifts and bits of ints: ints stay ints.

Enters: ints, known or not. Leaves: the int they give; where a symbol or a counter decides, one of the run (`2 ** q`,
`1 << i`). An int to a negative power is no int: `2.0 ** -1` is a float, `10 ** -3`, written as such, too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from tesserac.base.source import Span
from tesserac.check.guards.guarding import require_guard
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0215
from tesserac.diag.codes.shapes import E0315
from tesserac.ops.compare import LeftShift
from tesserac.ops.registry import Operator
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.dtype import I64
from tesserac.types.ty import IntType, RunIntType, TensorType

BITWISE: dict[str, Callable[..., int]] = {
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "bitwise_not": operator.invert,
}
_MOST = 1_024
"""Shifts and exponents beyond make no number that anything could take."""


def bits_of_ints(body: Body, op: Operator, values: Sequence[Dim], at: Span, span: Span) -> typed.Expr:
    """A shift, or an operator on bits."""
    if op.name in ("left_shift", "right_shift") and not _is_count(body, values[1], at, span, "a shift"):
        return body.error(span)
    known = [value.constant for value in values if value.constant is not None]
    if len(known) == len(values):
        return typed.Static(IntType(Dim.const(BITWISE[op.name](*known))), span)
    if op.name == "left_shift" and (count := values[1].constant) is not None:
        return typed.Static(IntType(values[0] * 2**count), span)
    if op.name == "right_shift" and (count := values[1].constant) is not None:
        return typed.Static(IntType(values[0].floor_div(2**count)), span)
    return _of_the_run(body, op, values, span)


def power_of_ints(body: Body, base: Dim, exponent: Dim, at: Span, span: Span) -> typed.Expr:
    """`base ** exponent`."""
    if not _is_count(body, exponent, at, span, "an exponent"):
        return body.error(span)
    if exponent.constant is not None:
        power = ONE
        for _ in range(exponent.constant):
            power = power * base
        return typed.Static(IntType(power), span)
    number = base.constant or 0
    if number > 0 and number & (number - 1) == 0:  # a power of two is a shift
        return _of_the_run(body, LeftShift(), [ONE, exponent * (number.bit_length() - 1)], span)
    if not body.wants_value(exponent):
        draft = body.sink.error(E0215, at=at, what=f"the exponent {dim_text(exponent)} of an int")
        draft.remark("powers of 2 are ints of the run too; `float(a) ** float(b)` is a float")
    return body.error(span)


def _is_count(body: Body, count: Dim, at: Span, span: Span, what: str) -> bool:
    """Whether a number counts: it is at least 0, which is checked where it is not known. False after a diagnostic."""
    holds = body.facts.at_least(count, ZERO)
    if holds is False or (count.constant or 0) > _MOST:
        problem = f"{what} of ints is at least 0" if holds is False else f"{what} of ints is at most {_MOST}"
        draft = body.sink.error(E0315, at=at, problem=f"{problem}, not {dim_text(count)}")
        if holds is False and what == "an exponent":
            draft.remark("of floats it may be negative: `float(a) ** b`")
        return False
    if holds is None:
        require_guard(body, "at_least", count, ZERO, span)
    return True


def _of_the_run(body: Body, op: Operator, values: Sequence[Dim], span: Span) -> typed.Expr:
    """An int that the run computes; a size needs the values of the ints it is made of, which a call gives."""
    body.waits = body.waits or any(not value.symbols().isdisjoint(body.sizes.static_symbols) for value in values)
    one = TensorType((), I64)
    operands = [typed.Coerce(one, span, typed.Static(IntType(value), span)) for value in values]
    return typed.Apply(RunIntType(), span, op, tuple(operands))
