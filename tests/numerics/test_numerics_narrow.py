"""Conversions between dtypes, against ml_dtypes and against exact rationals."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tesserac.numerics.narrow import convert, nearest, round_to_tf32, storage
from tesserac.types.dtype import (
    ALL,
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    FP8_E4M3,
    FP8_E5M2,
    I4,
    I8,
    I32,
    I64,
    TF32,
    U4,
    U8,
    U16,
    U64,
    DType,
)  # fmt: skip

NARROW = [BF16, F16, FP8_E4M3, FP8_E5M2]
INF, NAN = np.inf, np.nan


def bits(x: np.ndarray) -> np.ndarray:
    """Bit patterns with every NaN the same."""
    pattern = x.view(f"u{x.dtype.itemsize}").astype(np.int64)
    with np.errstate(invalid="ignore"):
        return np.where(np.isnan(x.astype(np.float64)), -1, pattern)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_f32_to_narrow_agrees_with_ml_dtypes(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 2**32, 300_000, dtype=np.uint32).view(np.float32)
    near_limits = np.float32([448, 464, 464.1, 65504, 65519.9, 65520, 57344, 61439, 61440, INF, -INF, NAN, 0.0, -0.0])
    x = np.concatenate([patterns, near_limits, rng.normal(size=100_000).astype(np.float32) * 0.01])
    with np.errstate(all="ignore"):
        assert np.array_equal(bits(convert(x, dtype)), bits(x.astype(storage(dtype))))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_f64_is_rounded_once(dtype: DType) -> None:
    """Just above a midpoint: rounding to f32 first would land on it and go to the even side."""
    unit = 2.0 ** (1 - dtype.significand)
    above = 1 + unit / 2 + 2.0**-50
    assert float(convert(np.array([above]), dtype)[0]) == 1 + unit


@given(st.floats(-600, 600), st.sampled_from(NARROW))
def test_nearest_value(x: float, dtype: DType) -> None:
    result = float(convert(np.array([x]), dtype, saturate=True)[0])
    with np.errstate(invalid="ignore"):
        every = np.arange(2**dtype.bits, dtype=f"u{dtype.bits // 8}").view(storage(dtype)).astype(np.float64)
    finite = every[np.isfinite(every)]
    nearest = min(abs(Fraction(float(v)) - Fraction(x)) for v in finite[np.argsort(np.abs(finite - x))[:3]])
    assert abs(Fraction(result) - Fraction(x)) == nearest


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_overflow_and_saturation(dtype: DType) -> None:
    x = np.float64([1e300, -1e300, INF, -INF, NAN, 1.0])
    plain = convert(x, dtype).astype(np.float64)
    own = NAN if dtype is FP8_E4M3 else INF
    assert np.array_equal(plain, [own, -own, own, -own, NAN, 1], equal_nan=True)
    clamped = convert(x, dtype, saturate=True).astype(np.float64)
    largest = dtype.largest
    assert np.array_equal(clamped, [largest, -largest, largest, -largest, NAN, 1], equal_nan=True)


@pytest.mark.parametrize("dtype", [I8, U8, I4, U4, U16, I32, I64, U64], ids=str)
def test_float_to_integer_saturates(dtype: DType) -> None:
    low = -int(dtype.largest) - 1 if dtype.kind == "i" else 0
    result = convert(np.float32([1e30, -1e30, NAN, 2.9, -0.9, INF, -INF]), dtype)
    assert [int(v) for v in result] == [int(dtype.largest), low, 0, 2, 0, int(dtype.largest), low]


def test_integers_wrap_and_bools_count() -> None:
    assert convert(np.array([300, -1], np.int64), U8).tolist() == [44, 255]
    assert convert(np.float32([0.0, -0.0, 0.5, NAN]), BOOL).tolist() == [False, False, True, True]
    assert convert(np.array([True, False]), F32).tolist() == [1.0, 0.0]


def test_widening_is_exact() -> None:
    x = np.arange(2**16, dtype=np.uint16)
    for dtype in (BF16, F16):
        narrow = x.view(storage(dtype))
        assert np.array_equal(bits(convert(convert(narrow, F64), dtype)), bits(narrow))


def test_tf32() -> None:
    x = np.float32([1 + 2.0**-10, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-12, INF, NAN, 3.4028235e38])
    expected = np.float32([1 + 2.0**-10, 1, 1 + 2.0**-9, 1, INF, NAN, INF])
    assert np.array_equal(round_to_tf32(x), expected, equal_nan=True)
    assert convert(x, TF32) is x, "tf32 is stored as f32"


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_dtype_has_storage(dtype: DType) -> None:
    assert storage(dtype).itemsize * 8 >= dtype.bits


@pytest.mark.one_in(16)
@pytest.mark.parametrize("dtype", [F64, F32, TF32, *NARROW], ids=str)
def test_one_number_is_rounded_as_an_array_is(dtype: DType) -> None:
    rng = np.random.default_rng(1)
    scaled = np.ldexp(rng.normal(size=3_000), rng.integers(-160, 140, 3_000))
    ends = [0.0, -0.0, INF, -INF, NAN, 1.7976931348623157e308, 5e-324, 2.0**-149, 2.0**-150, 3 * 2.0**-150, 448.0]
    ends += [464.0, 464.1, 65504.0, 65519.9, 65520.0, 61440.0, dtype.largest, dtype.largest * (1 + 2.0**-30)]
    for number in (*scaled.tolist(), *ends, *rng.integers(0, 2**64, 2_000, dtype=np.uint64).view(np.float64).tolist()):
        with np.errstate(all="ignore"):
            expected = float(convert(np.asarray(number), dtype))
        assert nearest(number, dtype) == expected or (np.isnan(expected) and np.isnan(nearest(number, dtype))), number
