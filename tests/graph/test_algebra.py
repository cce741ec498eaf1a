"""Operators as values: what a normal form does is what the matrices say, the laws hold, and mistakes are told."""

from __future__ import annotations

import math
import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session

HEADER = """
def f{number}(
    M: Tensor[4, 4, f64], C: Tensor[4, 4, c128], d: Tensor[4, f64], e: Tensor[4, c128], Q: Tensor[4, 2, f64],
    L: Tensor[4, 3, f64], R: Tensor[4, 3, c128], t: Tensor[3, f64], m: Tensor[2, 2, f64], n: Tensor[2, c128],
    s: f64, x: Tensor[4, f64], X: Tensor[4, 3, f64], K: Tensor[3, 2, 2, f64], i: Tensor[3, i32], j: Tensor[3, i64],
    T: Tensor[3, 2, 1, c128], p: Tensor[4, i64],
):
    A = {tree}
    return A @ x, A @ X, A.H @ x
"""
NAMES = "MCdeQLRtmnsxXKijTp"


def values() -> dict[str, Any]:
    rng = np.random.default_rng(7)

    def real(*shape: int) -> Any:
        return rng.normal(size=shape)

    def both(*shape: int) -> Any:
        return real(*shape) + 1j * real(*shape)

    basis, _ = np.linalg.qr(real(4, 2))
    return {
        "M": real(4, 4), "C": both(4, 4), "d": real(4), "e": both(4), "Q": basis, "L": real(4, 3), "R": both(4, 3),
        "t": real(3), "m": real(2, 2), "n": both(2), "s": np.float64(1.75), "x": real(4), "X": real(4, 3),
        "K": real(3, 2, 2), "i": np.array([1, 0, 1], "i4"), "j": np.array([0, 1, 0]), "T": both(3, 2, 1),
        "p": np.array([2, 0, 3, 1]),
    }  # fmt: skip


V = values()


def circulant(taps: Any, size: int) -> Any:
    matrix = np.zeros((size, size))
    for i in range(size):
        for j, tap in enumerate(taps):
            matrix[i, (i - j) % size] += tap
    return matrix


def placed(blocks: Any, rows: Any, columns: Any, size: int) -> Any:
    whole = np.zeros((size, size), blocks.dtype)
    for block, row, column in zip(blocks, rows, columns, strict=True):
        height, width = block.shape
        whole[row * height : (row + 1) * height, column * width : (column + 1) * width] += block
    return whole


def joined(first: Any, second: Any) -> Any:
    rows, columns = first.shape
    whole = np.zeros((rows + second.shape[0], columns + second.shape[1]), complex)
    whole[:rows, :columns], whole[rows:, columns:] = first, second
    return whole


def banded(bands: Any, upper: int) -> Any:
    size = bands.shape[1]
    matrix = np.zeros((size, size), bands.dtype)
    for r, row in enumerate(bands):
        for j in range(size):
            if 0 <= j + r - upper < size:
                matrix[j + r - upper, j] = row[j]
    return matrix


def toeplitz(column: Any, row: Any) -> Any:
    at = np.arange(len(column))[:, None] - np.arange(len(row))
    return np.where(at >= 0, column[np.maximum(at, 0)], row[np.maximum(-at, 0)])


