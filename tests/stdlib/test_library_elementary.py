"""Elementary functions that the library composes: within the bounds that their doc strings state, against references of
more precision, and at their corners."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import mpmath
import numpy as np
import pytest

import tessera
from tesserac.base.resources import stdlib_files
from tests.numerics.test_numerics_bounds import f32_ulps, signed, sizes, spread, ulps

INF, NAN = np.inf, np.nan
Array = np.ndarray

WIDE: dict[str, Callable[..., Array]] = {
    "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "cbrt": np.cbrt,
}  # fmt: skip
EXACT = {name: getattr(mpmath, name) for name in WIDE}
POINTS = {
    "sinh": [spread(-90, 90), signed(sizes(-149, 3)), spread(79, 81)],
    "cosh": [spread(-90, 90), signed(sizes(-149, 3)), spread(79, 81)],
    "asinh": [signed(sizes(-149, 127)), spread(-2, 2)],
    "acosh": [1 + sizes(-23, 100), sizes(0, 127), spread(1, 3)],
    "atanh": [spread(-0.999999, 0.999999), signed(sizes(-149, -1))],
    "tan": [spread(-10, 10), spread(-1e5, 1e5), signed(sizes(-149, 24))],
    "asin": [spread(-1, 1), signed(sizes(-149, 0)), 1 - sizes(-23, -1)],
    "acos": [spread(-1, 1), signed(sizes(-149, 0)), 1 - sizes(-23, -1)],
    "cbrt": [signed(sizes(-149, 127)), spread(-2, 2)],
}
RANGES_F64 = {
    "sinh": [(-709, 709), (-1, 1), (-1e-9, 1e-9)],
    "cosh": [(-709, 709), (-1, 1)],
    "asinh": [(-10, 10), (-1e-9, 1e-9), (1e8, 1e10), (1e200, 1e300)],
    "acosh": [(1, 10), (1, 1.0001), (1e8, 1e10), (1e200, 1e300)],
    "atanh": [(-0.9999, 0.9999), (-1e-9, 1e-9)],
    "tan": [(-10, 10), (-1e9, 1e9)],
    "asin": [(-1, 1), (0.999, 1), (-1e-9, 1e-9)],
    "acos": [(-1, 1), (0.999, 1)],
    "cbrt": [(-10, 10), (1e200, 1e300), (1e-310, 1e-300)],
}
CORNERS = {
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "cosh": [(0.0, 1.0), (INF, INF), (-INF, INF), (NAN, NAN)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "acosh": [(1.0, 0.0), (0.5, NAN), (INF, INF), (NAN, NAN)],
    "atanh": [(-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (NAN, NAN)],
    "tan": [(-0.0, -0.0), (INF, NAN), (NAN, NAN)],
    "asin": [(-0.0, -0.0), (1.5, NAN), (NAN, NAN)],
    "acos": [(1.0, 0.0), (1.5, NAN), (NAN, NAN)],
    "cbrt": [(-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (27.0, 3.0), (-8.0, -2.0)],
    "trunc": [(-0.5, -0.0), (-0.0, -0.0), (1.7, 1.0), (-1.7, -1.0), (INF, INF), (NAN, NAN)],
}


@cache
def stated_bounds() -> dict[str, float]:
    found = re.findall(r'def (\w+)\((?:(?!\ndef )[^"])*"""[^"]*?within (\d+) ulp', "\n".join(stdlib_files().values()))
    return {name: float(bound) for name, bound in found}


@cache
def library() -> tessera.module.Module:
    names = [*WIDE, "trunc"]
    kinds = ("f32", "f64")
    text = [f"def {name}_{kind}(x: Tensor[N, {kind}]): return {name}(x)" for name in names for kind in kinds]
    return tessera.compile("\n".join(text))


def run(name: str, x: Array) -> Array:
    found: Array = library()[f"{name}_f{x.itemsize * 8}"](x)
    return found


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", WIDE)
def test_f32(name: str) -> None:
    for points in POINTS[name]:
        with np.errstate(all="ignore"):
            x = points.astype(np.float32)
            exact = WIDE[name](x.astype(np.float64))
        assert f32_ulps(run(name, x), exact) <= stated_bounds()[name]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", WIDE)
def test_f64(name: str) -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(low, high, 300) for low, high in RANGES_F64[name]])
    result = run(name, x)
    with mpmath.workdps(50):
        pairs = zip(x.tolist(), result.tolist(), strict=True)
        worst = max(ulps(y, _exact(name, p), np.float64) for p, y in pairs)
    assert worst <= stated_bounds()[name]


def _exact(name: str, x: float) -> mpmath.mpf:
    if name == "cbrt":
        return mpmath.sign(x) * mpmath.cbrt(abs(mpmath.mpf(x)))
    return EXACT[name](mpmath.mpf(x))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CORNERS)
def test_corners(name: str, dtype: type[np.floating]) -> None:
    x, expected = (np.array(column, dtype) for column in zip(*CORNERS[name], strict=True))
    result = run(name, x)
    np.testing.assert_array_equal(result, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(expected[numbers]))


