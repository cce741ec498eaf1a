"""Arithmetic on what is known while compiling: sizes, and floats that have not met a dtype.

Enters: an operator and operands none of which is a tensor. Leaves: a static value, a float for the run, or a bool
of the run where sizes decide it. Sizes are exact; `+ - * /` of known floats are folded, as every target rounds
them alike.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence

from tesserac.base.source import Span
from tesserac.check.guards.guarding import require_divisor, require_guard
from tesserac.check.model import typed
from tesserac.check.model.message_text import SYMBOLS, dim_text
from tesserac.check.state.body import Body
from tesserac.check.values.bits import BITWISE, bits_of_ints
from tesserac.diag.codes.names import E0210
from tesserac.diag.codes.precision import E0405
from tesserac.diag.codes.shapes import E0311, E0315
from tesserac.diag.sink import Draft
from tesserac.ops.registry import Operator
from tesserac.ops.unify import Mismatch, RankMismatch
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import BOOL, F64, I64
from tesserac.types.ty import BoolType, FloatType, IntType, RunIntType, TensorType, Type

_FOLDED: dict[str, Callable[[float, float], float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
}
_SIZES: dict[str, Callable[[Dim, Dim], Dim]] = {
    "add": Dim.__add__,
    "sub": Dim.__sub__,
    "mul": Dim.__mul__,
    "maximum": Dim.max,
    "minimum": Dim.min,
}
_FLOAT_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
}


def apply_to_scalars(
    body: Body, op: Operator, operands: Sequence[typed.Expr], at: Span, span: Span
) -> typed.Expr:
    """The value of an operator on scalars alone."""
    types = [operand.type for operand in operands]
    if op.name == "where" and isinstance(types[0], BoolType):
        return _chosen(types[0].value, *operands[1:])
    if all(isinstance(ty, BoolType) for ty in types):
        return _bools(body, op, types, at, span)
    ints = [ty.value for ty in types if isinstance(ty, IntType)]
    if len(ints) < len(types) and all(isinstance(ty, IntType | RunIntType) for ty in types):
        return _run_ints(body, op, operands, at, span)
    if len(ints) == len(types):
        result = _ints(body, op, ints, at, span)
        if result is not None:
            return result
    return _floats(body, op, operands, at, span)


def _chosen(first: bool, then: typed.Expr, otherwise: typed.Expr) -> typed.Expr:
    """`where` of a condition that is known: one of two numbers, a float where the other is one."""
    chosen, other = (then, otherwise) if first else (otherwise, then)
    return to_float(chosen) if isinstance(other.type, FloatType) else chosen


def _bools(body: Body, op: Operator, types: Sequence[Type], at: Span, span: Span) -> typed.Expr:
    values = [ty.value for ty in types if isinstance(ty, BoolType)]
    logic: dict[str, Callable[..., bool]] = {
        "bitwise_and": operator.and_,
        "bitwise_or": operator.or_,
        "bitwise_xor": operator.xor,
        "bitwise_not": operator.not_,
        "equal": operator.eq,
        "not_equal": operator.ne,
        "all": bool,
        "any": bool,
    }
    if op.name not in logic:
        body.sink.error(E0210, at=at, expected="numbers", found="bools")
        return body.error(span)
    return typed.Static(BoolType(logic[op.name](*values)), span)


def _ints(body: Body, op: Operator, values: list[Dim], at: Span, span: Span) -> typed.Expr | None:
    """Sizes stay sizes where the operator keeps them whole; None where the result is a float."""
    if op.name in _FLOAT_COMPARISONS:
        return _compare_sizes(body, op, values, at, span)
    if op.name in _SIZES:
        return typed.Static(IntType(_SIZES[op.name](*values)), span)
    if op.name == "neg":
        return typed.Static(IntType(-values[0]), span)
    if op.name == "abs":
        return typed.Static(IntType(values[0].max(-values[0])), span)
    if op.name in BITWISE:
        return bits_of_ints(body, op, values, at, span)
    if op.name in ("div", "floor_div", "mod"):
        return _divide(body, op.name, values[0], values[1], at, span)
    return None


def _run_ints(body: Body, op: Operator, operands: Sequence[typed.Expr], at: Span, span: Span) -> typed.Expr:
    """Ints that only the run knows: as i64, and an int again where the operator gives one."""
    if op.name == "div":
        draft = body.sink.error(E0405, at=at, operation="`/`", dtype="ints that only the run knows")
        draft.remark("`//` rounds down, `float(a) / float(b)` gives a fraction")
        if body.rules.text(at) == "/":
            sides = (body.rules.text(operand.span) for operand in operands)
            draft.replace("as a fraction", span, " / ".join(f"float({side})" for side in sides))
            draft.replace("round down", at, "//")
        return body.error(span)
    if "i" not in _element_kinds(op):
        return _floats(body, op, operands, at, span)
    one = TensorType((), I64)
    result: Type = op.infer([one] * len(operands), body.facts.same)
    wide = tuple(typed.Coerce(one, operand.span, operand) for operand in operands)
    return typed.Apply(RunIntType() if result == one else result, span, op, wide)


_QUOTIENT = re.compile(r"(\d+)\s*/\s*(\d+)")
_AS_A_FRACTION = "as a fraction"


def _suggest_quotient(draft: Draft, text: str, is_argument: bool, at: Span, span: Span) -> None:
    """A quotient of two numbers may be a fraction that is meant; of one that is less than one there is no doubt. What
    takes a quotient as it is, `zeros(7 / 2)`, most often takes a size."""
    numbers = _QUOTIENT.fullmatch(text)
    rounds = numbers is None or int(numbers[1]) >= int(numbers[2])
    if rounds and is_argument:
        draft.replace("round down", at, "//")
    if numbers is not None:
        draft.replace(_AS_A_FRACTION, span, f"{numbers[1]}.0 / {numbers[2]}", advice=_AS_A_FRACTION)
    if rounds and not is_argument:
        draft.replace("round down", at, "//")


_CALL = re.compile(r"[\w\])]\(\s*$|,\s*$")


def _is_argument(body: Body, span: Span) -> bool:
    before = Span(span.file, max(span.start - 80, 0), span.start)
    return _CALL.search(body.rules.text(before)) is not None


def _divide(body: Body, name: str, dividend: Dim, divisor: Dim, at: Span, span: Span) -> typed.Expr:
    if divisor == ZERO:
        body.sink.error(E0315, at=at, problem=f"{dim_text(dividend)} is divided by zero")
        return body.error(span)
    whole = body.facts.divides(divisor, dividend)
    if name != "div":
        require_divisor(body, divisor, span)
    if name == "mod":
        return typed.Static(IntType(ZERO if whole else dividend.mod(divisor)), span)
    if name == "floor_div" and not whole:
        return typed.Static(IntType(dividend.floor_div(divisor)), span)
    if whole is False:
        draft = body.sink.error(E0315, at=at, problem=f"{dim_text(dividend)} is not divisible by {dim_text(divisor)}")
        draft.remark("on ints `/` is exact division; `//` rounds down, `float(a) / float(b)` gives a fraction")
        if body.rules.text(at) == "/":
            _suggest_quotient(draft, body.rules.text(span), _is_argument(body, span), at, span)
        return body.error(span)
    if whole is None:
        negative = divisor.constant is not None and divisor.constant < 0
        require_guard(body, "divides", -divisor if negative else divisor, dividend, span)
    return typed.Static(IntType(dividend.exact_div(divisor)), span)


def _compare_sizes(body: Body, op: Operator, values: list[Dim], at: Span, span: Span) -> typed.Expr:
    left, right = values
    known = decide(body, op.name, left, right)
    if known is not None:
        return typed.Static(BoolType(known), span)
    operands = [typed.Coerce(TensorType((), I64), span, typed.Static(IntType(v), span)) for v in values]
    return typed.Apply(TensorType((), BOOL), span, op, tuple(operands))


def decide(body: Body, comparison: str, left: Dim, right: Dim) -> bool | None:
    """Whether sizes compare so for all sizes; None where only a run knows."""
    facts = body.facts
    if comparison == "less":
        at_least = facts.at_least(left, right)
        return None if at_least is None else not at_least
    if comparison == "less_equal":
        return facts.at_least(right, left)
    equal: bool | None = facts.same(left, right)
    apart = (facts.at_least(left, right + 1), facts.at_least(right, left + 1))
    if not equal and True not in apart and facts.normal(left - right).constant is None:
        return None
    return equal if comparison == "equal" else not equal


def _floats(body: Body, op: Operator, operands: Sequence[typed.Expr], at: Span, span: Span) -> typed.Expr:
    floats = [to_float(operand) for operand in operands]
    values = [f.type.value for f in floats if isinstance(f.type, FloatType) and f.type.value is not None]
    known = len(values) == len(operands)
    if op.name in _FLOAT_COMPARISONS:
        if known:
            return typed.Static(BoolType(_FLOAT_COMPARISONS[op.name](*values)), span)
        return typed.Apply(TensorType((), BOOL), span, op, tuple(floats))
    if known and op.name == "neg":
        return typed.Static(FloatType(-values[0]), span)
    if known and op.name in _FOLDED and not (op.name == "div" and values[1] == 0):
        return typed.Static(FloatType(_FOLDED[op.name](*values)), span)
    if _needs_dims(op, len(operands)):
        problem = f"`{SYMBOLS.get(op.name, op.name)}` does not work on numbers: they have no dims"
        draft = body.sink.error(E0311, at=at, problem=problem)
        if op.name == "matmul":
            draft.replace("multiply them", at, "*")
        return body.error(span)
    if "f" not in _element_kinds(op):
        body.sink.error(E0210, at=at, expected="integers", found="a float")
        return body.error(span)
    result: Type = FloatType() if op.name != "isfinite" else TensorType((), BOOL)
    return typed.Apply(result, span, op, tuple(floats))


def _needs_dims(op: Operator, count: int) -> bool:
    try:
        op.infer([TensorType((), F64)] * count, Dim.__eq__)
    except RankMismatch:
        return True
    except Mismatch:
        return False  # of another reason, which is not about dims
    return False


def _element_kinds(op: Operator) -> str:
    from tesserac.ops.signature import ELEMENT_CLASSES

    first = op.parsed[0].operands[0].pattern.element.variable[0]
    return ELEMENT_CLASSES.get(first, first)  # of a dtype, as u64, the letter of its kind


def to_float(operand: typed.Expr) -> typed.Expr:
    """An int, or one number of a float dtype, as the float it is; exact for a known one, else converted at run time."""
    if isinstance(operand.type, RunIntType) or is_one_float(operand.type):
        return typed.Coerce(FloatType(), operand.span, operand)
    if not isinstance(operand.type, IntType):
        return operand
    value = operand.type.value.constant
    if value is not None:
        return typed.Static(FloatType(float(value)), operand.span)
    return typed.Coerce(FloatType(), operand.span, operand)


def is_one_float(type_: Type) -> bool:
    """Whether a value is one number of a float dtype, which is a float wherever compiling needs no value."""
    return isinstance(type_, TensorType) and not type_.dims and type_.dtype.is_float and not type_.is_scaled
