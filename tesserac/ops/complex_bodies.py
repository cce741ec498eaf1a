"""Functions of one complex number, as scalar programs over its two parts.

Enters: a writer of scalar operations and a complex scalar. Leaves: the scalar that the function gives. The sequences
are fixed, so these are the bits on every target. Nothing overflows or vanishes unless the result itself does.
"""

from __future__ import annotations

import math

from tesserac.ir.core import Value
from tesserac.ops.lowering import Scalars, scalar_dtype
from tesserac.types.dtype import C128, F32, F64

_HUGE, _TINY, _STEP = 2.0**500, 2.0**-500, 2.0**600
"""Squares of f64 outside these bounds may overflow or vanish; scaled by the step they do not."""


def magnitude(s: Scalars, z: Value) -> Value:
    """sqrt(re^2 + im^2), infinite where a part is. Within 1 ulp."""
    real, imag = s.parts(z)
    return _hypot(s, real, imag)


def _hypot(s: Scalars, x: Value, y: Value) -> Value:
    """Of f32 in f64, where squares are exact; of f64 scaled by a power of two."""
    dtype = scalar_dtype(x)
    a, b = s.primitive("abs", x), s.primitive("abs", y)
    if dtype == F32:
        wide = [s.cast(part, F64) for part in (a, b)]
        length = s.cast(_root_of_squares(s, *wide), F32)
    else:
        largest = s.primitive("max", a, b)
        huge = s.primitive("lt", s.constant(_HUGE, dtype), largest)
        tiny = s.primitive("lt", largest, s.constant(_TINY, dtype))
        down, up, one = (s.constant(value, dtype) for value in (1 / _STEP, _STEP, 1.0))
        scale = s.select(huge, down, s.select(tiny, up, one))
        back = s.select(huge, up, s.select(tiny, down, one))
        scaled = _root_of_squares(s, s.primitive("mul", a, scale), s.primitive("mul", b, scale))
        length = s.primitive("mul", scaled, back)
    infinity = s.constant(math.inf, dtype)
    infinite = s.primitive("or", s.primitive("eq", a, infinity), s.primitive("eq", b, infinity))
    return s.select(infinite, infinity, length)


def _root_of_squares(s: Scalars, a: Value, b: Value) -> Value:
    return s.primitive("sqrt", s.primitive("fma", a, a, s.primitive("mul", b, b)))


def exponential(s: Scalars, z: Value) -> Value:
    """exp(re) * (cos(im) + i sin(im)); a zero imaginary part stays one, also where exp(re) is infinite."""
    real, imag = s.parts(z)
    size, zero = s.primitive("exp", real), s.constant(0.0, scalar_dtype(real))
    turned = s.primitive("mul", size, s.primitive("sin", imag))
    imaginary = s.select(s.primitive("eq", imag, zero), imag, turned)
    return s.complex(s.primitive("mul", size, s.primitive("cos", imag)), imaginary)


def logarithm(s: Scalars, z: Value) -> Value:
    """log(abs(z)) and the angle. Near the unit circle the former is half of log1p((m - 1) (m + 1) + n^2) for the larger
    part m and the smaller n: parts of f32 compute in f64, those of f64 are off by at most 2^-54 there."""
    parts = s.parts(z)
    own = scalar_dtype(parts[0])
    real, imag = (s.cast(part, F64) for part in parts) if own == F32 else parts
    sizes = s.primitive("abs", real), s.primitive("abs", imag)
    larger, smaller = s.primitive("max", *sizes), s.primitive("min", *sizes)
    half, one = s.constant(0.5, F64), s.constant(1.0, F64)
    around = s.primitive("mul", s.primitive("sub", larger, one), s.primitive("add", larger, one))
    near = s.primitive("mul", half, s.primitive("log1p", s.primitive("fma", smaller, smaller, around)))
    length = _hypot(s, real, imag)
    close = s.primitive("and", s.primitive("lt", half, length), s.primitive("lt", length, s.constant(2.0, F64)))
    size = s.select(close, near, s.primitive("log", length))
    return s.complex(s.cast(size, own) if own == F32 else size, s.primitive("atan2", parts[1], parts[0]))


def power(s: Scalars, z: Value, w: Value) -> Value:
    """exp(w * log(z)); parts of f32 compute in f64, since an error of the logarithm grows with the exponent. Where z is
    0 the real part of w decides."""
    own = scalar_dtype(z)
    base, exponent = s.cast(z, C128), s.cast(w, C128)
    zero, one, nothing = (s.constant(value, C128) for value in (0.0, 1.0, math.nan))
    result = exponential(s, s.primitive("mul", exponent, logarithm(s, base)))
    rising = s.primitive("lt", s.constant(0.0, F64), s.parts(exponent)[0])
    result = s.select(s.primitive("eq", base, zero), s.select(rising, zero, nothing), result)
    return s.cast(s.select(s.primitive("eq", exponent, zero), one, result), own)


def square_root(s: Scalars, z: Value) -> Value:
    """The root with a real part of at least 0; its imaginary part has the sign of the operand's."""
    parts = s.parts(z)
    dtype = scalar_dtype(parts[0])
    zero, half = s.constant(0.0, dtype), s.constant(0.5, dtype)
    scale, back = _root_scales(s, *parts)
    real, imag = (s.primitive("mul", part, scale) for part in parts)
    halves = [s.primitive("mul", part, half) for part in (s.primitive("abs", real), _hypot(s, real, imag))]
    larger = s.primitive("sqrt", s.primitive("add", *halves))
    other = s.primitive("div", s.primitive("mul", s.primitive("abs", imag), half), larger)
    smaller = s.select(s.primitive("eq", larger, zero), zero, other)
    right = s.primitive("le", zero, real)
    size = s.primitive("mul", s.select(right, smaller, larger), back)
    side = s.select(_is_negative(s, imag), s.primitive("neg", size), size)
    return s.complex(s.primitive("mul", s.select(right, larger, smaller), back), side)


def _root_scales(s: Scalars, real: Value, imag: Value) -> tuple[Value, Value]:
    """A power of four that keeps sums of small parts exact and those of large ones finite, and its inverse root."""
    dtype = scalar_dtype(real)
    largest = s.primitive("max", s.primitive("abs", real), s.primitive("abs", imag))
    tiny = s.primitive("lt", largest, s.constant(2.0**-100 if dtype == F32 else 2.0**-900, dtype))
    scale = s.select(tiny, s.constant(2.0**54, dtype), s.constant(0.25, dtype))
    return scale, s.select(tiny, s.constant(2.0**-27, dtype), s.constant(2.0, dtype))


def _is_negative(s: Scalars, x: Value) -> Value:
    """Whether x has a minus sign, which -0 has too."""
    zero = s.constant(0.0, scalar_dtype(x))
    inverse = s.primitive("div", s.constant(1.0, scalar_dtype(x)), x)
    return s.primitive("or", s.primitive("lt", x, zero), s.primitive("lt", inverse, zero))
