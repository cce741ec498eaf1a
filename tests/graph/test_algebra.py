"""Operators as values: what a normal form does is what the matrices say, and the laws hold."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.types.ty import BoolType, TupleType
from tests.support.operator_cases import HEADER, NAMES, V, banded, circulant, joined, placed, toeplitz
from tests.support.source_support import check_text, library

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


@pytest.mark.one_in(48)
@pytest.mark.parametrize("seed", range(4))
def test_a_random_operator_is_its_matrix(seed: int) -> None:
    rng = random.Random(seed)
    trees = [grown(rng, depth) for depth in (1, 2, 3)]
    module = tessera.compile("\n".join(HEADER.format(number=i, tree=text) for i, (text, _) in enumerate(trees)))
    for i, (text, matrix) in enumerate(trees):
        found = getattr(module, f"f{i}")(*(V[name] for name in NAMES))
        for y, expected in zip(found, (matrix @ V["x"], matrix @ V["X"], matrix.conj().T @ V["x"]), strict=True):
            assert np.allclose(y, expected, rtol=1e-9, atol=1e-9), text


@pytest.mark.one_in(48)
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
         p: Tensor[P, P, f32], c: Tensor[c64]) where N >= K + 1:
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
    "D.self_adjoint and D.normal and D.triangular",
    "op.triangular(M).triangular and op.triangular(M).H.triangular and (op.triangular(M) ** -1).triangular",
    "op.eye(N, dtype=f32) == I and A ** -1 ∘ A == op.eye(N, dtype=A.dtype) and op.fft(N, dtype=c64) == F",
    "op.toeplitz(d).self_adjoint and op.toeplitz(d, d) == op.toeplitz(d)",
    "op.circulant(d) ∘ op.circulant(d).H == op.circulant(d).H ∘ op.circulant(d)",
    "(A ∘ b) ** -1 == b ** -1 ∘ A ** -1",
    "tensor(A, T) ** -1 == tensor(A ** -1, T ** -1)",
    "(op.fft(4) / 2.0).unitary",
    "expm(S).psd and abs(S).psd and (A.H ∘ A).psd",
    "skew(A).normal",
    "(O ∘ O).unitary and tensor(O, O).unitary",
    "tensor(A, T) ∘ tensor(b, T) == tensor(A ∘ b, T ∘ T)",
    "tensor(A, T).H == tensor(A.H, T.H)",
    "op.direct_sum(A, T) ∘ op.direct_sum(b, T) == op.direct_sum(A ∘ b, T ∘ T)",
    "op.kronecker(I, op.eye(P)) == op.eye(N * P)",
    "op.low_rank(U, U).H == op.low_rank(U, U)",
    "expm(op.zero(N)) == I",
    "expm(skew(A)).unitary",
    "resolvent(A, 2.0) == (2.0 * I - A) ** -1",
    "is_unitary(O)",
    "A.shape == (N, N)",
]


REFUTED = [
    "A + 2.0 * I == A",
    "I == 2.0 * I",
    "A + I == A",
    "A + b - A == b + I",
    "op.dense(U).psd",
    "I != I",
    "op.fft(4) == op.ifft(4)",
    "op.fft(4).unitary",
    "(op.fft(4) / 2.0) ∘ (op.fft(4) / 2.0) == op.eye(4)",
    "op.kronecker(op.fft(2), op.eye(2)) == op.kronecker(op.eye(2), op.fft(2))",
    "op.direct_sum(op.eye(2), op.fft(3)).diagonal",
    "(op.fft(4) - op.eye(4)).self_adjoint",
    "(op.fft(2) - 2.0 * op.eye(2)).psd",
]
UNKNOWN = [
    "A.unitary",
    "A.triangular",
    "A == b",
    "A == A.H",
    "A ∘ b == b ∘ A",
    "z.T == z.H",
    "3.0 * A == A",
    "op.dense(M + B) == op.dense(B + M)",
    "A ∘ A.H == A.H ∘ A",
    "op.toeplitz(d, d + d).self_adjoint",
    "op.toeplitz(c * d).self_adjoint and op.toeplitz(c * d, c * d).self_adjoint",
    "op.diag(d).psd",
    "(O + O).unitary",
]


@pytest.mark.one_in(4)
def test_equality_is_proven_refuted_or_unknown() -> None:
    """While compiling, of sizes that are names: the laws hold for all."""
    for laws, known in ((HOLD, True), (REFUTED, False), (UNKNOWN, None)):
        text = BEFORE.replace("{law}", "".join(f"({law}), " for law in laws))
        (result,) = [f.result for f in check_text(text, "m", library()).functions.values() if f.symbol == "m.laws"]
        assert isinstance(result, TupleType)
        found = [item.value if isinstance(item, BoolType) else None for item in result.items]
        assert not [law for law, value in zip(laws, found, strict=True) if value is not known], known


def test_a_law_that_does_not_hold_is_told() -> None:
    text = BEFORE.replace("    return {law}\n", '    assert A ∘ b == b ∘ A, "matrices commute"\n    return 0\n')
    assert not Session().check(SourceFile("laws.tess", text)).diagnostics, "unknown: it is compared when it runs"
    refuted = BEFORE.replace("    return {law}\n", "    assert A + 2.0 * I == A\n    return 0\n")
    assert [d.code for d in Session().check(SourceFile("laws.tess", refuted)).diagnostics] == ["E0216"]


@pytest.mark.one_in(2)
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
def several(m: Tensor[N, N, f32], v: Tensor[N, f32]):
    return moved(op.dense(m), v), moved(op.dense(m).H, v), moved(op.triangular(m), v), moved(2.0 * op.dense(m), v)
def piped(v: Tensor[3, f32]): return op.pipeline([v, A, relu, A.H])
def in_loop(m: Tensor[N, N, f32], v: Tensor[N, f32]):
    B = op.dense(m)
    for i in range(3):
        v = B @ v
    return v
def complex_result(v: Tensor[8, f32]): return op.ifft(8) @ (op.fft(8) @ v), (op.fft(8) + op.eye(8)) @ v
"""


