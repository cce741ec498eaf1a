"""Norms over channels, losses by label, lookups and linear layers against NumPy in f64, as machine code and
interpreted."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessera
from tesserac.graph.interp import run_function
from tests.support.cpu_kernels import same_bits
from tests.support.sampling import examples
from tests.support.source_support import compile_to_forms, normal
from tests.support.source_support import run_both as run

Array = np.ndarray
EPS = 2.0**-24


# ----------------------------------------------------------------------------------------------------------- norms

SHAPES = st.tuples(st.integers(1, 4), st.sampled_from([4, 8]), st.integers(1, 5), st.integers(1, 5))


def exact_norm(x: Array, rows: tuple[int, ...]) -> Array:
    """[N, G, ...] normalised over all but the first two dims."""
    wide = x.astype(np.float64).reshape(rows)
    y = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    return y.reshape(x.shape)


def norm_size(x: Array, rows: tuple[int, ...]) -> Array:
    """Differences to the mean are as uncertain as the largest value, counted in standard deviations."""
    wide = np.abs(x.astype(np.float64).reshape(rows))
    size = wide.max(-1, keepdims=True) / np.sqrt(x.reshape(rows).var(-1, keepdims=True) + 1e-5)
    return np.broadcast_to(size, wide.shape).reshape(x.shape) + 1


@pytest.mark.one_in(2)
@given(SHAPES, st.integers(0, 999))
@examples(10)
def test_groupnorm(shape: tuple[int, ...], seed: int) -> None:
    program = (
        "def f(x: Tensor[N, C, H, W, f32], s: Tensor[C, f32], b: Tensor[C, f32]) -> Tensor[N, C, H, W, f32]"
        " where C % 4 == 0:\n    return groupnorm(x, 4, s, b)\n"
    )
    x, s, b = normal(seed, *shape), normal(seed + 1, shape[1]), normal(seed + 2, shape[1])
    y = run(program, x, s, b)
    rows = (shape[0], 4, -1)
    exact = exact_norm(x, rows) * s[:, None, None] + b[:, None, None]
    size = norm_size(x, rows) * np.abs(s)[:, None, None] + np.abs(b)[:, None, None]
    assert np.all(np.abs(y - exact) <= 12 * EPS * size)
    same_bits(run(program, x[-1:], s, b), y[-1:])


@pytest.mark.one_in(6)
@given(SHAPES, st.integers(0, 999))
@settings(max_examples=6)
def test_instancenorm_is_one_group_per_channel(shape: tuple[int, ...], seed: int) -> None:
    head = "def f(x: Tensor[N, {}, H, W, f32]) -> Tensor[N, {}, H, W, f32]:\n".format(*shape[1:2] * 2)
    x = normal(seed, *shape)
    y = run(f"{head}    return instancenorm(x)\n", x)
    same_bits(y, run(f"{head}    return groupnorm(x, {shape[1]})\n", x))
    rows = (*shape[:2], -1)
    assert np.all(np.abs(y - exact_norm(x, rows)) <= 12 * EPS * norm_size(x, rows))


@pytest.mark.one_in(12)
@pytest.mark.parametrize("dims", [(7, 4), (2, 4, 5), (3, 4, 2, 6)])
def test_batchnorm(dims: tuple[int, ...]) -> None:
    names = ", ".join(["N", "C", "H", "W"][: len(dims)])
    program = (
        f"def f(x: Tensor[{names}, f32], m: Tensor[C, f32], v: Tensor[C, f32], s: Tensor[C, f32], b: Tensor[C, f32]):\n"
        "    return {}\n"
    )
    x, m, s, b = normal(0, *dims), normal(1, 4), normal(2, 4), normal(3, 4)
    v = np.abs(normal(4, 4)) + np.float32(0.5)
    along = tuple(i for i in range(len(dims)) if i != 1)
    m_, v_, s_, b_ = (np.expand_dims(a.astype(np.float64), tuple(range(1, len(dims) - 1))) for a in (m, v, s, b))
    exact = (x - m_) / np.sqrt(v_ + 1e-5) * s_ + b_
    y = run(program.format("batchnorm(x, m, v, s, b)"), x, m, v, s, b)
    np.testing.assert_allclose(y, exact, rtol=0, atol=1e-5)
    same_bits(run(program.format("batchnorm(x, m, v, s, b)"), x[-1:], m, v, s, b), y[-1:])
    y, mean, var = tessera.compile(program.format("batchnorm_train(x, m, v, s, b, momentum=0.25)")).f(x, m, v, s, b)
    wide = x.astype(np.float64)
    batch, spread = wide.mean(along, keepdims=True), wide.var(along, keepdims=True)
    centred = (wide - batch) / np.sqrt(spread + 1e-5)
    np.testing.assert_allclose(y, centred * s_ + b_, rtol=0, atol=1e-5)
    np.testing.assert_allclose(mean, 0.75 * m + 0.25 * batch.ravel(), rtol=0, atol=1e-6)
    np.testing.assert_allclose(var, 0.75 * v + 0.25 * wide.var(along, ddof=1), rtol=0, atol=1e-6)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("call", ["groupnorm(x, 2)", "instancenorm(x)", "batchnorm(x, zeros(4), ones(4))"])
def test_norms_of_narrow_types_are_rounded_once(call: str) -> None:
    program = f"def f(x: Tensor[N, 4, H, f32]) -> Tensor[N, 4, H, f32]:\n    return {call}\n"
    narrow = program.replace("f32", "bf16 @accum(f32)").replace("zeros(4)", "zeros(4, dtype=x.dtype)")
    x = normal(0, 3, 4, 33).astype(ml_dtypes.bfloat16)
    result = run(narrow.replace("ones(4)", "ones(4, dtype=x.dtype)"), x)
    same_bits(result, run(program, x.astype(np.float32)).astype(ml_dtypes.bfloat16))


# ---------------------------------------------------------------------------------------------------------- losses


def log_softmax(x: Array) -> Array:
    wide = x.astype(np.float64)
    top = wide.max(-1, keepdims=True)
    return wide - top - np.log(np.exp(wide - top).sum(-1, keepdims=True))


ROWS = "def f(x: Tensor[M, N, f32], y: Tensor[M, i32]) -> Tensor[M, f32]:\n    return {}\n"


@pytest.mark.one_in(3)
@given(st.integers(1, 6), st.integers(1, 70), st.sampled_from([0.1, 3.0, 100.0]), st.integers(0, 999))
@examples(10)
def test_cross_entropy(m: int, n: int, scale: float, seed: int) -> None:
    x, y = normal(seed, m, n) * np.float32(scale), np.random.default_rng(seed).integers(0, n, m).astype(np.int32)
    log = log_softmax(x)
    loss = run(ROWS.format("cross_entropy(x, y)"), x, y)
    bound = 6 * EPS * (1 + np.abs(x).max())
    assert np.all(np.abs(loss + log[np.arange(m), y]) <= bound) and np.all(loss >= 0)
    assert not np.signbit(loss).any()
    same_bits(run(ROWS.format("cross_entropy(x, y)"), x[-1:], y[-1:]), loss[-1:])
    smooth = run(ROWS.format("cross_entropy(x, y, label_smoothing=0.25)"), x, y)
    exact = -0.75 * log[np.arange(m), y] - 0.25 * log.mean(-1)
    assert np.all(np.abs(smooth - exact) <= 2 * bound)


@pytest.mark.one_in(2)
def test_cross_entropy_of_extreme_rows() -> None:
    inf = np.inf
    x = np.float32([[0, -inf], [0, -inf], [-inf, -inf], [inf, 0], [1e3, -1e3], [np.nan, 0]])
    y = np.int32([0, 1, 0, 0, 0, 1])
    loss = run(ROWS.format("cross_entropy(x, y)"), x, y)
    assert loss[:2].tolist() == [0, inf] and abs(loss[4]) < 1e-7 and np.isnan(loss[[2, 3, 5]]).all()


@pytest.mark.one_in(2)
def test_rows_without_a_label() -> None:
    x, y = normal(0, 4, 5), np.int32([1, -100, 4, -100])
    loss = run(ROWS.format("cross_entropy(x, y, ignore_index=-100)"), x, y)
    assert loss[[1, 3]].tolist() == [0, 0]
    same_bits(loss[[0, 2]], run(ROWS.format("cross_entropy(x, y)"), x[[0, 2]], y[[0, 2]]))


@pytest.mark.parametrize("call", ["cross_entropy(x, y)", "nll(x, y)", "cross_entropy(x, y, ignore_index=-100)"])
@pytest.mark.parametrize("label", [-1, 5])
def test_a_label_that_is_no_class(call: str, label: int) -> None:
    with pytest.raises(tessera.TesseraError, match="out of range"):
        tessera.compile(ROWS.format(call)).f(normal(0, 2, 5), np.int32([0, label]))


@pytest.mark.one_in(4)
def test_labels_of_any_integer_type_and_rank() -> None:
    x, y = normal(0, 2, 3, 7), np.random.default_rng(0).integers(0, 7, (2, 3))
    program = "def f(x: Tensor[B, S, V, f32], y: Tensor[B, S, {}]):\n    return cross_entropy(x, y)\n"
    exact = -np.take_along_axis(log_softmax(x), y[..., None], -1)[..., 0]
    for name, dtype in (("i64", np.int64), ("u8", np.uint8)):
        np.testing.assert_allclose(run(program.format(name), x, y.astype(dtype)), exact, atol=1e-6)


@pytest.mark.one_in(2)
def test_classes_along_another_axis() -> None:
    """Rows are those of the axis that the call says; floats are probabilities of the classes."""
    x, y = normal(0, 2, 5, 3, 4), np.random.default_rng(0).integers(0, 5, (2, 3, 4))
    program = """def f(x: Tensor[B, C, H, W, f32], y: Tensor[B, H, W, i64], w: Tensor[C, f32]):
    p = moveaxis(one_hot(y, C, dtype=f32), -1, 1)
    a, b = cross_entropy(x, y, weight=w, axis=1), nll(log_softmax(x, axis=C), y, weight=w, axis=C)
    c, d = cross_entropy(x, p, weight=w, axis=1, label_smoothing=0.25), cross_entropy(x, p, reduction="mean", axis=1)
    return a, b, c, d
