"""Running folds: ascending in blocks of 512, behind the tree over the blocks before; to the bit, along any axis."""

from __future__ import annotations

import numpy as np
import pytest

from tesserac.numerics.order import block_scan
from tests.support.native_runs import compiled_equals_oracle

PROGRAM = """
def rows(x: Tensor[B, N, f32]) -> Tensor[B, N, f32]:
    return cumsum(x, axis=N)

def columns(x: Tensor[N, B, f32]) -> Tensor[N, B, f32]:
    return cumsum(exp(x), axis=0) * 2.0

def products(x: Tensor[A, N, B, f64]) -> Tensor[A, N, B, f64]:
    return cumprod(x, axis=N)

def counts(x: Tensor[B, N, bool]) -> Tensor[B, N, i64]:
    return cumsum(x)

def narrow(x: Tensor[N, bf16 @accum(f32)]) -> Tensor[N, bf16 @accum(f32)]:
    return cumsum(x)

def largest(x: Tensor[B, N, f32]) -> Tensor[B, N, f32]:
    return cummax(x, axis=1)

def within(x: Tensor[B, N, f32]) -> (Tensor[B, N, f32], Tensor[B, N, f32]):
    y = exp(x) * 0.5
    return cumsum(y, axis=1) - y, y

def best(x: Tensor[B, N, f32]) -> (Tensor[B, N, f32], Tensor[B, N, i64]):
    return cummax(x, axis=1, return_indices=True)

def smallest(x: Tensor[B, N, f32]) -> Tensor[B, f32] where N >= 1:
    return cummin(x, axis=1)[:, -1] - min(x, axis=1)
"""


def numbers(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.normal(size=shape) * 2.0 ** rng.integers(-12, 3, size=shape)).astype(np.float32)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("n", [0, 1, 2, 63, 511, 512, 513, 1024, 1600, 5000, 512 * 21 + 7])
def test_sizes(n: int) -> None:
    import ml_dtypes

    run = compiled_equals_oracle(PROGRAM)
    x = numbers(3, n)
    np.testing.assert_allclose(run("rows", x), np.cumsum(x.astype(np.float64), 1), rtol=1e-3, atol=1e-4)
    run("columns", numbers(n, 5))
    run("products", 1 + numbers(2, n, 3).astype(np.float64) / 64)
    np.testing.assert_array_equal(run("counts", x > 0), np.cumsum(x > 0, 1))
    run("narrow", numbers(n).astype(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(run("largest", x), np.maximum.accumulate(x, 1))
    if n:
        assert not run("smallest", x).any()


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("rows", "n"), [(1, 4096), (1, 9000), (7, 40), (8, 512), (17, 1031)])
def test_rows_and_blocks_side_by_side(rows: int, n: int) -> None:
    """Eight rows, or eight blocks of one, are walked at once: what is missing of them does not show."""
    run = compiled_equals_oracle(PROGRAM)
    x = numbers(rows, n)
    run("rows", x)
    run("within", x)
    np.testing.assert_array_equal(run("best", x)[0], np.maximum.accumulate(x, 1))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", ["bf16", "f16", "i8", "f64"])
def test_blocks_side_by_side_of_every_width(dtype: str) -> None:
    """What lies in memory is not what is computed with."""
    import ml_dtypes

    stored = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "i8": np.int8, "f64": np.float64}[dtype]
    program = f"def f(x: Tensor[N, {dtype}]):\n    return cumsum(x), cummax(x)\n"
    compiled_equals_oracle(program)("f", numbers(4200).astype(stored))


def test_wide_columns() -> None:
    compiled_equals_oracle(PROGRAM)("columns", numbers(700, 200))


def test_special_values() -> None:
    x = np.array([[-0.0, -0.0, 1.0, np.inf, -np.inf, 1.0], [1.0, np.nan, 3.0, 0.0, -0.0, 2.0]], np.float32)
    run = compiled_equals_oracle(PROGRAM)
    assert not np.signbit(run("rows", x)[0, :2]).any(), "a zero is +0, as in a sum"
    assert np.isnan(run("largest", x)[1, 1:]).all()


def test_the_order_is_the_one_written_down() -> None:
    x = numbers(1700)
    blocks = [np.add.accumulate(part) for part in np.split(x, [512, 1024, 1536])]
    totals = [block[-1] for block in blocks]
    offsets = [np.float32(0), totals[0], totals[0] + totals[1], (totals[0] + totals[1]) + totals[2]]
    expected = np.concatenate([offset + block for offset, block in zip(offsets, blocks, strict=True)])
    assert np.array_equal(block_scan(x, "sum"), expected)
