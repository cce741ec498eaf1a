# ruff: noqa: E501
"""Integrals, elliptic functions, inverses and functions of whole orders that `test_special.py` lacks, in the same way: values
and slopes against mpmath, and edges."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest

from tests.stdlib.test_special import ANY, RNG, SECOND, Case, Meaning, check_bounds, run
from tests.support.folding import folded

HALF = np.clip(SECOND, 0, 80)
SHARES = np.r_[RNG.uniform(0, 1, 12), -np.exp2(RNG.uniform(-20, 60, 12)), 1 - np.exp2(-RNG.uniform(1, 20, 8)), 0]
ABOVE = np.r_[RNG.uniform(-0.36, 3, 16), np.exp2(RNG.uniform(-60, 60, 12)), np.exp2(-RNG.uniform(2, 14, 8)) - 0.36787]
BELOW = np.r_[-RNG.uniform(0.01, 0.36, 16), -np.exp2(-RNG.uniform(2, 60, 12))]
WAVES = np.r_[RNG.uniform(-5, 1, 16), RNG.uniform(1, 11, 8), -RNG.uniform(5, 12, 8), -np.exp2(RNG.uniform(3, 9, 6))]


def dawson(x: Any) -> Any:
    with mp.workdps(50 + int(x * x)):
        return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def cosine_part(m: Any) -> Any:
    return (mp.ellipe(m) - (1 - m) * mp.ellipk(m)) / m if m else mp.pi / 4


def sine_part(m: Any) -> Any:
    return (mp.ellipk(m) - mp.ellipe(m)) / m if m else mp.pi / 4


def lambert(k: int) -> Meaning:
    return lambda x: mp.lambertw(x, k).real


def lambert_slope(k: int) -> Meaning:
    return lambda x: mp.exp(-lambert(k)(x)) / (1 + lambert(k)(x))


def owens(h: Any, a: Any) -> Any:
    inner = mp.quad(lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), mp.linspace(0, min(a, 20 / (h + 1e-9)), 5))
    return inner / (2 * mp.pi)


CASES: dict[str, Case] = {
    "exp1(x)": (mp.e1, lambda x: -mp.exp(-x) / x, HALF, 8, 8),
    "expi(x)": (mp.ei, lambda x: mp.exp(x) / x, np.r_[HALF, -HALF], 8, 8),
    "expn(2, x)": (lambda x: mp.expint(2, x), lambda x: -mp.expint(1, x), HALF, 16, 16),
    "expn(9, x)": (lambda x: mp.expint(9, x), lambda x: -mp.expint(8, x), HALF, 16, 16),
    "sici(x)[0]": (mp.si, lambda x: mp.sin(x) / x, np.r_[SECOND, -SECOND], 6, 6),
    "sici(x)[1]": (mp.ci, lambda x: mp.cos(x) / x, SECOND, 6, 6),
    "shichi(x)[0]": (mp.shi, lambda x: mp.sinh(x) / x, np.r_[HALF, -HALF], 8, 8),
    "shichi(x)[1]": (mp.chi, lambda x: mp.cosh(x) / x, HALF, 8, 8),
    "fresnel(x)[0]": (mp.fresnels, lambda x: mp.sin(mp.pi * x * x / 2), np.r_[SECOND, -SECOND], 4, 8),
    "fresnel(x)[1]": (mp.fresnelc, lambda x: mp.cos(mp.pi * x * x / 2), np.r_[SECOND, -SECOND], 4, 8),
    "dawsn(x)": (dawson, lambda x: 1 - 2 * x * dawson(x), np.clip(ANY, -30, 30), 6, 8),
    "erfi(x)": (mp.erfi, lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(x * x), np.clip(ANY, -9, 9), 8, 8),
    "ellipk(x)": (mp.ellipk, lambda m: cosine_part(m) / (2 * (1 - m)), SHARES, 6, 6),
    "ellipe(x)": (mp.ellipe, lambda m: -sine_part(m) / 2, SHARES, 6, 6),
    "ellipkm1(x)": (lambda p: mp.ellipk(1 - p), lambda p: -cosine_part(1 - p) / (2 * p), SECOND, 6, 6),
    "spence(x)": (lambda x: mp.polylog(2, 1 - x).real, lambda x: mp.log(x) / (1 - x), SECOND, 6, 6),
    "lambertw(x)": (lambert(0), lambert_slope(0), ABOVE, 6, 64),
    "lambertw(x, -1)": (lambert(-1), lambert_slope(-1), BELOW, 6, 64),
    "owens_t(x, 0.7)": (lambda h: owens(h, mp.mpf(0.7)), lambda h: -mp.npdf(h) * mp.erf(h * mp.mpf(0.7) / mp.sqrt(2)) / 2, HALF[:20] / 2, 48, 48),
    "owens_t(x, 3.0)": (lambda h: owens(h, mp.mpf(3)), lambda h: -mp.npdf(h) * mp.erf(h * 3 / mp.sqrt(2)) / 2, HALF[:20] / 2, 48, 48),
    "airy_ai(x)": (mp.airyai, lambda x: mp.airyai(x, derivative=1), WAVES, 8, 8),
    "jn(2, x)": (lambda x: mp.besselj(2, x), lambda x: (mp.besselj(1, x) - mp.besselj(3, x)) / 2, np.r_[SECOND, -SECOND], 16, 16),
    "jn(7, x)": (lambda x: mp.besselj(7, x), lambda x: (mp.besselj(6, x) - mp.besselj(8, x)) / 2, np.r_[SECOND, -SECOND], 16, 16),
    "yn(3, x)": (lambda x: mp.bessely(3, x), lambda x: (mp.bessely(2, x) - mp.bessely(4, x)) / 2, HALF + 0.01, 16, 64),
    "kn(4, x)": (lambda x: mp.besselk(4, x), lambda x: -(mp.besselk(3, x) + mp.besselk(5, x)) / 2, HALF + 0.01, 16, 16),
}  # fmt: skip
RELATIVE = ("exp1", "expn", "erfi", "ellip", "kn", "owens")


@pytest.mark.one_in(4)
@folded("text, dtype", [(text, dtype) for text in CASES for dtype in ("f32", "f64")], one_in=48)
def test_values_and_slopes(text: str, dtype: str) -> None:
    check_bounds(text, dtype, CASES[text], relative=text.startswith(RELATIVE))


@pytest.mark.one_in(24)
def test_edges() -> None:
    inf, nan = np.inf, np.nan
    points = np.array([0.0, -1.0, inf, -inf, nan, 1.0])
    expected = {
        "exp1(x)": [inf, nan, 0, nan, nan, 0.21938393439552029],
        "expi(x)": [-inf, -0.21938393439552029, inf, 0, nan, 1.8951178163559368],
        "expn(3, x)": [0.5, nan, 0, nan, nan, 0.10969196719776014],
        "sici(x)[0]": [0, -0.9460830703671831, np.pi / 2, -np.pi / 2, nan, 0.9460830703671831],
        "sici(x)[1]": [-inf, nan, 0, nan, nan, 0.33740392290096813],
        "shichi(x)[0]": [0, -1.0572508753757286, inf, -inf, nan, 1.0572508753757286],
        "shichi(x)[1]": [-inf, nan, inf, nan, nan, 0.8378669409802083],
        "fresnel(x)[0]": [0, -0.4382591473903548, 0.5, -0.5, nan, 0.4382591473903548],
        "fresnel(x)[1]": [0, -0.7798934003768228, 0.5, -0.5, nan, 0.7798934003768228],
        "dawsn(x)": [0, -0.5380795069127684, 0, 0, nan, 0.5380795069127684],
        "erfi(x)": [0, -1.6504257587975429, inf, -inf, nan, 1.6504257587975429],
        "ellipk(x)": [np.pi / 2, 1.3110287771460598, nan, 0, nan, inf],
        "ellipe(x)": [np.pi / 2, 1.9100988945138562, nan, inf, nan, 1],
        "ellipkm1(x + 0.5)": [1.8540746773013719, nan, 0, nan, nan, 1.415737208425956],
        "spence(x)": [np.pi**2 / 6, nan, -inf, nan, nan, 0],
        "lambertw(x)": [0, nan, inf, nan, nan, 0.5671432904097838],
        "lambertw(x - 0.0, -1)": [-inf, nan, nan, nan, nan, nan],
        "owens_t(x, 1.0)": [0.125, 0.06674188216570097, 0, 0, nan, 0.06674188216570097],
        "airy_ai(x)": [0.3550280538878172, 0.5355608832923521, 0, 0, nan, 0.1352924163128814],
        "jn(3, x)": [0, -0.019563353982668407, 0, 0, nan, 0.019563353982668407],
        "yn(2, x)": [-inf, nan, 0, nan, nan, -1.6506826068162543],
        "kn(2, x)": [inf, nan, 0, nan, nan, 1.6248388986351774],
    }
    for text, wanted in expected.items():
        got, _ = run(text, "f64", points)
        np.testing.assert_allclose(got, wanted, rtol=1e-14, atol=1e-300, err_msg=text)
