"""The library against NumPy in f64: within stated bounds, with the interpreter's bits as machine code, and for narrow
types exactly the result of the wide type rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessera
from tesserac.graph.interp import run_function
from tests.support.cpu_kernels import same_bits
from tests.support.sampling import examples, some_of_each
from tests.support.source_support import compile_to_forms

Array = np.ndarray
TINY = 2.0**-134
"""What factors that fell among the subnormals of f32 may have lost."""
ROW_SIZES = st.one_of(st.sampled_from([1, 2, 3, 8, 31, 64, 65, 513]), st.integers(1, 200))


def erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def erfc(x: Array) -> Array:
    return np.vectorize(math.erfc, otypes=[np.float64])(x)


def rows(x: Array) -> Array:
    """The mean of each row, to be subtracted."""
    return x.mean(axis=-1, keepdims=True)


def softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def mish(x: Array) -> Array:
    """tanh(log(1 + e)) by exponentials that neither overflow nor cancel."""
    e = np.exp(-np.abs(x))
    return x * np.where(x < 0, e * (e + 2) / (e * (e + 2) + 2), (1 + 2 * e) / (1 + 2 * e + 2 * e * e))


def own_size(x: Array, exact: Array) -> Array:
    return np.abs(exact)


def tail_size(x: Array, exact: Array) -> Array:
    """The argument of the reference's erfc is rounded, and its tail magnifies that by the square."""
    return np.abs(exact) * (1 + x * x / 4)


def layernorm_size(x: Array, exact: Array) -> Array:
    """Differences to the mean are as uncertain as the largest value of the row, counted in standard deviations."""
    return np.abs(exact) + np.abs(x).max(axis=-1, keepdims=True) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


def variance_size(x: Array, exact: Array) -> Array:
    return exact + np.abs(x).max(axis=-1) * np.sqrt(exact)


def loss_size(x: Array, exact: Array) -> Array:
    return np.asarray(np.mean(np.abs(x) + softplus(np.abs(x)), dtype=np.float64))


@dataclass(frozen=True)
class Case:
    """An expression of x in the language, what it means, and its error in units of eps * size."""

    name: str
    text: str
    meaning: Callable[[Array], Array]
    bound: float
    size: Callable[[Array, Array], Array] = own_size
    result: str = "M, N, "


CASES = [
    Case("relu", "relu(x)", lambda x: np.maximum(x, 0), 0),
    Case("leaky_relu", "leaky_relu(x, slope=0.25)", lambda x: np.where(x > 0, x, 0.25 * x), 0),
    Case("elu", "elu(x, alpha=0.5)", lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)), 2.5),
    Case("sigmoid", "sigmoid(x)", sigmoid, 3),
    Case("silu", "silu(x)", lambda x: x * sigmoid(x), 4),
    Case("swiglu", "swiglu(x, x)", lambda x: x * x * sigmoid(x), 5),
    Case("softplus", "softplus(x)", softplus, 3),
    Case("relu6", "relu6(x)", lambda x: np.clip(x, 0, 6), 0),
    Case("hardsigmoid", "hardsigmoid(x)", lambda x: np.clip(x + 3, 0, 6) / 6, 3, lambda x, exact: exact + 0.1),
    Case("hardswish", "hardswish(x)", lambda x: x * np.clip(x + 3, 0, 6) / 6, 4, lambda x, exact: np.abs(x)),
    Case("mish", "mish(x)", mish, 6),
    Case("geglu", "geglu(x, x)", lambda x: x * x / 2 * erfc(-x / math.sqrt(2)), 7, tail_size),
    Case("gelu", "gelu(x)", lambda x: x / 2 * erfc(-x / math.sqrt(2)), 6, tail_size),
    Case("gelu_erf", "0.5 * x * (1.0 + erf(x))", lambda x: x / 2 * (1 + erf(x)), 2, lambda x, exact: np.abs(x)),
    Case(
        "gelu_tanh",
        'gelu(x, approximate="tanh")',
        lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        4,
        lambda x, exact: np.abs(x) * (1 + np.abs(x)),
    ),
    Case("square", "square(x)", lambda x: x * x, 0.5),
    Case("reciprocal", "reciprocal(x)", lambda x: 1 / x, 0.5),
    Case("sign", "sign(x)", np.sign, 0),
    Case("clamp", "clamp(x, -1.0, 2.0)", lambda x: np.clip(x, -1, 2), 0),
    Case("round", "round(x)", np.rint, 0),
    Case("zeros_like", "zeros_like(x)", np.zeros_like, 0),
    Case("ones_like", "ones_like(x)", np.ones_like, 0),
    Case("residual", "residual(x, square(x))", lambda x: x + x * x, 1, lambda x, exact: np.abs(x) + x * x),
    Case("var", "var(x, axis=N)", lambda x: x.var(axis=-1), 20, variance_size, "M, "),
    Case("var_all", "var(x, axis=(0, 1))", lambda x: np.asarray(x.var()), 30, lambda x, e: e + np.max(x * x), ""),
    Case("std", "std(x, axis=-1)", lambda x: x.std(axis=-1), 20, lambda x, e: e + np.abs(x).max(axis=-1), "M, "),
    Case("layernorm", "layernorm(x)", lambda x: (x - rows(x)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5), 12,
         layernorm_size),
    Case("layernorm_safe", "layernorm_safe(x)",
         lambda x: (x - rows(x)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5), 12, layernorm_size),
    Case("rmsnorm", "rmsnorm(x, eps=0.001)", lambda x: x / np.sqrt(rows(x * x) + 0.001), 12),
    Case("rmsnorm_safe", "rmsnorm_safe(x, eps=0.001)", lambda x: x / np.sqrt(rows(x * x) + 0.001), 12),
    Case("mse", "mse(x, round(x))", lambda x: np.asarray(np.mean((x - np.rint(x)) ** 2)), 12, result=""),
    Case("bce_with_logits", "bce_with_logits(x, ones_like(x))", lambda x: np.asarray(softplus(-x).mean()), 12,
         loss_size, ""),
    Case("logsumexp", "logsumexp(x)", lambda x: np.asarray(np.log(np.exp(x - 90).sum()) + 90), 12,
         lambda x, e: np.abs(e) + np.abs(x).max(), ""),
]  # fmt: skip


