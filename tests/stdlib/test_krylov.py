"""Iterative methods against NumPy: what they find, that the residual they give is that of what they found, and that a
tolerance which is missed ends the run."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import tessera

pytestmark = pytest.mark.one_in(24)

RNG = np.random.default_rng(2)
N = 12
A = RNG.normal(size=(N, N)) + 4 * np.eye(N)
SPD = A @ A.T / N + np.eye(N)
TALL, B = RNG.normal(size=(20, N)), RNG.normal(size=N)
LONG = RNG.normal(size=20)

PROGRAM = """
def by_cg(a: Tensor[N, N, f64], b: Tensor[N, f64]): return cg(a, b, 1e-12)
def by_gmres(a: Tensor[N, N, f64], b: Tensor[N, f64]): return gmres(a, b, 1e-12, restart=8)
def by_lsqr(a: Tensor[M, N, f64], b: Tensor[M, f64]): return lsqr(a, b, 1e-11)
def by_powers(a: Tensor[12, 12, f64]): return power_iteration(lambda v: a @ v, 12, 1e-9, 5000, dtype=f64)
def by_lanczos(a: Tensor[12, 12, f64]): return lanczos(a, count=3, steps=6, tolerance=1e-9)
def equal(d: Tensor[N, f64]): return lanczos(op.diag(d), count=3, steps=5, tolerance=1e-9)
def least(d: Tensor[N, f32]): return lanczos(op.diag(d), count=3, largest=False)
def stiff(a: Tensor[N, N, f64], b: Tensor[N, f64]): return expm_action(a, b, steps=3, max_steps=4, must_converge=False)
def in_parts(a: Tensor[N, N, f64], b: Tensor[N, f64]): return expm_action(a, b, 4.0, 12, 1e-9)
def by_krylov(a: Tensor[12, 12, f64], v: Tensor[12, f64]): return expm_action(a, v, 0.3, 12, 1e-9)
def by_chance(a: Tensor[M, N, f64]): return randomized_svd(a, 3, 6, 4)
def nothing(a: Tensor[N, N, f64], b: Tensor[N, f64]): return gmres(a, b * 0.0)
def few_cg(a: Tensor[N, N, f64], b: Tensor[N, f64]): return cg(a, b, 1e-12, max_steps=2)
def few_gmres(a: Tensor[N, N, f64], b: Tensor[N, f64]): return gmres(a, b, 1e-12, restart=2, max_steps=1)
def few_powers(a: Tensor[12, 12, f64], b: Tensor[12, f64]): return power_iteration(a, tolerance=1e-12, max_steps=2)
def few_lanczos(a: Tensor[12, 12, f64], b: Tensor[12, f64]): return lanczos(a, None, 2, 3, 1e-12, max_steps=2)
def few_expm(a: Tensor[12, 12, f64], b: Tensor[12, f64]): return expm_action(a, b, 1.0, 3, 1e-12, max_steps=2)
def few_ranks(a: Tensor[12, 12, f64], b: Tensor[12, f64]): return randomized_svd(a, 2, tolerance=1e-6)
def few_rounds(a: Tensor[12, 12, f64], b: Tensor[12, f64]): return randomized_svd(a, 2, 1, 0, accuracy=1e-6)
def allowed(a: Tensor[N, N, f64], b: Tensor[N, f64]): return cg(a, b, 1e-12, 2, must_converge=False)
"""


@cache
def module() -> Any:
    return tessera.compile(PROGRAM)


def relative(a: np.ndarray, x: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(b - a @ x) / np.linalg.norm(b))


@pytest.mark.one_in(48)
def test_linear_systems() -> None:
    for solve, a in ((module().by_cg, SPD), (module().by_gmres, A), (module().by_gmres, SPD)):
        x, residual, _ = solve(a, B)
        np.testing.assert_allclose(x, np.linalg.solve(a, B), rtol=1e-8)
        assert residual <= 1e-12 and abs(residual - relative(a, x, B)) < 1e-14
    x, residual, steps = module().nothing(A, B)
    assert (x == 0).all() and residual == 0 and steps == 0


def test_least_squares() -> None:
    x, residual, _ = module().by_lsqr(TALL, LONG)
    np.testing.assert_allclose(x, np.linalg.lstsq(TALL, LONG)[0], rtol=1e-9)
    assert residual <= 1e-11


@pytest.mark.one_in(48)
def test_eigenvalues_and_exponentials() -> None:
    found = np.linalg.eigvalsh(SPD)
    value, vector, residual, _ = module().by_powers(SPD)
    np.testing.assert_allclose(value, found[-1], rtol=1e-9)
    np.testing.assert_allclose(SPD @ vector, value * vector, atol=1e-7)
    assert residual <= 1e-9
    np.testing.assert_allclose(module().by_lanczos(SPD)[0], found[::-1][:3], rtol=1e-9)
    values, turns = np.linalg.eigh(SPD)
    y, _ = module().by_krylov(SPD, B)
    np.testing.assert_allclose(y, turns @ (np.exp(0.3 * values) * (turns.T @ B)), rtol=1e-9)


@pytest.mark.one_in(48)
def test_equal_eigenvalues_are_counted_and_no_vector_is_zero() -> None:
    """A space that is all that its start leads to once gave the eigenvalue 0 with a vector of zeros, and residual 0."""
    for d in ([5.0] * 6, [5.0, 5, 3, 5, 1, 0, -7, 2, 2, 2], [9.0, 8, 7]):
        values, vectors, residuals = module().equal(np.array(d))
        np.testing.assert_allclose(values, sorted(d)[::-1][:3], atol=1e-8)
        np.testing.assert_allclose(vectors @ vectors.T, np.eye(3), atol=1e-8)
        assert (residuals <= 1e-9).all()
    np.testing.assert_allclose(module().least(np.array([3, 1, 4, 1, 5, 9], "f4"))[0], [1, 1, 3], atol=1e-5)


@pytest.mark.one_in(48)
def test_exponentials_are_right_all_the_way() -> None:
    """What is over soon, or swings through 0 at the end, is an error all the same."""
    n = 30
    turning = np.triu(RNG.normal(size=(n, n)), 1)
    turning, b = turning - turning.T, RNG.normal(size=n)
    values, turns = np.linalg.eig(turning)
    y, residual = module().in_parts(turning, b)
    exact = (turns @ (np.exp(4.0 * values) * np.linalg.solve(turns, b))).real
    assert np.linalg.norm(y - exact) <= 1e-8 * np.linalg.norm(b) and residual <= 1e-9
    heat = 1000.0 * (np.eye(n, k=1) + np.eye(n, k=-1) - 2 * np.eye(n))
    assert module().stiff(heat, b)[1] == np.inf, "three vectors cannot tell, though they seem to at the end"


SLOPES = """
def of_cg(a: Tensor[N, N, f64], b: Tensor[N, f64]): return sum(cg(a, b, 1e-13)[0] ** 2)
def of_gmres(a: Tensor[N, N, f64], b: Tensor[N, f64]): return sum(gmres(a, b, 1e-13)[0] ** 2)
def of_lsqr(a: Tensor[M, N, f64], b: Tensor[M, f64]): return sum(lsqr(op.dense(a), b, 1e-13)[0] ** 2)
def of_lanczos(a: Tensor[N, N, f64], b: Tensor[N, f64]):
    return sum(lanczos(sym(op.dense(a)), count=2, tolerance=1e-9)[0])