COMPLEX = """
def logs(z: Tensor[N, {0}]): return log(z), angle(z)
def lengths(x: Tensor[N, {1}], y: Tensor[N, {1}]): return hypot(x, y)
"""


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("kind", "part", "dtype"), [("c64", "f32", np.complex64), ("c128", "f64", np.complex128)])
def test_complex_logarithms_and_angles(kind: str, part: str, dtype: type[np.complexfloating]) -> None:
    m = tessera.compile(COMPLEX.format(kind, part))
    rng = np.random.default_rng(2)
    turn = np.exp(1j * rng.uniform(-np.pi, np.pi, 500))
    z = np.concatenate([turn, turn * 1e-30, turn * 1e30, rng.normal(size=200), [1, -1, 1j, -1j]]).astype(dtype)
    log, angle = m.logs(z)
    eps = np.finfo(dtype).eps
    near_circle = eps**2 if part == "f32" else eps / 4
    with mpmath.workdps(40):
        exact = [mpmath.log(mpmath.mpc(complex(each))) for each in z]
    np.testing.assert_allclose(log.imag, [float(e.imag) for e in exact], rtol=2 * eps)
    np.testing.assert_allclose(log.real, [float(e.real) for e in exact], rtol=4 * eps, atol=near_circle)
    np.testing.assert_array_equal(angle, log.imag)
    np.testing.assert_allclose(m.lengths(z.real.copy(), z.imag.copy()), np.abs(z), rtol=2 * eps)
    edges = np.array([0, complex(-0.0, 0.0), complex(-INF, 3), complex(2, INF), complex(NAN, 1)], dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(m.logs(edges)[0], np.log(edges), rtol=2 * eps)


RESTS = """
def of_f32(x: Tensor[N, f32], y: Tensor[N, f32]): return fmod(x, y)
def of_f64(x: Tensor[N, f64], y: Tensor[N, f64]): return fmod(x, y)
def of_i32(x: Tensor[N, i32], y: Tensor[N, i32]): return fmod(x, y)
def of_u8(x: Tensor[N, u8], y: Tensor[N, u8]): return fmod(x, y)
def of_rows(x: Tensor[M, N, f32], y: Tensor[N, f32]): return fmod(x, y), fmod(x, 1.5)
def slopes(x: Tensor[N, f32], y: Tensor[N, f32]):
    return grad(lambda a: sum(fmod(a, y)))(x), grad(lambda b: sum(fmod(x, b)))(y)
"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", ["f32", "f64", "i32", "u8"])
def test_rests_are_exact_and_have_the_sign_of_the_dividend(kind: str) -> None:
    rng, dtype = np.random.default_rng(3), np.dtype(f"{kind[0]}{int(kind[1:]) // 8}")
    if kind[0] == "f":
        tiny = np.finfo(dtype).smallest_subnormal
        numbers = [0.0, -0.0, 1.0, -1.0, 2.5, 7.0, 1e30, -1e-40, 3e38, tiny, INF, -INF, NAN]
        points = np.concatenate([numbers, rng.normal(size=6) * 10.0 ** rng.integers(-9, 9, 6)]).astype(dtype)
    else:
        points = np.arange(*((-7, 8) if kind[0] == "i" else (0, 250, 9))).astype(dtype)
    x, y = (part.ravel() for part in np.meshgrid(points, points))
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)
    result = tessera.compile(RESTS)[f"of_{kind}"](x, y)
    np.testing.assert_array_equal(result, expected)
    numbers_only = expected == expected
    np.testing.assert_array_equal(np.signbit(result)[numbers_only], np.signbit(expected)[numbers_only])


@pytest.mark.one_in(2)
def test_rests_where_no_quotient_is_long() -> None:
    points = np.array([1.0, -5.0, 0.0, -0.0, 1e-3, -7.25, NAN], np.float32)
    divisors = np.array([2.5, INF, -INF, NAN, -0.75, 1e30, 3.0], np.float32)
    x, y = (part.ravel() for part in np.meshgrid(points, divisors))
    result, expected = tessera.compile(RESTS).of_f32(x, y), np.fmod(x, y)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result)[expected == expected], np.signbit(expected)[expected == expected])


@pytest.mark.one_in(6)
def test_rests_of_rows_and_their_slopes() -> None:
    m = tessera.compile(RESTS)
    x, y = np.linspace(-9, 9, 12, dtype=np.float32).reshape(3, 4), np.array([1.5, 2, -3, 0.7], np.float32)
    rows, numbers = m.of_rows(x, y)
    np.testing.assert_array_equal(rows, np.fmod(x, y))
    np.testing.assert_array_equal(numbers, np.fmod(x, np.float32(1.5)))
    by_x, by_y = m.slopes(np.array([7.2, -7.2], np.float32), np.array([2, 2], np.float32))
    np.testing.assert_array_equal([by_x, by_y], [[1, 1], [-3, 3]])
