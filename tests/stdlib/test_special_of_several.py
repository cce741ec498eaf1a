# ruff: noqa: E501
"""Special functions of several numbers and of complex ones, and Airy's second function: values and slopes against mpmath,
in units in the last place, and edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tests.stdlib.test_special import error
from tests.stdlib.test_special_integrals import WAVES, cosine_part
from tests.support.folding import folded
from tests.support.source_support import compile_to_forms

Array = np.ndarray
Meaning = Callable[..., Any]
RNG = np.random.default_rng(11)
SPREAD = np.r_[RNG.uniform(0.5, 4, 16), np.exp2(RNG.uniform(-1, 4, 8))]
ANGLES = np.r_[RNG.uniform(-1.57, 1.57, 8), RNG.uniform(-20, 20, 8), np.exp2(-RNG.uniform(0, 30, 8))]
MODULI = np.r_[RNG.uniform(0, 1, 8), 1 - np.exp2(-RNG.uniform(1, 20, 8)), -np.exp2(RNG.uniform(-20, 40, 8))]
ORDERS = np.r_[RNG.uniform(0, 3, 8), RNG.uniform(3, 40, 8), RNG.integers(0, 9, 8)]
SIZES = np.r_[RNG.uniform(0.01, 30, 12), np.exp2(RNG.uniform(-20, 6, 12))]
HERE = np.r_[RNG.uniform(-1, 1, 12), 1 - np.exp2(-RNG.uniform(1, 20, 6)), -np.exp2(RNG.uniform(0, 20, 6))]
ALONG = np.r_[RNG.uniform(-20, 20, 12), -np.exp2(RNG.uniform(3, 12, 6)), RNG.uniform(20, 300, 6)]
PARAMETERS = RNG.uniform(-3, 4, (3, 24))
PARAMETERS[2] = abs(PARAMETERS[2]) + 0.3


def first_by_m(phi: Any, m: Any) -> Any:
    """Its own part is B of Legendre's, less what is at the angle, over 1 - m."""
    n = mp.nint(phi / mp.pi)
    rest = phi - n * mp.pi
    part = mp.quad(lambda t: mp.sin(t) ** 2 / mp.sqrt(1 - m * mp.sin(t) ** 2) ** 3, mp.linspace(0, rest, 5)) / 2
    return part + n * cosine_part(m) / (1 - m) if n else part


def second_by_m(phi: Any, m: Any) -> Any:
    return (mp.ellipe(phi, m) - mp.ellipf(phi, m)) / (2 * m)


def root(phi: Any, m: Any) -> Any:
    return mp.sqrt(1 - m * mp.sin(phi) ** 2)


def rise_of_i(v: Any, x: Any) -> Any:
    return (mp.besseli(v - 1, x) + mp.besseli(v + 1, x)) / 2


def faddeeva(z: Any) -> Any:
    with mp.workdps(mp.mp.dps + 20 + int(abs(z) ** 2)):
        return mp.exp(-z * z) * mp.erfc(-1j * z)


def voigt(x: Any, sigma: Any, gamma: Any) -> Any:
    scale = sigma * mp.sqrt(2)
    return faddeeva((x + 1j * gamma) / scale).real / scale / mp.sqrt(mp.pi)


def by(place: int, function: Meaning) -> Meaning:
    """The slope by one of its numbers."""

    def slope(*numbers: Any) -> Any:
        before, after = numbers[:place], numbers[place + 1 :]
        return mp.diff(lambda t: function(*before, t, *after), numbers[place])

    return slope