def of_vectors(a: Tensor[N, N, f64], b: Tensor[N, f64]): return sum(lanczos(sym(op.dense(a)))[1])
def of_expm(a: Tensor[N, N, f64], b: Tensor[N, f64]): return sum(expm_action(a, b, 0.5, 8, 1e-12)[0] ** 2)

"""
SLOPES += "\n".join(
    f"def by_{name}(a: Tensor[M, N, f64], b: Tensor[M, f64]): return grad(of_{name}, wrt=(0, 1))(a, b)"
    if name == "lsqr"
    else f"def by_{name}(a: Tensor[N, N, f64], b: Tensor[N, f64]): return grad(of_{name}, wrt=(0, 1))(a, b)"
    for name in ("cg", "gmres", "lsqr", "lanczos", "vectors", "expm")
)


@cache
def slopes() -> Any:
    return tessera.compile(SLOPES)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", ["cg", "gmres", "lsqr", "lanczos", "expm"])
def test_derivatives_are_those_of_the_equation(name: str) -> None:
    a, b = (TALL, LONG) if name == "lsqr" else (SPD, B)
    by_a, by_b = slopes()[f"by_{name}"](a, b)
    direction = RNG.normal(size=a.shape)
    direction = direction + direction.T if name == "cg" else direction
    f, h = slopes()[f"of_{name}"], 1e-5
    slope = (f(a + h * direction, b) - f(a - h * direction, b)) / (2 * h)
    np.testing.assert_allclose(np.sum(by_a * direction), slope, rtol=1e-6, atol=1e-9)
    slope = (f(a, b + h * b) - f(a, b - h * b)) / (2 * h)
    np.testing.assert_allclose(by_b @ b, slope, rtol=1e-6, atol=1e-9)


@pytest.mark.one_in(48)
def test_derivatives_that_are_not_there_are_errors() -> None:
    with pytest.raises(tessera.TesseraError, match="have no derivative"):
        slopes().by_vectors(SPD, B)
    with pytest.raises(tessera.TesseraError, match="would lack what leads out of it"):
        slopes().by_expm(np.eye(N), B)
    with pytest.raises(tessera.TesseraError, match="needs the adjoint too"):
        tessera.compile("def f(b: Tensor[N, f64]): return lsqr(lambda v: v, b)")


def test_truncated_singular_values() -> None:
    low = TALL[:, :3] @ TALL[:12, :3].T
    u, s, v, residual = module().by_chance(low)
    np.testing.assert_allclose(s, np.linalg.svd(low)[1][:3], rtol=1e-10)
    np.testing.assert_allclose(u * s @ v, low, atol=1e-10)
    assert residual < 1e-12


@pytest.mark.one_in(48)
def test_slopes_of_a_matrix_that_has_fewer_singular_values_than_columns_are_drawn() -> None:
    low = TALL[:, :3] @ TALL[:12, :3].T
    text = "def f(a: Tensor[M, N, f64]): return grad(lambda m: sum(randomized_svd(m, 2, 3, 1)[1]))(a)\n"
    by_values = tessera.compile(text).f
    for a in (low, TALL[:, :4]):
        u, _, v = np.linalg.svd(a)
        np.testing.assert_allclose(by_values(a), u[:, :2] @ v[:2], atol=1e-10)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("what", ["cg", "gmres", "powers", "lanczos", "expm", "ranks", "rounds"])
def test_a_missed_tolerance_is_an_error(what: str) -> None:
    with pytest.raises(tessera.TesseraError, match=r"no convergence|too few|too small|more `powers`"):
        getattr(module(), f"few_{what}")(SPD, B)


def test_what_may_be_missed_is_told() -> None:
    x, residual, steps = module().allowed(SPD, B)
    assert steps == 2 and residual > 1e-12 and abs(residual - relative(SPD, x, B)) < 1e-14


@pytest.mark.one_in(12)
def test_operators_that_have_the_size_of_a_product_of_sizes() -> None:
    """In a library function that takes any operator, the size of a vector is that of the operator's parts."""
    text = """
def f(a: Tensor[P, P, f64], b: Tensor[Q, Q, f64], x: Tensor[P*Q, f64]):
    A = op.kronecker(a, b)
    return gmres(A, x, 1e-12)[0], cg(lambda v: A.H @ (A @ v), x, 1e-12)[0]
"""
    a, b, x = A[:2, :2], A[2:5, 2:5], B[:6]
    matrix = np.kron(a, b)
    found = tessera.compile(text).f(a, b, x)
    np.testing.assert_allclose(found[0], np.linalg.solve(matrix, x), rtol=1e-8)
    np.testing.assert_allclose(found[1], np.linalg.solve(matrix.T @ matrix, x), rtol=1e-8)


