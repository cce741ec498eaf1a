"""Rows whose elements move, not their places."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest

import tessera
from tests.ops.test_sort import DTYPES, NUMPY, expected_order, numbers


@cache
def programs(text: str) -> tessera.Module:
    return tessera.compile(text)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("dtype", [*DTYPES, "fp8_e4m3", "fp8_e5m2"])
def test_elements_keep_their_zeros(dtype: str) -> None:
    """Zeros of both signs are equal, so they stay in their order."""
    fp8 = {"fp8_e4m3": ml_dtypes.float8_e4m3fn, "fp8_e5m2": ml_dtypes.float8_e5m2}
    kind, rng = np.dtype((NUMPY | fp8)[dtype]), np.random.default_rng(1)
    text = "".join(
        f"def {name}(x: Tensor[N, {dtype}]) -> Tensor[N, {dtype}]:\n    return sort(x, descending={flag})\n"
        for name, flag in (("up", False), ("down", True))
    )
    for n in (0, 1, 48, 49, 700):
        x = numbers(n).astype(kind) if kind.kind in "fV" else rng.integers(0, 1 << 62, n).astype(kind)
        for name, descending in (("up", False), ("down", True)):
            made, wanted = getattr(programs(text), name)(x), x[expected_order(x, descending)]
            same = made.view(np.uint8) == wanted.view(np.uint8)
            numbers_alone = np.repeat(wanted == wanted, kind.itemsize)
            assert same[numbers_alone].all() and (made != made).sum() == (wanted != wanted).sum()
