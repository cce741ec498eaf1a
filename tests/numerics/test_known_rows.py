"""Rows whose length is known: of fewer elements than a group takes, of whole vectors and with some left over."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.native_runs import compiled_equals_oracle

LENGTHS = (1, 3, 4, 7, 8, 12, 16, 24, 31, 32, 40, 48, 60, 64, 65, 80, 96, 128, 200, 512, 516)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("first", range(3))
def test_rows_of_a_known_length(first: int) -> None:
    """Sums, extremes and maps have the bits of the interpreter, for negative zeros, infinities and NaN as well."""
    lengths = LENGTHS[first::3]
    text = "".join(
        f"def f{n}(x: Tensor[M, {n}, f32]): return sum(x, axis=1), max(x, axis=1), sum(exp(x), axis=1), softmax(x)\n"
        for n in lengths
    )
    rng = np.random.default_rng(first)
    run = compiled_equals_oracle(text)
    for n in lengths:
        x = rng.standard_normal((6, n)).astype(np.float32)
        x[1], x[2, -1], x[3, 0] = -0.0, np.inf, np.nan
        run(f"f{n}", x)