@pytest.mark.one_in(4)
def test_operators_go_through_functions() -> None:
    module = tessera.compile(FUNCTIONS)
    a, v = np.arange(9, dtype="f4").reshape(3, 3), np.array([1, -2, 3], "f4")
    b = a + 2 * np.eye(3)
    assert np.allclose(module.constant(v), b @ b @ v, rtol=1e-6)
    m = np.arange(6, dtype="f4").reshape(2, 3)
    assert all(np.array_equal(y, m @ v) for y in module.wide(m, v))
    g = a + 0.5 * np.eye(3)
    assert np.allclose(module.general(a, v), g @ g @ v, rtol=1e-6)
    forms = (a, a.T, np.tril(a), 2 * a)  # each operator has its own instance of a function
    assert all(np.allclose(y, form @ v, rtol=1e-6) for y, form in zip(module.several(a, v), forms, strict=True))
    assert np.allclose(module.piped(v), a.T @ np.maximum(a @ v, 0), rtol=1e-6)
    assert np.allclose(module.in_loop(a, v), a @ a @ a @ v, rtol=1e-6)
    signal = np.arange(8, dtype="f4")
    back, both = module.complex_result(signal)
    assert back.dtype == both.dtype == np.complex64
    assert np.allclose(back, signal, atol=1e-5) and np.allclose(both, np.fft.fft(signal) + signal, atol=1e-4)


TYPED = """
both = Operator[Din, Dout, T = bf16, P = T @accum(f32)]
def narrow(A: both, v: Tensor[Din, bf16 @accum(f32)]) -> Tensor[Dout, bf16 @accum(f32)]: return A @ v
def rest(S: SpectralOperator[D, f32], v: Tensor[D, f32]): return S @ v - truncate(S, 1) @ v
def of_bf16(m: Tensor[M, N, bf16], v: Tensor[N, bf16 @accum(f32)]): return narrow(op.dense(m), v)
def largest_gone(m: Tensor[N, N, f32], v: Tensor[N, f32]): return rest(spectral(sym(op.dense(m))), v)
"""


OF_F64 = {
    "to_dense(A - A)": "f8", "to_dense(Z - Z)": "c16", "to_dense(0.0 * Z.H)": "c16", "to_dense(A ** 0)": "f8",
    "to_dense(A ∘ op.zero(N))": "f8", "to_dense((A - A) + op.eye(N))": "f8", "norm(op.fft(N, dtype=c128))": "f8",
    "to_dense(op.eye(N, dtype=A.dtype))": "f8", "to_dense(op.eye(N, dtype='float64'))": "f8",
    "expm(op.permutation(arange(N), dtype=f64)) @ x": "f8",
    "to_dense(op.fft(N, dtype=c128) + op.eye(N))": "c16", "det(op.ifft(N, dtype=c128))": "c16",
    "trace(op.kronecker(op.eye(2, dtype=f64), op.eye(3)))": "f8", "to_dense(op.eye(N, dtype=None))": "f4",
}  # fmt: skip


@pytest.mark.one_in(24)
def test_what_has_no_numbers_keeps_the_dtype_that_was_said_or_that_a_law_left_out() -> None:
    head = "(x: Tensor[N, f64], m: Tensor[N, N, f64], z: Tensor[N, N, c128]):\n    A, Z = op.dense(m), op.dense(z)\n"
    module = tessera.compile("".join(f"def f{i}{head}    return {text}\n" for i, text in enumerate(OF_F64)))
    given = V["x"].real, V["M"].real, V["M"] + 1j
    for i, (text, dtype) in enumerate(OF_F64.items()):
        assert np.asarray(module[f"f{i}"](*given)).dtype == dtype, text


@pytest.mark.one_in(48)
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