LEAVES = {
    "op.dense(M)": V["M"],
    "op.dense(C)": V["C"],
    "op.diag(d)": np.diag(V["d"]),
    "op.diag(e)": np.diag(V["e"]),
    "op.projector(Q)": V["Q"] @ V["Q"].T,
    "op.low_rank(L, R)": V["L"] @ V["R"].conj().T,
    "op.eye(4)": np.eye(4),
    "op.zero(4)": np.zeros((4, 4)),
    "op.fft(4)": np.fft.fft(np.eye(4), axis=0),
    "op.ifft(4)": np.fft.ifft(np.eye(4), axis=0),
    "op.conv1d(t, 4)": circulant(V["t"], 4),
    "op.kronecker(op.dense(m), op.diag(n))": np.kron(V["m"], np.diag(V["n"])),
    "op.kronecker(op.diag(n), op.fft(2))": np.kron(np.diag(V["n"]), np.fft.fft(np.eye(2))),
    "op.direct_sum(op.dense(m), op.diag(n))": joined(V["m"], np.diag(V["n"])),
    "op.direct_sum(op.eye(2), op.dense(m))": joined(np.eye(2), V["m"]),
    "op.block_sparse(K, i, j, 4)": placed(V["K"], V["i"], V["j"], 4),
    "op.block_sparse(T, i, j, 4, 4)": placed(V["T"], V["i"], V["j"], 4),
    "op.implicit(lambda v: 3.0 * v, lambda v: 3.0 * v, 4)": 3 * np.eye(4),
    "op.permutation(p)": np.eye(4)[V["p"]],
    "op.triangular(M)": np.tril(V["M"]),
    "op.triangular(C, lower=False)": np.triu(V["C"]),
    "op.banded(L.T, 1, 1)": banded(V["L"].T, 1),
    "op.banded(R.T, 2, 0)": banded(V["R"].T, 0),
    "op.toeplitz(d, e)": toeplitz(V["d"], V["e"]),
    "op.toeplitz(e)": toeplitz(V["e"], V["e"].conj()),
    "op.circulant(d)": circulant(V["d"], 4),
    "op.block([[op.dense(m), op.eye(2)], [0, op.diag(n)]])": np.block(
        [[V["m"], np.eye(2)], [np.zeros((2, 2)), np.diag(V["n"])]]
    ),
    "op.jacobian(lambda v: v * v * d, x)": np.diag(2 * V["x"] * V["d"]),
    "op.coo(i, j, t, 4)": placed(V["t"][:, None, None], V["i"], V["j"], 4),
    "op.csr(array([0, 1, 1, 2, 3]), i, t, 4)": placed(V["t"][:, None, None], [0, 2, 3], V["i"], 4),
    "op.kronecker_sum(op.dense(m), op.diag(n))": np.kron(V["m"], np.eye(2)) + np.kron(np.eye(2), np.diag(V["n"])),
    "op.dense(C).T": V["C"].T,
    "inverse(op.dense(M))": np.linalg.inv(V["M"]),
}


def grown(rng: random.Random, depth: int) -> tuple[str, Any]:
    """A random expression, and the matrix it stands for."""
    if depth == 0:
        return rng.choice(list(LEAVES.items()))
    a, first = grown(rng, depth - 1)
    b, second = grown(rng, rng.randrange(depth))
    turned = first.conj().T
    return rng.choice(
        [
            (f"({a} ∘ {b})", first @ second),
            (f"compose({b}, {a})", second @ first),
            (f"({a} + {b})", first + second),
            (f"({a} - {b} + {a})", 2 * first - second),
            (f"adjoint({a})", turned),
            (f"({a}).H", turned),
            (f"(-2.5 * {a})", -2.5 * first),
            (f"({a} * s)", V["s"] * first),
            (f"({a} / s)", first / V["s"]),
            (f"power({a}, 2)", first @ first),
            (f"commutator({a}, {b})", first @ second - second @ first),
            (f"sym({a})", (first + turned) / 2),
            (f"skew({a})", (first - turned) / 2),
        ]
    )


@pytest.mark.one_in(12)
@pytest.mark.parametrize("seed", range(4))
def test_a_random_operator_is_its_matrix(seed: int) -> None:
    rng = random.Random(seed)
    trees = [grown(rng, depth) for depth in (1, 2, 3)]
    module = tessera.compile("\n".join(HEADER.format(number=i, tree=text) for i, (text, _) in enumerate(trees)))
    for i, (text, matrix) in enumerate(trees):
        found = getattr(module, f"f{i}")(*(V[name] for name in NAMES))
        for y, expected in zip(found, (matrix @ V["x"], matrix @ V["X"], matrix.conj().T @ V["x"]), strict=True):
            assert np.allclose(y, expected, rtol=1e-9, atol=1e-9), text


@pytest.mark.one_in(12)
def test_every_kind_is_its_matrix() -> None:
    module = tessera.compile("\n".join(HEADER.format(number=i, tree=text) for i, text in enumerate(LEAVES)))
    for i, (text, matrix) in enumerate(LEAVES.items()):
        y, columns, turned = getattr(module, f"f{i}")(*(V[name] for name in NAMES))
        assert np.allclose(y, matrix @ V["x"], rtol=1e-12, atol=1e-12), text
        assert np.allclose(columns, matrix @ V["X"], rtol=1e-12, atol=1e-12), text
        assert np.allclose(turned, matrix.conj().T @ V["x"], rtol=1e-12, atol=1e-12), text


