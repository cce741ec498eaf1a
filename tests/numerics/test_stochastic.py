"""Rounding at random: one of two neighbours, without bias, the same for the same seed, and only where there is anything
to round."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac.numerics.elementary import program
from tesserac.numerics.narrow import round_by, storage
from tesserac.numerics.program import evaluate
from tesserac.numerics.stochastic import ROUNDED_AT_RANDOM, program_name
from tesserac.types.dtype import BF16, F16, F32, F64, FP8_E4M3, FP8_E5M2, DType
from tests.support.checking import check_text
from tests.support.cpu_kernels import same_bits

PROGRAM = """
half = bf16 @stochastic_round
def to_bf16(x: Tensor[N, f32]): return cast(x, bf16 @stochastic_round)
def to_f16(x: Tensor[N, f32]): return cast(x, f16 @stochastic_round)
def to_fp8_e4m3(x: Tensor[N, f32]): return cast(x, fp8_e4m3 @accum(f32) @saturate @stochastic_round)
def to_fp8_e5m2(x: Tensor[N, f32]): return cast(x, fp8_e5m2 @accum(f32) @stochastic_round)
def product(x: Tensor[N, half], y: Tensor[N, half]): return x * y
def twice(x: Tensor[N, f32]): return cast(x, half), cast(x, half)
def sums(x: Tensor[M, N, half]): return sum(x, axis=1)
def dots(x: Tensor[M, K, half], y: Tensor[K, N, half]): return x @ y
def grows(x: Tensor[N, half], n: int):
    for i in range(n):
        x = x + 0.0009765625
    return x
