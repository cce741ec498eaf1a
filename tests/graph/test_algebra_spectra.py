"""Spectral forms, functions and numbers of operators are those of their matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tessera
from tesserac.check.algebra.spectra import AT_ENDS, FUNCTIONS
from tests.support.field import Number, random_numbers
from tests.support.operator_cases import HEADER, NAMES, V, circulant, joined, placed

SPECTRA = """
def real(m: Tensor[N, N, f64], d: Tensor[N, f64], v: Tensor[N, f64]):
    A = op.dense(m)
    S = spectral(sym(A))
    forms = (S @ v, truncate(S, 2) @ v, reconstruct(truncate(S, 2)) @ v, pseudoinverse(S) @ v)
    functions = (expm(A) @ v, expm(S) @ v, expm(op.diag(d)) @ v, resolvent(A, 5.0) @ v, A ** -1 @ v)
    sizes = (norm(A), norm(S), spectral_radius(A), spectral_radius(S), is_unitary(A), is_unitary(expm(skew(A))))
    return forms, functions, sizes
def turned(c: Tensor[4, 4, c128], z: Tensor[c128], v: Tensor[4, f64]):
    A = op.dense(c)
    return expm(A) @ v, resolvent(A, z) @ v, norm(A), spectral_radius(A), is_unitary(op.fft(4) / 2.0)
