"""Sums of products written with dims of one element, or of batches of matrices, are contractions: nothing of the size
of all products is made. In a mapped function each has the bits that it has alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessera
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import compile_to_forms

ARGS = (
    "a: Tensor[M, K, f64], b: Tensor[K, N, f64], x: Tensor[B, M, K, f64], y: Tensor[B, K, N, f64], v: Tensor[M, f64], "
    "w: Tensor[K, f64]"
)
SUMS: dict[str, str] = {
    "sum(a[:, :, None] * b[None, :, :], axis=1)": "a @ b",
    "mean(a[:, :, None] * b[None], axis=1, keep=True)": "(a @ b)[:, None] / a.shape[1]",
    "sum(a[:, None, :] * a[None, :, :], axis=2)": "a @ a.T",
    "sum(v[:, None, None] * w[None, :, None] * b[None], axis=(0, 1))": "v.sum() * (w @ b)",
    "sum(a[:, :, None] * (b * 2.0)[None] * v[:, None, None])": "2 * np.sum(v[:, None] * (a @ b))",
    "sum(x[:, :, :, None] * y[:, None, :, :], axis=2)": "x @ y",
    "sum(expand(a[:, :, None], (M, K, N)) * expand(b, (M, K, N)), axis=1)": "a @ b",
    "sum(x @ y, axis=0)": "(x @ y).sum(axis=0)",
    "sum(x @ y, axis=2)": "(x @ y).sum(axis=2)",
    "mean(x @ b, axis=0)": "(x @ b).mean(axis=0)",
    "mean(x @ b)": "(x @ b).mean()",
    "sum(a @ y, axis=1, keep=True)": "(a @ y).sum(axis=1, keepdims=True)",
    'sum(einsum("bij,jk->ikb", x, b), axis=2)': "(x @ b).sum(axis=0)",
}


def values() -> dict[str, Any]:
    rng, shapes = np.random.default_rng(2), {"a": (5, 4), "b": (4, 3), "x": (2, 5, 4), "y": (2, 4, 3), "v": 5, "w": 4}
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


def passed(text: str, args: str = ARGS) -> int:
    """Values of three dims or more that something other than a view of an argument makes."""
    module = compile_to_forms(f"def f({args}): return {text}\n")
    made = [op for op in module.walk() if op.name in ("form.map", "form.contract")]
    return sum(len(op.result.type.dims) > 2 for op in made)  # type: ignore[attr-defined]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("text", SUMS)
def test_a_sum_of_products_is_a_contraction(text: str) -> None:
    assert passed(text) == (text == "sum(x[:, :, :, None] * y[:, None, :, :], axis=2)")  # whose result has three dims
    found = tessera.compile(f"def f({ARGS}): return {text}\n").f(*values().values())
    np.testing.assert_allclose(found, eval(SUMS[text], {"np": np, **values()}), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "sum(x * x, axis=2)",  # one reading of what is there
        "sum(x * v[:, None], axis=1)",
        "(lambda p: (sum(p, axis=1), p))(a[:, :, None] * b[None])",  # needed, too
        "max(a[:, :, None] * b[None], axis=1)",
        "sum(a[:, :, None] + b[None], axis=1)",
    ],
)
def test_other_sums_stay(text: str) -> None:
    forms = [op.name for op in compile_to_forms(f"def f({ARGS}): return {text}\n").walk()]
    assert "form.contract" not in forms and "form.reduce" in forms


def test_sums_of_one_of_several_results_stay() -> None:
    """What a decomposition gives is no product."""
    text = "def f(x: Tensor[B, 3, 3, f64]): return sum(qr(x)[0], axis=0)\n"
    x = values()["x"][:, :3, :3]
    found = tessera.compile(text).f(x)
    np.testing.assert_allclose(abs(found), abs(np.linalg.qr(x)[0].sum(axis=0)), rtol=1e-10)


def test_narrow_numbers_stay() -> None:
    """Of these a sum is rounded once."""
    assert passed("sum(a[:, :, None] * b[None], axis=1)", "a: Tensor[M, K, bf16], b: Tensor[K, N, bf16]") == 1


@pytest.mark.one_in(2)
def test_a_mapped_sum_has_the_bits_that_it_has_alone() -> None:
    text = """
def one(r: Tensor[K, f32], c: Tensor[K, N, f32]): return sum(r[:, None] * c, axis=0)
def two(r: Tensor[M, K, f32], c: Tensor[K, N, f32]): return sum(r[:, :, None] * c[None], axis=1)
def ones(x: Tensor[B, K, f32], c: Tensor[K, N, f32]): return vmap(lambda r: one(r, c))(x)
def twos(x: Tensor[B, M, K, f32], c: Tensor[K, N, f32]): return vmap(lambda r: two(r, c))(x)
"""
    module, rng = tessera.compile(text), np.random.default_rng(4)
    x, c = rng.standard_normal((3, 4, 70)).astype("f4"), rng.standard_normal((70, 9)).astype("f4")
    for i in range(3):
        same_bits(np.asarray(module.twos(x, c))[i], np.asarray(module.two(x[i], c)))
        same_bits(np.asarray(module.ones(x[:, 0], c))[i], np.asarray(module.one(x[i, 0], c)))
