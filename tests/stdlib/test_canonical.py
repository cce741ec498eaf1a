"""The standard operators: every row of their table runs with the bits of the interpreter, an alias is one definition, a
product with an epilogue is rounded once, and a library call that is wrong is told so."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from docs.canonical import CANONICAL, PARAMETERS
from docs.reference import library_sections
from tests.support.checking import check_text
from tests.support.native_runs import compiled_equals_oracle

SHAPES = {
    "x": (3, 4), "w": (4, 5), "b": (5,), "r": (3, 5), "s": (4, 4), "v": (16,), "q3": (2, 3, 4), "k3": (2, 3, 4),
    "w12": (4, 12), "s3": (3, 5, 3), "i": (1, 2, 5, 5), "c": (3, 2, 3, 3),
}  # fmt: skip


def inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape).astype(np.float32) for shape in SHAPES.values()]


def test_there_are_51_and_each_uses_its_name() -> None:
    names = [row.name for row in CANONICAL]
    assert len(names) == len(set(names)) == 51
    assert all(f"{row.name}(" in row.use for row in CANONICAL)


@pytest.mark.one_in(12)
def test_every_row_of_the_table_runs() -> None:
    uses = ", ".join(row.use for row in CANONICAL)
    run = compiled_equals_oracle(f"def rows({PARAMETERS}):\n    return {uses}\n")
    assert len(run("rows", *inputs())) == 51


@pytest.mark.one_in(8)
def test_aliases_are_what_they_are_names_of() -> None:
    entries = [entry for section in library_sections() for entry in section.entries]
    aliases = [entry for entry in entries if entry.doc.startswith("Another name")]
    shown = {entry.name: entry.signatures[0].partition(" = ")[2] for entry in aliases}
    assert shown["lrn"] == "local_response_norm" and shown["rope"] == "rotary_embedding"
    assert {row.name: row.note.split("`")[1] for row in CANONICAL if row.name in shown} == {
        row.name: shown[row.name] for row in CANONICAL if row.name in shown
    }


FUSED = """
def fused(a: Tensor[M, K, bf16 @accum(f32)], b: Tensor[K, N, bf16 @accum(f32)], c: Tensor[N, bf16 @accum(f32)]):
    return op.matmul(a, b, epilogue="bias_relu_residual", bias=c, residual=a @ b)

def by_hand(a: Tensor[M, K, bf16 @accum(f32)], b: Tensor[K, N, bf16 @accum(f32)], c: Tensor[N, bf16 @accum(f32)]):
    return cast(relu(wide(a) @ wide(b) + wide(c)) + wide(a @ b), bf16 @accum(f32))

def scaled(a: Tensor[M, K, f32], b: Tensor[N, K, f32], c: Tensor[N, f32]):
    return gemm(a, b, c, alpha=0.5, beta=2.0, transpose_b=True), matmul(a, b.T, epilogue=lambda t: tanh(t))

def slope(a: Tensor[M, K, f32], b: Tensor[K, N, f32], c: Tensor[N, f32]):
    return grad(lambda t: sum(matmul(t, b, epilogue="bias_silu", bias=c)))(a)

def blocks(x: Tensor[5, 7, f32]):
    return pack(x, (2, 4)), unpack(pack(x, (2, 4)), (5, 7)), transpose(x, 0, 1), x.transpose((1, 0))
"""


@pytest.mark.one_in(16)
def test_a_product_with_an_epilogue_is_rounded_once() -> None:
    run, rng = compiled_equals_oracle(FUSED), np.random.default_rng(1)
    a, b, c = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((5, 9), (9, 6), (6,)))
    assert run("fused", a, b, c).tobytes() == run("by_hand", a, b, c).tobytes()
    x, y, z = (t.astype(np.float32) for t in (a, b, c))
    got, squashed = run("scaled", x, y.T.copy(), z)
    np.testing.assert_allclose(got, 0.5 * (x @ y) + 2 * z, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(squashed, np.tanh(x @ y), rtol=1e-5, atol=1e-6)
    total = x @ y + z
    sigmoid = 1 / (1 + np.exp(-total))
    slope = (sigmoid * (1 + total * (1 - sigmoid))) @ y.T
    np.testing.assert_allclose(run("slope", x, y, z), slope, rtol=2e-5, atol=1e-5)


@pytest.mark.one_in(3)
def test_matrices_go_into_blocks_and_back() -> None:
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    packed, back, turned, ordered = compiled_equals_oracle(FUSED)("blocks", x)
    assert packed.shape == (3, 2, 2, 4) and packed[1, 1].tolist() == [[18, 19, 20, 0], [25, 26, 27, 0]]
    assert back.tolist() == x.tolist() and turned.tolist() == ordered.tolist() == x.T.tolist()


@pytest.mark.parametrize(
    ("use", "code"),
    [
        ("gemm(x, x)", "E0217"),
        ("gemm(x, x, transpose_a=False)", "E0217"),
        ("matmul(x, x, epilogue=relu)", "E0217"),
        ('matmul(x, x.T, epilogue="bias_relu")', "E0217"),
        ('matmul(x, x.T, epilogue="relu_bias")', "E0217"),
        ("matmul(x, x.T, epilog=relu)", "E0205"),
        ("x.transpose(0, 2)", "E0314"),
        ("tile_view(x, 2, 3)", "E0309"),
        ("lstm(x, x, x, x, x)", "E0205"),
        ("log_prob(Bernoulli(x), x)", "E0205"),
        ("lstm(x, [x, x])", "E0217"),
        ("gru(x, [(x, x)], bidirectional=True)", "E0217"),
    ],
)
def test_wrong_calls_are_told_once(use: str, code: str) -> None:
    """Also where the body of a library function would be right if a flag were a number."""
    found = check_text(f"def f(x: Tensor[3, 4, f32]): return {use}\n").diagnostics
    assert [d.code for d in found] == [code] and found[0].primary.span.file == "example.tess"
