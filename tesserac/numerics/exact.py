"""Correctly rounded operations on NumPy arrays where NumPy has none, or leaves corner cases open.

Enters: arrays of one dtype, f32 or f64. Leaves: an array of that dtype, each element rounded once (`fma`), or
the exact one of two (`maximum`, `minimum`: NaN wins, -0 < +0). See Note [Round to odd].
"""

from __future__ import annotations

from fractions import Fraction

from tesserac.base.lazy import Array as Array
from tesserac.base.lazy import np

_F32_TIE_MASK = (1 << 29) - 1
_F32_TIE = 1 << 28
_F32_SMALLEST_NORMAL = 2.0**-126
_SPLITTER = 2.0**27 + 1
_SAFE_LARGEST = 2.0**500
_SAFE_SMALLEST = 2.0**-400


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once. All three have the same dtype, f32 or f64; shapes broadcast."""
    with np.errstate(all="ignore"):
        return fused(a, b, c)


def fused(a: Array, b: Array, c: Array) -> Array:
    """The same where NumPy is silent already."""
    if c.dtype == np.float32:
        return _fma_f32(a, b, c)
    if c.dtype == np.float64:
        return _fma_f64(*np.broadcast_arrays(a, b, c))
    raise TypeError(f"fma of {c.dtype} is not defined: widen it first")


def _fma_f32(a: Array, b: Array, c: Array) -> Array:
    product = np.multiply(a, b, dtype=np.float64)  # 48 significant bits at most: exact
    total = np.asarray(product + c)
    result: Array = total.astype(np.float32)
    unsafe = ((total.view(np.int64) & _F32_TIE_MASK) == _F32_TIE) | (np.abs(total) < _F32_SMALLEST_NORMAL)
    if not unsafe.any():
        return result
    product, addend = np.broadcast_arrays(product, c)
    result[unsafe] = add_to_odd(product[unsafe], addend[unsafe].astype(np.float64)).astype(np.float32)
    return result


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its exact error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def add_to_odd(a: Array, b: Array) -> Array:
    """a + b in f64, rounded to odd: inexact results get an odd last bit."""
    total, error = two_sum(a, b)
    bits = total.view(np.int64).copy()
    inexact = np.isfinite(total) & (error != 0) & ((bits & 1) == 0)
    away = (error > 0) == (total > 0)
    bits += np.where(inexact, np.where(away, 1, -1), 0)
    return bits.view(np.float64)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product and its exact error, by splitting each factor into halves of 26 bits."""
    product = a * b
    (a_high, b_high), (a_low, b_low) = _split(np.array((a, b)))
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def _split(a: Array) -> tuple[Array, Array]:
    scaled = a * _SPLITTER
    high = scaled - (scaled - a)
    return high, a - high


def _fma_f64(a: Array, b: Array, c: Array) -> Array:
    product, product_error = _two_product(a, b)
    low, low_error = two_sum(c, product_error)
    high, high_error = two_sum(product, low)
    no_product = (a == 0) | (b == 0)
    result = np.where(no_product, product + c, high + add_to_odd(low_error, high_error))
    unsafe = ~(no_product | _fits(np.array((a, b, c, product))).all(axis=0))
    if unsafe.any():
        result[unsafe] = [
            _fma_exact(x, y, z)
            for x, y, z in zip(a[unsafe].tolist(), b[unsafe].tolist(), c[unsafe].tolist(), strict=True)
        ]
    return result


def _fits(a: Array) -> Array:
    """Whether no error term of these magnitudes can overflow or fall below the subnormals."""
    size = np.abs(a)
    fits: Array = ((size <= _SAFE_LARGEST) & (size >= _SAFE_SMALLEST)) | (a == 0)
    return fits


def _fma_exact(a: float, b: float, c: float) -> float:
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        return a * b + c if np.isfinite(c) else _plus_infinite(a, b, c)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return round_fraction(exact) if exact else 0.0


def _plus_infinite(a: float, b: float, c: float) -> float:
    """c is infinite or NaN; a finite product does not matter however large, an infinite one may cancel."""
    return c if np.isfinite(a) and np.isfinite(b) else a * b + c


def round_fraction(exact: Fraction) -> float:
    """The nearest f64, ties to even, of a number that is not zero; beyond the largest, infinity."""
    try:
        return exact.numerator / exact.denominator  # Python's integer quotient is correctly rounded
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def maximum(a: Array, b: Array) -> Array:
    """The larger; NaN if either is; +0 of two zeros unless both are -0."""
    with np.errstate(all="ignore"):
        both_zero = (a == 0) & (b == 0)
        return np.where(both_zero, a + b, np.maximum(a, b)) if _is_float(a) else np.maximum(a, b)


def minimum(a: Array, b: Array) -> Array:
    """The smaller; NaN if either is; -0 of two zeros unless both are +0."""
    with np.errstate(all="ignore"):
        if not _is_float(a):
            return np.minimum(a, b)
        return np.negative(maximum(np.negative(a), np.negative(b)))


def _is_float(a: Array) -> bool:
    """ml_dtypes' narrow floats have kind V, as its int4 and uint4 have."""
    return a.dtype.kind == "f" or (a.dtype.kind == "V" and "int" not in a.dtype.name)


def shift_left(a: Array, by: Array) -> Array:
    """a * 2^by of integers, wrapping; 0 where `by` is negative or no less than the bits there are."""
    inside = (by >= 0) & (by < 8 * a.dtype.itemsize)
    moved = np.left_shift(a, np.where(inside, by, 0).astype(a.dtype))
    return np.asarray(np.where(inside, moved, a.dtype.type(0)))


def shift_right(a: Array, by: Array) -> Array:
    """a / 2^by of integers, rounded down, also where `by` is more than the bits there are, or negative."""
    last = 8 * a.dtype.itemsize - 1
    inside = (by >= 0) & (by <= last)
    most = np.right_shift(a, np.where(inside, by, last).astype(a.dtype))
    return np.asarray(np.where(inside, most, np.right_shift(most, a.dtype.type(1))))


# Note [Round to odd]
# Rounding twice, first to f64 and then to f32, differs from rounding once only if the first rounding lands on a
# midpoint of the second. A result rounded to odd never lands there unless it is exact, because midpoints end in
# zeros; so a wide sum rounded to odd may then be rounded to nearest. For f32 the check for a midpoint is cheap
# and nearly always negative, hence only those elements, and subnormals, take the slow way. For f64 the same idea
# works on error-free transforms: the sum of the two smallest error terms is rounded to odd, the last addition
# rounds to nearest. Magnitudes at which an error term could itself overflow or underflow go through rationals.