def nilpotent(v: Tensor[N, f64]): return spectral_radius(op.low_rank(v[:, None], zeros(N, 1, dtype=f64)))
def orthogonal(q: Tensor[N, N, f64]): return is_unitary(op.dense(q)), norm(op.dense(q))
"""


def exponential(a: Any) -> Any:
    total, term = np.eye(len(a), dtype=a.dtype), np.eye(len(a), dtype=a.dtype)
    for k in range(1, 80):
        term = term @ a / k
        total = total + term
    return total


@pytest.mark.one_in(72)
@pytest.mark.parametrize("scale", [1.0, 1e200, 1e-200])
@pytest.mark.parametrize(
    ("matrix", "radius"),
    [
        (3 * np.eye(4), 3.0),
        (np.diag([1.0, -5.0, 2.0]), 5.0),
        (np.array([[0.0, 1.0], [-1.0, 0.0]]), 1.0),
        (np.array([[2.0, 1.0], [0.0, 2.0]]), 2.0),
        (np.triu(np.ones((4, 4))), 1.0),
        (np.triu(np.ones((4, 4)), 1), 0.0),
        (np.ones((5, 5)), 5.0),
    ],
)
def test_spectral_radius_to_the_last_places(matrix: Any, radius: float, scale: float) -> None:
    """Multiples of the identity, rotations, defective and nilpotent ones, of any magnitude."""
    module = tessera.compile("def f(a: Tensor[N, N, f64]): return spectral_radius(op.dense(a))")
    assert np.isclose(module.f(matrix * scale), radius * scale, rtol=8e-16, atol=0)


@pytest.mark.one_in(144)
@pytest.mark.parametrize("kind", ["complex pair", "several of one magnitude"])
def test_slope_of_a_spectral_radius(kind: str) -> None:
    """That of a pair of complex eigenvalues, along every entry; equal ones share alike."""
    pair, three = np.array([[1.0, 2, 0], [-3, 1, 1], [0.5, 0, 1]]), 3 * np.eye(3)
    matrix = pair if kind == "complex pair" else three
    radius = lambda m: abs(np.linalg.eigvals(m)).max()  # noqa: E731
    steps = [1e-6 * np.eye(9)[i].reshape(3, 3) for i in range(9)]
    slope = np.reshape([(radius(pair + step) - radius(pair - step)) / 2e-6 for step in steps], (3, 3))
    module = tessera.compile("def f(a: Tensor[3, 3, f64]): return grad(lambda a: spectral_radius(op.dense(a)))(a)")
    assert np.allclose(module.f(matrix), slope if kind == "complex pair" else np.eye(3) / 3, atol=1e-8)


@pytest.mark.one_in(72)
def test_spectral_forms_and_functions() -> None:
    m, d, v = V["M"], V["d"], V["x"]
    module = tessera.compile(SPECTRA)
    forms, functions, sizes = module.real(m, d, v)
    symmetric = (m + m.T) / 2
    w, vectors = np.linalg.eigh(symmetric)
    kept = np.argsort(-np.abs(w))[:2]
    low = (vectors[:, kept] * w[kept]) @ vectors[:, kept].T
    for found, matrix in zip(forms, (symmetric, low, low, np.linalg.pinv(symmetric)), strict=True):
        assert np.allclose(found, matrix @ v, rtol=1e-9, atol=1e-9)
    inverse = np.linalg.inv
    expected = (exponential(m), exponential(symmetric), np.diag(np.exp(d)), inverse(5 * np.eye(4) - m), inverse(m))
    for found, matrix in zip(functions, expected, strict=True):
        assert np.allclose(found, matrix @ v, rtol=1e-9, atol=1e-9)
    radius = np.abs(np.linalg.eigvals(m)).max()
    largest = np.linalg.norm(m, 2), np.abs(w).max(), radius, np.abs(w).max()
    assert np.allclose(sizes[:4], largest, rtol=1e-8)
    assert not sizes[4] and sizes[5]


@pytest.mark.one_in(144)
def test_complex_functions_and_measures() -> None:
    module = tessera.compile(SPECTRA)
    c, v, z = V["C"], V["x"], np.complex128(3 + 4j)
    exp, solved, size, radius, unitary = module.turned(c, z, v)
    assert np.allclose(exp, exponential(c) @ v, rtol=1e-9, atol=1e-9)
    assert np.allclose(solved, np.linalg.inv(z * np.eye(4) - c) @ v, rtol=1e-9, atol=1e-9)
    assert np.allclose([size, radius], [np.linalg.norm(c, 2), np.abs(np.linalg.eigvals(c)).max()], rtol=1e-8)
    assert unitary
    assert module.nilpotent(v) == 0
    basis, _ = np.linalg.qr(V["M"])
    assert module.orthogonal(basis)[0] and abs(module.orthogonal(basis)[1] - 1) < 1e-12


# ------------------------------------------------------------------------------------------------ numbers of them

MEASURED = {
    "op.diag(1.0 + d * d)": np.diag(1 + V["d"] ** 2),
    "op.kronecker(op.dense(m), op.diag(real(n)))": np.kron(V["m"], np.diag(V["n"].real)),
    "op.direct_sum(op.dense(m), op.diag(real(n)))": joined(V["m"], np.diag(V["n"].real)).real,
    "2.0 * op.triangular(M)": 2 * np.tril(V["M"]),
    "op.diag(2.0 + d * d) + op.low_rank(L, L)": np.diag(2 + V["d"] ** 2) + V["L"] @ V["L"].T,
    "op.dense(M) ∘ inverse(op.diag(2.0 + d * d))": V["M"] / (2 + V["d"] ** 2),
    "op.circulant(array([4.0, 1.0, 0.0, 1.0], dtype=f64))": circulant([4.0, 1, 0, 1], 4),
    "op.circulant(d) - 0.5 * op.circulant(d).H + 3.0 * op.eye(4)": (
        circulant(V["d"], 4) - circulant(V["d"], 4).T / 2 + 3 * np.eye(4)
    ),
    "op.conv1d(t, 4) + op.circulant(d) - 9.0 * op.eye(4)": circulant(V["t"], 4) + circulant(V["d"], 4) - 9 * np.eye(4),
    "op.coo(arange(4), p, 2.0 + d * d, 4) + 0.25 * op.dense(M)": (
        placed((2 + V["d"] ** 2)[:, None, None], np.arange(4), V["p"], 4) + V["M"] / 4
    ),
}


@pytest.mark.one_in(72)
def test_numbers_of_operators_are_those_of_their_matrices() -> None:
    numbers = "trace(A), diagonal(A), det(A), logdet(A), norm(A), cond(A), spectral_radius(A), solve(A, x), x @ A"
    body = f"    return {numbers}\n"
    head = HEADER[: HEADER.index("    return")]
    module = tessera.compile("".join(head.format(number=i, tree=tree) + body for i, tree in enumerate(MEASURED)))
    for i, (text, a) in enumerate(MEASURED.items()):
        found = getattr(module, f"f{i}")(*(V[name] for name in NAMES))
        expected = (
            np.trace(a), np.diag(a), np.linalg.det(a), np.linalg.slogdet(a)[1], np.linalg.norm(a, 2), np.linalg.cond(a),
            max(abs(np.linalg.eigvals(a))), np.linalg.solve(a, V["x"]), V["x"] @ a,
        )  # fmt: skip
        for own, wanted in zip(found, expected, strict=True):
            assert np.allclose(own, wanted, rtol=1e-9, atol=1e-9), text


FORMS = """
def form(M: Tensor[M, N, f64], x: Tensor[N, f64], y: Tensor[M, f64]):
    S = spectral(op.dense(M))
    T = truncate(S, 2)
    P = pseudoinverse(op.dense(M))
    return S.U, S.S, S.V, to_dense(reconstruct(S)), to_dense(T), pseudoinverse(S) @ y, to_dense(P)
