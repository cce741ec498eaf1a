"""Operands that lie across the others are transposed block by block: no size, dtype or sum shows it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessera

SIZES = [(1, 1), (1, 70), (5, 30), (7, 9), (9, 40), (8, 16), (16, 8), (17, 33), (40, 600), (65, 64), (100, 1000)]
PROGRAM = """
def beside(a: Tensor[M, N, {0}], b: Tensor[N, M, {0}]): return a + b.T
def kept(a: Tensor[M, N, {0}], c: Tensor[M, N, {0}]): return a + c
def rows(a: Tensor[M, N, {0}], b: Tensor[N, M, {0}]): return sum(a * b.T, axis=1)
def kept_rows(a: Tensor[M, N, {0}], c: Tensor[M, N, {0}]): return sum(a * c, axis=1)
def columns(a: Tensor[M, N, {0}], b: Tensor[N, M, {0}]): return sum(a * b.T, axis=0)
def kept_columns(a: Tensor[M, N, {0}], c: Tensor[M, N, {0}]): return sum(a * c, axis=0)
def each(a: Tensor[B, M, N, {0}], b: Tensor[B, N, M, {0}]): return a - transpose(b, (0, 2, 1))
"""
DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "bf16": ml_dtypes.bfloat16, "i8": np.int8}


def numbers(shape: tuple[int, ...], dtype: Any) -> Any:
    return (np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape) * 5).astype(dtype)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", DTYPES)
def test_a_transposed_operand_gives_the_bits_of_one_that_lies_as_the_others(name: str) -> None:
    module, dtype = tessera.compile(PROGRAM.format(name)), DTYPES[name]
    for size in SIZES:
        a, b = numbers(size, dtype), numbers((*size[::-1], 1), dtype)[..., 0]
        c = np.ascontiguousarray(b.T)
        for turned, kept in (("beside", "kept"), ("rows", "kept_rows"), ("columns", "kept_columns")):
            given, wanted = getattr(module, turned)(a, b), getattr(module, kept)(a, c)
            assert np.asarray(given).tobytes() == np.asarray(wanted).tobytes(), (turned, size)
        batch, other = np.stack([a, a + a]), np.stack([b, b])
        assert np.asarray(module.each(batch, other)).tobytes() == (batch - other.transpose(0, 2, 1)).tobytes(), size


def test_a_program_takes_blocks_of_rows_where_an_operand_runs_across_them() -> None:
    module = tessera.compile("def f(a: Tensor[96, 700, f32], b: Tensor[700, 96, f32]): return diagonal(a @ b)\n")
    a, b = numbers((96, 700), "f4"), numbers((700, 96), "f4")
    exact = np.sum(a.astype("f8") * b.T, axis=1)
    assert np.allclose(module.f(a, b), exact, rtol=0, atol=1e-5 * np.sum(abs(a * b.T), axis=1).max())