# ------------------------------------------------------------------------------------------------------------ laws

BEFORE = """
def laws(M: Tensor[N, N, f32], B: Tensor[N, N, f32], C: Tensor[N, N, c64], U: Tensor[N, K, f32], d: Tensor[N, f32],
         p: Tensor[P, P, f32], c: Tensor[c64]):
    A, b, z, D, I = op.dense(M), op.dense(B), op.dense(C), op.diag(d), op.eye(N)
    O, S, T = op.dense(B, unitary=True), op.dense(M, self_adjoint=True), op.dense(p)
    F, G = op.fft(N), op.ifft(N)
    return {law}
"""
HOLD = [
    "adjoint(adjoint(A)) == A",
    "compose(A, I) == A",
    "I ∘ A ∘ I == A",
    "compose(fft, ifft) == I",
    "fft ∘ A ∘ ifft ∘ fft == F ∘ A",
    "F ∘ G == I",
    "F.H.H == F",
    "F.H == float(N) * G",
    "projector(U) ∘ projector(U) == projector(U)",
    "projector(U).H == projector(U)",
    "power(projector(U), 5) == projector(U)",
    "(A ∘ b).H == b.H ∘ A.H",
    "(A ∘ b) ∘ z == A ∘ (b ∘ z)",
    "O.H ∘ O == I",
    "A ∘ O ∘ O.H ∘ b == A ∘ b",
    "A + b == b + A",
    "A + A == 2.0 * A",
    "A - A == op.zero(N)",
    "2.0 * (A + b) == b * 2 + A / 0.5",
    "(c * z).H.H == c * z",
    "A ∘ op.zero(N) == op.zero(N)",
    "A + op.zero(N) == A",
    "power(A, 0) == I",
    "power(A, 3) == A ∘ A ∘ A",
    "A ** 2 == A ∘ A",
    "A ** -1 ∘ A == I",
    "power(O, -1) == O.H",
    "commutator(A, A) == op.zero(N)",
    "commutator(A, b) == -commutator(b, A)",
    "sym(S) == S",
    "skew(S) == op.zero(N)",
    "sym(A) + skew(A) == A",
    "sym(A).self_adjoint",
    "(A.H ∘ A).self_adjoint",
    "D.self_adjoint and D.normal",
    "skew(A).normal",
    "(O ∘ O).unitary and tensor(O, O).unitary",
    "not A.unitary and not A.normal",
    "tensor(A, T) ∘ tensor(b, T) == tensor(A ∘ b, T ∘ T)",
    "tensor(A, T).H == tensor(A.H, T.H)",
    "op.direct_sum(A, T) ∘ op.direct_sum(b, T) == op.direct_sum(A ∘ b, T ∘ T)",
    "op.kronecker(I, op.eye(P)) == op.eye(N * P)",
    "op.low_rank(U, U).H == op.low_rank(U, U)",
    "expm(op.zero(N)) == I",
    "expm(skew(A)).unitary",
    "resolvent(A, 2.0) == (2.0 * I - A) ** -1",
    "A != b",
    "A ∘ b != b ∘ A",
    "A != A.H",
    "op.dense(M + B) != op.dense(B + M)",
    "is_unitary(O)",
    "A.shape == (N, N)",
]


def test_laws() -> None:
    """Sizes are names here: the laws hold for all."""
    asserted = "".join(f'    assert {law}, "{law}"\n' for law in HOLD)
    text = BEFORE.replace("    return {law}\n", f"{asserted}    return 0\n")
    found = Session().check(SourceFile("laws.tess", text)).diagnostics
    assert not found, "\n".join(d.title for d in found)


def test_a_law_that_does_not_hold_is_told() -> None:
    text = BEFORE.replace("    return {law}\n", '    assert A ∘ b == b ∘ A, "matrices commute"\n    return 0\n')
    assert not Session().check(SourceFile("laws.tess", text)).diagnostics, "unknown: it is compared when it runs"
    refuted = BEFORE.replace("    return {law}\n", "    assert A + 2.0 * I == A\n    return 0\n")
    assert [d.code for d in Session().check(SourceFile("laws.tess", refuted)).diagnostics] == ["E0216"]


