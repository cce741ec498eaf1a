"""Scalar primitives as instructions that every target has, on scalars and vectors alike.

Enters: operands as they are held in registers. Leaves: the result. What targets do in ways of their own (extremes of
floats, rounding to a whole number, narrow types) stands with them.
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, Value, const_int
from tesserac.types.dtype import DType

Row = Callable[..., Value]


def _binary(op: str) -> Row:
    return lambda b, x, y: b.binary(op, x, y)


def intrinsic(name: str) -> Row:
    return lambda b, *args: b.intrinsic(name, args[0].type, list(args), [args[0].type])


def _shift(op: str) -> Row:
    return lambda b, x, y: b.shift(op, x, y)


def _fcmp(predicate: str) -> Row:
    return lambda b, x, y: b.fcmp(predicate, x, y)


def _icmp(predicate: str) -> Row:
    return lambda b, x, y: b.icmp(predicate, x, y)


def _not(b: Builder, x: Value) -> Value:
    return b.binary("xor", x, const_int(x.type, -1))


def _negate(b: Builder, x: Value) -> Value:
    return b.binary("sub", const_int(x.type, 0), x)


def absolute(b: Builder, x: Value) -> Value:
    flag = const_int(I1, 0)
    return b.intrinsic("llvm.abs", x.type, [x, flag], [x.type])


def _safe_divisor(b: Builder, y: Value, signed: bool) -> Value:
    """The divisor, or 1 where division would trap: by zero, and of the lowest number by -1."""
    one = const_int(y.type, 1)
    safe = b.select(b.icmp("eq", y, const_int(y.type, 0)), one, y)
    return b.select(b.icmp("eq", y, const_int(y.type, -1)), one, safe) if signed else safe


def _or_zero(b: Builder, y: Value, value: Value) -> Value:
    """`value`, or 0 where the divisor is 0."""
    zero = const_int(y.type, 0)
    return b.select(b.icmp("eq", y, zero), zero, value)


def _floor_div_signed(b: Builder, x: Value, y: Value) -> Value:
    safe = _safe_divisor(b, y, signed=True)
    quotient = b.binary("sdiv", x, safe)
    rest = b.binary("sub", x, b.binary("mul", quotient, safe))
    down = b.select(_opposite(b, rest, safe), const_int(x.type, -1), const_int(x.type, 0))
    floored = b.binary("add", quotient, down)
    by_minus_one = b.icmp("eq", y, const_int(y.type, -1))
    return _or_zero(b, y, b.select(by_minus_one, _negate(b, x), floored))


def _mod_signed(b: Builder, x: Value, y: Value) -> Value:
    safe = _safe_divisor(b, y, signed=True)
    rest = b.binary("srem", x, safe)
    up = b.select(_opposite(b, rest, safe), safe, const_int(x.type, 0))
    return _or_zero(b, y, b.binary("add", rest, up))


def _opposite(b: Builder, rest: Value, divisor: Value) -> Value:
    """Whether there is a rest and its sign is not the divisor's."""
    nonzero = b.icmp("ne", rest, const_int(rest.type, 0))
    differs = b.icmp("slt", b.binary("xor", rest, divisor), const_int(rest.type, 0))
    return b.binary("and", nonzero, differs)


def _unsigned_division(op: str) -> Row:
    return lambda b, x, y: _or_zero(b, y, b.binary(op, x, _safe_divisor(b, y, signed=False)))


FLOAT: dict[str, Row] = {
    "add": _binary("fadd"),
    "sub": _binary("fsub"),
    "mul": _binary("fmul"),
    "div": _binary("fdiv"),
    "fma": Builder.fma,
    "neg": Builder.fneg,
    "abs": intrinsic("llvm.fabs"),
    "floor": intrinsic("llvm.floor"),
    "ceil": intrinsic("llvm.ceil"),
    "sqrt": intrinsic("llvm.sqrt"),
    "eq": _fcmp("oeq"),
    "lt": _fcmp("olt"),
    "le": _fcmp("ole"),
}
_INTEGER: dict[str, Row] = {
    "add": _binary("add"),
    "sub": _binary("sub"),
    "mul": _binary("mul"),
    "neg": _negate,
    "eq": _icmp("eq"),
    "and": _binary("and"),
    "or": _binary("or"),
    "xor": _binary("xor"),
    "not": _not,
    "shl": _shift("shl"),
}
_SIGNED: dict[str, Row] = {
    "abs": absolute,
    "min": intrinsic("llvm.smin"),
    "max": intrinsic("llvm.smax"),
    "lt": _icmp("slt"),
    "le": _icmp("sle"),
    "shr": _shift("ashr"),
    "floor_div": _floor_div_signed,
    "mod": _mod_signed,
}
_UNSIGNED: dict[str, Row] = {
    "abs": lambda b, x: x,
    "min": intrinsic("llvm.umin"),
    "max": intrinsic("llvm.umax"),
    "lt": _icmp("ult"),
    "le": _icmp("ule"),
    "shr": _shift("lshr"),
    "floor_div": _unsigned_division("udiv"),
    "mod": _unsigned_division("urem"),
}
_BOOL: dict[str, Row] = {
    "min": _binary("and"),
    "max": _binary("or"),
    "eq": _icmp("eq"),
    "lt": _icmp("ult"),
    "le": _icmp("ule"),
    "and": _binary("and"),
    "or": _binary("or"),
    "xor": _binary("xor"),
    "not": _not,
}


def whole_rows(dtype: DType) -> dict[str, Row]:
    """The rows of an integer type or of bool."""
    if dtype.kind == "b":
        return _BOOL
    return {**_INTEGER, **(_SIGNED if dtype.kind == "i" else _UNSIGNED)}
