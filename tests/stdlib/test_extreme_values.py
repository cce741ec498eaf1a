"""Functions of the library at numbers where others of them were wrong once: overflow, tiny numbers, ends of a domain,
lengths of one. What is expected is said by the definition, and is what SciPy, NumPy or PyTorch have."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.graph.interp import run_function
from tests.support.folding import folded
from tests.support.source_support import compile_to_forms

INF, NAN = np.inf, np.nan
TINY = 1e-45
VALUES: list[tuple[str, list[float], list[float]]] = [
    ("gamma(x)", [120.5, 3e38, -0.0, 0.0, INF, 35.0], [INF, INF, -INF, INF, INF, 2.952328e38]),
    ("factorial(x)", [120.5, 34.0, 5.0], [INF, 2.952328e38, 120]),
    ("erfcx(x)", [-12345.0, 3.4028235e38, INF, 0.0], [INF, 1.658004e-39, 0, 1]),
    ("k0(x)", [TINY, 1e-40, 0.0], [103.39486, 92.21934, INF]),
    ("k1e(x)", [TINY, 1e-30], [INF, 1e30]),
    ("entr(x)", [0.0, -0.0, -1.0, INF], [0, 0, -INF, -INF]),
    ("ndtri(x)", [0.5, 0.0, 1.0], [0, -INF, INF]),
    ("xlogy(x, 0.5 * x)", [0.0, -0.0, 2.0], [0, 0, 0]),
    ("polygamma(2, x)", [-0.3, -7.25, -1.0, 0.0, 2.0], [67.63908, 124.00853, -INF, -INF, -0.4041138]),
    ("polygamma(5, x)", [-0.3125, -30.625], [129991.04, 45190.029]),
    ("zeta(2.0 + 0.0 * x, x)", [-0.3, -7.25, -2.0, 0.0, 2.0], [13.94516, 19.610355, INF, INF, 0.6449341]),
    ("zeta(3.0 + 0.0 * x, x)", [-0.3, -511 / 512], [-33.819541, 134217728]),
    ("zeta(2.5 + 0.0 * x, x)", [-0.3], [NAN]),
    ("diff(x)", [1.5], []),
    ("trapezoid(x)[None]", [1.5], [0]),
    ("unwrap(x)", [1.5], [1.5]),
    ("quantile(x, 0.3)[None]", [-INF, 1, 2], [-INF]),
    ("boxcox(x, 1e37)", [1e-30, 0.5, 1.0, 2.0, 0.0], [-1e-37, -1e-37, 0, INF, -1e-37]),
    ("boxcox1p(x, -3e38)", [1e30, 0.0], [3.333333e-39, 0]),
    ("convolve(array([1.0, 2.0, 3.0]), x)", [NAN, 1.0], [NAN, NAN, NAN, 3]),
    ("convolve(array([1.0, 2.0, 3.0]), x)", [1.0, INF, 0.0], [1, INF, INF, INF, 0]),
    ("correlate(x, array([NAN, 0.0]), mode=\"full\")", [1.0, 2.0], [0, NAN, NAN]),
    ("mod(x, 3.0)", [-1.0, 4.0, INF, -0.0], [2, 1, NAN, 0]),
]
SLOPES: list[tuple[str, list[float], list[float]]] = [
    ("i1(x)", [100.0, TINY, -1e-30], [INF, 0.5, 0.5]),
    ("i1e(x)", [TINY, 0.0], [0.5, 0.5]),
    ("entr(x)", [0.0, 1.0, INF, -1.0], [INF, -1, -INF, NAN]),
    ("xlogy(x, 2.0 + 0.0 * x)", [0.0, 1.0], [0.6931472, 0.6931472]),
    ("xlogy(x, 0.0 * x)", [0.0], [0]),
    ("xlog1py(x, 1.0 + 0.0 * x)", [0.0, 1.0], [0.6931472, 0.6931472]),
    ("pow(0.0 * x, x)", [2.0, 0.0], [0, 0]),
    ("pow(zeros_like(x), x)", [-1.0, 0.0, 1.0], [-INF, 0, 0]),
    ("atan2(x, 0.0 * x + 1.0)", [INF, -INF, 1.0], [NAN, NAN, 0.5]),
    ("atan2(x, ones_like(x))", [INF, -INF, 1.0], [0, 0, 0.5]),
    ("log10(x)", [3e38, 1.0], [1.447648e-39, 0.4342945]),
    ("copysign(x, -ones_like(x))", [0.0, 2.0, -2.0, INF], [0, -1, 1, -1]),
    ("polygamma(2, x)", [-0.3, 2.0], [766.61989, 0.4939394]),
    ("boxcox(x, 1e37)", [0.5, 1.0], [0, 1]),
]


def run(body: str, x: list[float]) -> np.ndarray:
    forms = compile_to_forms(f"def f(x: Tensor[N, f32]):\n    return {body}\n")
    return np.asarray(run_function(forms, "m.f", [np.array(x, np.float32)])[0])


def close(found: np.ndarray, wanted: list[float], call: str, bound: float) -> None:
    expected = np.array(wanted, np.float32)
    np.testing.assert_allclose(found, expected, rtol=bound, atol=2e-45, err_msg=call)


@pytest.mark.one_in(24)
def test_inverses_where_numbers_have_few_digits() -> None:
    forms = compile_to_forms("def f(x: Tensor[N, f64]):\n    return erfcinv(x), ndtri(x)\n")
    far = np.array([5e-324, 1e-310, 2.2250738585072014e-308, 1e-295])
    found, normal = run_function(forms, "m.f", [far])
    wanted = [27.21329321081295, 26.644806559364763, 26.54325845425098, 25.98907121227115]
    np.testing.assert_allclose(found, wanted, rtol=4e-16)
    np.testing.assert_allclose(normal[2], -37.5193793471445, rtol=1e-15)


@folded("call, x, wanted", VALUES, one_in=24)
def test_values(call: str, x: list[float], wanted: list[float]) -> None:
    close(run(call, x), wanted, call, 3e-6)


@folded("call, x, wanted", SLOPES, one_in=24)
def test_slopes(call: str, x: list[float], wanted: list[float]) -> None:
    close(run(f"grad(lambda x: sum({call}))(x)", x), wanted, call, 1e-5)


@pytest.mark.one_in(24)
def test_nothing_has_no_first_element() -> None:
    compiled = tessera.compile("def f(x: Tensor[N, f32]):\n    return unique(x, size=2)\n")
    with pytest.raises(tessera.TesseraError, match="there is no element that could be the first"):
        compiled.f(np.zeros(0, np.float32))