def hermitian(C: Tensor[N, N, c128], x: Tensor[N, f64]):
    S = spectral(sym(op.dense(C)))
    return S.S, S.U, to_dense(S), S @ x, S.flags
def batches(A: Tensor[M, N, f64], X: Tensor[B, S, N, f64], Y: Tensor[B, N, S, f64]):
    D = op.dense(A)
    return D @ X, D @ Y, X @ D.T, apply(D, X, axis=-1)
def root(M: Tensor[N, N, f64]): return sum(to_dense(sqrt(op.dense(M, psd=True))) * arange(N, dtype=f64))
def of_root(M: Tensor[N, N, f64]): return grad(root)(M)
def heat(a: Tensor[N, N, f64], b: Tensor[K, K, f64], x: Tensor[N*K, f64]):
    return expm(op.kronecker_sum(op.dense(a), op.dense(b))) @ x
"""


@pytest.mark.one_in(48)
def test_spectral_forms_of_all_operators() -> None:
    m, rng = tessera.compile(FORMS), np.random.default_rng(3)
    a, y = rng.normal(size=(5, 3)), rng.normal(size=5)
    u, s, v, whole, two, solved, inverse = m.form(a, np.ones(3), y)
    us, ss, vs = np.linalg.svd(a, full_matrices=False)
    assert np.allclose(s, ss) and np.allclose((u * s) @ v.T, a) and np.allclose(whole, a)
    assert np.allclose(two, (us[:, :2] * ss[:2]) @ vs[:2]) and np.allclose(solved, np.linalg.pinv(a) @ y)
    assert np.allclose(inverse, np.linalg.pinv(a))
    for c in (rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4)), np.eye(4) + 0j):
        h = (c + c.conj().T) / 2
        w, v, whole, applied, flags = m.hermitian(c, np.ones(4))
        assert np.allclose(sorted(w), np.linalg.eigvalsh(h)) and np.allclose(whole, h) and "self_adjoint" in flags
        assert np.allclose(v.conj().T @ v, np.eye(4)) and np.allclose(applied, h @ np.ones(4))
    x, z = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 3, 4))
    along, columns, right, last = m.batches(a, x, z)
    assert np.allclose(along, x @ a.T) and np.allclose(columns, a @ z)
    assert np.allclose(right, along) and np.allclose(last, along)
    p, q = rng.normal(size=(2, 2)), rng.normal(size=(3, 3))
    both = np.kron(p, np.eye(3)) + np.kron(np.eye(2), q)
    series = sum(np.linalg.matrix_power(both, k) / math.factorial(k) for k in range(40))
    assert np.allclose(m.heat(p, q, np.ones(6)), series @ np.ones(6))


@pytest.mark.one_in(144)
def test_a_function_of_an_operator_has_its_gradient_where_eigenvalues_are_equal() -> None:
    m, step = tessera.compile(FORMS), 1e-6
    for a in (2.0 * np.eye(3), np.diag([1.0, 1.0, 4.0]), np.array([[3.0, 1, 0], [1, 3, 0], [0, 0, 2.0]])):
        found = m.of_root(a)
        for i, j in ((0, 0), (0, 1), (1, 2)):
            e = np.zeros((3, 3))
            e[i, j] = e[j, i] = step
            slope = (m.root(a + e) - m.root(a - e)) / (2 * step)
            wanted = found[i, j] if i == j else found[i, j] + found[j, i]
            assert abs(slope - wanted) < 1e-6, (a, i, j)


OF_MATRIX = """
def of(M: Tensor[N, N, f64], v: Tensor[N, f64]): return {0}(op.dense(M, self_adjoint=True)) @ v, {0}(op.diag(v)) @ v
def slope(M: Tensor[N, N, f64], v: Tensor[N, f64]): return grad(lambda M: sum(v * ({0}(sym(op.dense(M))) @ v)))(M)
"""
IN_NUMPY = {"rsqrt": lambda x: x**-0.5, "atan": np.arctan}


@pytest.mark.one_in(144)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_operators_are_those_of_their_eigenvalues(name: str) -> None:
    """With their gradients, also where eigenvalues are equal."""
    module, function, rng = tessera.compile(OF_MATRIX.format(name)), IN_NUMPY.get(name), np.random.default_rng(0)
    function = function or getattr(np, name)
    vectors, values, v = np.linalg.qr(rng.normal(size=(4, 4)))[0], np.array([0.5, 1, 1, 2]), rng.random(4) + 0.2
    matrix, change = (vectors * values) @ vectors.T, rng.normal(size=(4, 4))

    def applied(a: np.ndarray) -> np.ndarray:
        w, q = np.linalg.eigh((a + a.T) / 2)
        return (q * function(w)) @ q.T @ v

    found, of_diagonal = module.of(matrix, v)
    np.testing.assert_allclose(found, applied(matrix), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(of_diagonal, function(v) * v, rtol=1e-14)
    step = 1e-6 * change
    expected = v @ (applied(matrix + step) - applied(matrix - step)) / 2e-6
    np.testing.assert_allclose(np.sum(module.slope(matrix, v) * change), expected, rtol=1e-7, atol=1e-8)


@pytest.mark.one_in(144)
@pytest.mark.parametrize("name", AT_ENDS)
def test_functions_of_projectors_are_their_values_at_0_and_1(name: str) -> None:
    """To the last places: the root of an eigenvalue that is 1e-17 instead of 0 would be 3e-9."""
    text = "def f(o: Tensor[N, K, f64], v: Tensor[N, f64]):\n    A = {}(op.projector(o))\n    return to_dense(A), A @ v"
    rng, function = np.random.default_rng(1), IN_NUMPY.get(name) or getattr(np, name)
    basis, v = np.linalg.qr(rng.normal(size=(6, 2)))[0], rng.normal(size=6)
    projector = basis @ basis.T
    wanted = function(0.0) * (np.eye(6) - projector) + function(1.0) * projector
    matrix, applied = tessera.compile(text.format(name)).f(basis, v)
    np.testing.assert_allclose(matrix, wanted, rtol=0, atol=1e-15)
    np.testing.assert_allclose(applied, wanted @ v, rtol=0, atol=4e-15)


@pytest.mark.parametrize("stretch", [1, 2])
def test_the_law_of_functions_of_a_projector(stretch: int) -> None:
    """f(P) = f(0) I + (f(1) - f(0)) P of a polynomial, over a finite field; twice a projector refutes it."""
    rng = np.random.default_rng(2)
    zero, one = np.full((2, 2), Number(0)), np.array([[Number(1), Number(0)], [Number(0), Number(1)]])
    projector = np.block([[one, random_numbers(rng, (2, 2))], [zero, zero]]) * stretch
    eye = np.block([[one, zero], [zero, one]])
    coefficients = random_numbers(rng, (6,))
    found = eye * 0
    for coefficient in coefficients:
        found = found @ projector + eye * coefficient
    at_zero, at_one = coefficients[-1], sum(coefficients, Number(0))
    assert np.array_equal(found, eye * at_zero + projector * (at_one - at_zero)) == (stretch == 1)
