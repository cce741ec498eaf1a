"""What the structure of an operator says of its rank, and operators of functions, which are functions of vectors."""

from __future__ import annotations

import numpy as np
import pytest

import tessera

RANKS = """
def numbers(u: Tensor[N, K, f64]):
    A = op.low_rank(u, u)
    return det(A), slogdet(A), logdet(A), cond(A)
def system(u: Tensor[N, K, f64], x: Tensor[N, f64]): return solve(op.low_rank(u, u), x)
def known(u: Tensor[4, 2, f64]):
    A = sym(op.low_rank(u, u[:, :1] @ ones(1, 2, dtype=f64)))
    B = op.direct_sum(op.low_rank(u, u), op.eye(2))
    return det(A - op.zero(4)), logdet(B), cond(B), det(op.zero(3))
"""


@pytest.mark.one_in(48)
def test_an_operator_of_low_rank_is_singular_whatever_rounding_says() -> None:
    m, rng = tessera.compile(RANKS), np.random.default_rng(0)
    u, x = rng.normal(size=(4, 2)), rng.normal(size=4)
    assert m.numbers(u) == (0, (0, -np.inf), -np.inf, np.inf)
    det, (sign, logarithm), *_ = m.numbers(u[:2])
    whole = u[:2] @ u[:2].T
    assert np.isclose(det, np.linalg.det(whole)) and np.allclose((sign, logarithm), np.linalg.slogdet(whole))
    assert np.allclose(m.system(u[:2], x[:2]), np.linalg.solve(whole, x[:2]))
    with pytest.raises(tessera.TesseraError, match=r"needs K >= N \(an operator of lower rank has no inverse\)"):
        m.system(u, x)
    found = m.known(u)
    assert found[1:] == (-np.inf, np.inf, 0) and abs(found[0]) < 1e-9


FUNCTIONS = """
def sums(x: Tensor[N, f64], X: Tensor[N, K, f64], B: Tensor[K, 2, N, f64]):
    A = op.implicit(lambda v: cumsum(v), lambda v: flip(cumsum(flip(v))), N)
    return A @ X, A @ B, B @ A, to_dense(A), solve(A, x), trace(A ∘ op.permutation((arange(N) + 1) % N)), det(A)
"""


@pytest.mark.one_in(24)
def test_a_function_of_vectors_sees_a_matrix_column_by_column() -> None:
    rng, a = np.random.default_rng(0), np.tril(np.ones((4, 4)))
    x, X, B = rng.normal(size=4), rng.normal(size=(4, 3)), rng.normal(size=(3, 2, 4))
    expected = a @ X, B @ a.T, B @ a, a, np.linalg.solve(a, x), 3.0, 1.0
    for found, wanted in zip(tessera.compile(FUNCTIONS).sums(x, X, B), expected, strict=True):
        assert np.allclose(found, wanted)