def moves(x: Tensor[M, N, half]) -> Tensor[N, M, half] uses none: return maximum(-x, 0.0).T
def library(x: Tensor[M, N, half]): return softmax(x)
"""


@cache
def module() -> tessera.module.Module:
    return tessera.compile(PROGRAM)


def floats(dtype: DType) -> np.ndarray:
    """f32 and f64 values of every kind, those of the format and its subnormals among them."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32).astype(np.float64)
    lowest = {BF16: -133, F16: -24, FP8_E4M3: -9, FP8_E5M2: -16}[dtype]
    small = rng.uniform(-20, 20, 5_000) * 2.0**lowest
    codes = np.arange(2**dtype.bits, dtype=f"u{dtype.bits // 8}").view(storage(dtype))
    with np.errstate(invalid="ignore"):
        return np.concatenate([patterns, small, codes[:: max(1, len(codes) // 999)].astype(np.float64), [0.0, -0.0]])


@pytest.mark.parametrize("wide", [F32, F64], ids=str)
@pytest.mark.parametrize("dtype", ROUNDED_AT_RANDOM, ids=str)
def test_the_program_is_the_rule(dtype: DType, wide: DType) -> None:
    with np.errstate(all="ignore"):
        x = floats(dtype).astype(wide.numpy_name)
    r = np.random.default_rng(1).integers(0, 2**24, x.shape).astype(wide.numpy_name) * np.asarray(2.0**-24, x.dtype)
    with np.errstate(over="ignore"):
        expected = round_by(x.astype(np.float64), r.astype(np.float64), dtype).astype(x.dtype)
    same_bits(evaluate(program(program_name(dtype), wide), x, r), expected)


@pytest.mark.parametrize("dtype", ROUNDED_AT_RANDOM, ids=str)
def test_all_draws_together_have_no_bias(dtype: DType) -> None:
    """Over all r that are multiples of 1/256, a value that lies k/256 between its neighbours is rounded up k times."""
    unit, k = 2.0 ** (1 - dtype.significand), np.arange(256)
    x = (1 + (k / 256) * unit).astype(np.float32)
    r = (k / 256).astype(np.float32)
    for scale in (1.0, -4.0):
        grid = np.broadcast_arrays((x * np.float32(scale))[:, None], r)
        rounded = evaluate(program(program_name(dtype), F32), *(np.ascontiguousarray(a) for a in grid))
        assert np.array_equal(rounded.astype(np.float64).mean(1), x.astype(np.float64) * scale)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", ROUNDED_AT_RANDOM, ids=str)
@pytest.mark.parametrize("value", [1.1, -1.3, 2.0**-9 * 0.7, 100.3])
def test_compiled_casts_give_neighbours_and_their_mean(dtype: DType, value: float) -> None:
    m, count = module(), 100_000
    m.seed(7)
    x = np.full(count, value, np.float32)
    got = getattr(m, f"to_{dtype.name}")(x).astype(np.float64)
    exact = float(x[0])
    low, high = (float(round_by(np.float64(exact), np.float64(r), dtype)) for r in (1.0, 0.0))
    assert set(np.unique(got)) == {low, high}
    chance = (exact - low) / (high - low)
    deviation = np.sqrt(chance * (1 - chance) / count)
    assert abs((got == high).mean() - chance) < 5 * deviation


@pytest.mark.one_in(2)
def test_the_seed_decides_and_every_place_and_call_draws_anew() -> None:
    m, x = module(), np.full(4096, 1 + 2.0**-8, np.float32)
    m.seed(3)
    first, second, (left, right) = m.to_bf16(x), m.to_bf16(x), m.twice(x)
    m.seed(3)
    same_bits(m.to_bf16(x), first)
    for other in (second, left, right):
        assert 0.4 < (other == first).mean() < 0.6
    assert 0.4 < (left == right).mean() < 0.6
    m.seed(3)
    same_bits(m.to_bf16(x[:100]), first[:100])


@pytest.mark.one_in(4)
def test_arithmetic_sums_and_products_round_once_from_f32() -> None:
    m, rng = module(), np.random.default_rng(2)
    m.seed(1)
    x, y = (rng.normal(size=(64, 300)).astype(ml_dtypes.bfloat16) for _ in range(2))
    a, b = x.astype(np.float32), y.astype(np.float32)
    pairs = [
        (m.product(x[0], y[0]), a[0] * b[0]),
        (m.sums(x), a.sum(1)),
        (m.dots(x, np.ascontiguousarray(y.T)), a @ b.T),
    ]
    for got, exact in pairs:
        error = np.abs(got.astype(np.float64) - exact)
        assert np.all(error <= np.abs(exact) * 2.0**-7 + 1e-4)
        nearest = exact.astype(ml_dtypes.bfloat16)
        assert 0.1 < (got != nearest).mean() < 0.4, "a quarter of the results go to the farther neighbour"


def test_small_steps_are_not_lost_in_a_loop() -> None:
    """1 + 2^-10 is 1 in bf16: to nearest the sum would never move."""
    m = module()
    m.seed(0)
    got = m.grows(np.ones(2000, ml_dtypes.bfloat16), 256).astype(np.float64)
    assert abs(got.mean() - 1.25) < 5 * 0.05 / np.sqrt(2000)


@pytest.mark.one_in(4)
def test_what_only_moves_elements_draws_nothing() -> None:
    x = np.float32([[1, -2], [3, -4]]).astype(ml_dtypes.bfloat16)
    assert module().moves(x).astype(int).tolist() == [[0, 0], [2, 4]]
    rows = module().library(x).astype(np.float32)
    np.testing.assert_allclose(rows.sum(1), 1, rtol=2e-2)


def test_overflow_is_that_of_the_type() -> None:
    x = np.float32([1e9, -1e9, np.inf, np.nan])
    assert module().to_fp8_e4m3(x).astype(np.float64)[:3].tolist() == [448, -448, 448]
    assert module().to_fp8_e5m2(x).astype(np.float64)[:3].tolist() == [np.inf, -np.inf, np.inf]
    assert np.isnan(module().to_bf16(x).astype(np.float32)[3])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("def f(x: Tensor[N, f32 @stochastic_round]): return x\n", "E0408"),
        ("def f(x: Tensor[N, f32]): return cast(x, i8 @stochastic_round)\n", "E0408"),
        ("h = bf16 @stochastic_round\ndef f(x: Tensor[N, h]) -> Tensor[N, h] uses none: return x + x\n", "E0601"),
        ("def f(x: Tensor[N, bf16 @stochastic_round], y: Tensor[N, bf16 @accum(f32)]): return x + y\n", "E0401"),
    ],
)  # fmt: skip
def test_where_it_cannot_be(text: str, code: str) -> None:
    assert [found.code for found in check_text(text).diagnostics] == [code]
