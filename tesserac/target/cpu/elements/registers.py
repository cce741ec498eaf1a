"""How elements are held: in registers and in memory, and the way between them.

Narrow floats (bf16, f16, fp8) are held in f32 registers, which represent all of their values; a bool is one bit. An i4
is held in a byte with its sign extended; in memory its byte has the low nibble alone. Rounding to bf16 and fp8 is done
with integers, so every processor gives the same bits.
"""

from __future__ import annotations

from tesserac.numerics.narrow import code_of
from tesserac.target.fp8 import narrow_fp8, widen_fp8
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import (
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    LType,
    Value,
    const_float,
    const_int,
    integer,
    like,
)
from tesserac.types import dtype as dt
from tesserac.types.dtype import DType


class UnsupportedError(Exception):
    """An element type or operation that the CPU target does not have yet: a fault of the compiler."""


_REGISTERS = {
    dt.F64: F64,
    dt.F32: F32,
    dt.TF32: F32,
    dt.BF16: F32,
    dt.F16: F32,
    dt.FP8_E4M3: F32,
    dt.FP8_E5M2: F32,
    dt.FP4_E2M1: I8,
    dt.FP8_E8M0: I8,
    dt.I64: I64,
    dt.I32: I32,
    dt.I16: I16,
    dt.I8: I8,
    dt.I4: I8,
    dt.U64: I64,
    dt.U32: I32,
    dt.U16: I16,
    dt.U8: I8,
    dt.U4: I8,
    dt.BOOL: I1,
}
_MEMORY = {**_REGISTERS, dt.BF16: I16, dt.F16: F16, dt.FP8_E4M3: I8, dt.FP8_E5M2: I8, dt.BOOL: I8}
NARROW = (dt.BF16, dt.F16, dt.FP8_E4M3, dt.FP8_E5M2)


def register_type(dtype: DType) -> LType:
    """The LLVM type of one element in computation."""
    return _look_up(_REGISTERS, dtype)


def memory_type(dtype: DType) -> LType:
    """The LLVM type of one element in memory."""
    return _look_up(_MEMORY, dtype)


def _look_up(table: dict[DType, LType], dtype: DType) -> LType:
    found = table.get(dtype)
    if found is None:
        raise UnsupportedError(f"no {dtype} on a CPU")
    return found


def element_bytes(dtype: DType) -> int:
    return memory_type(dtype).bits // 8


def widen(b: Builder, stored: Value, dtype: DType) -> Value:
    """What was loaded, as it is held in a register; exact."""
    if dtype == dt.BF16:
        bits = b.cast("zext", stored, like(stored.type, I32))
        return b.cast("bitcast", b.binary("shl", bits, const_int(bits.type, 16)), like(stored.type, F32))
    if dtype == dt.F16:
        return b.cast("fpext", stored, like(stored.type, F32))
    if dtype.is_fp8:
        return widen_fp8(b, stored, dtype)
    if dtype.is_nibble:
        return wrap_nibble(b, stored, dtype)
    if dtype == dt.BOOL:
        return b.icmp("ne", stored, const_int(stored.type, 0))
    return stored


def narrow(b: Builder, value: Value, dtype: DType) -> Value:
    """A register as it is stored: rounded to nearest even where memory is narrower."""
    if dtype == dt.BF16:
        return b.cast("trunc", b.binary("lshr", _bf16_bits(b, value), _shift(value)), like(value.type, I16))
    if dtype == dt.F16:
        return b.cast("fptrunc", value, like(value.type, F16))
    if dtype.is_fp8:
        return narrow_fp8(b, value, dtype)
    if dtype.is_nibble:
        return b.binary("and", value, const_int(value.type, 0xF))
    if dtype == dt.BOOL:
        return b.cast("zext", value, like(value.type, I8))
    return value


def round_register(b: Builder, value: Value, dtype: DType) -> Value:
    """An f32 register rounded to a narrow type and held in f32 again."""
    if dtype == dt.BF16:
        return b.cast("bitcast", _bf16_bits(b, value), value.type)
    if dtype == dt.F16:
        return b.cast("fpext", b.cast("fptrunc", value, like(value.type, F16)), value.type)
    if dtype.is_fp8:
        return widen_fp8(b, narrow_fp8(b, value, dtype), dtype)
    raise UnsupportedError(f"no rounding to {dtype} on a CPU")


