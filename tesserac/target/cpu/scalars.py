"""Scalar primitives as instructions, on scalars and vectors alike: one row per primitive of `ops/scalar.py`.

Enters: operands as they are held in registers (`registers.py`) and the dtype they stand for. Leaves: the result. A
narrow float is computed in f32 and rounded, which for the four operations and the root equals rounding once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.target.cpu.registers import (
    NARROW,
    UnsupportedError,
    narrow_fma,
    register_type,
    round_register,
    to_single,
    wrap_i4,
)
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import F32, F64, I1, I8, Value, const_float, const_int, like
from tesserac.types.dtype import BOOL, I4, DType

Row = Callable[..., Value]


def emit_scalar(b: Builder, name: str, dtype: DType, operands: Sequence[Value]) -> Value:
    """One primitive applied to operands of `dtype`."""
    if name == "fma" and dtype in NARROW:
        x, y, z = operands
        return narrow_fma(b, x, y, z, dtype)
    row = _rows(dtype).get(name)
    if row is None:
        raise UnsupportedError(f"no scalar.{name} of {dtype} on a CPU")
    value = row(b, *operands)
    if dtype in NARROW and value.type.is_float and name not in _EXACT:
        return round_register(b, value, dtype)
    return wrap_i4(b, value) if dtype == I4 and value.type.scalar == I8 else value


def _rows(dtype: DType) -> dict[str, Row]:
    if dtype.is_float:
        return _FLOAT
    if dtype.kind == "b":
        return _BOOL
    return {**_INTEGER, **(_SIGNED if dtype.kind == "i" else _UNSIGNED)}


def _binary(op: str) -> Row:
    return lambda b, x, y: b.binary(op, x, y)


def _intrinsic(name: str) -> Row:
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


def _absolute(b: Builder, x: Value) -> Value:
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


_EXACT = ("neg", "abs", "min", "max", "rint", "floor", "ceil")
"""Primitives whose result is a value of the operand's type already."""

_FLOAT: dict[str, Row] = {
    "add": _binary("fadd"),
    "sub": _binary("fsub"),
    "mul": _binary("fmul"),
    "div": _binary("fdiv"),
    "fma": Builder.fma,
    "neg": Builder.fneg,
    "abs": _intrinsic("llvm.fabs"),
    "min": _intrinsic("llvm.minimum"),
    "max": _intrinsic("llvm.maximum"),
    "rint": _intrinsic("llvm.roundeven"),
    "floor": _intrinsic("llvm.floor"),
    "ceil": _intrinsic("llvm.ceil"),
    "sqrt": _intrinsic("llvm.sqrt"),
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
    "abs": _absolute,
    "min": _intrinsic("llvm.smin"),
    "max": _intrinsic("llvm.smax"),
    "lt": _icmp("slt"),
    "le": _icmp("sle"),
    "shr": _shift("ashr"),
    "floor_div": _floor_div_signed,
    "mod": _mod_signed,
}
_UNSIGNED: dict[str, Row] = {
    "abs": lambda b, x: x,
    "min": _intrinsic("llvm.umin"),
    "max": _intrinsic("llvm.umax"),
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


def emit_cast(b: Builder, value: Value, source: DType, target: DType) -> Value:
    """A value of one dtype as another, rounded once; float to integer saturates, integers wrap."""
    if source == target:
        return value
    if target == BOOL:
        zero = const_float(value.type, 0.0) if source.is_float else const_int(value.type, 0)
        return b.fcmp("une", value, zero) if source.is_float else b.icmp("ne", value, zero)
    if source.is_float:
        return _from_float(b, value, target)
    if target.is_float:
        return _from_integer(b, value, source, target)
    return _between_integers(b, value, source, target)


def _between_integers(b: Builder, value: Value, source: DType, target: DType) -> Value:
    to = like(value.type, register_type(target))
    if to.bits != value.type.bits:
        widening = "sext" if source.kind == "i" else "zext"
        value = b.cast("trunc" if to.bits < value.type.bits else widening, value, to)
    return wrap_i4(b, value) if target == I4 else value


def _from_float(b: Builder, value: Value, target: DType) -> Value:
    result = like(value.type, register_type(target))
    if target.is_integer:
        name = "llvm.fptosi.sat" if target.kind == "i" else "llvm.fptoui.sat"
        whole = b.intrinsic(name, result, [value], [result, value.type])
        return _limit_i4(b, whole) if target == I4 else whole
    if target in NARROW:
        single = to_single(b, value) if value.type.scalar == F64 else value
        return round_register(b, single, target)
    if result.bits == value.type.bits:
        return value
    return b.cast("fptrunc" if result.bits < value.type.bits else "fpext", value, result)


def _limit_i4(b: Builder, value: Value) -> Value:
    for name, bound in (("llvm.smin", 7), ("llvm.smax", -8)):
        value = b.intrinsic(name, value.type, [value, const_int(value.type, bound)], [value.type])
    return value


def _from_integer(b: Builder, value: Value, source: DType, target: DType) -> Value:
    op = "sitofp" if source.kind == "i" else "uitofp"
    if target not in NARROW:
        return b.cast(op, value, like(value.type, register_type(target)))
    if source.bits < 32:
        return round_register(b, b.cast(op, value, like(value.type, F32)), target)
    short = value if source.bits == 32 else _top_bits(b, value, source)
    return round_register(b, to_single(b, b.cast(op, short, like(value.type, F64))), target)


def _top_bits(b: Builder, value: Value, source: DType) -> Value:
    """A 64-bit integer that a double holds exactly and that rounds to a narrow float as `value` does: beyond 2^52 the
    low 12 bits go, and the highest of them tells whether there were any."""
    low, none = const_int(value.type, 0xFFF), const_int(value.type, 0)
    any_low = b.icmp("ne", b.binary("and", value, low), none)
    sticky = b.select(any_low, const_int(value.type, 0x800), none)
    kept = b.binary("or", b.binary("and", value, const_int(value.type, ~0xFFF)), sticky)
    size = _absolute(b, value) if source.kind == "i" else value
    return b.select(b.icmp("ugt", size, const_int(value.type, 1 << 52)), kept, value)
