"""Elementary functions stay within the bounds that the table in `numerics/elementary.py` states, against references of
twice the precision: over their whole domain, close to every seam, and for the arguments hardest to reduce."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest

from tesserac.numerics import elementary
from tesserac.numerics.elementary import program
from tesserac.numerics.program import evaluate
from tesserac.types.dtype import F32, F64, DType

RNG = np.random.default_rng(0)
INF, NAN = math.inf, math.nan


def stated_bounds() -> dict[str, float]:
    """The numbers of the module's own table."""
    found: dict[str, float] = {}
    for line in (elementary.__doc__ or "").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 2 and cells[2].replace(".", "").isdigit():
            found.update((name.strip(), float(cells[2])) for name in cells[1].split(","))
    return found


BOUNDS = stated_bounds()


def spread(low: float, high: float, count: int = 60_000) -> np.ndarray:
    """Evenly spaced and random points."""
    return np.concatenate([np.linspace(low, high, count), RNG.uniform(low, high, count)])


def sizes(low: float, high: float, count: int = 60_000) -> np.ndarray:
    """Positive points, evenly over binades."""
    return np.exp2(RNG.uniform(low, high, count))


def signed(points: np.ndarray) -> np.ndarray:
    return np.concatenate([points, -points])


WIDE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc),
    "xndtr": np.vectorize(lambda x: max(x, 0.0) - abs(x) * math.erfc(abs(x) * math.sqrt(0.5)) / 2),
    "sin": np.sin,
    "cos": np.cos,
    "atan": np.arctan,
}
POINTS = {
    "exp": [spread(-104, 89), spread(-1, 1)],
    "exp2": [spread(-151, 129), spread(-1, 1)],
    "expm1": [spread(-26, 89), spread(-1, 1), signed(sizes(-149, 0))],
    "log": [sizes(-149, 128), spread(0.5, 2)],
    "log2": [sizes(-149, 128), spread(0.5, 2)],
    "log10": [sizes(-149, 128), spread(0.5, 2)],
    "log1p": [spread(-0.999999, 1), signed(sizes(-149, -1)), sizes(-1, 128)],
    "tanh": [spread(-10, 10), spread(-1e-3, 1e-3), spread(0.5, 0.7)],
    "erf": [spread(-4.5, 4.5), spread(0.8, 0.95), signed(sizes(-149, 0))],
    "erfc": [spread(-5, 10.2), spread(-1, 1), signed(sizes(-149, 0))],
    "xndtr": [spread(-14.5, 5), spread(-1, 1), signed(sizes(-149, 0))],
    "sin": [spread(-10, 10), spread(-(2.0**17), 2.0**17), signed(sizes(-149, 24))],
    "cos": [spread(-10, 10), spread(-(2.0**17), 2.0**17), signed(sizes(-149, 24))],
    "atan": [spread(-3, 3), spread(0.99, 1.01), signed(sizes(-149, 127))],
}


def test_every_bound_is_tested() -> None:
    assert set(WIDE) | {"pow", "exp_frac", "atan2"} == set(BOUNDS)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", WIDE)
def test_f32(name: str) -> None:
    for points in POINTS[name]:
        with np.errstate(all="ignore"):
            x = points.astype(np.float32)
            exact = WIDE[name](x.astype(np.float64))
        assert f32_ulps(evaluate(program(name, F32), x), exact) <= BOUNDS[name]


