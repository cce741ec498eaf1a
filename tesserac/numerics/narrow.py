"""Conversion between dtypes: how a computed value becomes a stored one.

Enters: an array of any dtype in its NumPy form. Leaves: an array in the NumPy form of the target dtype.

- float to float: nearest, ties to even, rounded once also from f64; beyond the largest finite value the format's own
  inf, or NaN where it has none; `saturate` clamps there instead (NaN stays NaN)
- float to integer: towards zero; out of range saturates; NaN gives 0
- integer to integer: wraps; to bool: not equal to zero
- to fp4: nearest, ties to even; beyond the largest it, for the format has nothing else, and NaN gives 0
- to e8m0: the nearest power of two, ties upwards; from 2^127.5 on NaN, and so are 0 and what is negative
- tf32 is stored as f32: only `round_to_tf32`, which contractions apply to their operands, shortens it
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from tesserac.base.lazy import ml_dtypes, np
from tesserac.numerics.exact import Array, add_to_odd
from tesserac.types.dtype import ALL, F32, FP8_E4M3, TF32, DType

LOWEST_EXPONENT = {"bfloat16": -126, "float16": -14, "float8_e4m3fn": -6, "float8_e5m2": -14}
"""Exponent of the smallest normal number of each format narrower than f32."""
LOWEST_EXPONENT_F32 = -126


@cache
def storage(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype that holds values of `dtype`."""
    scalar: type[np.generic] | str = getattr(ml_dtypes, dtype.numpy_name, dtype.numpy_name)
    return np.dtype(scalar)