def test_a_draw_is_not_another_draw() -> None:
    text = "def f(): return op.dense(normal(3, 3)) == op.dense(normal(3, 3)), (op.dense(normal(3, 3, seed=1)) == A)\n"
    module = tessera.compile(text + "A = op.dense(normal(3, 3, seed=1))\n")
    assert not module.f()[0] and module.f()[1]


# ------------------------------------------------------------------------------------------------ the rest of it

FUNCTIONS = """
A = op.dense(reshape(arange(9, dtype=f32), (3, 3)))
def twice(B: Operator[D, D], v: Tensor[D, f32]) -> Tensor[D, f32]: return B @ (B @ v)
def shifted(B: Operator[D, D], c: float) -> Operator[D, D]: return B + c * op.eye(D)
def constant(v: Tensor[3, f32]): return twice(shifted(A, 2.0), v)
def wide(m: Tensor[M, N, f32], v: Tensor[N, f32]): return moved(op.dense(m), v), op.dense(m)(v), apply(m, v)
def moved(B: Operator[Din, Dout], v: Tensor[Din, f32]) -> Tensor[Dout, f32]: return B @ v
def general(m: Tensor[N, N, f32], v: Tensor[N, f32]): return twice(shifted(op.dense(m), 0.5), v)
def piped(v: Tensor[3, f32]): return op.pipeline([v, A, relu, A.H])
def in_loop(m: Tensor[N, N, f32], v: Tensor[N, f32]):
    B = op.dense(m)
    for i in range(3):
        v = B @ v
    return v
def complex_result(v: Tensor[8, f32]): return op.ifft(8) @ (op.fft(8) @ v), (op.fft(8) + op.eye(8)) @ v
"""


def test_operators_go_through_functions() -> None:
    module = tessera.compile(FUNCTIONS)
    a, v = np.arange(9, dtype="f4").reshape(3, 3), np.array([1, -2, 3], "f4")
    b = a + 2 * np.eye(3)
    assert np.allclose(module.constant(v), b @ b @ v, rtol=1e-6)
    m = np.arange(6, dtype="f4").reshape(2, 3)
    assert all(np.array_equal(y, m @ v) for y in module.wide(m, v))
    g = a + 0.5 * np.eye(3)
    assert np.allclose(module.general(a, v), g @ g @ v, rtol=1e-6)
    assert np.allclose(module.piped(v), a.T @ np.maximum(a @ v, 0), rtol=1e-6)
    assert np.allclose(module.in_loop(a, v), a @ a @ a @ v, rtol=1e-6)
    signal = np.arange(8, dtype="f4")
    back, both = module.complex_result(signal)
    assert back.dtype == both.dtype == np.complex64
    assert np.allclose(back, signal, atol=1e-5) and np.allclose(both, np.fft.fft(signal) + signal, atol=1e-4)


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


@pytest.mark.one_in(3)
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


@pytest.mark.one_in(3)
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


