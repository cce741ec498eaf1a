"""The derivative of every public function of the library, by its own example: <v, Jw> = <J*v, w>, and Jw agrees with
central differences; then derivatives at the places where functions are put together from pieces."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import pytest

from tesserac.base.source import SourceFile
from tesserac.check.infer import CheckResult, check_module
from tesserac.ir.core import Op
from tesserac.ir.forms import tensor_type
from tesserac.numerics.narrow import storage
from tesserac.syntax.parse import parse_module
from tesserac.types.ty import TensorType
from tests.support.derivative_runs import Derivatives, agree, like_differences, moved
from tests.support.library_functions import example_of, public_names
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import body_of, check_text, graph_of, library

SIZES = {"B": 2, "M": 3, "N": 5}


@dataclass(frozen=True)
class Accuracy:
    """Of which numbers an example is, the step of differences, and the bounds of both comparisons."""

    dtype: str
    step: float
    transpose: float
    differences: float


ITERATED = {"expm", "qr", "eigh", "eigvalsh", "svd", "svdvals", "cond", "pinv", "lstsq", "custom_root", "newton"}
"""They iterate towards something that has a derivative of its own, which tests of their own hold them to."""
SOLVERS = {"cg", "gmres", "lsqr", "power_iteration", "lanczos", "expm_action", "randomized_svd"}
"""They stop where a tolerance is met: `custom_linear_solve` has the derivatives of what they find."""
IN_F32 = {"fused_adam"}
"""They compute in f32 whatever they are given."""
WIDE = Accuracy("f64", 1e-6, 1e-12, 1e-6)
NARROW = Accuracy("f32", 1e-2, 1e-5, 2e-2)


def example(path: str, name: str) -> tuple[CheckResult, Accuracy]:
    """In f64; where it makes tensors whose dtype it does not say, as it stands."""
    text = example_of(path, name)
    wide = re.sub(r"\bc64\b", "c128", re.sub(r"\bb?f(16|32)\b( @accum\(f32\))?", "f64", text))
    source = SourceFile("m.tess", wide)
    checked = check_module(parse_module(source).module, source, "m", library())
    as_it_stands = checked.has_errors or name in IN_F32
    return (check_text(text, "m", library()), NARROW) if as_it_stands else (checked, WIDE)


def beside(function: Op) -> list[Op]:
    """The functions that have derivatives of their own, and those."""
    block = function.parent
    assert block is not None
    return [other for other in block.ops if other is not function]


def sample(ty: TensorType, rng: np.random.Generator) -> np.ndarray:
    shape = [dim.evaluate(SIZES) for dim in ty.dims]
    values = rng.normal(size=shape) + (1j * rng.normal(size=shape) if ty.dtype.is_complex else 0.0)
    return values.astype(storage(ty.dtype))


OF_QUANTILES = {"log_gamma_sample", "von_mises_sample", "Dirichlet"}
"""Their derivative is that of a quantile, which differences at a fixed key are not. See `test_distributions.py`."""
STEPPED = {"quantize", "dequantize", "dynamic_quantize", "fake_quantize", "float_codes", "codes_to_float"}
STEPPED |= {"mx_quantize", "mx_dequantize", "nvfp4_quantize", "nvfp4_dequantize", "mxfp4", "mxfp8", "nvfp4"}
STEPPED |= {"mx_matmul"}  # its example rounds what it multiplies
"""They go in steps, across which differences are no derivatives; `test_quantize.py` holds what training sees."""
ELSEWHERE = ITERATED | SOLVERS | OF_QUANTILES | STEPPED
FUNCTIONS = [pytest.param(path, name, id=name) for path, name in public_names() if name not in ELSEWHERE]


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("path", "name"), FUNCTIONS)
def test_derivatives_of_examples(path: str, name: str) -> None:
    checked, accuracy = example(path, name)
    function = graph_of(checked)
    types = [tensor_type(v) for v in function.body.args]
    of, rng = Derivatives(body_of(function), types, beside=beside(function)), np.random.default_rng(0)
    if not of.wrt or not of.results:
        return
    x, w, v = ([sample(ty, rng) for ty in group] for group in (types, of.moving, of.results))
    jw, back = of.first(x, w, v)
    agree([(v, jw), (back, w)], accuracy.transpose)
    step = accuracy.step
    ends = [of.value(moved(of, x, w, s)) for s in (step, -step)]
    like_differences(jw, (ends[0], ends[1]), step, accuracy.differences)


# ------------------------------------------------------------------------------------------------------------ joints


def slopes(expression: str, x: float) -> tuple[float, float]:
    """The first and the second derivative of an expression of x, by reverse mode and by forward over reverse."""
    text = f"def f(x: Tensor[f64]) -> Tensor[f64]:\n    return {expression}\n"
    function = graph_of(check_text(text, "m", library()))
    types = [tensor_type(v) for v in function.body.args]
    of = Derivatives(body_of(function), types, beside=beside(function))
    at, one = [np.asarray(x)], [np.asarray(1.0)]
    (along,), _, (change,) = of.second(at, one, one, one)
    assert np.array_equal(along, change, equal_nan=True)
    return float(of.first(at, one, one)[1][0]), float(along)


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    ("expression", "x", "first", "second"),
    [
        ("relu(x)", 0.0, 0.0, 0.0),
        ("relu6(x)", 0.0, 0.0, 0.0),
        ("relu6(x)", 6.0, 0.0, 0.0),
        ("leaky_relu(x, slope=0.25)", 0.0, 0.25, 0.0),
        ("elu(x)", 0.0, 1.0, 1.0),
        ("clamp(x, 0.0, 1.0)", 0.0, 0.5, 0.0),
        ("abs(x)", 0.0, 0.0, 0.0),
        ("sign(x)", 0.0, 0.0, 0.0),
        ("sigmoid(x)", 0.0, 0.25, 0.0),
        ("softplus(x)", 0.0, 0.5, 0.25),
        ("silu(x)", 0.0, 0.5, 0.5),
        ("mish(x)", 0.0, 0.6, 0.64),
        ("gelu(x)", 0.0, 0.5, 2.0 / math.sqrt(2.0 * math.pi)),
        ("sinh(x)", 0.0, 1.0, 0.0),
        ("cosh(x)", 0.0, 0.0, 1.0),
        ("asinh(x)", 0.0, 1.0, 0.0),
        ("atanh(x)", 0.0, 1.0, 0.0),
        ("tan(x)", 0.0, 1.0, 0.0),
        ("atan2(x, 0.0 * x)", 0.0, 0.0, 0.0),
        ("hypot(x, x)", 0.0, 0.0, 0.0),
        ("pow(x, 2.0)", 0.0, 0.0, 2.0),
        ("pow(x, 1.0)", 0.0, 1.0, 0.0),
        ("huber(x, 0.0 * x)", 0.0, 0.0, 1.0),
        ("asinh(x)", 1e200, 1e-200, 0.0),
        ("acosh(x)", 1e200, 1e-200, 0.0),
        ("sinh(x)", 100.0, math.cosh(100.0), math.sinh(100.0)),
        ("cosh(x)", 100.0, math.sinh(100.0), math.cosh(100.0)),
        ("sum(softmax_safe(full(3, -INF, dtype=f64) + x))", 0.0, 0.0, 0.0),
        ("sum(kl_div(zeros(3, dtype=f64), stack([0.0 * x, x, x])))", 1.0, 2.0, 2.0),
    ],
)
def test_where_pieces_meet(expression: str, x: float, first: float, second: float) -> None:
    assert slopes(expression, x) == pytest.approx((first, second), rel=1e-12, abs=1e-300)


def test_gelu_by_tanh_is_the_derivative_of_the_same_numbers() -> None:
    exact = (1.0829640838457825657, 0.24214819798377291835)
    assert slopes('gelu(x, approximate="tanh")', 1.0) == pytest.approx(exact, rel=1e-14)


@pytest.mark.one_in(2)
def test_a_cube_root_is_steep_at_zero() -> None:
    assert slopes("cbrt(x)", 0.0)[0] == math.inf


@pytest.mark.one_in(4)
def test_a_length_rises_along_what_is_infinite() -> None:
    x, y = np.array([math.inf, 2.0, -math.inf, math.inf]), np.array([1.0, -math.inf, math.inf, math.nan])
    slopes = "grad(lambda x, y: sum(hypot(x, y)), wrt=(0, 1))(x, y)"
    text = f"def f(x: Tensor[N, f64], y: Tensor[N, f64]):\n    return {slopes}\n"
    by_x, by_y = compiled_equals_oracle(text)("f", x, y)
    half = math.sqrt(0.5)
    assert by_x.tolist() == [1.0, 0.0, -half, 1.0] and by_y.tolist() == [0.0, -1.0, half, 0.0]
