"""Steps that a row decides stand before the loop over its elements, and panels are filled in squares: any bit that
either would change shows beside the interpreter. The programs are in no other test."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.native_runs import compiled_equals_oracle

TERMS = "\n".join(
    f"""
def term_{t}(x: Tensor[M, N, {t}], m: Tensor[M, {t}]): return exp_term(x, m[:, None])
def lifted_{t}(x: Tensor[M, N, {t}], m: Tensor[M, {t}]): return exp_lifted(x * 0.5, m[:, None])
def scaled_{t}(x: Tensor[M, N, {t}], m: Tensor[M, {t}]): return ldexp(x, m[:, None]), ldexp(m[:, None], x)
def number_{t}(x: Tensor[M, N, {t}], m: Tensor[M, {t}]): return ldexp(max(x, axis=1), m), ldexp(m, 0.5 * min(x, axis=1))
"""
    for t in ("f32", "f64")
)
PANELS = """
def turned_f32(a: Tensor[K, M, f32], b: Tensor[N, K, f32]): return transpose(a) @ transpose(b)
def turned_f64(a: Tensor[K, M, f64], b: Tensor[N, K, f64]): return transpose(a) @ transpose(b)
def tall(a: Tensor[M, K, f32], b: Tensor[N, K, f32]): return a @ transpose(b) + 1.0
"""


@pytest.mark.one_in(12)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_terms_of_rows_of_all_sizes(dtype: type) -> None:
    """Rows of plain numbers, of numbers around the limit beyond which exponents are coarse, of huge ones, and infinite
    ones; rows end in a vector and in single elements."""
    rng, limit = np.random.default_rng(0), 2.0**20 if dtype is np.float32 else 2.0**49
    tops = np.array([0.0, 3.0, -5.0, 120.0, -300.0, limit * 0.9, limit * 1.2, -limit, limit * 8, 1e36])
    x = tops[:, None] - np.abs(rng.standard_normal((len(tops), 87))) * np.array([1, 30, 90])[rng.integers(0, 3, 87)]
    x[:, 0], x[:, 5], x[1, 7], x[2, 9] = tops, -np.inf, np.nan, -0.0
    m = np.rint(tops * np.log2(np.e)).astype(dtype)
    run, given = compiled_equals_oracle(TERMS), x.astype(dtype)
    name = "f32" if dtype is np.float32 else "f64"
    run(f"term_{name}", given, m)
    run(f"lifted_{name}", given, m)
    run(f"scaled_{name}", given, m)
    run(f"number_{name}", given, m)
    exponents = np.array([-150.5, 301.0, 127.5, -2.0], dtype)
    run(f"number_{name}", np.array([[1e-3], [-0.0], [7.0], [np.inf]], dtype), exponents)


@pytest.mark.one_in(12)
def test_panels_of_what_lies_across() -> None:
    rng, run = np.random.default_rng(1), compiled_equals_oracle(PANELS)
    for k, m, n in ((1, 1, 1), (16, 12, 32), (91, 37, 53), (64, 131, 70)):
        a, b = rng.standard_normal((k, m)), rng.standard_normal((n, k))
        run("turned_f64", a, b)
        run("turned_f32", a.astype(np.float32), b.astype(np.float32))
        run("tall", a.T.astype(np.float32), b.astype(np.float32))
