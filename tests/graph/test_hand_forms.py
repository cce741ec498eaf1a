"""What is written as operators, or naively, is the program that an expert writes: operation by operation, so that it
is as fast on every machine."""

from __future__ import annotations

import pytest

from tesserac.ir.core import Block, Op
from tesserac.ir.printer import print_module
from tests.support.source_support import compile_to_forms

GRID = "a: Tensor[6, 6, f32], b: Tensor[8, 8, f32], x: Tensor[48, f32]"
RING = "c: Tensor[{n}, f32], x: Tensor[{n}, f32]"
PLAIN = "a: Tensor[32, 32, f32], b: Tensor[32, 32, f32], c: Tensor[32, 32, f32], d: Tensor[32, f32], v: Tensor[32, f32]"
KRON = "op.kronecker(op.dense(a), op.dense(b))"
PAIRS: dict[str, tuple[str, str, str]] = {
    # what: parameters, as it is written, and by hand
    "kronecker": (GRID, f"{KRON} @ x", "reshape(a @ reshape(x, (6, 8)) @ b.T, (48,))"),
    "kronecker_system": (GRID, f"solve({KRON}, x)", "reshape(solve(b, solve(a, reshape(x, (6, 8))).T).T, (48,))"),
    "kronecker_logdet": (GRID, f"logdet({KRON})", "8.0 * slogdet(a)[1] + 6.0 * slogdet(b)[1]"),
    "circulant": (RING.format(n=64), "op.circulant(c) @ x", "irfft(rfft(c) * rfft(x), 64)"),
    "circulant_4096": (RING.format(n=4096), "op.circulant(c) @ x", "irfft(rfft(c) * rfft(x), 4096)"),
    "toeplitz": (
        RING.format(n=64),
        "op.toeplitz(c) @ x",
        "irfft(rfft(concat([c, zeros(1), flip(c[1:])])) * rfft(concat([x, zeros(64)])), 128)[:64]",
    ),
    "diagonal": (PLAIN, "op.diag(d) @ v", "d * v"),
    "dense": (PLAIN, "op.dense(a) @ v", "a @ v"),
    "adjoint": (PLAIN, "op.dense(a).H @ v", "a.T @ v"),
    "sum": (PLAIN, "(op.dense(a) + op.diag(d)) @ v", "a @ v + d * v"),
    "composition": (PLAIN, "(op.dense(a) ∘ op.diag(d)) @ v", "a @ (d * v)"),
    "chain": (PLAIN, "a @ b @ c @ v", "a @ (b @ (c @ v))"),
    "diagonal_of_product": (PLAIN, "diagonal(a @ b)", "sum(a * b.T, axis=1)"),
    "rows": (PLAIN, "diag(d) @ a", "d[:, None] * a"),
    "columns": (PLAIN, "a @ diag(d)", "a * d[None, :]"),
    "inverse": (PLAIN, "inv(a) @ v", "solve(a, v)"),
    "inverse_turned": (PLAIN, "inv(a).T @ v", "solve(a.T, v)"),
    "inverse_in_a_chain": (PLAIN, "inv(a) @ b @ v", "solve(a, b @ v)"),
    "system_of_a_product": (PLAIN, "solve(a @ b, v)", "solve(b, solve(a, v))"),
    "logdet_of_a_product": (PLAIN, "logdet(a @ b)", "logdet(a) + logdet(b)"),
    "sums_of_rows": (PLAIN, "sum(a @ b, axis=1)", "a @ sum(b, axis=1)"),
    "scaled_and_summed": (PLAIN, "sum(a @ diag(d), axis=1)", "a @ d"),
    "outer": (PLAIN, "a @ outer(v, d)", "outer(a @ v, d)"),
    "real_transforms": (RING.format(n=64), "irfft(rfft(x), 64) + c", "x + c"),
    "batch": (
        "x: Tensor[B, 8, 8, f32], v: Tensor[B, 8, f32]",
        'einsum("bij,bjk,bk->bi", x, x, v)',
        'einsum("bij,bj->bi", x, einsum("bjk,bk->bj", x, v))',
    ),
    "transforms": ("h: Tensor[8, c64]", "ifft(fft(h))", "h"),
    "gram_squares": (
        PLAIN,
        "(lambda u: sum((u @ u.T) ** 2))(a[:, :4])",
        "(lambda g: sum(g * g))(a[:, :4].T @ a[:, :4])",
    ),
    "masked_rows": (
        PLAIN,
        "where(v[:, None] > 0.0, a @ b, 0.0) @ d",
        "where((v[:, None] > 0.0).flatten(), a @ (b @ d), 0.0)",
    ),
    "kronecker_squares": (GRID, "sum(kron(a, b) * kron(a, b))", "sum(a * a) * sum(b * b)"),
    "transform_by_its_matrix": ("h: Tensor[8, c64]", "fft(eye(8)) @ h", "fft(h)"),
    "naive_kronecker": (GRID, "kron(a, b) @ x", "reshape(a @ reshape(x, (6, 8)) @ b.T, (48,))"),
}


@pytest.mark.one_in(16)
@pytest.mark.parametrize("what", PAIRS)
def test_the_program_is_the_one_by_hand(what: str) -> None:
    params, *both = PAIRS[what]
    ours, hand = (_forms(f"def f({params}):\n    return {body}\n") for body in both)
    assert ours == hand


def _forms(source: str) -> str:
    """Printed without the names of values, which are hints of where these were written, and with each operation where
    it is first needed: of two that need nothing of each other the order has no meaning."""
    module = compile_to_forms(source)
    for function in module.ops:
        _in_order_of_need(function.body)
    for op in module.walk():
        for value in op.results:
            value.name = ""
    return print_module(module)


def _in_order_of_need(block: Block) -> None:
    ordered: dict[Op, None] = {}

    def need(op: Op) -> None:
        for value in (value for inner in op.walk() for value in inner.operands):
            made = value.defining_op
            if made is not None and made.parent is block and made not in ordered:
                need(made)
        ordered[op] = None

    for op in [op for op in block.ops if not op.opdef.pure or not op.results]:  # the order of effects has one
        need(op)
    assert len(ordered) == len(block.ops), "an operation that nothing needs"
    block.ops[:] = list(ordered)


def test_a_complex_argument_that_is_returned_is_copied_as_it_stands() -> None:
    """Its parts stay in a row: none is read with a stride of two."""
    text = print_module(compile_to_forms("def f(h: Tensor[8, c64]): return h"))
    assert "form.view" not in text and text.count("form.assemble") == 1
