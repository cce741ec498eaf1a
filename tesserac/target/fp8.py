"""Floats of 8 bits and less: from memory into f32 registers and back, by instructions of any vector width.

    e4m3    s eeee mmm    bias  7, largest 448, no inf: what overflows is NaN
    e5m2    s eeeee mm    bias 15, largest 57344, inf and NaN as in f16, whose upper half it is
    e2m1    s ee m        bias  1, largest 6, neither: what overflows is 6, NaN is 0; it has a byte to itself
    e8m0    eeeeeeee      bias 127, powers of two alone, and NaN: rounded to nearest, ties upwards

Widening is exact. Narrowing rounds an f32 once, to nearest even; every code and every f32 is the same on any processor.
"""

from __future__ import annotations

from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import F16, F32, I8, I16, I32, Value, const_float, const_int, like
from tesserac.types.dtype import FP4_E2M1, FP8_E4M3, FP8_E8M0, DType

_F32_FRACTION, _F32_BIAS, _F32_INF = 23, 127, 0x7F800000


def widen_fp8(b: Builder, stored: Value, dtype: DType) -> Value:
    """A byte as the f32 of the same value."""
    if dtype == FP8_E8M0:
        return _widen_scale(b, stored)
    halves = like(stored.type, I16)
    if dtype == FP4_E2M1:
        return _widen_fp4(b, b.cast("zext", stored, halves))
    wide = b.cast("sext", stored, halves)
    if dtype != FP8_E4M3:
        return _half_to_single(b, b.binary("shl", wide, const_int(halves, 8)))
    # Under the exponent of an f16, whose bias is 8 larger; the second copy of the sign bit goes.
    bits = b.binary("and", b.binary("shl", wide, const_int(halves, 7)), const_int(halves, ~0x4000))
    single = _half_to_single(b, bits)
    value = b.fmul(single, const_float(single.type, 256.0))
    code = b.binary("and", stored, const_int(stored.type, 0x7F))
    is_nan = b.icmp("eq", code, const_int(stored.type, 0x7F))
    return b.select(is_nan, const_float(value.type, float("nan")), value)


def _widen_fp4(b: Builder, code: Value) -> Value:
    """Exponent and fraction under those of an f16, whose bias is 14 larger, and the sign at its place."""
    size = b.binary("shl", b.binary("and", code, const_int(code.type, 0x7)), const_int(code.type, 9))
    sign = b.binary("shl", b.binary("and", code, const_int(code.type, 0x8)), const_int(code.type, 12))
    single = _half_to_single(b, b.binary("or", size, sign))
    return b.fmul(single, const_float(single.type, 2.0**14))


def _widen_scale(b: Builder, code: Value) -> Value:
    """The exponent of an f32; the lowest is a subnormal number, and the last NaN."""
    ints = like(code.type, I32)
    bits = b.binary("shl", b.cast("zext", code, ints), const_int(ints, _F32_FRACTION))
    bits = b.select(b.icmp("eq", bits, const_int(ints, 0)), const_int(ints, 1 << (_F32_FRACTION - 1)), bits)
    is_nan = b.icmp("eq", code, const_int(code.type, -1))
    value = b.cast("bitcast", bits, like(code.type, F32))
    return b.select(is_nan, const_float(value.type, float("nan")), value)


def _narrow_scale(b: Builder, value: Value) -> Value:
    """The exponent after half of a unit is added; what is not positive has a sign or no bits."""
    ints = like(value.type, I32)
    bits = b.cast("bitcast", value, ints)
    rounded = b.binary("add", bits, const_int(ints, 1 << (_F32_FRACTION - 1)))
    code = b.binary("lshr", rounded, const_int(ints, _F32_FRACTION))
    lowest = const_int(ints, 3 << (_F32_FRACTION - 2))  # 1.5 * 2^-127: below it the lowest is nearest
    code = b.select(b.icmp("ult", bits, lowest), const_int(ints, 0), code)
    below = b.icmp("ult", b.binary("sub", bits, const_int(ints, 1)), const_int(ints, _F32_INF))
    return b.cast("trunc", b.select(below, code, const_int(ints, 255)), like(value.type, I8))


def _half_to_single(b: Builder, bits: Value) -> Value:
    return b.cast("fpext", b.cast("bitcast", bits, like(bits.type, F16)), like(bits.type, F32))


def narrow_fp8(b: Builder, value: Value, dtype: DType) -> Value:
    """An f32 as a byte."""
    if dtype == FP8_E8M0:
        return _narrow_scale(b, value)
    ints = like(value.type, I32)
    bits = b.cast("bitcast", value, ints)
    size = b.binary("and", bits, const_int(ints, 0x7FFFFFFF))
    fraction = dtype.significand - 1
    bias = (1 << (dtype.bits - 2 - fraction)) - 1
    smallest_normal = const_int(ints, (_F32_BIAS + 1 - bias) << _F32_FRACTION)
    code = b.select(
        b.icmp("ult", size, smallest_normal), _subnormal(b, size, bias, fraction), _normal(b, size, bias, fraction)
    )
    # The codes after the largest finite one: e5m2 has inf and then NaN, e4m3 has NaN alone, e2m1 nothing.
    above, nan = {FP8_E4M3: (0x7F, 0x7F), FP4_E2M1: (7, 0)}.get(dtype, (0x7C, 0x7E))
    code = b.intrinsic("llvm.umin", ints, [code, const_int(ints, above)], [ints])
    code = b.select(b.icmp("ugt", size, const_int(ints, _F32_INF)), const_int(ints, nan), code)
    above_size = b.binary("lshr", bits, const_int(ints, 32 - dtype.bits))
    sign = b.binary("and", above_size, const_int(ints, 1 << (dtype.bits - 1)))
    signed = b.binary("or", code, sign)
    if dtype == FP4_E2M1:  # has no NaN whose sign is nobody's business
        signed = b.select(b.icmp("ugt", size, const_int(ints, _F32_INF)), const_int(ints, 0), signed)
    return b.cast("trunc", signed, like(value.type, I8))


def _normal(b: Builder, size: Value, bias: int, fraction: int) -> Value:
    """The bits of an f32 cut to the fraction, the exponent counted from the other bias; a carry into it is right."""
    ints, cut = size.type, _F32_FRACTION - fraction
    last = b.binary("and", b.binary("lshr", size, const_int(ints, cut)), const_int(ints, 1))
    rounded = b.binary("add", b.binary("add", size, const_int(ints, (1 << (cut - 1)) - 1)), last)
    code = b.binary("lshr", rounded, const_int(ints, cut))
    return b.binary("sub", code, const_int(ints, (_F32_BIAS - bias) << fraction))


def _subnormal(b: Builder, size: Value, bias: int, fraction: int) -> Value:
    """Added to a number whose last place is the smallest subnormal, a value is rounded to a multiple of that; its
    count stands in the low bits, and the smallest normal number follows as the next count."""
    exponent = _F32_FRACTION + 1 - bias - fraction
    anchor = const_float(like(size.type, F32), 2.0**exponent)
    total = b.fadd(b.cast("bitcast", size, anchor.type), anchor)
    count = b.cast("bitcast", total, size.type)
    return b.binary("sub", count, const_int(size.type, (_F32_BIAS + exponent) << _F32_FRACTION))
