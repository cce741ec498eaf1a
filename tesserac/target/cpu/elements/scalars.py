"""Scalar primitives as instructions, on scalars and vectors alike: one row per primitive of `ops/scalar.py`.

Enters: operands as they are held in registers (`registers.py`) and the dtype they stand for. Leaves: the result. A
narrow float is computed in f32 and rounded, which for the four operations and the root equals rounding once.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.target.cpu.elements.registers import (
    NARROW,
    UnsupportedError,
    memory_type,
    narrow,
    narrow_fma,
    register_type,
    round_register,
    to_single,
    widen,
    wrap_nibble,
)
from tesserac.target.entry.system import machine_of
from tesserac.target.fp8 import narrow_fp8, widen_fp8
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import F32, F64, I8, I32, LType, Value, const_float, const_int, like
from tesserac.target.scalar_rows import FLOAT, Row, absolute, intrinsic, whole_rows
from tesserac.types import dtype as dt
from tesserac.types.dtype import BOOL, U4, DType


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
    return wrap_nibble(b, value, dtype) if dtype.is_nibble and value.type.scalar == I8 else value


def _rows(dtype: DType) -> dict[str, Row]:
    return _FLOAT if dtype.is_float else whole_rows(dtype)


_EXACT = ("neg", "abs", "min", "max", "rint", "floor", "ceil")
"""Primitives whose result is a value of the operand's type already."""

_FLOAT: dict[str, Row] = {
    **FLOAT,
    "min": intrinsic("llvm.minimum"),
    "max": intrinsic("llvm.maximum"),
    "rint": intrinsic("llvm.roundeven"),
}


def emit_cast(b: Builder, value: Value, source: DType, target: DType) -> Value:
    """A value of one dtype as another, rounded once; float to integer saturates, integers wrap."""
    if source == target:
        return value
    if source.is_stored:
        return emit_cast(b, widen_fp8(b, value, source), dt.F32, target)
    if target.is_stored:
        return narrow_fp8(b, _rounded_to_odd(b, value, source), target)
    if target == BOOL:
        zero = const_float(value.type, 0.0) if source.is_float else const_int(value.type, 0)
        return b.fcmp("une", value, zero) if source.is_float else b.icmp("ne", value, zero)
    if source.is_float:
        return _from_float(b, value, target)
    if target.is_float:
        return _from_integer(b, value, source, target)
    return _between_integers(b, value, source, target)


def _rounded_to_odd(b: Builder, value: Value, source: DType) -> Value:
    """A number of any kind as an f32 that rounds to fewer bits as the number itself does."""
    if source.is_float:
        return to_single(b, value) if value.type.scalar == F64 else value
    if source == BOOL or source.bits < 32:
        return emit_cast(b, value, source, dt.F32)
    short = value if source.bits == 32 else top_bits(b, value, source)
    return to_single(b, emit_cast(b, short, source, dt.F64))


def emit_bitcast(b: Builder, value: Value, source: DType, target: DType) -> Value:
    """The bits of a value as they are stored, read as another dtype."""
    stored = narrow(b, value, source)
    to = like(stored.type, memory_type(target))
    return widen(b, stored if stored.type == to else b.cast("bitcast", stored, to), target)


def _between_integers(b: Builder, value: Value, source: DType, target: DType) -> Value:
    to = like(value.type, register_type(target))
    if to.bits != value.type.bits:
        widening = "sext" if source.kind == "i" else "zext"
        value = b.cast("trunc" if to.bits < value.type.bits else widening, value, to)
    return wrap_nibble(b, value, target) if target.is_nibble else value


def _from_float(b: Builder, value: Value, target: DType) -> Value:
    result = like(value.type, register_type(target))
    if target.is_integer:
        whole = _saturated(b, value, result, target.kind == "i")
        return limit_nibble(b, whole, target) if target.is_nibble else whole
    if target in NARROW:
        single = to_single(b, value) if value.type.scalar == F64 else value
        return round_register(b, single, target)
    if result.bits == value.type.bits:
        return value
    return b.cast("fptrunc" if result.bits < value.type.bits else "fpext", value, result)


def _saturated(b: Builder, value: Value, result: LType, signed: bool) -> Value:
    """The whole part within what the result holds, 0 for NaN."""
    if not value.type.lanes or machine_of(b.module.triple) != "x86_64":
        name = "llvm.fptosi.sat" if signed else "llvm.fptoui.sat"
        return b.intrinsic(name, result, [value], [result, value.type])
    return _saturated_lanes(b, value, result, signed)


def _saturated_lanes(b: Builder, value: Value, result: LType, signed: bool) -> Value:
    """The same by limits and selections, where an instruction converts what is in range only. The largest number of the
    source that is no larger than the limit is the last to be converted; what is above it, and the limit is not, is
    selected."""
    bits = result.bits - signed
    most, least = (1 << bits) - 1, -(1 << bits) if signed else 0
    over = max(bits - (24 if value.type.scalar == F32 else 53), 0)
    top = most >> over << over
    number = b.select(b.fcmp("uno", value, value), const_float(value.type, 0.0), value)
    low = b.select(b.fcmp("olt", number, const_float(value.type, least)), const_float(value.type, least), number)
    inside = b.select(b.fcmp("ogt", low, const_float(value.type, top)), const_float(value.type, top), low)
    by_way = like(value.type, I32) if result.bits < 32 else result
    whole = b.cast("fptosi" if signed or result.bits < 32 else "fptoui", inside, by_way)
    if over:
        whole = b.select(b.fcmp("ogt", number, const_float(value.type, top)), const_int(result, most), whole)
    return whole if by_way == result else b.cast("trunc", whole, result)


def limit_nibble(b: Builder, value: Value, dtype: DType) -> Value:
    """A byte, which a float was rounded to, within 4 bits."""
    bounds = (("llvm.umin", 15),) if dtype == U4 else (("llvm.smin", 7), ("llvm.smax", -8))
    for name, bound in bounds:
        value = b.intrinsic(name, value.type, [value, const_int(value.type, bound)], [value.type])
    return value


def _from_integer(b: Builder, value: Value, source: DType, target: DType) -> Value:
    op = "sitofp" if source.kind == "i" else "uitofp"
    if target not in NARROW:
        return b.cast(op, value, like(value.type, register_type(target)))
    if source.bits < 32:
        return round_register(b, b.cast(op, value, like(value.type, F32)), target)
    short = value if source.bits == 32 else top_bits(b, value, source)
    return round_register(b, to_single(b, b.cast(op, short, like(value.type, F64))), target)


def top_bits(b: Builder, value: Value, source: DType) -> Value:
    """A 64-bit integer that a double holds exactly and that rounds to a narrow float as `value` does: beyond 2^52 the
    low 12 bits go, and the highest of them tells whether there were any."""
    low, none = const_int(value.type, 0xFFF), const_int(value.type, 0)
    any_low = b.icmp("ne", b.binary("and", value, low), none)
    sticky = b.select(any_low, const_int(value.type, 0x800), none)
    kept = b.binary("or", b.binary("and", value, const_int(value.type, ~0xFFF)), sticky)
    size = absolute(b, value) if source.kind == "i" else value
    return b.select(b.icmp("ugt", size, const_int(value.type, 1 << 52)), kept, value)
