"""Numbers in few bits with scales and zero points, against NumPy, in the types of 4, 8 and 16 bits: one scale, one for
each index, one for each block, made of the numbers themselves; and what training sees of it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.support.native_runs import compiled_equals_oracle

Array = np.ndarray
PROGRAM = """
def given(x: Tensor[M, N, f32], s: Tensor[N, f32], z: Tensor[N, u8], b: Tensor[M, 3, f32]):
    whole = quantize(x, 0.05, 128, dtype=u8), quantize(x, s, z, dtype=u8), quantize(x, b, block=4)
    rest = quantize(x, b, block=4, dtype=u4), quantize(x, 0.001, 7, dtype=u16), quantize(x, s, dtype=fp8_e4m3)
    return whole + rest + (dequantize(quantize(x, s, z, dtype=u8), s, z), quantize(x, 9.0 * s, dtype=fp4))

def own(x: Tensor[M, N, f32]):
    by_row = dynamic_quantize(x, axis=0, dtype=i8, symmetric=True)
    return dynamic_quantize(x) + by_row + dynamic_quantize(x, axis=1, block=4, dtype=i4)

def trained(x: Tensor[M, N, f32]):
    return fake_quantize(x, 0.05, 3), grad(lambda x: sum(fake_quantize(x, 0.05, 3)))(x)
"""
RNG = np.random.default_rng(0)
X = (RNG.normal(size=(5, 12)) * 3).astype(np.float32)
S, Z = np.exp(RNG.normal(size=12)).astype(np.float32) * np.float32(0.05), RNG.integers(0, 256, 12).astype(np.uint8)
B = np.exp(RNG.normal(size=(5, 3))).astype(np.float32) * np.float32(0.1)


def in_steps(x: Array, scale: Array, zero: Array | int, low: int, high: int) -> Array:
    with np.errstate(over="ignore"):
        return np.clip(np.rint(x / scale) + zero, low, high)


@pytest.mark.one_in(4)
def test_given_scales() -> None:
    run = compiled_equals_oracle(PROGRAM)
    x, wide = X.copy(), np.repeat(B, 4, axis=1)
    x[0, :4], x[1] = [1e30, -1e30, np.inf, -np.inf], 0.0
    found = run("given", x, S, Z, B)
    wanted = [
        in_steps(x, np.float32(0.05), 128, 0, 255),
        in_steps(x, S, Z, 0, 255),
        in_steps(x, wide, 0, -128, 127),
        in_steps(x, wide, 0, 0, 15),
        in_steps(x, np.float32(0.001), 7, 0, 65535),
    ]
    for got, want in zip(found, wanted, strict=False):
        np.testing.assert_array_equal(got.astype(np.float64), want)
    with np.errstate(over="ignore"):
        eighths = np.clip(x / S, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    np.testing.assert_array_equal(found[5].astype(np.float32), eighths.astype(np.float32))
    np.testing.assert_array_equal(found[6], (wanted[1].astype(np.float32) - Z) * S)
    fourths = np.clip(x / (np.float32(9) * S), -6, 6).astype(ml_dtypes.float4_e2m1fn)
    np.testing.assert_array_equal(found[7].astype(np.float32), fourths.astype(np.float32))


@pytest.mark.one_in(3)
def test_scales_of_their_own() -> None:
    run = compiled_equals_oracle(PROGRAM)
    x = np.where(np.arange(5)[:, None] == 2, 0.0, X).astype(np.float32)
    q, scale, zero, rows, row_scale, row_zero, blocks, block_scale, block_zero = run("own", x)
    assert abs((q.astype(np.float32) - np.float32(zero)) * scale - x).max() <= scale * 0.5001
    np.testing.assert_allclose(row_scale, np.where(np.abs(x).max(1) == 0, 1, np.abs(x).max(1) / 127), rtol=1e-6)
    assert abs(rows.astype(np.float32) * row_scale[:, None] - x).max() <= row_scale.max() * 0.5001
    assert not row_zero.astype(np.int32).any()
    steps, start = np.repeat(block_scale, 4, axis=1), np.repeat(block_zero.astype(np.float32), 4, axis=1)
    assert (abs((blocks.astype(np.float32) - start) * steps - x) <= steps * 1.0001).all()


@pytest.mark.one_in(2)
def test_training_passes_what_is_inside() -> None:
    run = compiled_equals_oracle(PROGRAM)
    x = X * np.float32(4.0)
    value, slope = run("trained", x)
    inside = np.abs(np.rint(x / np.float32(0.05)) + 3 - np.float32(-0.5)) <= 127.5
    np.testing.assert_array_equal(slope, inside.astype(np.float32))
    steps = in_steps(x, np.float32(0.05), 3, -128, 127).astype(np.float32) - 3
    np.testing.assert_allclose(value, steps * np.float32(0.05), rtol=1e-6)
