"""Each result of a kernel is rounded to the dtype that its place in the signature says."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tessera

PROGRAM = """
half = bf16 @accum(f32)

@kernel
def both(x: KTile[M, N, half], r: KTile[M, N, half]) -> (Tile[M, N, half], Tile[M, N, f32]):
    T = tile.context()
    s = tile.load(x, rows=T.m) + tile.load(r, rows=T.m)
    return s * 3.0, s
"""


@pytest.mark.one_in(4)
def test_results_are_rounded_one_by_one() -> None:
    x, r = (np.random.default_rng(seed).standard_normal((5, 9)).astype(ml_dtypes.bfloat16) for seed in (0, 1))
    narrow, wide = tessera.compile(PROGRAM).both(x, r)
    total = x.astype("f4") + r.astype("f4")
    np.testing.assert_array_equal(wide, total)
    np.testing.assert_array_equal(narrow, (total * np.float32(3)).astype(ml_dtypes.bfloat16))
