"""Wrong uses of operators are told, and false promises end the call."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.diag.render import render
from tesserac.driver.session import Session
from tests.conftest import Golden
from tests.support.message_rules import source_files
from tests.support.paths import CASES as ALL_CASES

CASES = ALL_CASES / "operators"
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
    ("E0804", "log(op.fft(N))"),
    ("E0804", "sqrt(op.diag(cast(x, c64)))"),
    ("E0804", "op.eye(N).U"),
    ("E0802", "op.block([op.eye(N)])"),
    ("E0210", "op.dense(m.T @ m) if sum(x) > 0.0 else op.diag(x)"),
    ("E0210", "op.eye(N, dtype=i32)"),
    ("E0802", "op.eye(N, dtype=f64) @ x"),
    ("E0801", "op.block([[op.eye(N), op.dense(m)]])"),
    ("E0801", "op.eye(N) == op.eye(3)"),
    ("E0801", "trace(op.dense(m))"),
    ("E0801", "op.banded(m, 1, 1)"),
    ("E0210", "op.permutation(x)"),
    ("E0210", "op.jacobian(sum, x)"),
    ("E0801", "op.coo(arange(3), arange(3), x, N)"),
    ("E0802", "op.dense(m) @ cast(x, f64)"),
    ("E0802", "op.dense(m) ∘ op.diag(cast(x, f64))"),
    ("E0802", "resolvent(op.diag(cast(x, f64)), complex(0.5, 2.0))"),
    ("E0802", "op.eye(N, dtype=f64) + op.diag(x)"),
    ("E0802", "op.eye(N) % op.eye(N)"),
    ("E0804", "fft ∘ fft == ifft ∘ ifft"),
    ("E0804", "(fft ∘ fft).psd"),
    ("E0803", "adjoint(fft)"),
    ("E0803", "tensor(fft, op.eye(N))"),
    ("E0803", "norm(op.fft())"),
    ("E0804", "reconstruct(op.fft(N))"),
    ("E0804", "truncate(op.eye(N), 2)"),
    ("E0802", "power(op.eye(N), 65)"),
    ("E0804", "solve(op.low_rank(zeros(4, 2), zeros(4, 2)), zeros(4))"),
    ("E0804", "inverse(op.kronecker(op.eye(2), op.dense(zeros(3, 2))) ∘ op.direct_sum(op.eye(2), zeros(2, 4)))"),
    ("E0804", "op.zero(3) ** -1"),
    ("E0802", "op.eye(N) < op.eye(N)"),
    ("E0802", "~op.eye(N)"),
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
    ("E0217", "vstack([op.dense(m), op.dense(m)])"),
    ("E0210", "concat([op.dense(m), op.dense(m)])"),
    ("E0210", "sum(op.dense(m))"),
    ("E0210", "op.eye(N) * x"),
    ("E0208", "op.eye(N).dot(x)"),
    ("E0208", "op.eye(N).to_tensor()"),
    ("E0311", "op.diagonal(x)"),
    ("E0802", "op.eye(N) + 1.0"),
    ("E0210", "op.dense(m)[0]"),
    ("E0801", "op.low_rank(m, m.T)"),
    ("E0208", "cg(op.eye(N), x).x"),
    ("E0205", "op.implicit(lambda v: 2.0 * v, N)"),
    ("E0217", "cg(op.dense(m.T @ m), y)"),
    ("E0205", "op.dense(m, positive=True)"),
    ("E0804", "op.dense(m, triangular=True)"),
    ("E0804", "op.dense(m.T @ m, diagonal=True, psd=True)"),
    ("E0801", "op.dense(m, diagonal=True)"),
    ("E0205", "logdet(op.eye(N), x)"),
    ("E0210", "as_matrix(op.dense(m))"),
    ("E0210", "eigh(op.dense(m.T @ m))[0]"),
    ("E0210", "svd(op.dense(m))[1]"),
    ("E0210", "pinv(op.dense(m))"),
    ("E0210", "lstsq(op.dense(m), y)"),
    ("E0210", "matrix_power(op.dense(m.T @ m), 2)"),
    ("E0210", "matmul(op.dense(m), x)"),
    ("E0210", "op.dense(m).transpose()"),
    ("E0210", "op.eye(N) * op.eye(N)"),
    ("E0208", "op.eye(N).dagger"),
    ("E0208", "op.dense(m).rank()"),
    ("E0208", "op.matrix(m)"),
    ("E0201", "eigs(op.eye(N))"),
]


@pytest.fixture(scope="module")
def session() -> Session:
    return Session()


PROGRAM = """
def takes(A: Operator[D, D]) -> Operator[D, D]: return A
def of_f64(A: Operator[D, D, f64]): return A
def with_policy(A: Operator[D, D, T = f32, P = T @accum(f32)]): return A
def by_values(S: SpectralOperator[D, f32]) -> SpectralOperator[D]: return S
def f(m: Tensor[M, N, f32], x: Tensor[N, f32], y: Tensor[M, f32]):
    a = {}
    return x
def as_matrix(a: Tensor[D, E, f32]): return a
"""
CARRIED = """
def f(d: Tensor[N, f32], x: Tensor[N, f32]):
    A = op.diag(d)
    for i in range(3):
        A = op.fft(N) ∘ A
    return A @ x
"""
SIZES = """
def f(x: Tensor[N, f32]):
    A = op.eye(3)
    if sum(x) > 0.0:
        A = op.eye(4)
    return A.shape