def source(case: Case, element: str) -> str:
    return f"def f(x: Tensor[M, N, {element}]) -> Tensor[{case.result}{element}]:\n    return {case.text}\n"


def values(seed: int, m: int, n: int) -> Array:
    """Ordinary values, a few large and a few tiny ones."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, n)) * np.exp2(rng.integers(-8, 6, (m, n)))


def both_ways(case: Case, element: str, x: Array) -> Array:
    """The result, once machine code and interpreter agree."""
    (expected,) = run_function(compile_to_forms(source(case, element)), "m.f", [x])
    result = np.asarray(tessera.compile(source(case, element)).f(x))
    same_bits(result, np.asarray(expected))
    return result


@pytest.mark.one_in(48)
@pytest.mark.parametrize(
    ("case", "element"), some_of_each(product(CASES, ["f32", "f64"]), key=lambda pair: pair[0].name),
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_values(case: Case, element: str) -> None:
    @given(st.integers(1, 9), ROW_SIZES, st.integers(0, 2**32 - 1))
    @settings(max_examples=8)
    def check(m: int, n: int, seed: int) -> None:
        x = values(seed, m, n).astype("f4" if element == "f32" else "f8")
        wide = x.astype(np.float64)
        exact = case.meaning(wide)
        eps = np.finfo(x.dtype).eps * (1 if element == "f32" else 4)  # the reference itself is of f64
        error = np.abs(both_ways(case, element, x) - exact)
        assert np.all(error <= (case.bound + (element == "f64")) * eps * case.size(wide, exact) + TINY)

    check()


@pytest.mark.one_in(48)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_narrow_types_widen_and_round_once(case: Case) -> None:
    x = values(1, 7, 65).astype(ml_dtypes.bfloat16)
    result = both_ways(case, "bf16 @accum(f32)", x)
    if case.name in ("gelu_erf", "residual", "mse"):
        return  # several operators: each rounds
    expected = both_ways(case, "f32", x.astype(np.float32)).astype(ml_dtypes.bfloat16)
    same_bits(result, expected)


# ---------------------------------------------------------------------------------------------------- corner cases


def compute(text: str, x: list[float] | list[list[float]], dims: str = "N", result: str | None = None) -> Array:
    out = dims if result is None else result
    return np.asarray(
        tessera.compile(f"def f(x: Tensor[{dims}, f32]) -> Tensor[{out}]: return {text}").f(np.float32(x))
    )


def test_sigmoid_keeps_its_accuracy_down_to_subnormals() -> None:
    x = np.float32([-104, -100, -90, -88, -20, 0, 20, 200, -np.inf, np.inf])
    result = compute("sigmoid(x)", x.tolist(), result="N, f32")
    exact = sigmoid(x.astype(np.float64))
    assert np.all(np.abs(result - exact) <= np.maximum(3 * 2.0**-24 * exact, 2.0**-149))
    assert result[-2] == 0 and result[-1] == 1


def test_gelu_keeps_its_accuracy_in_the_tail() -> None:
    x = np.linspace(-12, -2, 500).astype(np.float32)
    exact = x / 2 * erfc(-x.astype(np.float64) / math.sqrt(2))
    result = compute("gelu(x)", x.tolist(), result="N, f32")
    assert np.all(np.abs(result - exact) <= 6 * 2.0**-23 * np.abs(exact) + 2.0**-148)


def test_softplus_does_not_overflow() -> None:
    assert compute("softplus(x)", [1000.0, -1000.0, 0.0], result="N, f32").tolist() == [
        1000.0,
        0.0,
        np.float32(np.log(2)),
    ]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["layernorm", "rmsnorm"])
def test_safe_norms_of_huge_rows(name: str) -> None:
    x = np.float32([[1e38, -2e38, 3e38, 0.5e38], [1e20, 2e20, 3e20, 4e20], [0, 0, 0, 0], [1e-30, 2e-30, 0, 1]])
    wide = x.astype(np.float64)
    centred = wide - rows(wide) if name == "layernorm" else wide
    exact = centred / np.sqrt(rows(centred**2) + 1e-5)
    result = compute(f"{name}_safe(x)", x.tolist(), "M, N", "M, N, f32")
    np.testing.assert_allclose(result, exact, rtol=2e-6, atol=2e-7)
    plain = compute(f"{name}(x)", x.tolist(), "M, N", "M, N, f32")
    same_bits(result[2:], plain[2:])


@pytest.mark.one_in(3)
@given(ROW_SIZES, st.integers(0, 2**32 - 1))
@examples(20)
def test_safe_norms_have_the_bits_of_the_plain_ones(n: int, seed: int) -> None:
    x = values(seed, 5, n).tolist()
    for name in ("layernorm", "rmsnorm"):
        same_bits(compute(f"{name}_safe(x)", x, "M, N", "M, N, f32"), compute(f"{name}(x)", x, "M, N", "M, N, f32"))


@pytest.mark.one_in(2)
def test_scale_and_bias() -> None:
    text = """def f(x: Tensor[M, N, f32], s: Tensor[N, f32], b: Tensor[N, f32]) -> Tensor[M, N, f32]:
    return layernorm(x, s, b) - (layernorm(x) * s + b)