Case = tuple[tuple[Array, ...], Meaning, float, tuple[Meaning | None, ...], float]
"""Operands, the value, its bound in f32 and f64, slopes by each operand, and their bound in f64."""
CASES: dict[str, Case] = {
    "ellipkinc(x, y)": ((ANGLES, MODULI), mp.ellipf, 6, (lambda p, m: 1 / root(p, m), first_by_m), 16),
    "ellipeinc(x, y)": ((ANGLES, MODULI), mp.ellipe, 6, (root, second_by_m), 16),
    "airy_bi(x)": ((WAVES,), mp.airybi, 8, (lambda x: mp.airybi(x, derivative=1),), 32),
    "airy(x)[1]": ((WAVES,), lambda x: mp.airyai(x, derivative=1), 32, (lambda x: x * mp.airyai(x),), 64),
    "airy(x)[3]": ((WAVES,), lambda x: mp.airybi(x, derivative=1), 32, (lambda x: x * mp.airybi(x),), 64),
    "iv(x, y)": ((ORDERS, SIZES), mp.besseli, 256, (None, rise_of_i), 256),
    "ive(x, y)": ((ORDERS, SIZES), lambda v, x: mp.besseli(v, x) * mp.exp(-x), 256, (by(0, lambda v, x: mp.besseli(v, x) * mp.exp(-x)), None), 1e4),
    "kv(x, y)": ((ORDERS, SIZES), mp.besselk, 512, (None, lambda v, x: -(mp.besselk(v - 1, x) + mp.besselk(v + 1, x)) / 2), 512),
    "kve(x + 0.25, y)": ((ORDERS, SIZES), lambda v, x: mp.besselk(v + 0.25, x) * mp.exp(x), 512, (by(0, lambda v, x: mp.besselk(v + 0.25, x) * mp.exp(x)), None), 1e4),
    "voigt_profile(x, y, z)": ((RNG.uniform(-5, 5, 24), SPREAD, SPREAD[::-1]), voigt, 8, (by(0, voigt), by(1, voigt), by(2, voigt)), 1e4),
    "hyp1f1(x, y, z)": ((PARAMETERS[0], PARAMETERS[2], ALONG), mp.hyp1f1, 512, (by(0, mp.hyp1f1), by(1, mp.hyp1f1), by(2, mp.hyp1f1)), 4096),
    "hyp2f1(x, y, z, w)": ((*PARAMETERS, HERE), mp.hyp2f1, 512, (by(0, mp.hyp2f1), by(1, mp.hyp2f1), by(2, mp.hyp2f1), by(3, mp.hyp2f1)), 4096),
}  # fmt: skip
RELATIVE = ("ellip", "iv", "kv", "voigt")
"""Of those that have no zero inside the range; of others units are those of the number or of 1."""
CROSSING = ("ive", "voigt")
"""Of those whose slopes have."""
NAMES = "xyzw"


def results(text: str, dtype: str, operands: tuple[Array, ...], slopes: int) -> list[Array]:
    names = NAMES[: len(operands)]
    signature = ", ".join(f"{name}: Tensor[N, {dtype}]" for name in names)
    called = [text, *(f"grad(lambda {name}: sum({text}))({name})" for name in names[:slopes])]
    return list(
        run_function(compile_to_forms(f"def f({signature}):\n    return {', '.join(called)}\n"), "m.f", list(operands))
    )


@pytest.mark.one_in(4)
@folded("text, dtype", [(text, dtype) for text in CASES for dtype in ("f32", "f64")], one_in=16)
def test_values_and_slopes(text: str, dtype: str) -> None:
    drawn, meaning, bound, slopes, slope_bound = CASES[text]
    operands = tuple(column.astype({"f32": np.float32, "f64": np.float64}[dtype]) for column in drawn)
    value, *rises = results(text, dtype, operands, len(slopes) if dtype == "f64" else 0)
    exact = [[mp.mpf(float(number)) for number in row] for row in zip(*operands, strict=True)]
    relative = text.startswith(RELATIVE)
    assert error(value, [meaning(*row) for row in exact], relative) <= bound
    for rise, slope in zip(rises, slopes, strict=False):
        if slope is not None:
            assert (
                error(rise, [slope(*row) for row in exact], relative and not text.startswith(CROSSING)) <= slope_bound
            )


