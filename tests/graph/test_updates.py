"""Updates rebind: `x[i] = v` at static, symbolic and run-time places gives NumPy's result, and nobody else sees it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessera
from tests.support.native_runs import compiled_equals_oracle
from tests.support.sampling import examples

PROGRAM = """
def row(x: Tensor[N, D, f32], v: Tensor[D, f32]) -> (Tensor[N, D, f32], Tensor[N, D, f32]) where N >= 1:
    y = x
    x[-1] = v * 2.0
    return x, y

def every_other(x: Tensor[N, f32]) -> Tensor[N, f32]:
    x[::2] = 0.5
    x[::-2] += 1.0
    return x

def corner(x: Tensor[M, N, i32]) -> Tensor[M, N, i32] where M >= 3, N >= 4:
    x[1:3, N - 2:] = x[0:2, 0:2] * 2
    return x

def in_a_loop(x: Tensor[N, D, f32]) -> Tensor[N, D, f32]:
    for i in range(1, N):
        x[i] = x[i] + x[i - 1]
    return x

def set_rows(x: Tensor[N, D, f32], i: Tensor[K, i32], v: Tensor[K, D, f32]) -> Tensor[N, D, f32]:
    return x.at[i].set(v)

def set_columns(x: Tensor[M, N, bf16 @accum(f32)], i: Tensor[K, i64]) -> Tensor[M, N, bf16 @accum(f32)]:
    x[:, i] = 1.5
    return x

def set_points(x: Tensor[M, N, f32], i: Tensor[K, i32], j: Tensor[K, i32], v: Tensor[K, f32]) -> Tensor[M, N, f32]:
    return exp(x.at[i, j].set(v + 1.0))

def part_of_a_row(x: Tensor[M, N, f32], i: i32) -> Tensor[M, N, f32] where N >= 3:
    x[i, 1:3] = 7.0
    return x
"""
SIZES = st.sampled_from([1, 2, 3, 8, 33])
MAYBE_EMPTY = st.sampled_from([0, 1, 5, 17])


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def places(count: int, size: int, dtype: str = "i4") -> np.ndarray:
    return np.random.default_rng(count).integers(-size, size, count).astype(dtype)


@pytest.mark.one_in(3)
@given(SIZES, MAYBE_EMPTY, MAYBE_EMPTY)
@examples(12)
def test_shapes(n: int, d: int, k: int) -> None:
    import ml_dtypes

    run = compiled_equals_oracle(PROGRAM)
    x, v = numbers(n, d), numbers(d)
    changed, kept = run("row", x, v)
    np.testing.assert_array_equal(changed[-1], v * 2)
    np.testing.assert_array_equal(kept, x)
    run("every_other", numbers(n))
    run("in_a_loop", x)
    i = places(k, n)
    expected = x.copy()
    for place, value in zip(i, numbers(k, d), strict=True):
        expected[place] = value
    np.testing.assert_array_equal(run("set_rows", x, i, numbers(k, d)), expected)
    run("set_columns", numbers(d, n).astype(ml_dtypes.bfloat16), places(k, n, "i8"))
    run("set_points", numbers(n, n), i, places(k, n), numbers(k))


def test_a_box() -> None:
    x = np.arange(30, dtype=np.int32).reshape(5, 6)
    expected = x.copy()
    expected[1:3, 4:] = x[0:2, 0:2] * 2
    np.testing.assert_array_equal(compiled_equals_oracle(PROGRAM)("corner", x), expected)


def test_a_part_of_a_row_that_the_run_names() -> None:
    x = numbers(4, 5)
    expected = x.copy()
    expected[-2, 1:3] = 7.0
    np.testing.assert_array_equal(compiled_equals_oracle(PROGRAM)("part_of_a_row", x, np.array(-2, "i4")), expected)


def test_a_bad_place_ends_the_call() -> None:
    module = tessera.compile(PROGRAM)
    i = places(9, 4)
    i[5] = 4
    with pytest.raises(tessera.TesseraError, match="index 4 is out of range for a dim of size 4") as caught:
        module.set_rows(numbers(4, 3), i, numbers(9, 3))
    assert caught.value.code == "E0927"


@pytest.mark.one_in(24)
@pytest.mark.parametrize("before", ["v = x + 0.25", "v = x + 0.25\n    for i in range(2): v = v * 0.5 + x"])
@pytest.mark.parametrize("read", ["w @ v", "v @ w.T", "v.T", "sum(v, axis=0)", "sort(v, axis=0)", "concat([v, v])"])
def test_what_reads_the_tensor_as_it_was_reads_it_before_the_update(before: str, read: str) -> None:
    """Wherever it stands, and however its operand is laid out: a product of few rows reads it without a copy."""
    text = f"def f(w: Tensor[N, M, f32], x: Tensor[M, K, f32]):\n    {before}\n    y = v\n    y[-1] = 0.5\n"
    module = tessera.compile(f"{text}    return rint(y), {read.replace('w.T', 'w.T[:K]')}\n")
    w, x = np.ones((3, 3), "f4"), np.arange(9, dtype="f4").reshape(3, 3)
    whole = tessera.compile(f"{text.replace('y[-1] = 0.5', 'pass')}    return {read.replace('w.T', 'w.T[:K]')}\n")
    assert np.array_equal(module.f(w, x)[1], whole.f(w, x))


@pytest.mark.one_in(3)
def test_what_is_moved_before_an_update_needs_no_copy() -> None:
    """A loop that reads the old tensor takes along the sum that it needs, which would have read a copy of it."""
    run = compiled_equals_oracle(TAKEN_ALONG)
    run("f", np.arange(12, dtype="f4").reshape(3, 4) / 8)


TAKEN_ALONG = """
def float_of(b: Tensor[N, M, bool]): return cast(count_nonzero(b), f32)

def f(x: Tensor[N, M, f32]):
    v = exp(x)
    y = v
    y[-1] = 0.5
    z = v + 0.25
    for i in range(2):
        z = z * 0.5 + float_of(z <= v) + sum(reshape(v, (N, M, 1)))
    w = y + 0.25
    for i in range(2):
        w = w * 0.5 + sum(sort(z))
    return w
"""