"""
RETURNED = """
def f(d: Tensor[N, f32], x: Tensor[N, f32]):
    if sum(x) > 0.0:
        return op.diag(d)
    return 2.0 * op.circulant(d)
"""
UNPACKED = """
def f(a: Tensor[N, N, f32]):
    U, S, V = spectral(op.dense(a))
    return U
"""
NAMED = """
def f(A: LinearOperator[N, N], x: Tensor[N, f32]): return A @ x
"""
SIZED = """
def f(a: Tensor[N, N, f32], x: Tensor[N, f32]) -> Tensor[M, f32] where M == 5: return op.dense(a) @ x
"""
TWICE = """
def g(a, x): return gmres(op.dense(a), x)[0]
def f(a: Tensor[N, N, f32], x: Tensor[M, f32]): return g(a, x) + g(a, x)
"""


@pytest.mark.one_in(2)
def test_every_mistake_has_its_code_and_says_what_it_is(session: Session, golden: Golden) -> None:
    told = []
    joined = [("E0212", text) for text in (CARRIED, SIZES, RETURNED)]
    joined += [("E0210", UNPACKED), ("E0204", NAMED), ("E0312", SIZED), ("E0217", TWICE)]
    for code, text in [*((code, PROGRAM.format(text)) for code, text in WRONG), *joined]:
        source = SourceFile("wrong.tess", text)
        first, *others = session.check(source).diagnostics
        assert first.code == code and (code != "E0217" or not others), text
        told.append(f"{render(first, source_files(source))}\n\n")
    golden.check(CASES / "checked.txt", "".join(told))


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


@pytest.mark.one_in(6)
def test_a_block_outside_is_told() -> None:
    text = "def f(b: Tensor[K, P, P, f32], i: Tensor[K, i32], n: int): return op.block_sparse(b, i, i, n) @ ones(n)\n"
    module = tessera.compile(text)
    blocks = np.ones((2, 2, 2), "f4")
    assert module.f(blocks, np.array([0, 2], "i4"), 6).tolist() == [2, 2, 0, 0, 2, 2]
    with pytest.raises(tessera.TesseraError, match="3"):
        module.f(blocks, np.array([0, 3], "i4"), 6)
    with pytest.raises(tessera.TesseraError, match="% P == 0"):
        module.f(blocks, np.array([0, 2], "i4"), 5)


@pytest.mark.one_in(24)
def test_what_only_a_run_shows_names_what_the_program_called(golden: Golden) -> None:
    text = (CASES / "mistakes.tess").read_text(encoding="utf-8")
    module = tessera.compile(text)
    matrix, x, places = np.array([[1, 2, 0], [0, 0, 0], [3, 0, 1]], "f4"), np.ones(3, "f4"), np.array([0, 0, 3])
    told = []
    for name in re.findall(r"^def (\w+)", text, re.MULTILINE):
        with pytest.raises(tessera.TesseraError) as caught:
            module[name](places if name in ("not_a_permutation", "outside") else matrix, x)
        told.append(f"{caught.value}\n")
    golden.check(CASES / "mistakes.txt", "".join(told))


@pytest.mark.one_in(16)
def test_a_false_promise_is_an_error() -> None:
    text = """
def itself(M: Tensor[N, N, f32]): return op.dense(M, self_adjoint=True) @ ones(N)
def turned(M: Tensor[N, N, f32]): return op.dense(M, unitary=True) @ ones(N)
def positive(M: Tensor[N, N, f32]): return op.dense(M, psd=True) @ ones(N)
def beside(M: Tensor[N, N, f32]): return op.dense(M, normal=True) @ ones(N)
def entries(M: Tensor[N, N, f32]): return op.dense(M, diagonal=True) @ ones(N)
def below(M: Tensor[N, N, f32]): return op.dense(M, lower=True) @ ones(N)
def above(M: Tensor[N, N, f32]): return op.dense(M, upper=True) @ ones(N)
def onto(M: Tensor[N, N, f32]): return op.projector(M) @ ones(N)
def order(p: Tensor[N, i64], x: Tensor[N, f32]): return op.permutation(p) @ x
def sparse(r: Tensor[N, i64], x: Tensor[N, f32]): return op.coo(r, r, x, N) @ x
def rows(s: Tensor[L, i64], x: Tensor[N, f32]): return op.csr(s, arange(N), x, N) @ x
def divided(d: Tensor[N, f32]): return solve(op.diag(d), d)
def ring(d: Tensor[N, f32]): return solve(op.circulant(d), d)
"""
    m, bad, good = tessera.compile(text), np.array([[1, 2], [-3, 4]], "f4"), np.eye(2, dtype="f4")
    for name in ("itself", "turned", "positive", "beside", "entries", "below", "above", "onto"):
        assert np.allclose(m[name](good), 1)
        with pytest.raises(tessera.TesseraError, match=r"`dense`.* as `\w+=True` says|are not orthonormal"):
            m[name](bad)
    ones = np.ones(3, "f4")
    given = {"order": [[0, 0, 2]], "sparse": [[0, 1, 3]], "rows": [[0, 2, 1, 3], [0, 1, 2, 4], [1, 1, 3, 3], [0, 1, 2]]}
    for name, every in given.items():
        m[name](np.arange(4 if name == "rows" else 3), ones)
        for wrong in every:
            with pytest.raises(tessera.TesseraError, match=r"once|outside|rise from 0"):
                m[name](np.array(wrong), ones)
    with pytest.raises(tessera.TesseraError, match="singular"):
        m.divided(np.array([1, 0, 2], "f4"))
    with pytest.raises(tessera.TesseraError, match="singular"):
        m.ring(ones)
