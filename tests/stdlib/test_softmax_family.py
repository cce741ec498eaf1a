"""The library's softmax family, from `.tess` source to the oracle: accuracy, corner cases, precision policies."""

import ml_dtypes
import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tesserac.numerics.narrow import convert
from tesserac.types.dtype import BF16, F32
from tests.support.source_support import compile_to_forms

INF, NAN, HUGE = np.inf, np.nan, 3.4e38


def run(body: str, x: np.ndarray, element: str = "f32", reduced: bool = False) -> np.ndarray:
    dims = ["M", "N", "K"][: x.ndim]
    kept = dims[:-1] if reduced else dims
    argument, result = (f"Tensor[{', '.join([*d, element])}]" for d in (dims, kept))
    module = compile_to_forms(f"def f(x: {argument}) -> {result}:\n    return {body}\n")
    return run_function(module, "m.f", [x])[0]


def rows(*values: list[float]) -> np.ndarray:
    return np.array(values, np.float32)


def exact_softmax(x: np.ndarray) -> np.ndarray:
    wide = np.exp(x.astype(np.longdouble) - x.max(axis=-1, keepdims=True))
    return wide / wide.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("shape", [(4, 1), (3, 7), (2, 513), (5, 64), (1, 3000)])
@pytest.mark.parametrize("scale", [0.1, 10.0, 1000.0])
def test_softmax_is_accurate(shape: tuple[int, int], scale: float) -> None:
    x = (np.random.default_rng(0).normal(size=shape) * scale).astype(np.float32)
    np.testing.assert_allclose(run("softmax(x)", x), exact_softmax(x), rtol=4e-7, atol=2.0**-149)


def test_rows_with_infinities_and_nan() -> None:
    x = rows(
        [1, -INF, 2, -INF], [-INF, -INF, -INF, -INF], [NAN, 1, 2, -INF], [INF, 1, 2, 3], [-INF, -INF, 5, -INF],
        [INF, -INF, NAN, 0],
    )  # fmt: skip
    result = run("softmax(x)", x)
    np.testing.assert_allclose(result[0], [1 / (1 + np.e), 0, np.e / (1 + np.e), 0], rtol=3e-7)
    assert not np.signbit(result[0]).any()
    assert np.isnan(result[[1, 2, 3, 5]]).all()
    assert result[4].tolist() == [0, 0, 1, 0]


def test_safe_rows() -> None:
    x = rows([-INF, -INF], [NAN, -INF], [INF, -INF], [0, 0])
    result = run("softmax_safe(x)", x)
    assert result[0].tolist() == [0, 0] and not np.signbit(result[0]).any()
    assert np.isnan(result[1:3]).all()
    assert result[3].tolist() == [0.5, 0.5]


def test_huge_values() -> None:
    """Products with log2(e) that overflow saturate, so these rows are as good as any."""
    x = rows([HUGE, HUGE, 0, -INF], [-HUGE, -HUGE, -INF, -INF], [HUGE, -HUGE, 1, 2], [2.0**22, 2.0**22, 0, -HUGE])
    expected = [[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [1, 0, 0, 0], [0.5, 0.5, 0, 0]]
    assert run("softmax(x)", x).tolist() == expected


def test_subnormal_results_are_kept() -> None:
    result = run("softmax(x)", rows([0, -100, -103.5, -110]))[0]
    np.testing.assert_allclose(result[1:3], np.exp([-100.0, -103.5]), rtol=0, atol=2.0**-149)
    assert result[1] > 0 and result[3] == 0


@pytest.mark.parametrize("columns", [0, 1])
def test_tiny_rows(columns: int) -> None:
    assert run("softmax(x)", np.zeros((2, columns), np.float32)).tolist() == [[1.0] * columns] * 2


def test_the_maximum_of_a_row_alone_decides_its_scale() -> None:
    """A row gives the same bits alone and in a batch, and under any permutation of other rows."""
    x = np.random.default_rng(1).normal(size=(6, 100)).astype(np.float32) * 20
    whole = run("softmax(x)", x)
    assert all(np.array_equal(run("softmax(x)", x[i : i + 1]), whole[i : i + 1]) for i in range(6))
    assert np.array_equal(run("softmax(x)", x[::-1]), whole[::-1])


def test_other_axes() -> None:
    x = np.random.default_rng(2).normal(size=(3, 40, 2)).astype(np.float32)
    along = run("softmax(x, axis=1)", x)
    assert np.array_equal(along, run("softmax(x)", x.transpose(0, 2, 1)).transpose(0, 2, 1))


def test_narrow_types_widen_and_round_once() -> None:
    x = convert(np.random.default_rng(3).normal(size=(4, 50)) * 3, BF16)
    result = run("softmax(x)", x, "bf16 @accum(f32)")
    expected = convert(run("softmax(x)", convert(x, F32)), BF16)
    assert result.dtype == ml_dtypes.bfloat16
    assert np.array_equal(result.view("u2"), expected.view("u2"))


def test_f64() -> None:
    x = np.random.default_rng(4).normal(size=(3, 70)) * 30
    np.testing.assert_allclose(run("softmax(x)", x, "f64"), exact_softmax(x), rtol=6e-16)


def test_logsumexp() -> None:
    x = np.random.default_rng(5).normal(size=(4, 90)).astype(np.float32) * 50
    wide = x.astype(np.float64)
    top = wide.max(axis=1)
    expected = top + np.log(np.exp(wide - top[:, None]).sum(axis=1))
    np.testing.assert_allclose(run("logsumexp(x, axis=-1)", x, reduced=True), expected, rtol=2e-7)
    corners = rows([-INF, -INF], [NAN, 0], [INF, 0], [1000, 1000], [-INF, 3])
    result = run("logsumexp(x, axis=-1)", corners, reduced=True)
    assert result[0] == -INF and np.isnan(result[1:3]).all()
    np.testing.assert_allclose(result[3:], [1000 + np.log(2), 3], rtol=2e-7)


def test_log_softmax() -> None:
    x = np.random.default_rng(6).normal(size=(4, 90)).astype(np.float32) * 50
    np.testing.assert_allclose(run("log_softmax(x)", x), np.log(exact_softmax(x)), rtol=3e-7, atol=3e-7)
    result = run("log_softmax(x)", rows([-INF, 0], [-INF, -INF], [NAN, 0]))
    assert result[0].tolist() == [-INF, 0] and np.isnan(result[1:]).all()


@pytest.mark.parametrize("name", ["relu", "sigmoid", "silu"])
def test_activations(name: str) -> None:
    x = np.concatenate([np.random.default_rng(7).normal(size=50) * 10, [0, -100, 100]]).astype(np.float32)
    wide = x.astype(np.float64)
    exact = {"relu": np.maximum(wide, 0), "sigmoid": 1 / (1 + np.exp(-wide)), "silu": wide / (1 + np.exp(-wide))}
    np.testing.assert_allclose(run(f"{name}(x)", x), exact[name], rtol=5e-7, atol=1e-37)
