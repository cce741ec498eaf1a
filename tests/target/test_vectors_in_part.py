"""What whole vectors leave over: rows of every length have the bits of elements one by one."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import tessera
from tests.support.cpu_kernels import same_bits

TYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i8": np.int8, "u16": np.uint16, "f16": np.float16}
BODIES = """def moved(x: Tensor[2, N, {t}], y: Tensor[2, N, {t}]):
    return concat([x + y, flip(x, 1), y], axis=1)

def divided(x: Tensor[2, N, {t}], y: Tensor[2, N, {t}]):
    z = concat([x // (y + y), x], axis=1)
    return z, cast(arange(N), {t}) + x[0]
"""


@cache
def bodies(dtype: str) -> Any:
    return tessera.compile(BODIES.replace("{t}", dtype))


@pytest.mark.one_in(8)
@pytest.mark.parametrize("dtype", TYPES)
def test_rows_of_every_length(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for size in (1, 2, 7, 8, 9, 15, 17, 31, 40, 65):
        x, y = (rng.integers(1, 9, (2, size)).astype(TYPES[dtype]) for _ in range(2))
        same_bits(bodies(dtype).moved(x, y), np.concatenate([x + y, x[:, ::-1], y], 1))
        quotient, counted = bodies(dtype).divided(x, y)
        same_bits(quotient, np.concatenate([x // (y + y), x], 1))
        same_bits(counted, np.arange(size).astype(TYPES[dtype]) + x[0])


@pytest.mark.one_in(6)
def test_functions_of_a_short_row_are_those_of_a_long_one() -> None:
    f = tessera.compile("def f(x: Tensor[N, f32]): return exp(x) + lgamma(x)").f
    x = np.linspace(0.1, 30, 64, dtype=np.float32)
    whole = f(x)
    for size in range(1, 34):
        same_bits(f(x[:size].copy()), whole[:size])