ORDERS_FAR = np.array([0.0, 0.5, 1, 3, 20, 23, 30, 40, 100, 250.5, 0, 7.5, 3, 2, -2, 25, -26])
PLACES_FAR = np.array([1e4, 1e8, 1e12, 1e5, 1e4, 300, 2, 500, 1e3, 30, 31, 30, -1e5, -1e3, 1e3, -700, -3])


def test_slopes_of_the_scaled_function_far_out() -> None:
    """Relative to themselves, where the function less its neighbour would leave few digits."""
    _, _, rises = results("ive(x, y)", "f64", (ORDERS_FAR, PLACES_FAR), 2)
    with mp.workdps(40):
        for v, x, rise in zip(ORDERS_FAR, PLACES_FAR, rises, strict=True):
            order, at = abs(mp.mpf(v)), abs(mp.mpf(x))
            slope = (rise_of_i(order, at) - mp.besseli(order, at)) * mp.exp(-at)
            slope = slope if x > 0 or order % 2 == 1 else -slope
            units = 64 + 2 * abs(mp.log(abs(slope)))  # as far as its exponent is known
            assert abs(rise - slope) <= units * 2.0**-52 * abs(slope), (v, x)


HARMONICS: dict[tuple[int, int], Meaning] = {
    (0, 0): lambda t: mp.sqrt(1 / mp.pi) / 2,
    (1, -1): lambda t: mp.sqrt(3 / (2 * mp.pi)) / 2 * mp.sin(t),
    (3, 2): lambda t: mp.sqrt(105 / (2 * mp.pi)) / 4 * mp.sin(t) ** 2 * mp.cos(t),
    (4, 0): lambda t: 3 / mp.sqrt(mp.pi) / 16 * (35 * mp.cos(t) ** 4 - 30 * mp.cos(t) ** 2 + 3),
    (5, -4): lambda t: 3 * mp.sqrt(385 / (2 * mp.pi)) / 16 * mp.sin(t) ** 4 * mp.cos(t),
}
"""What they are at the angle from the pole."""


@pytest.mark.one_in(4)
def test_slopes_of_spherical_harmonics() -> None:
    """By both angles, of the real and of the imaginary part."""
    x, y = RNG.uniform(0.1, 3.0, 4), RNG.uniform(-3.0, 3.0, 4)
    exact = [(mp.mpf(float(a)), mp.mpf(float(b))) for a, b in zip(x, y, strict=True)]
    for (n, m), size in HARMONICS.items():
        for part, turn in (("real", mp.cos), ("imag", mp.sin)):

            def harmonic(t: Any, p: Any, size: Meaning = size, turn: Meaning = turn, m: int = m) -> Any:
                return size(t) * turn(m * p)

            value, *rises = results(f"{part}(sph_harm_y({n}, {m}, x, y))", "f64", (x, y), 2)
            assert error(value, [harmonic(*row) for row in exact], False) <= 64
            for place, rise in enumerate(rises):
                assert error(rise, [by(place, harmonic)(*row) for row in exact], False) <= 256


@pytest.mark.one_in(8)
@folded("dtype", ["c64", "c128"], one_in=16)
def test_faddeeva_over_the_plane(dtype: str) -> None:
    """Within 4 units of its size above the real axis, slopes within 16 of theirs or of the function's; below it within as
    many as the exponent has."""
    kind = {"c64": np.complex64, "c128": np.complex128}[dtype]
    z: Array = (RNG.normal(size=48) * 4 + 1j * RNG.normal(size=48) * 3).astype(kind)
    z[:8], z[8:12] = z[:8].real, 1j * z[8:12].imag
    module = compile_to_forms(
        f"def f(z: Tensor[N, {dtype}]):\n    return wofz(z), grad(lambda z: sum(real(wofz(z))))(z)\n"
    )
    values, slopes = run_function(module, "m.f", [z])
    eps = float(np.finfo(kind).eps)
    for at, value, slope in zip(z, values, slopes, strict=True):
        exact = faddeeva(mp.mpc(complex(at)))
        units = 4 if at.imag >= 0 else 4 + 2 * abs(at) ** 2
        assert abs(complex(value) - exact) <= units * eps * abs(exact), at
        rise = -2 * mp.mpc(complex(at)) * exact + 2j / mp.sqrt(mp.pi)
        assert abs(complex(slope) - rise) <= 4 * units * eps * (abs(rise) + abs(exact) * abs(at)), at


