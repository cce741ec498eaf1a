"""Every function of one point and its derivative, from the smallest subnormal to the largest number, at infinities and
just outside its domain, in every float type: held to exact values. A new function fails the first test until it is
among them."""

import re

import mpmath as mp
import numpy as np
import pytest

import tessera
from tesserac.base.resources import stdlib_files
from tesserac.ops.elementwise import ONE_ANALYTIC, ONE_FLOAT, ONE_NUMBER, Pointwise
from tesserac.ops.registry import OPERATORS
from tests.support.exact_functions import FUNCTIONS, KINDS, exponents, info_of, is_near, points, slopes, value
from tests.support.native_runs import compiled_equals_oracle
from tests.support.sampling import spread

SPECIAL = {
    "airy_ai", "airy_bi", "dawsn", "digamma", "entr", "erfcx", "erfi", "exp1", "expi", "exprel", "gamma", "i0",
    "i0e", "i1", "i1e", "j0", "j1", "k0", "k0e", "k1", "k1e", "lgamma", "log_ndtr", "ndtr", "sinc", "spence", "y0",
    "y1",
}  # fmt: skip
"""Held to many digits over their ranges by `test_special.py`, `test_special_integrals.py` and
`test_special_of_several.py`."""
ELSEWHERE = {"exp_int", "exp_frac", "ones_like", "zeros_like", "spacing", *SPECIAL}
"""Constants too, and halves of exp, which `test_numerics_elementary.py` holds to their rules."""
UNITS, SLOPE_UNITS = 6, 16
STEEP = {"gelu": 2000, "xndtr": 2000, "erf": 400, "erfc": 400}
"""Units by which slopes may be off: the square of x is rounded before its exponential is taken."""

_SETTING = r"(?:, \w+: (?:float|str) = [^,)]*)*"
_POINTWISE = rf"^def ([a-z]\w*)\(x: Tensor\[\.\.\.\]{_SETTING}\) -> Tensor\[\.\.\., x\.dtype\]"


def library_names() -> set[str]:
    """The library's functions of one tensor, and settings, that give one of its shape and dtype."""
    files = {path: text for path, text in stdlib_files().items() if path.startswith("math/") or "activation" in path}
    return {name for text in files.values() for name in re.findall(_POINTWISE, text, re.MULTILINE)}


def test_every_function_of_one_point_is_here() -> None:
    kinds = (ONE_ANALYTIC, ONE_FLOAT, ONE_NUMBER)
    pointwise = (n for n, operator in OPERATORS.items() if issubclass(operator, Pointwise))
    operators = {n for n in pointwise if OPERATORS[n].signatures in kinds}
    assert operators | library_names() | {"abs"} <= set(FUNCTIONS) | ELSEWHERE


@pytest.mark.one_in(24)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_spacing_is_numpys_at_every_magnitude(dtype: str) -> None:
    info = info_of(dtype)
    x = np.concatenate([points(dtype), np.array([0.0, -0.0, info.max, -info.max], info.dtype)])
    with np.errstate(over="ignore", invalid="ignore"):
        expected = np.spacing(x)
    found = tessera.compile(f"def f(x: Tensor[N, {dtype}]): return spacing(x)\n").f(x)
    assert np.array_equal(found, expected, equal_nan=True)


def call(name: str, of: str) -> str:
    return f"{name}({of})" if name != "neg" else f"-{of}"


@pytest.mark.one_in(24)
@pytest.mark.parametrize("dtype", KINDS)
def test_functions_are_right_at_every_magnitude(dtype: str) -> None:
    calls = ", ".join(call(name, "x") for name in FUNCTIONS)
    run = compiled_equals_oracle(f"def f(x: Tensor[N, {dtype}]):\n    return {calls}\n")
    x, info = points(dtype), info_of(dtype)
    with mp.workprec(1300 if dtype == "f64" else 300):
        for name, found in zip(FUNCTIONS, run("f", x), strict=True):
            for place, result in zip(x.tolist(), np.asarray(found, np.float64).tolist(), strict=True):
                exact = value(name, float(place))
                assert is_near(result, exact, info, UNITS), (name, place, result, mp.nstr(exact))


def least_slope(name: str, dtype: str) -> float:
    """Slopes below this may be off by a unit of it: that of tanh is 1 - tanh(x)**2, that of log10 divides by a multiple
    of x, which may overflow, and those of silu and mish are x times an exponential, which may be subnormal."""
    if name == "tanh":
        return 1.0 / SLOPE_UNITS
    info = info_of(dtype)
    lossy = name in ("log10", "silu", "mish")
    return float(info.smallest_normal) / float(info.eps) / SLOPE_UNITS if lossy else 0.0


@pytest.mark.one_in(48)
@pytest.mark.parametrize("dtype", spread(KINDS, 2))
def test_slopes_are_right_at_every_magnitude(dtype: str) -> None:
    calls = ", ".join(f"grad(lambda z: sum(wide({call(name, 'z')})))(x)" for name in FUNCTIONS)
    run = compiled_equals_oracle(f"def f(x: Tensor[N, {dtype}]):\n    return {calls}\n")
    x, info = points(dtype)[:: 5 if dtype == "f64" else 1], info_of(dtype)
    with mp.workprec(5000 if dtype == "f64" else 1000):
        for name, found in zip(FUNCTIONS, run("f", x), strict=True):
            least, units = least_slope(name, dtype), STEEP.get(name, SLOPE_UNITS)
            for place, slope in zip(x.tolist(), np.asarray(found, np.float64).tolist(), strict=True):
                exact = slopes(name, float(place), 4 * exponents(dtype)[1])
                near = any(is_near(slope, e, info, units, least) or _may_overflow(slope, e, info) for e in exact)
                assert near or not exact, (name, place, slope, [mp.nstr(e) for e in exact])


def _may_overflow(slope: float, exact: mp.mpf, info: np.finfo) -> bool:
    """A slope beyond a quarter of the largest number: what it is made of may have been too large."""
    return bool(np.isinf(slope)) and abs(exact) > float(info.max) / 4