WRONG = [
    ("E0801", "op.dense(m) ∘ op.dense(m)"),
    ("E0801", "op.dense(m) @ y"),
    ("E0801", "op.dense(m) + op.dense(m).H"),
    ("E0801", "commutator(op.dense(m), op.dense(m))"),
    ("E0801", "sym(op.dense(m))"),
    ("E0801", "op.dense(m, unitary=True)"),
    ("E0801", "power(op.dense(m), 2)"),
    ("E0801", "op.low_rank(m, zeros(3, 3))"),
    ("E0802", "compose(x, x)"),
    ("E0802", "x ∘ x"),
    ("E0801", "x @ op.dense(m)"),
    ("E0802", "op.eye(N) @ 3.0"),
    ("E0801", "op.eye(N) @ zeros(N, 2, 2)"),
    ("E0806", "op.eye(N) @ zeros(2, N, N)"),
    ("E0802", "apply(op.eye(N), zeros(2, N, N), axis=0)"),
    ("E0805", "norm(op.kronecker(op.eye(9000), op.eye(2)) + op.fft(18000))"),
    ("E0804", "sqrt(op.dense(m.T @ m))"),
    ("E0804", "det(op.fft(N))"),
    ("E0804", "op.eye(N).U"),
    ("E0804", "op.block([op.eye(N)])"),
    ("E0801", "op.block([[op.eye(N), op.dense(m)]])"),
    ("E0801", "op.eye(N) == op.eye(3)"),
    ("E0801", "trace(op.dense(m))"),
    ("E0801", "op.banded(m, 1, 1)"),
    ("E0210", "op.permutation(x)"),
    ("E0210", "op.jacobian(sum, x)"),
    ("E0801", "op.coo(arange(3), arange(3), x, N)"),
    ("E0802", "op.dense(m) @ cast(x, f64)"),
    ("E0802", "op.eye(N) % op.eye(N)"),
    ("E0803", "adjoint(fft)"),
    ("E0803", "tensor(fft, op.eye(N))"),
    ("E0803", "norm(op.fft())"),
    ("E0804", "spectral(op.fft(N))"),
    ("E0804", "truncate(op.eye(N), 2)"),
    ("E0804", "power(op.eye(N), 65)"),
    ("E0804", "op.eye(N) < op.eye(N)"),
    ("E0804", "~op.eye(N)"),
    ("E0804", "op.fft().shape"),
    ("E0210", "op.dense(x)"),
    ("E0210", "op.diag(m)"),
    ("E0210", "op.eye(x)"),
    ("E0210", "op.diag(arange(3))"),
    ("E0210", "op.implicit(x, x, N)"),
    ("E0210", "op.eye(N) * m"),
    ("E0210", "op.eye(N) / 0.0"),
    ("E0208", "op.eye(N).G"),
    ("E0205", "op.eye()"),
    ("E0210", "takes(m)"),
    ("E0210", "op.block_sparse(m, arange(3), arange(3), N)"),
    ("E0210", "op.block_sparse(zeros(3, 2, 2), x, arange(3), N)"),
    ("E0801", "op.block_sparse(zeros(3, 2, 2), arange(3), arange(2), 8)"),
    ("E0210", "of_f64(op.diag(x))"),
    ("E0210", "with_policy(op.diag(cast(x, f64)))"),
    ("E0210", "by_values(op.diag(x))"),
    ("E0801", "by_values(spectral(op.diag(x))) @ zeros(N + 1)"),
]


@pytest.fixture(scope="module")
def session() -> Session:
    return Session()


@pytest.mark.parametrize(("code", "text"), WRONG, ids=[text for _, text in WRONG])
def test_a_mistake_has_its_code(session: Session, code: str, text: str) -> None:
    program = f"""
def takes(A: Operator[D, D]) -> Operator[D, D]: return A
def of_f64(A: Operator[D, D, f64]): return A
def with_policy(A: Operator[D, D, T = f32, P = T @accum(f32)]): return A
def by_values(S: SpectralOperator[D, f32]) -> SpectralOperator[D]: return S
def f(m: Tensor[M, N, f32], x: Tensor[N, f32], y: Tensor[M, f32]):
    a = {text}
    return x
"""
    assert [d.code for d in session.check(SourceFile("wrong.tess", program)).diagnostics][:1] == [code]


def test_annotations_are_held() -> None:
    program = """
def f(A: Operator[D, E]) -> Operator[D, D]: return A
def g(m: Tensor[M, N, f32]): return f(op.dense(m)) @ zeros(N)
def h(A: Operator[D]): return 0
def i(A: SpectralOperator[D, D]): return 0
def j(A: Operator[D, D, T = f32, P = bf16 @accum(f32)]): return 0
def k(A: Operator[D, D, Q = f32]): return 0
"""
    found = [d.code for d in Session().check(SourceFile("held.tess", program)).diagnostics]
    assert sorted(found) == ["E0204", "E0204", "E0204", "E0204", "E0217"]


TYPED = """
both = Operator[Din, Dout, T = bf16, P = T @accum(f32)]
def narrow(A: both, v: Tensor[Din, bf16 @accum(f32)]) -> Tensor[Dout, bf16 @accum(f32)]: return A @ v
def rest(S: SpectralOperator[D, f32], v: Tensor[D, f32]): return S @ v - truncate(S, 1) @ v
def of_bf16(m: Tensor[M, N, bf16], v: Tensor[N, bf16 @accum(f32)]): return narrow(op.dense(m), v)
def largest_gone(m: Tensor[N, N, f32], v: Tensor[N, f32]): return rest(spectral(sym(op.dense(m))), v)
"""