def g(x: Tensor[M, N, f32], s: Tensor[N, f32]) -> Tensor[M, N, f32]:
    return rmsnorm(x, s) - rmsnorm(x) * s
"""
    rng = np.random.default_rng(0)
    x, s, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 33), (33,), (33,)))
    module = tessera.compile(text)
    assert not module.f(x, s, b).any() and not module.g(x, s).any()


def test_questions_about_numbers() -> None:
    x = [0.0, -1.5, np.inf, -np.inf, np.nan]
    assert compute("isnan(x)", x, result="N, bool").tolist() == [False, False, False, False, True]
    assert compute("isinf(x)", x, result="N, bool").tolist() == [False, False, True, True, False]
    assert compute("isfinite(x)", x, result="N, bool").tolist() == [True, True, False, False, False]


def test_logsumexp_safe_of_infinite_rows() -> None:
    x = [[np.inf, 1.0], [-np.inf, -np.inf], [np.nan, np.inf], [1000.0, 1000.0]]
    result = compute("logsumexp_safe(x, axis=-1)", x, "M, N", "M, f32")
    assert result[0] == np.inf and result[1] == -np.inf and np.isnan(result[2])
    assert result[3] == np.float32(1000 + math.log(2))


@pytest.mark.parametrize("count", [1, 2, 5, 11])
def test_linspace(count: int) -> None:
    text = f"def f(x: Tensor[N, f32]) -> Tensor[{count}, f32]: return linspace(-1.0, 3.0, {count})"
    result = tessera.compile(text).f(np.zeros(2, np.float32))
    np.testing.assert_allclose(result, np.linspace(-1, 3, count), rtol=3e-7, atol=3e-7)
    assert result[0] == -1 and (count == 1 or result[-1] == 3)


@pytest.mark.one_in(2)
def test_probabilities_of_zero_and_one() -> None:
    text = "def f(p: Tensor[N, f32], y: Tensor[N, f32]) -> Tensor[f32]: return bce(p, y)"
    module = tessera.compile(text)
    p, y = np.float32([0.25, 0.5, 1e-8]), np.float32([0, 1, 0])
    expected = -np.mean([math.log(0.75), math.log(0.5), math.log1p(-1e-8)])
    np.testing.assert_allclose(module.f(p, y), expected, rtol=3e-7)


def test_gelu_knows_its_approximations() -> None:
    with pytest.raises(tessera.TesseraError, match="approximate"):
        compute('gelu(x, approximate="exact")', [1.0], result="N, f32")