COMPLEX = """
def by_cg(a: Tensor[N, N, c128], b: Tensor[N, c128]): return cg(op.dense(a), b, 1e-12)
def by_gmres(a: Tensor[N, N, c128], b: Tensor[N, c128]): return gmres(lambda v: a @ v, b, 1e-12, restart=12)
def by_lsqr(a: Tensor[M, N, c128], b: Tensor[M, c128]): return lsqr(op.dense(a), b, 1e-11), lsqr(a, b, 1e-11)
def by_powers(a: Tensor[N, N, c128]): return power_iteration(a, None, 1e-9, 5000)
def by_lanczos(a: Tensor[N, N, c128]): return lanczos(op.dense(a), count=3, tolerance=1e-9)
def by_krylov(a: Tensor[N, N, c128], v: Tensor[N, c128]): return expm_action(op.dense(a), v, -0.3, 12, 1e-9)
def by_chance(a: Tensor[M, N, c128]): return randomized_svd(a, 3, 6, 4)
def of_operator(a: Tensor[M, N, c128]):
    return randomized_svd(op.dense(a) ∘ (2.0 * op.eye(N)), 3, 6, 4, tolerance=1e-9)
"""


@pytest.mark.one_in(24)
def test_complex_numbers() -> None:
    found, second = tessera.compile(COMPLEX), np.random.default_rng(3)
    a = A + 1j * second.normal(size=(N, N))
    hermitian, b = a @ a.conj().T / N + np.eye(N), B + 1j * second.normal(size=N)
    for solve, matrix in ((found.by_cg, hermitian), (found.by_gmres, a)):
        x, residual, _ = solve(matrix, b)
        np.testing.assert_allclose(x, np.linalg.solve(matrix, b), rtol=1e-8)
        assert abs(residual - relative(matrix, x, b)) < 1e-14
    tall, long = TALL + 1j * second.normal(size=TALL.shape), LONG + 1j * second.normal(size=20)
    for x, *_ in found.by_lsqr(tall, long):
        np.testing.assert_allclose(x, np.linalg.lstsq(tall, long, rcond=None)[0], rtol=1e-8)
    values, vectors = np.linalg.eigh(hermitian)
    assert abs(found.by_powers(hermitian)[0] - values[-1]) < 1e-8
    largest, rows, _ = found.by_lanczos(hermitian)
    np.testing.assert_allclose(largest, values[::-1][:3], rtol=1e-10)
    np.testing.assert_allclose(hermitian @ rows.T, rows.T * largest, atol=1e-8)
    exact = (vectors * np.exp(-0.3 * values)) @ vectors.conj().T @ b
    np.testing.assert_allclose(found.by_krylov(hermitian, b)[0], exact, atol=1e-9)
    low = tall[:, :3] @ a[:3]
    for scale, (u, s, v, residual) in ((1, found.by_chance(low)), (2, found.of_operator(low))):
        np.testing.assert_allclose((u * s) @ v, scale * low, atol=1e-10)
        assert residual < 1e-12
