"""A matrix that nobody asked for is bounded, wherever a function needs one, and what need not make one does not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera.toolchain import MAX_MATERIALIZE
from tesserac.base.source import SourceFile
from tesserac.cli import compiler, main
from tests.check.test_incremental import library_session
from tests.support.operator_cases import HEADER, NAMES, V

NEEDED = [
    "norm(A)", "cond(A)", "spectral_radius(A)", "expm(A)", "expm(A) @ d", "spectral(A).S", "sqrt(sym(A)) @ d", "det(A)",
    "logdet(A)", "trace(A)", "diagonal(A)", "inverse(A) @ d", "solve(A, d)", "resolvent(A, 2.0) @ d", "A.unitary",
    "A == op.eye(16)", "pseudoinverse(A) @ d", "trace(A ∘ A)", "diagonal(A ∘ A)", "trace(expm(A))",
]  # fmt: skip
NOT_NEEDED = [
    "A @ d", "power(A, 3) @ d", "trace(A ∘ op.diag(d))", "diagonal(op.diag(d) ∘ A)", "trace(op.low_rank(u, u) ∘ A)",
    "trace(A ∘ op.low_rank(u, u) ∘ op.dense(m))", "to_dense(A)",
]  # fmt: skip
PROGRAM = """
def f{}(a: Tensor[4, 4, f32], m: Tensor[16, 16, f32], d: Tensor[16, f32], u: Tensor[16, 2, f32]):
    A = op.kronecker(op.dense(a), op.dense(a)){}
    return {}
"""
OPEN = """
def f(d: Tensor[N, f32]) -> Tensor[f32]:
    return trace(op.implicit(lambda v: d * v, lambda v: d * v, N))
"""


def program(more: str, asked: Sequence[str]) -> SourceFile:
    return SourceFile("program.tess", "".join(PROGRAM.format(i, more, text) for i, text in enumerate(asked)))


@pytest.mark.one_in(6)
def test_every_function_that_needs_a_matrix_has_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MAX_MATERIALIZE, "255")
    mixed = " + op.block([[op.eye(8), 0], [0, op.diag(d[:8])]])"
    found = library_session().check(program(mixed, NEEDED)).diagnostics
    assert [d.code for d in found] == ["E0805"] * len(NEEDED), [d.title for d in found]
    assert not library_session().check(program("", NOT_NEEDED)).diagnostics


@pytest.mark.one_in(8)
def test_a_size_of_a_call_is_compared_with_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    d = np.ones(6, "f4")
    assert tessera.compile(OPEN).f(d) == 6
    monkeypatch.setenv(MAX_MATERIALIZE, "25")
    module = tessera.compile(OPEN)
    assert module.f(d[:5]) == 5
    with pytest.raises(tessera.TesseraError, match="more entries than may be made"):
        module.f(d)


@pytest.mark.one_in(4)
def test_the_option_counts_for_what_was_checked_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TESSERA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv(MAX_MATERIALIZE, "")
    path = tmp_path / "program.tess"
    path.write_text(PROGRAM.format(0, " + op.fft(16)", "norm(A)"), encoding="utf-8")
    for most, status in (("256", 0), ("255", 1), ("256", 0)):
        assert main(compiler, "tesserac", ["check", "--max-materialize", most, str(path)]) == status, most
    assert "`norm` would make 16 x 16 entries, more than 255" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["many", "0", "-1", "1e6", "²"])
def test_what_is_no_bound_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(MAX_MATERIALIZE, text)
    message = f"error[E0914]: {MAX_MATERIALIZE} must be a number of entries, at least 1, not `{text}`"
    with pytest.raises(tessera.TesseraError) as caught:
        _ = tessera.compile(OPEN).f
    assert str(caught.value).startswith(message)
    path = tmp_path / "program.tess"
    path.write_text(OPEN, encoding="utf-8")
    assert main(compiler, "tesserac", ["check", str(path)]) == 1
    assert capsys.readouterr().err.startswith(message)


PRODUCTS = {
    "op.kronecker(op.dense(m), op.diag(n)) ∘ op.diag(e)": np.kron(V["m"], np.diag(V["n"])) @ np.diag(V["e"]),
    "op.diag(e) ∘ op.dense(C)": np.diag(V["e"]) @ V["C"],
    "op.low_rank(L, R) ∘ op.dense(C)": V["L"] @ V["R"].conj().T @ V["C"],
    "op.dense(C) ∘ op.fft(4) ∘ op.low_rank(L, R)": V["C"] @ np.fft.fft(np.eye(4)) @ V["L"] @ V["R"].conj().T,
    "op.dense(M) ∘ op.low_rank(L, R) ∘ op.dense(C)": V["M"] @ V["L"] @ V["R"].conj().T @ V["C"],
    "op.dense(M) ∘ op.projector(Q)": V["M"] @ V["Q"] @ V["Q"].T,
    "op.projector(Q) ∘ op.permutation(p) ∘ op.diag(d)": V["Q"] @ V["Q"].T @ np.eye(4)[V["p"]] @ np.diag(V["d"]),
    "op.fft(4) ∘ op.dense(M)": np.fft.fft(np.eye(4)) @ V["M"],
    "op.dense(M) ∘ op.dense(C).H ∘ op.dense(M)": V["M"] @ V["C"].conj().T @ V["M"],
}


@pytest.mark.one_in(24)
def test_traces_and_diagonals_of_products_are_those_of_their_matrices() -> None:
    header = HEADER.rpartition("return")[0] + "return trace(A), diagonal(A)\n"
    module = tessera.compile("\n".join(header.format(number=i, tree=text) for i, text in enumerate(PRODUCTS)))
    for i, (text, matrix) in enumerate(PRODUCTS.items()):
        trace, diagonal = module[f"f{i}"](*(V[name] for name in NAMES))
        assert np.allclose(trace, np.trace(matrix)) and np.allclose(diagonal, np.diag(matrix)), text
