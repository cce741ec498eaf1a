"""Linear algebra against its defining equations and against NumPy in f64. With n the largest size and eps that of the
type, every residual is at most 4 * (n + 4) * eps times the norms of what was multiplied: `bound`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

import tessera
from tests.support.cpu_kernels import same_bits
from tests.support.linalg_matrices import KINDS, SYMMETRIC_KINDS, general, symmetric
from tests.support.sampling import examples

pytestmark = pytest.mark.one_in(144)

Array = np.ndarray
SIZES, SEEDS = st.integers(0, 20), st.integers(0, 2**32 - 1)
EXAMPLES = examples(25)

PROGRAM = """
def solves(a: Tensor[{lead}N, N, {e}], b: Tensor[{lead}N, R, {e}]) -> Tensor[{lead}N, R, {e}]:
    return solve(a, b)
def inverse(a: Tensor[{lead}N, N, {e}]) -> Tensor[{lead}N, N, {e}]:
    return inv(a)
def signed(a: Tensor[{lead}N, N, {e}]):
    sign, size = slogdet(a)
    return sign, size, det(a)
def factor(a: Tensor[{lead}N, N, {e}], b: Tensor[{lead}N, {e}]):
    l = cholesky(a)
    return l, cholesky_solve(l, b)
def orthogonal(a: Tensor[{lead}M, N, {e}]):
    return qr(a)
def eigen(a: Tensor[{lead}N, N, {e}]):
    return eigh(a)
def singular(a: Tensor[{lead}M, N, {e}]):
    return svd(a)
def exponential(a: Tensor[{lead}N, N, {e}]) -> Tensor[{lead}N, N, {e}]:
    return expm(a)
"""
"""Alone in f64, in batches in f32: the same library text."""

OTHERS = """
def vector(a: Tensor[N, N, f64], b: Tensor[N, f64]) -> Tensor[N, f64]:
    return solve(a, b)
def triangles(a: Tensor[N, N, f64], b: Tensor[N, R, f64]):
    down = triangular_solve(a, b)
    up = triangular_solve(a, b, lower=False)
    return down, up, triangular_solve(a, b, transpose=True), triangular_solve(a, b, lower=False, transpose=True)
def values(a: Tensor[N, N, f64], b: Tensor[M, N, f64]):
    return eigvalsh(a), svdvals(b)
def eigenvalues(a: Tensor[N, N, f64]) -> Tensor[N, f64]:
    return eigvalsh(a)
def least(a: Tensor[M, N, f64], b: Tensor[M, f64]) -> Tensor[N, f64]:
    return lstsq(a, b)
def ranks(a: Tensor[M, N, f64]):
    return pinv(a), matrix_rank(a), cond(a)
def norms(a: Tensor[M, N, f64]):
    along = norm(a, axis=0), norm(a, ord=1, axis=N, keep=True), norm(a[0], ord=2)
    return norm(a), along, norm(a, ord=1), norm(a, ord=2)
def powers(a: Tensor[N, N, f64]):
    return matrix_power(a, 0), matrix_power(a, 1), matrix_power(a, 6), matrix_power(a, -3)
def products(a: Tensor[N, 3, f64], b: Tensor[N, 3, f64]):
    square = a @ b.T
    return cross(a, b), outer(a[:, 0], b[:, 1]), kron(a, b), trace(square), diag(a[:, 0]), diag(square)
