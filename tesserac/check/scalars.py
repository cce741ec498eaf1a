"""Arithmetic on what is known while compiling: sizes, and floats that have not met a dtype.

Enters: an operator and operands none of which is a tensor. Leaves: a static value, a float for the run, or a bool
of the run where sizes decide it. Sizes are exact; `+ - * /` of known floats are folded, as every target rounds
them alike.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from tesserac.base.source import Span
from tesserac.check import typed
from tesserac.check.body import Body
from tesserac.check.facts import Why
from tesserac.check.undecided import code_at, undecided
from tesserac.check.words import dim_text
from tesserac.diag.codes.names import E0210
from tesserac.diag.codes.precision import E0405
from tesserac.diag.codes.shapes import E0315
from tesserac.ops.registry import Operator
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import BOOL, I64
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
    if op.name in ("left_shift", "right_shift") and (count := values[1].constant) is not None and 0 <= count < 63:
        power = Dim.const(2**count)
        return typed.Static(IntType(values[0] * power if op.name == "left_shift" else values[0].floor_div(power)), span)
    if op.name in ("div", "floor_div", "mod"):
        return _divide(body, op.name, values[0], values[1], at, span)
    return None


def _run_ints(body: Body, op: Operator, operands: Sequence[typed.Expr], at: Span, span: Span) -> typed.Expr:
    """Ints that only the run knows: as i64, and an int again where the operator gives one."""
    if op.name == "div":
        draft = body.sink.error(E0405, at=at, operation="`/`", dtype="ints that only the run knows")
        draft.remark("`//` rounds down, `float(a) / float(b)` gives a fraction")
        if body.rules.text(at) == "/":
            draft.replace("round down", at, "//")
        return body.error(span)
    if "i" not in _element_kinds(op):
        return _floats(body, op, operands, at, span)
    one = TensorType((), I64)
    result: Type = op.infer([one] * len(operands), body.facts.same)
    wide = tuple(typed.Coerce(one, operand.span, operand) for operand in operands)
    return typed.Apply(RunIntType() if result == one else result, span, op, wide)


def _divide(body: Body, name: str, dividend: Dim, divisor: Dim, at: Span, span: Span) -> typed.Expr:
    if divisor == ZERO:
        body.sink.error(E0315, at=at, problem=f"{dim_text(dividend)} is divided by zero")
        return body.error(span)
    whole = body.facts.divides(divisor, dividend)
    if name == "mod":
        return typed.Static(IntType(ZERO if whole else dividend.mod(divisor)), span)
    if name == "floor_div" and not whole:
        return typed.Static(IntType(dividend.floor_div(divisor)), span)
    if whole is False:
        draft = body.sink.error(E0315, at=at, problem=f"{dim_text(dividend)} is not divisible by {dim_text(divisor)}")
        draft.remark("on ints `/` is exact division; `//` rounds down, `float(a) / float(b)` gives a fraction")
        if body.rules.text(at) == "/":
            draft.replace("round down", at, "//")
        return body.error(span)
    if whole is None:
        negative = divisor.constant is not None and divisor.constant < 0
        require_guard(body, "divides", -divisor if negative else divisor, dividend, span)
    return typed.Static(IntType(dividend.exact_div(divisor)), span)


def require_guard(
    body: Body, kind: typed.GuardKind, left: Dim, right: Dim, at: Span, origin: typed.Guard | None = None
) -> None:
    """A check, from then on a fact; `origin` is the check of a called function that it stands for. It is made on entry
    where every call comes to it, a bound that depends on loop indices at the ends of their ranges; else where it is
    needed. That two sizes of arguments agree is a matter of types, which hold for the whole function."""
    if body.dead:
        return
    reason = undecided(body, kind, left, right, at)
    typing = kind == "equal" and origin is None
    ends = None if body.branches and not typing else _on_entry(body, kind, left, right)
    if ends is None:
        require_here(body, kind, left, right, at)
        return
    body.add_guard(kind, *ends, at, reason, origin, code_at(body, at))
    body.facts.state_on_entry(kind, *ends, Why("checked on entry", at))
    if ends != (left, right):
        body.facts.state(kind, left, right, Why("checked on entry", at))  # of this turn


def require_here(body: Body, kind: typed.GuardKind, left: Dim, right: Dim, at: Span) -> None:
    """A check where the program comes to it, and behind it a fact."""
    if body.dead == 0:
        reason = undecided(body, kind, left, right, at)
        body.facts.state(kind, left, right, Why("checked here", at))
        if kind == "at_least":
            left, right = typed.balanced(left, right)
        body.add_check(typed.Require(at, kind, left, right, code_at(body, at), reason))


def require_position(body: Body, position: Dim, size: Dim, index: Dim, at: Span) -> None:
    """A check that a position, written as `index`, is one of a dim; then it is a fact."""
    bounds = [(left, right) for left, right in ((position, ZERO), (size, position + 1))]
    bounds = [bound for bound in bounds if not body.facts.surely_at_least(*bound)]
    if not body.branches and all(_on_entry(body, "at_least", *bound) for bound in bounds):
        for left, right in bounds:
            require_guard(body, "at_least", left, right, at)
    elif body.dead == 0:
        reason = undecided(body, "at_least", *bounds[0], at)
        body.add_check(typed.Require(at, "in_range", position, size, code_at(body, at), reason, index))
        for left, right in bounds:
            body.facts.state("at_least", left, right, Why("checked here", at))


def _on_entry(body: Body, kind: typed.GuardKind, left: Dim, right: Dim) -> tuple[Dim, Dim] | None:
    """The same as a question of sizes that are known on entry; None where there is none."""
    if kind == "at_least":
        end = body.facts.at_ends(left - right)
        return None if end is None else (end, ZERO)
    depends = any(body.facts.is_index(name) for name in (left - right).symbols())
    return None if depends else (left, right)


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
    if "f" not in _element_kinds(op):
        body.sink.error(E0210, at=at, expected="integers", found="a float")
        return body.error(span)
    result: Type = FloatType() if op.name != "isfinite" else TensorType((), BOOL)
    return typed.Apply(result, span, op, tuple(floats))


def _element_kinds(op: Operator) -> str:
    from tesserac.ops.signature import ELEMENT_CLASSES

    return ELEMENT_CLASSES[op.parsed[0].operands[0].pattern.element.variable[0]]


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