@pytest.mark.one_in(3)
def test_a_type_says_what_numbers_an_operator_has() -> None:
    module = tessera.compile(TYPED)
    m, v = V["M"].astype("f4"), V["x"].astype("f4")
    w, vectors = np.linalg.eigh((m + m.T) / 2)
    w[np.argmax(np.abs(w))] = 0
    assert np.allclose(module.largest_gone(m, v), (vectors * w) @ vectors.T @ v, rtol=1e-4, atol=1e-5)
    wide = m.astype(ml_dtypes.bfloat16), v.astype(ml_dtypes.bfloat16)
    found = module.of_bf16(*wide)
    assert found.dtype == ml_dtypes.bfloat16
    assert np.allclose(found.astype("f4"), wide[0].astype("f4") @ wide[1].astype("f4"), rtol=2**-8, atol=1e-6)


def test_a_block_outside_is_told() -> None:
    text = "def f(b: Tensor[K, P, P, f32], i: Tensor[K, i32], n: int): return op.block_sparse(b, i, i, n) @ ones(n)\n"
    module = tessera.compile(text)
    blocks = np.ones((2, 2, 2), "f4")
    assert module.f(blocks, np.array([0, 2], "i4"), 6).tolist() == [2, 2, 0, 0, 2, 2]
    with pytest.raises(tessera.TesseraError, match="3"):
        module.f(blocks, np.array([0, 3], "i4"), 6)
    with pytest.raises(tessera.TesseraError, match="% P == 0"):
        module.f(blocks, np.array([0, 2], "i4"), 5)


# ------------------------------------------------------------------------------------------------ numbers of them

MEASURED = {
    "op.diag(1.0 + d * d)": np.diag(1 + V["d"] ** 2),
    "op.kronecker(op.dense(m), op.diag(real(n)))": np.kron(V["m"], np.diag(V["n"].real)),
    "op.direct_sum(op.dense(m), op.diag(real(n)))": joined(V["m"], np.diag(V["n"].real)).real,
    "2.0 * op.triangular(M)": 2 * np.tril(V["M"]),
    "op.diag(2.0 + d * d) + op.low_rank(L, L)": np.diag(2 + V["d"] ** 2) + V["L"] @ V["L"].T,
    "op.dense(M) ∘ inverse(op.diag(2.0 + d * d))": V["M"] / (2 + V["d"] ** 2),
    "op.circulant(array([4.0, 1.0, 0.0, 1.0], dtype=f64))": circulant([4.0, 1, 0, 1], 4),
    "op.coo(arange(4), p, 2.0 + d * d, 4) + 0.25 * op.dense(M)": (
        placed((2 + V["d"] ** 2)[:, None, None], np.arange(4), V["p"], 4) + V["M"] / 4
    ),
}


@pytest.mark.one_in(12)
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


@pytest.mark.one_in(12)
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


@pytest.mark.one_in(12)
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


@pytest.mark.one_in(4)
def test_a_false_promise_is_an_error() -> None:
    text = """
def itself(M: Tensor[N, N, f32]): return op.dense(M, self_adjoint=True) @ ones(N)
def turned(M: Tensor[N, N, f32]): return op.dense(M, unitary=True) @ ones(N)
def positive(M: Tensor[N, N, f32]): return op.dense(M, psd=True) @ ones(N)
def onto(M: Tensor[N, N, f32]): return op.projector(M) @ ones(N)
def order(p: Tensor[N, i64], x: Tensor[N, f32]): return op.permutation(p) @ x
def sparse(r: Tensor[N, i64], x: Tensor[N, f32]): return op.coo(r, r, x, N) @ x
def divided(d: Tensor[N, f32]): return solve(op.diag(d), d)
def ring(d: Tensor[N, f32]): return solve(op.circulant(d), d)
"""
    m, bad, good = tessera.compile(text), np.array([[1, 2], [-3, 4]], "f4"), np.eye(2, dtype="f4")
    for name in ("itself", "turned", "positive", "onto"):
        assert np.allclose(m[name](good), 1)
        with pytest.raises(tessera.TesseraError, match=r"not (self-adjoint|unitary|positive|orthonormal)|are not"):
            m[name](bad)
    ones = np.ones(3, "f4")
    for name, wrong in (("order", [0, 0, 2]), ("sparse", [0, 1, 3])):
        m[name](np.arange(3), ones)
        with pytest.raises(tessera.TesseraError, match=r"once|outside"):
            m[name](np.array(wrong), ones)
    with pytest.raises(tessera.TesseraError, match="singular"):
        m.divided(np.array([1, 0, 2], "f4"))
    with pytest.raises(tessera.TesseraError, match="singular"):
        m.ring(ones)
