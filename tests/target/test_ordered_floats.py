"""Maxima, minima and powers of two as x86 computes them: NaN, both zeros and subnormals are what they are elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tests.support.cpu_kernels import same_bits

EXTREMES = "".join(
    f"def {name}_{dtype}(x: Tensor[M, N, {dtype}]):\n    return {name}(x, axis=1)\n"
    for name in ("max", "min")
    for dtype in ("f32", "f64", "f16")
)
NUMPY = {"f32": "f4", "f64": "f8", "f16": "f2"}
SPECIAL = (np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0)


def rows(dtype: str, length: int) -> np.ndarray:
    """Numbers with special ones among them; rows of zeros of either sign, of negative numbers and a zero."""
    rng = np.random.default_rng(length)
    x = rng.standard_normal((40, length)).astype(dtype)
    for row in x[8:]:
        row[rng.integers(0, length, 2)] = rng.choice(SPECIAL, 2)
    x[0], x[1], x[2], x[6], x[7] = -0.0, 0.0, -np.inf, -np.nan, np.inf
    x[3:6] = -abs(x[3:6])
    x[3, length // 2], x[4, 0], x[4, -1], x[5, 0], x[5, -1] = -0.0, 0.0, -0.0, -0.0, 0.0
    return x


def extreme(row: np.ndarray, name: str) -> float:
    if np.isnan(row).any():
        return float("nan")
    found = float(row.max() if name == "max" else row.min())
    negative = np.signbit(row[row == 0.0])
    return found if found != 0.0 else (-0.0 if (negative.all() if name == "max" else negative.any()) else 0.0)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_extremes_of_rows_know_nan_and_the_sign_of_zero(name: str, dtype: str) -> None:
    compiled = getattr(tessera.compile(EXTREMES), f"{name}_{dtype}")
    for length in (1, 2, 15, 16, 17, 63, 64, 65, 200, 700):
        x = rows(NUMPY[dtype], length)
        same_bits(np.asarray(compiled(x)), np.array([extreme(row, name) for row in x], x.dtype))


SCALED = """
def each(x: Tensor[N, f32], k: Tensor[N, f32]): return ldexp(x, k)
def of_rows(x: Tensor[M, N, f32], k: Tensor[M, f32]): return ldexp(x, k[:, None])
"""


@pytest.mark.one_in(2)
def test_powers_of_two_round_once_for_any_exponent() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2**32, 32000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    x[:100] = np.arange(100, dtype=np.uint32).view(np.float32)  # subnormals
    k = np.rint(rng.uniform(-310, 310, x.size)).astype(np.float32)
    k[:800] = rng.choice(np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, -0.0, 300, -300, 127, 128], np.float32), 800)
    with np.errstate(all="ignore"):
        whole = np.rint(np.clip(np.where(np.isnan(k), -np.inf, k), -378, 381))
        wanted = np.ldexp(x.astype(np.float64), whole.astype(np.int64)).astype(np.float32)
    module = tessera.compile(SCALED)
    same_bits(np.asarray(module.each(x, k)), wanted)
    table, halves = x.reshape(320, 100), np.round(rng.uniform(-600, 600, 320)).astype(np.float32) / 2
    repeated = np.repeat(halves, 100)
    by_rows, single = np.asarray(module.of_rows(table, halves)), np.asarray(module.each(x, repeated))
    same_bits(by_rows.reshape(-1), single)  # the last 4 of a row are computed by themselves
    few = [np.asarray(module.each(x[i : i + 5], repeated[i : i + 5])) for i in range(0, x.size, 500)]
    same_bits(np.concatenate(few), np.concatenate([single[i : i + 5] for i in range(0, x.size, 500)]))
