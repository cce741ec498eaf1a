"""Every operator and library function of two floats, and its slopes, at pairs of numbers from the smallest to the
largest, zeros of both signs, infinities and NaN. They come from the registry and from the text of the library: a new
one is held to its own reference, or to what it gives in f64, without a word here."""

import math
import re

import numpy as np
import pytest

from tesserac.base.resources import stdlib_files
from tesserac.ops.elementwise import Pointwise
from tesserac.ops.registry import OPERATORS, Operator
from tests.support.exact_functions import KINDS, exponents, info_of
from tests.support.native_runs import compiled_equals_oracle

Array = np.ndarray
Long = np.longdouble
ELSEWHERE = {"exp_term", "exp_lifted"}
"""Their second operand is at least what the first one's exponent is; the softmax family holds them to that."""
UNITS, SLOPE_UNITS = 5, 16
LEAST, MOST = 2.0**-120, 0.125
"""What is held to f64 is so for zeros and for numbers no smaller than this: reciprocals of smaller ones overflow; and
library functions no closer to the largest number than this part of it: steps on their way may be larger."""

OF_ITS_DTYPE = {"nextafter"}
"""What the dtype of its operands decides: in wider floats it is another function."""

_SAME = r"Tensor\[\.\.\., \w+\.dtype\]"
_LIBRARY = rf"^def ([a-z]\w*)\(\w+: Tensor\[\.\.\.\], \w+(?:: {_SAME})?\)(?: -> {_SAME})?:"
_BROADCAST = r"^def ([a-z]\w*)\(\w+, \w+\):\n(?:(?:    .*)?\n)*?    \w+(?:, \w+)? = (?:in_common\(|\w+ if isinstance\()"


def of_two_floats(operator: type[Operator]) -> bool:
    """Whether it takes two floats and gives a float or a bool."""
    if not issubclass(operator, Pointwise):
        return False
    operands = operator.cases()[0][1]
    result = operator.signatures[0].partition("->")[2]
    return len(operands) == 2 and all(o.startswith("f32") for o in operands) and "complex" not in result


def library_names() -> set[str]:
    files = {path: text for path, text in stdlib_files().items() if path.startswith("math/") or "activation" in path}
    forms = (_LIBRARY, _BROADCAST)
    return {name for text in files.values() for form in forms for name in re.findall(form, text, re.MULTILINE)}


OPERATIONS = sorted({n for n, o in OPERATORS.items() if of_two_floats(o)} - ELSEWHERE)
OTHERWISE = {"full_like", "polar", "unravel_index", "bitcast", "gcd", "lcm", "beta", "betaln", "log_scaled_beta"}
"""Of no two floats; and what loses digits where one operand is tiny, which `test_special.py` holds to its bounds."""
LIBRARY = sorted(library_names() - OTHERWISE)
SMOOTH = [n for n in OPERATIONS if "bool" not in OPERATORS[n].signatures[0].partition("->")[2]] + LIBRARY


def test_the_usual_ones_are_found() -> None:
    assert {"add", "div", "pow", "atan2", "maximum", "ldexp", "less"} <= set(OPERATIONS)
    assert {"hypot", "copysign", "fmod", "swiglu", "geglu"} <= set(LIBRARY)