"""
    weight = np.float32([0.5, 1, 2, 1, 3])
    log = log_softmax(np.moveaxis(x, 1, -1))
    exact = -np.take_along_axis(log, y[..., None], -1)[..., 0]
    got = run_function(compile_to_forms(program), "m.f", [x, y, weight])
    for one in got[:2]:
        np.testing.assert_allclose(one, exact * weight[y], atol=2e-6)
    np.testing.assert_allclose(got[2], 0.75 * exact * weight[y] - 0.25 * (log * weight).mean(-1), atol=2e-6)
    np.testing.assert_allclose(got[3], exact.mean(), atol=1e-6)


def test_norms_over_several_dims() -> None:
    x, s = normal(0, 3, 4, 5), normal(1, 4, 5)
    program = """def f(x: Tensor[A, B, C, f32], s: Tensor[B, C, f32]):
    return layernorm(x, s, s, axis=-2), layernorm_safe(x, s, s, axis=B), rmsnorm(x, s, axis=1), rmsnorm(x, axis=0)
"""
    got = run_function(compile_to_forms(program), "m.f", [x, s])
    centred = x - x.mean((1, 2), keepdims=True)
    exact = centred / np.sqrt((centred**2).mean((1, 2), keepdims=True) + 1e-5) * s + s
    root = x / np.sqrt((x * x).mean((1, 2), keepdims=True) + 1e-5) * s
    for one, other in zip(got, (exact, exact, root, x / np.sqrt((x * x).mean() + 1e-5)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.one_in(3)
def test_nll_and_kl_div() -> None:
    x, z, y = normal(0, 6, 9), normal(1, 6, 9), np.arange(6, dtype=np.int32)
    log_q, log_p = log_softmax(x), log_softmax(z)
    np.testing.assert_allclose(run(ROWS.format("nll(log_softmax(x), y)"), x, y), -log_q[np.arange(6), y], atol=1e-6)
    program = "def f(x: Tensor[M, N, f32], p: Tensor[M, N, f32]):\n    return kl_div(log_softmax(x), p)\n"
    p = np.exp(log_p).astype(np.float32)
    p[0, :4] = 0
    exact = np.where(p == 0, 0, p * (np.log(np.where(p == 0, 1, p).astype(np.float64)) - log_q)).sum(-1)
    np.testing.assert_allclose(run(program, x, p), exact, atol=2e-6)


@pytest.mark.one_in(2)
@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 999))
@settings(max_examples=6)
def test_losses_of_differences(m: int, n: int, seed: int) -> None:
    program = "def f(x: Tensor[M, N, f32], y: Tensor[M, N, f32]) -> Tensor[f32]:\n    return {}\n"
    x, y = normal(seed, m, n) * np.float32(2), normal(seed + 1, m, n)
    d = np.abs(x.astype(np.float64) - y)
    np.testing.assert_allclose(run(program.format("mae(x, y)"), x, y), d.mean(), rtol=1e-6)
    exact = np.where(d <= 0.5, d * d / 2, 0.5 * (d - 0.25)).mean()
    np.testing.assert_allclose(run(program.format("huber(x, y, delta=0.5)"), x, y), exact, rtol=2e-6)


# ------------------------------------------------------------------------------------------------ linear, embedding


@pytest.mark.one_in(6)
def test_linear() -> None:
    program = "def f(x: Tensor[B, S, D, f32], w: Tensor[D, H, f32], b: Tensor[H, f32]):\n    return {}\n"
    x, w, b = normal(0, 2, 3, 8), normal(1, 8, 5), normal(2, 5)
    np.testing.assert_allclose(run(program.format("linear(x, w, b)"), x, w, b), x @ w + b, atol=1e-5)
    same_bits(run(program.format("linear(x, w)"), x, w, b), run(program.format("x @ w"), x, w, b))


def test_glu_halves_along_any_axis() -> None:
    x = normal(0, 4, 6)
    exact = x[:2] / (1 + np.exp(-x[2:].astype(np.float64)))
    y = run("def f(x: Tensor[4, N, f32]) -> Tensor[2, N, f32]:\n    return glu(x, axis=0)\n", x)
    np.testing.assert_allclose(y, exact, rtol=1e-6)


EMBED = "def f(t: Tensor[V, D, f32], i: Tensor[B, S, i32]) -> Tensor[B, S, D, f32]:\n    return embedding(t, i)\n"


def test_embedding() -> None:
    table, tokens = normal(0, 9, 4), np.random.default_rng(0).integers(0, 9, (2, 5)).astype(np.int32)
    assert np.array_equal(run(EMBED, table, tokens), table[tokens])
    for wrong in (-1, 9):
        with pytest.raises(tessera.TesseraError, match="out of range"):
            tessera.compile(EMBED).f(table, np.full((1, 1), wrong, np.int32))


@pytest.mark.one_in(12)
@pytest.mark.parametrize("dtype", ["i64", "i32", "i16", "i8", "u64", "u32", "u8", "f32"])
def test_max_pool_of_any_dtype(dtype: str) -> None:
    x = (np.arange(16).reshape(1, 1, 4, 4) - (0 if dtype.startswith("u") else 20)).astype(
        f"{dtype[0]}{int(dtype[1:]) // 8}"
    )
    for padding, first in ((1, 5), (0, 10)):
        text = f"def f(x: Tensor[1, 1, 4, 4, {dtype}]):\n    return max_pool2d(x, 3, stride=2, padding={padding})\n"
        assert run(text, x)[0, 0, 0, 0] == x.ravel()[first]


@pytest.mark.one_in(12)
def test_the_row_of_padding_is_not_trained() -> None:
    text = """
def f(w: Tensor[V, D, f32], t: Tensor[N, i32]):
    near = grad(lambda w: sum(embedding(w, t, padding_idx=-2)))(w)
    return embedding(w, t, padding_idx=-2), near, grad(lambda w: sum(embedding(input=t, weight=w, padding_idx=0)))(w)
"""
    w, t = np.arange(8, dtype=np.float32).reshape(4, 2), np.array([0, 2, 2, 3], np.int32)
    rows, last, first = run_function(compile_to_forms(text), "m.f", [w, t])
    np.testing.assert_array_equal(rows, w[t])
    assert (last[:, 0].tolist(), first[:, 0].tolist()) == ([1, 0, 0, 1], [0, 0, 2, 1])