"""


@cache
def program(element: str, lead: str) -> Any:
    return tessera.compile(PROGRAM.format(e=element, lead=lead))


@cache
def others() -> Any:
    return tessera.compile(OTHERS)


def call(name: str, *matrices: Array) -> list[tuple[Array, ...]]:
    """The results in f64 for the matrices alone; in f32 for a batch of them and their doubles, one item each."""
    alone = getattr(program("f64", ""), name)(*matrices)
    batch = [np.stack([m, 2 * m]).astype("f4") for m in matrices]
    both = getattr(program("f32", "B, "), name)(*batch)
    results = [(alone if isinstance(alone, tuple) else (alone,), matrices)]
    for place in range(2):
        parts = both if isinstance(both, tuple) else (both,)
        results.append((tuple(p[place] for p in parts), tuple(m[place] for m in batch)))
    return [(*found, *given) for found, given in results]


def size(x: Array) -> float:
    return float(np.linalg.norm(x.astype("f8"))) if x.size else 0.0


def bound(x: Array, *norms: float) -> float:
    least = np.finfo(x.dtype).tiny
    return float(4 * (max(x.shape, default=0) + 4) * np.finfo(x.dtype).eps * np.prod(norms) + least)


def close(left: Array, right: Array, limit: float) -> None:
    assert left.shape == right.shape
    assert size(left - right.astype("f8")) <= limit


def orthonormal(columns: Array) -> None:
    wide = columns.astype("f8")
    close(wide.T @ wide, np.eye(columns.shape[1]), bound(columns, max(columns.shape[1], 1) ** 0.5))


# ---------------------------------------------------------------------------------------------------- elimination


@given(SIZES, st.integers(0, 3), SEEDS)
@EXAMPLES
def test_solve_inv_and_determinants(n: int, r: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((n, n)), rng.standard_normal((n, r))
    for x, given_a, given_b in call("solves", a, b):
        close(given_a.astype("f8") @ x, given_b, bound(given_a, size(given_a), size(x)))
    for x, given_a in call("inverse", a):
        close(given_a.astype("f8") @ x, np.eye(n), bound(given_a, size(given_a), size(x)))
    for sign, logarithm, determinant, given_a in call("signed", a):
        expected_sign, expected = np.linalg.slogdet(given_a.astype("f8"))
        lost = bound(given_a, size(given_a), size(np.linalg.inv(given_a.astype("f8"))))
        if lost < 0.1:
            assert sign == expected_sign and abs(logarithm - expected) <= lost + bound(given_a, abs(expected))
            assert abs(determinant - sign * np.exp(expected)) <= (lost + bound(given_a, n + 1)) * np.exp(expected)


@given(SIZES, SEEDS)
@EXAMPLES
def test_cholesky(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, n))
    a, b = x @ x.T + np.eye(n), rng.standard_normal(n)
    upper = np.triu(rng.standard_normal((n, n)), 1)  # never read
    for lower, solution, given_a, given_b in call("factor", np.tril(a) + upper, b):
        full = np.tril(given_a.astype("f8")) + np.tril(given_a.astype("f8"), -1).T
        close(lower @ lower.T.astype("f8"), full, bound(lower, size(full)))
        assert not np.triu(lower, 1).any() and (np.diag(lower) > 0).all()
        close(full @ solution, given_b, bound(lower, size(full), size(solution)))


@given(st.integers(0, 12), st.integers(0, 3), SEEDS)
@EXAMPLES
def test_triangular_solve(n: int, r: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((n, n)) + 4 * np.eye(n), rng.standard_normal((n, r))
    results = others().triangles(a, b)
    systems = (np.tril(a), np.triu(a), np.tril(a).T, np.triu(a).T)
    for x, system in zip(results, systems, strict=True):
        close(system @ x, b, bound(a, size(system), size(x)))


def test_what_elimination_refuses() -> None:
    singular = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 1.0, 1.0]])
    with pytest.raises(tessera.TesseraError, match=r"`solve` in `solves`: .* singular \(pivot 2 is 0\)") as e:
        program("f64", "").solves(singular, singular)
    assert "<text>:3:" in str(e.value)
    with pytest.raises(tessera.TesseraError, match="`inv` in `inverse`: the matrix is singular"):
        program("f64", "").inverse(np.zeros((2, 2)))
    with pytest.raises(tessera.TesseraError, match=r"`cholesky` .* not positive definite \(pivot 1 is not positive\)"):
        program("f64", "").factor(np.array([[1.0, 0.0], [0.0, -1.0]]), np.ones(2))
    with pytest.raises(tessera.TesseraError, match=r"`triangular_solve` .* \(element 0 of its diagonal is 0\)"):
        others().triangles(np.zeros((2, 2)), np.ones((2, 1)))
    with pytest.raises(tessera.TesseraError, match="`inv` in `inverse`: the matrix is singular"):
        tessera.compile(PROGRAM.format(e="f64", lead=""), release=True).inverse(singular)
    sign, logarithm, determinant = program("f64", "").signed(singular)
    assert (sign, logarithm, determinant) == (0, -np.inf, 0)


def test_only_square_matrices_have_inverses() -> None:
    with pytest.raises(tessera.TesseraError, match="E0307"):
        tessera.compile("def f(a: Tensor[M, N, f32]) -> Tensor[M, N, f32]: return inv(a)")


@pytest.mark.one_in(144)
@pytest.mark.parametrize("n", [31, 32, 33, 70])
def test_sizes_around_a_block(n: int) -> None:
    """Blocks are of 32: the last is whole, or one short, or of one column."""
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((n, n)), rng.standard_normal((n, 3))
    for x, given_a, given_b in call("solves", a, b):
        close(given_a.astype("f8") @ x, given_b, bound(given_a, size(given_a), size(x)))
    for lower, solution, given_a, given_b in call("factor", a @ a.T + np.eye(n), b[:, 0]):
        close(lower @ lower.T.astype("f8"), given_a, bound(lower, size(given_a)))
        close(given_a.astype("f8") @ solution, given_b, bound(lower, size(given_a), size(solution)))
    triangle = np.tril(a, -1) / n + np.triu(a, 1) / n + np.eye(n)
    systems = (np.tril(triangle), np.triu(triangle), np.tril(triangle).T, np.triu(triangle).T)
    for x, system in zip(others().triangles(triangle, b), systems, strict=True):
        close(system @ x, b, bound(a, size(system), size(x)))
    for m, k in ((n, n), (n, 2 * n + 1), (2 * n + 1, n)):
        for q, r, given_a in call("orthogonal", general("normal", m, k, n)):
            close(q.astype("f8") @ r, given_a, bound(given_a, size(given_a)))
            orthonormal(q)


@pytest.mark.one_in(48)
def test_equal_pivots_and_exchanges() -> None:
    """Of equal pivots the first is taken: rows in any order give the rows of the solution in that order."""
    order = np.random.default_rng(0).permutation(40)
    a = np.eye(40)[order]
    for x, given_a, given_b in call("solves", a, np.arange(40.0)[:, None]):
        assert np.array_equal(given_a.T @ given_b, x * given_a.max() ** 2)
    sign, logarithm, determinant = program("f64", "").signed(a)
    assert (sign, logarithm, determinant) == (np.linalg.det(a), 0, np.linalg.det(a))


def test_literal_and_composite_sizes() -> None:
    m = tessera.compile("""
