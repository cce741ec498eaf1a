"""Rows of a tensor that change element by element, in loops whose iterations only the run knows, mapped or not: where
the whole tensor cannot change in place, its parts are still put back behind their changes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.native_runs import compiled_equals_oracle

PROGRAM = """
def rows(e: Tensor[N, f64], m: i64) -> Tensor[2, N, f64]:
    x = zeros(2, N, dtype=f64)
    for t in range(2):
        for j in range(m):
            x[t, j] = e[j]
    return x

def mapped(e: Tensor[B, N, f64], m: Tensor[B, i64]) -> Tensor[B, 2, N, f64]:
    return vmap(rows)(e, m)
"""


@pytest.mark.one_in(2)
def test_parts_are_put_back_behind_their_changes() -> None:
    run = compiled_equals_oracle(PROGRAM)
    e, counts = np.arange(1.0, 11.0).reshape(2, 5), np.array([2, 3])
    together = run("mapped", e, counts)
    for place in range(2):
        assert np.array_equal(run("rows", e[place], counts[place]), together[place])
        assert np.array_equal(together[place, 1, : counts[place]], e[place, : counts[place]])