def f32_ulps(result: np.ndarray, exact: np.ndarray) -> float:
    """The largest error of f32 results against f64 references, in units of the last place of the reference."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
    finite = np.isfinite(rounded)
    assert np.array_equal(result[~finite], rounded[~finite], equal_nan=True)
    unit = np.spacing(np.maximum(np.abs(rounded[finite]), np.float32(2.0**-126))).astype(np.float64)
    return float(np.max(np.abs(result[finite].astype(np.float64) - exact[finite]) / unit))


def ulps(result: float, exact: mpmath.mpf, dtype: type[np.floating]) -> float:
    """The error in units of the last place of the reference; 0 where both overflow."""
    rounded = dtype(float(exact))
    if not np.isfinite(rounded):
        return 0.0 if result == rounded else INF
    unit = np.spacing(max(abs(rounded), np.finfo(dtype).smallest_normal))
    return float(abs(mpmath.mpf(result) - exact) / mpmath.mpf(float(unit)))


EXACT: dict[str, Callable[[mpmath.mpf], mpmath.mpf]] = {
    name: getattr(mpmath, name)
    for name in ("exp", "expm1", "log", "log1p", "log10", "tanh", "erf", "erfc", "sin", "cos", "atan")
}
EXACT |= {"xndtr": lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2}
EXACT |= {"exp2": lambda x: mpmath.power(2, x), "log2": lambda x: mpmath.log(x) / mpmath.log(2)}
RANGES_F64 = {
    "exp": [(-745, 709.7), (-1, 1)],
    "exp2": [(-1075, 1024), (-1, 1)],
    "expm1": [(-40, 709), (0.3, 0.5), (-1, 1)],
    "log": [(0.3, 3), (1e-310, 1e-300), (1e200, 1e300)],
    "log2": [(0.3, 3), (1e-310, 1e-300), (1e200, 1e300)],
    "log10": [(0.3, 3), (1e-310, 1e-300), (1e200, 1e300)],
    "log1p": [(-0.99, 1), (-1e-10, 1e-10), (1e200, 1e300)],
    "tanh": [(1e-5, 20), (0.4, 0.8)],
    "erf": [(-6, 6), (0.8, 0.95), (-1e-10, 1e-10)],
    "erfc": [(-6, 27.2), (0, 1), (20, 26.5)],
    "xndtr": [(-38, 6), (-1, 1), (-38.6, -30)],
    "sin": [(-10, 10), (-(2.0**30), 2.0**30)],
    "cos": [(-10, 10), (-(2.0**30), 2.0**30)],
    "atan": [(-3, 3), (0.99, 1.01), (1e10, 1e20)],
}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", EXACT)
def test_f64(name: str) -> None:
    x = np.concatenate([RNG.uniform(low, high, 400) for low, high in RANGES_F64[name]])
    assert worst(name, x) <= BOUNDS[name]


def worst(name: str, x: np.ndarray, digits: int = 50) -> float:
    """The largest error over the points, whose dtype decides the program."""
    kind = F32 if x.dtype == np.float32 else F64
    result = evaluate(program(name, kind), x)
    with mpmath.workdps(digits):
        pairs = zip(x.tolist(), result.tolist(), strict=True)
        return max(ulps(y, EXACT[name](mpmath.mpf(p)), x.dtype.type) for p, y in pairs)


# ------------------------------------------------------------------------------------------------------- angles


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize(("dtype", "limit"), [("float32", 128), ("float64", 1024)])
def test_huge_angles(name: str, dtype: str, limit: int) -> None:
    with np.errstate(over="ignore"):
        x = np.exp2(RNG.uniform(16, limit, 500)).astype(dtype)
    x = np.concatenate([x[np.isfinite(x)], hardest_angles(dtype)])
    assert worst(name, x, 360) <= BOUNDS[name]


def hardest_angles(dtype: str) -> np.ndarray:
    """Of each binade numbers as near as any to a multiple of pi/2: convergents of the continued fraction of a unit in
    the last place over pi/2 tell which."""
    info = np.finfo(np.dtype(dtype))
    digits = info.nmant + 1
    found = []
    with mpmath.workprec(info.maxexp + 4 * digits):
        for exponent in range(1, info.maxexp, 1 if digits < 30 else 23):
            quotient = mpmath.ldexp(2, exponent - digits) / mpmath.pi
            found += [math.ldexp(m, exponent - digits) for m in _convergents(quotient, digits)]
    return np.array(found, dtype)


def _convergents(x: mpmath.mpf, digits: int) -> list[int]:
    """Denominators of good approximations of x, scaled up to whole significands."""
    before, denominator, rest, found = 0, 1, x - mpmath.floor(x), []
    while denominator < 2**digits and rest:
        whole = int(1 / rest)
        rest = 1 / rest - whole
        before, denominator = denominator, whole * denominator + before
        if 2 ** (digits - 3) <= denominator < 2**digits:
            found.append(denominator)
    return found


def test_the_hardest_angle_of_f64_is_among_them() -> None:
    """6381956970095103 * 2**797 is within 2**-61 of a multiple of pi/2, nearer than any other number of f64."""
    x = np.array([math.ldexp(6381956970095103, 797)])
    assert abs(float(evaluate(program("cos", F64), x)[0])) < 2.0**-60
    assert worst("cos", x, 360) <= BOUNDS["cos"] and worst("sin", x, 360) <= BOUNDS["sin"]


# ------------------------------------------------------------------------------------------------------- powers


def f32(*arrays: np.ndarray) -> list[np.ndarray]:
    return [array.astype(np.float32) for array in arrays]


POWERS = [
    (sizes(-120, 120), RNG.uniform(-2, 2, 60_000)),
    (RNG.uniform(0.5, 2, 60_000), RNG.uniform(-150, 150, 60_000)),
    (1 + RNG.uniform(-1e-4, 1e-4, 60_000), RNG.uniform(-1e6, 1e6, 60_000)),
    (sizes(-149, -126), RNG.uniform(-1, 1, 60_000)),
]


@pytest.mark.parametrize("number", range(len(POWERS)))
def test_pow_of_f32(number: int) -> None:
    x, y = f32(*POWERS[number])
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    assert f32_ulps(evaluate(program("pow", F32), x, y), exact) <= BOUNDS["pow"]


@pytest.mark.parametrize(("spread_x", "spread_y"), [((-1000, 1000), 1.0), ((-1, 1), 1000.0), ((-1e-7, 1e-7), 1e9)])
def test_pow_of_f64(spread_x: tuple[float, float], spread_y: float) -> None:
    x, y = np.exp2(RNG.uniform(*spread_x, 500)), RNG.uniform(-spread_y, spread_y, 500)
    result = evaluate(program("pow", F64), x, y)
    with mpmath.workdps(50):
        for a, b, c in zip(x.tolist(), y.tolist(), result.tolist(), strict=True):
            assert ulps(c, mpmath.power(a, mpmath.mpf(b)), np.float64) <= BOUNDS["pow"]


@pytest.mark.parametrize("kind", [F32, F64], ids=str)
def test_exact_powers_come_out_exact(kind: DType) -> None:
    pairs = [(b, e) for b in range(-300, 300) for e in range(13) if abs(b) ** e < 2**kind.significand]
    x, y = (np.array(column, kind.numpy_name) for column in zip(*pairs, strict=True))
    assert evaluate(program("pow", kind), x, y).tolist() == [float(b**e) for b, e in pairs]


def python_pow(x: float, y: float) -> float:
    """C's pow, without Python's exceptions."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return math.copysign(INF, x) if y % 2 == 1 else INF
    except ValueError:  # of zero to a negative power, or of a negative number to one with a fraction
        return NAN if x else math.copysign(INF, x) if y % 2 == 1 else INF