def narrow_fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of a type narrower than f32, rounded once: f64 holds the product, and the sum to odd."""
    dtype = next(d for d in ALL if storage(d) == c.dtype)
    wide = [x.astype(np.float64) for x in (a, b, c)]
    with np.errstate(all="ignore"):
        return convert(add_to_odd(*np.broadcast_arrays(wide[0] * wide[1], wide[2])), dtype)


def convert(x: Array, dtype: DType, *, saturate: bool = False) -> Array:
    """`x` as `dtype`."""
    target = storage(dtype)
    if x.dtype == target and not saturate:
        return x
    with np.errstate(all="ignore"):
        if dtype.is_stored:
            return _to_stored(_as_f64(x), dtype, target, saturate)
        if dtype.is_float:
            return _to_float(x, dtype, target, saturate)
        if dtype.is_integer and _is_float(x.dtype):
            return _float_to_integer(np.asarray(x, np.float64), dtype, target)
        return x.astype(target)


def code_of(number: float, dtype: DType) -> int:
    """The bits of a float of a byte or less."""
    return int(convert(np.asarray([number], np.float64), dtype).view(np.uint8)[0])


def nearest(number: float, dtype: DType) -> float:
    """One number as `convert` makes it a float, without an array."""
    if dtype.is_stored:
        return float(convert(np.asarray([number], np.float64), dtype)[0])
    if dtype.bits == 64 or number == 0.0 or math.isnan(number):
        return number
    rounded = number
    if abs(number) <= 2 * dtype.largest:
        significand = F32.significand if dtype == TF32 else dtype.significand
        lowest = LOWEST_EXPONENT.get(dtype.numpy_name, LOWEST_EXPONENT_F32)
        exponent = max(math.frexp(number)[1] - 1, lowest) - (significand - 1)
        rounded = math.copysign(math.ldexp(round(math.ldexp(number, -exponent)), exponent), number)
    if abs(rounded) <= dtype.largest:
        return rounded
    return math.nan if dtype == FP8_E4M3 else math.copysign(math.inf, number)


def _is_float(dtype: np.dtype[Any]) -> bool:
    """The narrow floats of ml_dtypes have kind V, as its int4 has."""
    return dtype.kind == "f" or (dtype.kind == "V" and "int" not in dtype.name)


def _to_float(x: Array, dtype: DType, target: np.dtype[Any], saturate: bool) -> Array:
    if target.name in LOWEST_EXPONENT:
        wide = x.astype(np.float64)
        rounded = _round(wide, dtype.significand, LOWEST_EXPONENT[target.name])
        return _limit(rounded, dtype, saturate).astype(target)
    return _limit(x.astype(target), dtype, saturate)


def _as_f64(x: Array) -> Array:
    """Numbers that round to a few bits as x does: a long integer loses its last 12 bits, the highest of which then
    tells whether there were any."""
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
        any_low = (x & x.dtype.type(0xFFF)) != 0
        kept = (x >> x.dtype.type(12) << x.dtype.type(12)) | np.where(any_low, 0x800, 0).astype(x.dtype)
        x = np.where(np.abs(x.astype(np.float64)) > 2.0**52, kept, x)
    return np.asarray(x, np.float64)


def _to_stored(x: Array, dtype: DType, target: np.dtype[Any], saturate: bool) -> Array:
    """By way of the code, which is the bits."""
    if dtype.is_scale:
        fraction, exponent = np.frexp(np.where(x > 0, x, 1.0))
        code = np.maximum(exponent - 1 + (fraction >= 0.75), -127) + 127  # a fraction is at least a half
        none = np.isnan(x) | (x <= 0) | ((np.isinf(x) | (code > 254)) & (not saturate))
        return np.where(none, 255, np.minimum(code, 254)).astype(np.uint8).view(target)
    size = np.minimum(np.abs(_round(np.where(np.abs(x) < 8.0, x, 8.0), dtype.significand, 0)), dtype.largest)
    signed = np.where(np.isnan(x), 0.0, np.copysign(size, x))
    return signed.astype(target)


def _round(x: Array, significand: int, lowest_exponent: int) -> Array:
    """The nearest multiple of the last place of each value; scaling by powers of two is exact."""
    exponent = np.maximum(np.frexp(x)[1] - 1, lowest_exponent) - (significand - 1)
    return np.asarray(np.ldexp(np.rint(np.ldexp(x, -exponent)), exponent))


def round_by(x: Array, drawn: Array, dtype: DType) -> Array:
    """Each f64 value rounded to one of its neighbours in `dtype`, away from zero where `drawn` is less than the part
    of a unit that is cut off."""
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.frexp(x)[1] - 1, LOWEST_EXPONENT[storage(dtype).name]) - (dtype.significand - 1)
        units = np.ldexp(np.abs(x), -exponent)
        whole = np.floor(units)
        size = np.ldexp(whole + (drawn < units - whole), exponent)
        return np.where(np.isfinite(x), np.copysign(size, x), x)


def _limit(x: Array, dtype: DType, saturate: bool) -> Array:
    largest = x.dtype.type(dtype.largest)
    if saturate:
        return np.where(np.isnan(x), x, np.clip(x, -largest, largest))
    overflow = np.where(np.isnan(x) | (dtype == FP8_E4M3), np.nan, np.copysign(np.inf, x))
    return np.where(np.abs(x) <= largest, x, overflow.astype(x.dtype))


def _float_to_integer(x: Array, dtype: DType, target: np.dtype[Any]) -> Array:
    highest = int(dtype.largest)
    lowest = -highest - 1 if dtype.kind == "i" else 0
    wide = np.uint64 if dtype.kind == "u" else np.int64
    inside = (x > float(lowest)) & (x < float(highest))
    result = np.where(inside, x, 0.0).astype(wide).astype(target)
    result[x >= float(highest)] = highest
    result[x <= float(lowest)] = lowest
    return result


def round_to_tf32(x: Array) -> Array:
    """f32 values cut to the 11 significant bits that a tf32 contraction reads."""
    with np.errstate(all="ignore"):
        rounded = _round(x.astype(np.float64), TF32.significand, -126)
        return np.where(np.isfinite(x), rounded.astype(np.float32), x)
