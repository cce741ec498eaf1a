"""fma, maximum and minimum against exact rationals, where it hurts: ties, cancellation, subnormals, overflow."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tesserac.numerics.exact import fma, maximum, minimum

WIDTHS = {np.float32: 32, np.float64: 64}
CORNERS = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]


def floats(width: int) -> st.SearchStrategy[float]:
    """Any float; random bit patterns reach subnormals and ties that hypothesis' own choice rarely does."""
    view = np.float32 if width == 32 else np.float64
    integer = np.uint32 if width == 32 else np.uint64
    bits = st.integers(0, 2**width - 1).map(lambda i: float(np.array(i, integer).view(view)))
    return st.one_of(st.floats(width=width), bits, st.sampled_from(CORNERS))


def nearest(exact: Fraction, dtype: type) -> float:
    """The nearest value of the dtype by definition: compare with the neighbours of an estimate."""
    info = np.finfo(dtype)
    limit = (
        Fraction(float(info.max))
        + (Fraction(float(info.max)) - Fraction(float(np.nextafter(info.max, 0, dtype=dtype)))) / 2
    )
    if abs(exact) >= limit:
        return float(np.copysign(np.inf, float(exact > 0) - 0.5))
    with np.errstate(all="ignore"):
        guess = dtype(exact.numerator / exact.denominator)
        guess = guess if np.isfinite(guess) else np.copysign(info.max, guess)
        near = [guess, np.nextafter(guess, dtype(np.inf)), np.nextafter(guess, dtype(-np.inf))]
    finite = [x for x in near if np.isfinite(x)]
    return float(min(finite, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(f"u{x.nbytes}")) & 1)))


def same(a: float, b: float) -> bool:
    return (np.isnan(a) and np.isnan(b)) or (a == b and np.signbit(a) == np.signbit(b))


def reference(a: float, b: float, c: float, dtype: type) -> float:
    if not np.isfinite([a, b, c]).all():
        with np.errstate(all="ignore"):
            product = np.nan if np.isnan(a * b) else np.sign(a) * np.sign(b) * (np.inf if np.isinf([a, b]).any() else 0)
            return float(product + c)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if a == 0 or b == 0 else 0.0
    return float(np.copysign(nearest(exact, dtype), 1 if exact > 0 else -1))


@pytest.mark.parametrize("dtype", WIDTHS)
def test_fma_rounds_once(dtype: type) -> None:
    @given(*[floats(WIDTHS[dtype])] * 3)
    def check(a: float, b: float, c: float) -> None:
        result = fma(*(np.array([x], dtype) for x in (a, b, c)))
        assert result.dtype == dtype
        assert same(float(result[0]), reference(a, b, c, dtype))

    check()


@pytest.mark.parametrize("dtype", WIDTHS)
def test_fma_near_cancellation(dtype: type) -> None:
    """c close to -a * b: the whole result is what a rounded product would lose."""

    @given(*[st.floats(0.5, 2, width=WIDTHS[dtype])] * 2, st.integers(-3, 3), st.integers(-140, 100))
    def check(a: float, b: float, steps: int, scale: int) -> None:
        x, y = dtype(a), dtype(np.ldexp(b, scale))
        with np.errstate(all="ignore"):
            z = dtype(-(x * y))
        for _ in range(abs(steps)):
            z = np.nextafter(z, dtype(np.inf * np.sign(steps)))
        result = fma(np.array([x]), np.array([y]), np.array([z]))
        assert same(float(result[0]), reference(float(x), float(y), float(z), dtype))

    check()


def test_fma_f32_tie_is_broken_by_the_product() -> None:
    """1 + 2**-24 is a tie; a product a little larger must round up, though f64 rounds the sum to the tie."""
    a = np.array([1 + 2.0**-23], np.float32)
    b = np.array([2.0**-24], np.float32)
    low = np.array([2.0**-30], np.float32)
    assert fma(a, b, np.ones(1, np.float32))[0] == np.float32(1 + 2.0**-23)
    assert fma(low * low, low, np.array([1 + 2.0**-23], np.float32))[0] == np.float32(1 + 2.0**-23)


@pytest.mark.parametrize("dtype", WIDTHS)
def test_fma_broadcasts(dtype: type) -> None:
    """Zeros and ties take the slow way, whatever the shapes."""
    a, b, c = (np.array(v, dtype) for v in ([[0.0], [1.0]], 2.0, [0.0, 1e-40, 3.0]))
    result = fma(a, b, c)
    assert result.shape == (2, 3)
    assert np.array_equal(result, a * b + c)


def test_fma_refuses_narrow_types() -> None:
    with pytest.raises(TypeError, match="widen"):
        fma(*[np.ones(1, np.float16)] * 3)


@given(floats(32), floats(32))
def test_maximum_and_minimum(a: float, b: float) -> None:
    high, low = (float(f(np.array([a]), np.array([b]))[0]) for f in (maximum, minimum))
    if np.isnan(a) or np.isnan(b):
        assert np.isnan(high) and np.isnan(low)
        return
    ordered = sorted((a, b), key=lambda x: (x, not np.signbit(x)))
    assert same(low, ordered[0]) and same(high, ordered[1])