def literal() -> Tensor[3, f32]:
    return solve(2.0 * eye(3), ones(3))
def composite(x: Tensor[2*M, 2*M, f32], y: Tensor[2*M, f32]) -> Tensor[2*M, f32]:
    return solve(x, y)
def cubes(x: Tensor[N, N, N, f32]) -> Tensor[N, N, f32]:
    return solve(x, x[0])
""")
    half = np.full(4, 0.5, "f4")
    assert np.array_equal(m.literal(), half[:3])
    assert np.array_equal(m.composite(2 * np.eye(4, dtype="f4"), np.ones(4, "f4")), half)
    assert np.array_equal(m.cubes(np.stack([np.eye(2, dtype="f4")] * 2)), np.eye(2))


# --------------------------------------------------------------------------------------- orthogonal factorisations


@given(st.sampled_from(KINDS), SIZES, SIZES, SEEDS)
@EXAMPLES
def test_qr(kind: str, m: int, n: int, seed: int) -> None:
    for q, r, a in call("orthogonal", general(kind, m, n, seed)):
        close(q.astype("f8") @ r, a, bound(a, size(a)))
        orthonormal(q)
        assert not np.tril(r, -1).any()
        if kind == "normal" and min(m, n):
            signs = np.sign(np.diag(np.linalg.qr(a.astype("f8"))[1]))
            assert np.array_equal(np.sign(np.diag(r)), signs)


@given(st.sampled_from(SYMMETRIC_KINDS), SIZES, SEEDS)
@EXAMPLES
def test_eigh(kind: str, n: int, seed: int) -> None:
    for w, v, a in call("eigen", symmetric(kind, n, seed)):
        orthonormal(v)
        close(a.astype("f8") @ v, v * w.astype("f8"), bound(a, size(a)))
        close(w, np.linalg.eigvalsh(a.astype("f8")), bound(a, size(a)))
        assert (np.diff(w) >= 0).all()
        assert n == 0 or (v[np.abs(v).argmax(axis=0), np.arange(n)] > 0).all()


@pytest.mark.one_in(144)
@pytest.mark.parametrize("kind", [*SYMMETRIC_KINDS, "diagonal", "laplace", "wilkinson", "glued"])
def test_eigh_by_halves(kind: str) -> None:
    """From 33 rows on halves are joined. Where they share most of what they have, poles are turned into one another;
    glued blocks have zeros that are next to poles, and next to each other."""
    for n in (33, 65, 150):
        for w, v, a in call("eigen", tridiagonal(kind, n) if kind in BESIDE else symmetric(kind, n, n)):
            orthonormal(v)
            close(a.astype("f8") @ v, v * w.astype("f8"), bound(a, size(a)))
            close(w, np.linalg.eigvalsh(a.astype("f8")), bound(a, size(a)))
            if a.dtype == np.float64:
                same_bits(others().eigenvalues(a), w)


BESIDE = {"diagonal": (0.0, 0.0), "laplace": (-1.0, -1.0), "wilkinson": (1.0, 1.0), "glued": (1.0, 1e-8)}


def tridiagonal(kind: str, n: int) -> Array:
    """With elements beside the diagonal of which every 21st is another."""
    i = np.arange(n - 1)
    beside = np.where(i % 21 == 20, BESIDE[kind][1], BESIDE[kind][0])
    on = {"laplace": np.full(n, 2.0), "wilkinson": abs(np.arange(n) - n // 2)}.get(kind, abs(np.arange(n) % 21 - 10.0))
    return np.diag(on * 1.0) + np.diag(beside, 1) + np.diag(beside, -1)


@given(st.sampled_from(KINDS), SIZES, SIZES, SEEDS)
@EXAMPLES
def test_svd(kind: str, m: int, n: int, seed: int) -> None:
    for u, s, vh, a in call("singular", general(kind, m, n, seed)):
        orthonormal(u)
        orthonormal(vh.T)
        close((u * s.astype("f8")) @ vh, a, bound(a, size(a)))
        close(s, np.linalg.svd(a.astype("f8"), compute_uv=False), bound(a, size(a)))
        assert (np.diff(s) <= 0).all() and (s >= 0).all()
        assert u.size == 0 or (u[np.abs(u).argmax(axis=0), np.arange(len(s))] > 0).all()


@pytest.mark.one_in(144)
@pytest.mark.parametrize("n", [64, 100])
def test_larger_sizes(n: int) -> None:
    a, b = general("normal", n, n, n), general("normal", n, 2, n)
    m = program("f64", "")
    x = m.solves(a, b)
    close(a @ x, b, bound(a, size(a), size(x)))
    q, r = m.orthogonal(a)
    orthonormal(q)
    close(q @ r, a, bound(a, size(a)))
    w, v = m.eigen(a + a.T)
    orthonormal(v)
    close((v * w) @ v.T, a + a.T, bound(a, size(a)))
    u, s, vh = m.singular(a)
    orthonormal(u)
    close((u * s) @ vh, a, bound(a, size(a)))


@pytest.mark.one_in(144)
def test_values_alone_have_the_bits_of_the_decompositions() -> None:
    a, b = symmetric("normal", 9, 1), general("deficient", 7, 9, 2)
    w, s = others().values(a, b)
    same_bits(w, program("f64", "").eigen(a)[0])
    same_bits(s, program("f64", "").singular(b)[1])


@pytest.mark.one_in(144)
@pytest.mark.parametrize("by", ["rows", "columns"])
def test_small_values_are_as_accurate_as_the_largest(by: str) -> None:
    """Of a graded matrix: within a few roundings of the largest singular value, not of themselves."""
    scales = 10.0 ** -np.arange(0.0, 12.0)
    a = general("normal", 12, 12, 5) * (scales[:, None] if by == "rows" else scales)
    s = program("f64", "").singular(a)[1]
    with mp.workdps(60):
        exact = np.array([float(x) for x in mp.svd_r(mp.matrix(a.tolist()), compute_uv=False)])
    assert np.all(np.abs(s - exact) <= 4 * np.finfo("f8").eps * exact[0])


@pytest.mark.parametrize("name", ["eigen", "singular", "orthogonal", "exponential"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_so_and_ends(name: str, value: float) -> None:
    a = np.eye(5)
    a[3, 1] = value
    found = getattr(program("f64", ""), name)(a)
    assert not all(np.isfinite(part).all() for part in (found if isinstance(found, tuple) else (found,)))


# ------------------------------------------------------------------------------------- what is built from these


@given(SIZES.filter(lambda n: n <= 12), st.sampled_from([0.01, 1.0, 10.0]), SEEDS)
@EXAMPLES
def test_expm(n: int, scale: float, seed: int) -> None:
    """exp of a symmetric matrix from its eigenvalues; squaring s times costs a factor of 2**s in the bound."""
    a = scale * symmetric("normal", n, seed) / (n + 1)
    for e, given_a in call("exponential", a):
        w, v = np.linalg.eigh(given_a.astype("f8"))
        exact = (v * np.exp(w)) @ v.T
        close(e, exact, bound(given_a, size(exact), 4 + size(given_a)))


@given(st.sampled_from(["normal", "deficient", "zero", "ones"]), st.integers(0, 9), st.integers(0, 9), SEEDS)
@EXAMPLES
def test_least_squares_and_ranks(kind: str, m: int, n: int, seed: int) -> None:
    a, b = general(kind, m, n, seed), general("normal", m, 1, seed)[:, 0]
    inverse, rank, condition = others().ranks(a)
    exact = np.linalg.pinv(a, rcond=1e-13) if a.size else np.zeros((n, m))
    assert rank == (np.linalg.matrix_rank(a) if a.size else 0)
    limit = bound(a, size(exact) ** 2, size(a)) + bound(a, size(exact))
    close(inverse, exact, limit)
    close(others().least(a, b), exact @ b, limit * size(b))
    if kind == "normal" and a.size:
        assert abs(condition / np.linalg.cond(a) - 1) <= bound(a, condition + 1)


def test_norms() -> None:
    a = general("normal", 4, 6, 0)
    frobenius, along, one, two = others().norms(a)
    exact = [np.linalg.norm(a), np.linalg.norm(a, axis=0), np.abs(a).sum(axis=1, keepdims=True)]
    exact += [np.linalg.norm(a[0]), np.linalg.norm(a, 1), np.linalg.norm(a, 2)]
    for found, other in zip((frobenius, *along, one, two), exact, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-14)
    huge = others().norms(a * 1e300)
    np.testing.assert_allclose(huge[0], np.linalg.norm(a) * 1e300, rtol=1e-14)


def test_powers_and_products() -> None:
    a, b = general("normal", 4, 3, 0), general("normal", 4, 3, 1)
    square = general("normal", 4, 4, 2)
    for power, exponent in zip(others().powers(square), (0, 1, 6, -3), strict=True):
        np.testing.assert_allclose(power, np.linalg.matrix_power(square, exponent), rtol=1e-11, atol=1e-12)
    s = a @ b.T
    exact = (np.cross(a, b), np.outer(a[:, 0], b[:, 1]), np.kron(a, b), np.trace(s), np.diag(a[:, 0]), np.diag(s))
    for one, other in zip(others().products(a, b), exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-14)