@pytest.mark.one_in(16)
@folded("n, m", [(0, 0), (1, -1), (3, 2), (5, 5), (7, -4), (20, 3), (2, 3)], one_in=4)
def test_spherical_harmonics(n: int, m: int) -> None:
    theta, phi = RNG.uniform(0, 3.14, 12), RNG.uniform(-3, 6.2, 12)
    text = f"def f(t: Tensor[N, f64], p: Tensor[N, f64]):\n    return sph_harm_y({n}, {m}, t, p)\n"
    (found,) = run_function(compile_to_forms(text), "m.f", [theta, phi])
    exact = [complex(mp.spherharm(n, m, t, p)) if abs(m) <= n else 0 for t, p in zip(theta, phi, strict=True)]
    assert np.abs(found - exact).max() <= 64 * np.finfo(float).eps


INF, NAN = np.inf, np.nan
EDGES: dict[str, tuple[list[list[float]], list[float]]] = {
    "ellipkinc(x, y)": ([[0, 1, 1, 2, 1, NAN, 1, -1], [0.5, 1, 1.5, 1, -INF, 0, 0, 1]], [0, 1.2261911708835167, NAN, INF, 0, NAN, 1, -1.2261911708835167]),
    "ellipeinc(x, y)": ([[0, 1, 1, 2, 1, NAN, 1], [0.5, 1, 1.5, 1, -INF, 0, 0]], [0, 0.8414709848078965, NAN, 1.0907025731743183, INF, NAN, 1]),
    "airy_bi(x)": ([[INF, -INF, NAN, 0, 200]], [INF, 0, NAN, 0.6149266274460007, INF]),
    "iv(x, y)": ([[0, 1, 0.5, -1, -0.5, 3, 2, 0.5, NAN, 2], [0, 0, 0, 1, 1, -1, INF, -1, 1, NAN]], [1, 0, 0, 0.5651591039924851, NAN, -0.022168424924331902, INF, NAN, NAN, NAN]),
    "ive(x, y)": ([[0, 2.5, 2], [0, 1e9, INF]], [1, 1.2615662572253812e-05, 0]),
    "hyp1f1(x, y, 1.0)": ([[0, 1, 1, -2, 2, NAN], [1, 1, 0, 3, -1, 1]], [1, np.e, NAN, 5 / 12, NAN, NAN]),
    "hyp1f1(1.0, 2.0, x)": ([[0, 1e3, INF, -1e6, NAN]], [1, INF, INF, 1e-6, NAN]),
    "hyp2f1(1.0, 1.0, 2.0, x)": ([[0, 1, 2, -1e9, NAN, 0.5]], [1, INF, NAN, np.log1p(1e9) / 1e9, NAN, 2 * np.log(2)]),
    "hyp2f1(1.0, 2.0, 4.5, x)": ([[1]], [7 / 3]),
    "hyp2f1(-3.0, 2.0, 1.0, x)": ([[1, -2, 0.25]], [0, 81, 1 - 1.5 + 0.5625 - 0.0625]),
    "voigt_profile(x, y, 0.0)": ([[0, 1], [1, 2]], [0.3989422804014327, 0.17603266338214976]),
    "voigt_profile(x, 0.0, y)": ([[0, 1], [1, 2]], [1 / np.pi, 2 / 5 / np.pi]),
}  # fmt: skip


@pytest.mark.one_in(16)
@folded("text", [*EDGES], one_in=8)
def test_edges(text: str) -> None:
    operands, expected = EDGES[text]
    (found,) = results(text, "f64", tuple(np.array(column, float) for column in operands), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