def wrap_nibble(b: Builder, value: Value, dtype: DType) -> Value:
    """The low nibble of a byte; that of an i4 with its sign extended."""
    if dtype == dt.U4:
        return b.binary("and", value, const_int(value.type, 0xF))
    up = const_int(value.type, 4)
    return b.binary("ashr", b.binary("shl", value, up), up)


def _shift(value: Value) -> Value:
    return const_int(like(value.type, I32), 16)


def _bf16_bits(b: Builder, value: Value) -> Value:
    """The bits of an f32 rounded to bf16, low half zero. NaN becomes the quiet one."""
    return _rounded_bits(b, value, 16)


def shorten_to_tf32(b: Builder, value: Value) -> Value:
    """An f32 cut to the 11 significant bits of tf32, to nearest even."""
    return b.cast("bitcast", _rounded_bits(b, value, 13), value.type)


def _rounded_bits(b: Builder, value: Value, cut: int) -> Value:
    """The bits of an f32 rounded to nearest even at bit `cut`: a carry into the exponent is right as it is."""
    ints = like(value.type, I32)
    bits = b.cast("bitcast", value, ints)
    last = b.binary("and", b.binary("lshr", bits, const_int(ints, cut)), const_int(ints, 1))
    rounded = b.binary("add", b.binary("add", bits, const_int(ints, (1 << (cut - 1)) - 1)), last)
    kept = b.binary("and", rounded, const_int(ints, -(1 << cut)))
    is_nan = b.fcmp("uno", value, value)
    return b.select(is_nan, const_int(ints, 0x7FC00000), kept)


def saturate(b: Builder, value: Value, dtype: DType) -> Value:
    """Clamped to the finite range of the type; NaN stays."""
    for predicate, bound in (("ogt", dtype.largest), ("olt", -dtype.largest)):
        limit = const_float(value.type, bound)
        value = b.select(b.fcmp(predicate, value, limit), limit, value)
    return value


def to_single(b: Builder, value: Value) -> Value:
    """A double as a float rounded to odd: a later rounding to a narrow type then sees the whole value."""
    single = like(value.type, F32)
    ints = like(value.type, integer(32))
    nearest = b.cast("fptrunc", value, single)
    back = b.cast("fpext", nearest, value.type)
    bits = b.cast("bitcast", nearest, ints)
    magnitude = [b.intrinsic("llvm.fabs", v.type, [v], [v.type]) for v in (back, value)]
    too_far = b.cast("zext", b.fcmp("ogt", *magnitude), ints)
    odd = b.binary("or", b.binary("sub", bits, too_far), const_int(ints, 1))
    inexact = b.fcmp("one", back, value)
    return b.select(inexact, b.cast("bitcast", odd, single), nearest)


def narrow_fma(b: Builder, x: Value, y: Value, z: Value, dtype: DType) -> Value:
    """x * y + z of a narrow type, rounded once: the product is exact in f64, the sum is rounded to odd there."""
    wide = like(x.type, F64)
    a, c, addend = (b.cast("fpext", v, wide) for v in (x, y, z))
    product = b.fmul(a, c)
    total = b.fadd(product, addend)
    back = b.fsub(total, product)
    error = b.fadd(b.fsub(product, b.fsub(total, back)), b.fsub(addend, back))
    return round_register(b, to_single(b, _to_odd(b, total, error)), dtype)


def _to_odd(b: Builder, value: Value, error: Value) -> Value:
    """The double next to value + error whose last bit is 1, unless the error is 0."""
    ints = like(value.type, I64)
    bits = b.cast("bitcast", value, ints)
    signs = b.binary("xor", bits, b.cast("bitcast", error, ints))
    one, minus = const_int(ints, 1), const_int(ints, -1)
    step = b.select(b.icmp("slt", signs, const_int(ints, 0)), minus, one)
    even = b.icmp("eq", b.binary("and", bits, one), const_int(ints, 0))
    inexact = b.fcmp("one", error, const_float(error.type, 0.0))
    moved = b.select(b.binary("and", even, inexact), b.binary("add", bits, step), bits)
    return b.cast("bitcast", moved, value.type)


def constant(dtype: DType, value: bool | int | float) -> Value:
    """A scalar constant in a register. Narrow floats are rounded by `round_register` where they are used."""
    type_ = register_type(dtype)
    if dtype.is_stored:
        return const_int(type_, code_of(float(value), dtype))
    return const_float(type_, float(value)) if type_.is_float else const_int(type_, int(value))
