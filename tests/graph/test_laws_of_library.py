"""Laws of the library: attention that a program writes out is computed as `attention`, forward, back and mapped."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tests.graph.test_chosen_kernels import interpreted, told

HEADS = "q: Tensor[B, 2, S, 8, f32], k: Tensor[B, 2, T, 8, f32], v: Tensor[B, 2, T, 4, f32]"
ROWS = "q: Tensor[S, 8, f32], k: Tensor[T, 8, f32], v: Tensor[T, 4, f32]"
WRITTEN = {
    "after": (HEADS, "softmax(q @ k.T * 0.5) @ v"),
    "before": (HEADS, "softmax((q * 0.5) @ transpose(k)) @ v"),
    "number first": (ROWS, "softmax(rsqrt(8.0) * (q @ k.T)) @ v"),
    "over a root": (ROWS, "softmax(q @ k.T / sqrt(8.0)) @ v"),
    "causal": (HEADS, "softmax(where(arange(T)[None, :] <= arange(S)[:, None], q @ k.T * 0.5, -INF)) @ v"),
    "by rows": (ROWS, "softmax(where(arange(S)[:, None] >= arange(T)[None, :], q @ k.T * 0.5, -INF)) @ v"),
    "masked": (HEADS, "softmax(where(sin(arange(S, dtype=f32)[:, None] * arange(T, dtype=f32)[None, :]) < 0.8,"
                      " q @ k.T * 0.5, -INF)) @ v"),
    "biased": (HEADS, "softmax(q @ k.T * 0.5 + sin(arange(S, dtype=f32))[:, None] * arange(T, dtype=f32)[None]) @ v"),
    "mapped": (HEADS, "vmap(vmap(lambda q, k, v: softmax(q @ k.T * 0.5) @ v))(q, k, v)"),
    "back": (HEADS, "grad(lambda k: sum((softmax(q @ k.T * 0.5) @ v) ** 2))(k)"),
}
"""Parameters, and how a program writes attention."""
KEPT = {
    "the weights are read": (HEADS, "(lambda p: p @ v + sum(p))(softmax(q @ k.T * 0.5))"),
    "another axis": (HEADS, "softmax(q @ k.T * 0.5, axis=-2) @ v"),
    "weights are changed": (ROWS, "(softmax(q @ k.T * 0.5) * 2.0) @ v"),
}
TAKEN = "takes kernel `attention("


def text(params: str, body: str) -> str:
    return f"def f({params}):\n    return {body}\n"


@cache
def numbers(params: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    lead = (3, 2) if "B" in params else ()
    return [rng.standard_normal((*lead, *shape)).astype(np.float32) for shape in ((17, 8), (23, 8), (23, 4))]


def opaque(body: str) -> str:
    """The same for a law not to find."""
    return body.replace("softmax(", "softmax_safe(")


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", WRITTEN)
def test_attention_that_is_written_out_is_attention(name: str, tmp_path: Path) -> None:
    params, body = WRITTEN[name]
    lines = told(text(params, body), tmp_path)
    assert any(TAKEN in line for line in lines), lines
    got = tessera.compile(text(params, body)).f(*numbers(params))
    wanted = tessera.compile(text(params, opaque(body))).f(*numbers(params))
    assert np.allclose(got, wanted, rtol=4e-6, atol=4e-6)
    assert np.array_equal(got, interpreted(text(params, body), "f", *numbers(params)))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", KEPT)
def test_what_is_something_else_stays(name: str, tmp_path: Path) -> None:
    params, body = KEPT[name]
    assert not any(TAKEN in line for line in told(text(params, body), tmp_path))


def test_a_law_costs_nothing_where_weights_meet_no_product() -> None:
    program = "def f(x: Tensor[B, 8, f32]):\n    return softmax(x @ x.T) * 2.0\n"
    session, source = Session(), SourceFile("m.tess", program)
    reached = session.check(source).result.reach(session.function(source, "f"))
    assert not any(function.law for function in reached.values())