def pairs(name: str, dtype: str) -> tuple[Array, Array]:
    kind, info = KINDS[dtype], info_of(dtype)
    low, high = exponents(dtype)
    powers = sorted({*range(low, high, max(1, (high - low) // 9)), low + 1, -1, 0, 1, high - 1})
    sizes = [math.ldexp(m, k) for k in powers for m in (1.0, 1.37)] + [0.0, 3.0, math.inf]
    sizes += [float(v) for v in (info.max, info.smallest_normal, np.nextafter(kind(1), kind(0)))]
    ends = np.array([side * v for v in sizes for side in (1.0, -1.0)] + [math.nan]).astype(kind)
    x, y = (grid.ravel().copy() for grid in np.meshgrid(ends, ends))
    return x, np.rint(np.where(y == y, y, kind(0))) if name in OPERATORS and 1 in OPERATORS[name].whole else y


def call(name: str, of: str) -> str:
    return f"op.{name}({of})" if name in OPERATORS else f"{name}({of})"


def program(name: str, dtype: str, with_slopes: bool) -> str:
    operands = f"(x: Tensor[N, {dtype}], y: Tensor[N, {dtype}])"
    text = f"def value{operands}:\n    return {call(name, 'x, y')}\n"
    if with_slopes:
        whole = f"lambda u, v: sum(wide({call(name, 'u, v')}))"
        text += f"def slopes{operands}:\n    return grad({whole}, wrt=(0, 1))(x, y)\n"
    return text


def reference(name: str, x: Array, y: Array) -> Array:
    """In the widest floats there are; what neither the registry nor NumPy knows, as f64 has it."""
    with np.errstate(all="ignore"):
        if name in OPERATORS:
            return np.asarray(OPERATORS[name]().reference(x.astype(Long), y.astype(Long)))
        if name in OF_ITS_DTYPE:
            return np.asarray(getattr(np, name)(x, y))
        if hasattr(np, name):
            return np.asarray(getattr(np, name)(x.astype(Long), y.astype(Long)))
    return np.asarray(compiled_equals_oracle(program(name, "f64", False))("value", *(v.astype("f8") for v in (x, y))))


def distance(found: Array, exact: Array, dtype: str, least: float) -> Array:
    """In units in the last place of what is exact, or of `least`; infinite where one is NaN and the other is not. An
    infinite result is as good as one that rounding may take beyond the largest."""
    info, got, wanted = info_of(dtype), found.astype(Long), exact.astype(Long)
    largest = float(info.max) * (1 - UNITS * float(info.eps))
    with np.errstate(all="ignore"):
        apart = np.abs(got - wanted) / (Long(float(info.eps)) * np.maximum(np.abs(wanted), Long(least)))
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    same |= np.isinf(got) & (np.sign(got) == np.sign(wanted)) & (np.abs(wanted) > largest)
    return np.where(same, 0.0, np.where(np.isfinite(apart), apart, math.inf)).astype(float)


def ordinary(name: str, dtype: str, *operands: Array) -> Array:
    """Where what a function gives is held to f64."""
    info, wide = info_of(dtype), [np.abs(v.astype(np.float64)) for v in operands]
    least = max(LEAST, float(info.smallest_normal))
    most = float(info.max) * (1.0 if name in OPERATORS else MOST)
    return np.all([(v >= least) & (v <= most) | (v == 0.0) for v in wide], axis=0)


def told(name: str, bad: Array, *columns: Array) -> list[tuple[object, ...]]:
    return [(name, *(column[place] for column in columns)) for place in np.flatnonzero(bad)[:5]]


@pytest.mark.one_in(48)
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", OPERATIONS + LIBRARY)
def test_values_are_right_at_every_pair_of_magnitudes(name: str, dtype: str) -> None:
    x, y = pairs(name, dtype)
    found = np.asarray(compiled_equals_oracle(program(name, dtype, False))("value", x, y))
    exact = reference(name, x, y)
    bad = distance(found, exact, dtype, float(info_of(dtype).smallest_normal)) > UNITS
    if name not in OPERATORS and not hasattr(np, name):
        bad &= ordinary(name, dtype, x, y)
    assert not bad.any(), told(name, bad, x, y, found, exact)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("dtype", [dtype for dtype in KINDS if dtype != "f64"])
@pytest.mark.parametrize("name", SMOOTH)
def test_slopes_of_any_type_are_those_of_f64(name: str, dtype: str) -> None:
    x, y = (v + KINDS[dtype](0) for v in pairs(name, dtype))  # no -0
    run, widest = (compiled_equals_oracle(program(name, t, True)) for t in (dtype, "f64"))
    known = ordinary(name, dtype, x, y, np.asarray(run("value", x, y)))
    found, exact = run("slopes", x, y), widest("slopes", *(v.astype(np.float64) for v in (x, y)))
    least = float(info_of(dtype).smallest_normal) / float(info_of(dtype).eps)
    for one, other in zip(found, exact, strict=True):
        slope, wanted = np.asarray(one), np.asarray(other)
        bad = known & (distance(slope, wanted, dtype, least / SLOPE_UNITS) > SLOPE_UNITS)
        assert not bad.any(), told(name, bad, x, y, slope, wanted)