CORNERS = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.25, -0.25, 3.0, -3.0, 3e38, -3e38, 1e-45, -1e-45, 2.0**24 + 2]
CORNERS += [INF, -INF, NAN]


@pytest.mark.parametrize("kind", [F32, F64], ids=str)
def test_corners_of_pow(kind: DType) -> None:
    dtype = np.dtype(kind.numpy_name)
    x, y = (grid.ravel() for grid in np.meshgrid(np.float32(CORNERS), np.float32(CORNERS)))
    result = evaluate(program("pow", kind), x.astype(dtype), y.astype(dtype))
    with np.errstate(over="ignore"):
        expected = np.array([python_pow(float(a), float(b)) for a, b in zip(x, y, strict=True)]).astype(dtype)
    np.testing.assert_allclose(result, expected, rtol=2 * np.finfo(dtype).eps, atol=0)
    numbers = ~np.isnan(expected)
    assert np.array_equal(np.signbit(result[numbers]), np.signbit(expected[numbers]))


def test_atan2_of_f32() -> None:
    for low, high in ((-20, 20), (-149, 127)):
        y = signed(sizes(low, high)).astype(np.float32)
        x = RNG.permutation(y)
        exact = np.arctan2(y.astype(np.float64), x.astype(np.float64))
        assert f32_ulps(evaluate(program("atan2", F32), y, x), exact) <= BOUNDS["atan2"]


def test_atan2_of_f64() -> None:
    y, x = RNG.normal(size=(2, 1000))
    result = evaluate(program("atan2", F64), y, x)
    with mpmath.workdps(50):
        found = zip(y.tolist(), x.tolist(), result.tolist(), strict=True)
        assert max(ulps(r, mpmath.atan2(a, b), np.float64) for a, b, r in found) <= BOUNDS["atan2"]


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_atan2_at_zeros_and_infinities(dtype: DType) -> None:
    corners = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN], dtype.numpy_name)
    y, x = (grid.ravel() for grid in np.meshgrid(corners, corners))
    result, exact = evaluate(program("atan2", dtype), y, x), np.arctan2(y, x)
    numbers = ~np.isnan(exact)
    assert np.array_equal(np.isnan(result), ~numbers)
    assert np.array_equal(np.signbit(result[numbers]), np.signbit(exact[numbers]))
    np.testing.assert_allclose(result[numbers], exact[numbers], rtol=2 * np.finfo(result.dtype).eps)


@pytest.mark.parametrize(("dtype", "count"), [(F32, 11), (F64, 23)], ids=str)
def test_log10_of_powers_of_ten_is_whole(dtype: DType, count: int) -> None:
    powers = np.array([10.0**n for n in range(count)], dtype.numpy_name)
    np.testing.assert_array_equal(evaluate(program("log10", dtype), powers), np.arange(count))
