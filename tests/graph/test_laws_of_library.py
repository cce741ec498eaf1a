"""Laws of the library: attention that a program writes out is computed as `attention`, forward, back and mapped."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tests.graph.test_chosen_kernels import interpreted, told

HEADS = "q: Tensor[N, 2, P, 8, f32], k: Tensor[N, 2, R, 8, f32], v: Tensor[N, 2, R, 4, f32]"
ROWS = "q: Tensor[P, 8, f32], k: Tensor[R, 8, f32], v: Tensor[R, 4, f32]"
SPREAD = "q: Tensor[N, P, 2, 8, f32], k: Tensor[N, R, 2, 8, f32], v: Tensor[N, R, 2, 4, f32]"
SHARED = "q: Tensor[N, 2, P, 8, f32], k: Tensor[N, 1, R, 8, f32], v: Tensor[R, 4, f32]"
GROUPS = "q: Tensor[N, P, 2, 3, 8, f32], k: Tensor[N, R, 2, 8, f32], v: Tensor[N, R, 2, 4, f32]"
GROUPED = "q: Tensor[N, 2, 3, P, 8, f32], k: Tensor[N, 2, R, 8, f32], v: Tensor[N, 2, R, 4, f32]"
TURNED = "q: Tensor[P, 8, f32], k: Tensor[8, R, f32], v: Tensor[4, R, f32]"
BEFORE = "arange(R)[None, :] <= arange(P)[:, None]"
PLACES = "sin(arange(P, dtype=f32)[:, None] * arange(R, dtype=f32)[None, :])"
SCORES = "einsum('bshd,bthd->bsht', q, k)"
SCORES_SEEN = "(permute(k[..., 0], (0, 2, 1)) < 1.0)[:, None]"
WRITTEN = {
    "after": (HEADS, "softmax(q @ k.T * 0.5) @ v"),
    "before": (HEADS, "softmax((q * 0.5) @ transpose(k)) @ v"),
    "number first": (ROWS, "softmax(rsqrt(8.0) * (q @ k.T)) @ v"),
    "over a root": (ROWS, "softmax(q @ k.T / sqrt(8.0)) @ v"),
    "two factors": (ROWS, "softmax(2.0 * (q @ k.T / sqrt(8.0)) * 0.7) @ v"),
    "causal": (HEADS, f"softmax(where({BEFORE}, q @ k.T / sqrt(8.0), -INF)) @ v"),
    "by rows": (ROWS, "softmax(where(arange(P)[:, None] >= arange(R)[None, :], q @ k.T * 0.5, -INF)) @ v"),
    "hidden": (ROWS, "softmax(where(arange(R)[None, :] > arange(P)[:, None], -INF, q @ k.T)) @ v"),
    "to the end": (ROWS, "softmax(where(arange(R)[None] <= arange(P)[:, None] + (R - P), q @ k.T, -INF)) @ v"),
    "to a known end": (
        "q: Tensor[17, 8, f32], k: Tensor[23, 8, f32], v: Tensor[23, 4, f32]",
        "softmax(where(arange(23)[None] <= arange(17)[:, None] + (23 - 17), q @ k.T, -INF)) @ v",
    ),
    "triangle": (ROWS, "softmax(where(tril(ones(P, R)) > 0.0, q @ k.T * 0.5, -INF)) @ v"),
    "masked": (HEADS, f"softmax(where({PLACES} < 0.8, q @ k.T * 0.5, -INF)) @ v"),
    "masked sequences": (HEADS, "softmax(where((k[:, :1, :, 0] < 1.0)[:, :, None], q @ k.T * 0.5, -INF)) @ v"),
    "masked heads": (HEADS, "softmax(where((k[..., 0] < 1.0)[:, :, None], q @ k.T * 0.5, -INF)) @ v"),
    "hidden heads": (HEADS, "softmax(where((k[..., 0] < 1.0)[:, :, None], -INF, q @ k.T * 0.5)) @ v"),
    "biased": (HEADS, f"softmax(q @ k.T * 0.5 + {PLACES}) @ v"),
    "biased first": (ROWS, f"softmax({PLACES} + q @ k.T) @ v"),
    "biased heads": (HEADS, "softmax(q @ k.T * 0.5 + k[..., 0][:, :, None]) @ v"),
    "mapped": (HEADS, "vmap(vmap(lambda q, k, v: softmax(q @ k.T * 0.5) @ v))(q, k, v)"),
    "back": (HEADS, "grad(lambda k: sum((softmax(q @ k.T * 0.5) @ v) ** 2))(k)"),
    "einsum": (HEADS, "einsum('bhqk,bhkd->bhqd', softmax(einsum('bhqd,bhkd->bhqk', q, k) * 0.5), v)"),
    "spread": (SPREAD, "einsum('bhqk,bkhd->bqhd', softmax(einsum('bqhd,bkhd->bhqk', q, k) * 0.5), v)"),
    "exchanged": (ROWS, "einsum('ke,qk->qe', v, softmax(einsum('kd,qd->qk', k, q) / 2.0))"),
    "turned": (TURNED, "softmax(q @ k) @ v.T"),
    "swapped": (HEADS, "softmax(q @ swapaxes(k, -1, -2), axis=3) @ v"),
    "permuted": (SPREAD, "softmax(permute(q, (0, 2, 1, 3)) @ permute(k, (0, 2, 3, 1))) @ permute(v, (0, 2, 1, 3))"),
    "shared": (SHARED, "softmax(q @ k.T * 0.5) @ v"),
    "groups": (GROUPS, "einsum('bgrst,btgd->bsgrd', softmax(einsum('bsgrd,btgd->bgrst', q, k) * 0.5), v)"),
    "grouped": (GROUPED, "einsum('bgrst,bgtd->bgrsd', softmax(einsum('bgrsd,bgtd->bgrst', q, k)), v)"),
    "by query": (SPREAD, f"einsum('bsht,bthd->bshd', softmax({SCORES} * 0.5), v)"),
    "causal by query": (SPREAD, f"einsum('bsht,bthd->bshd', softmax(where(({BEFORE})[:, None], {SCORES}, -INF)), v)"),
    "masked by query": (SPREAD, f"einsum('bsht,bthd->bshd', softmax(where({SCORES_SEEN}, {SCORES}, -INF)), v)"),
    "biased by query": (SPREAD, f"einsum('bsht,bthd->bshd', softmax({SCORES} + {PLACES}[:, None]), v)"),
    "masked and biased": (HEADS, f"softmax(where({PLACES} < 0.8, q @ k.T * 0.5 + {PLACES}, -INF)) @ v"),
    "causal and biased": (HEADS, f"softmax(where({BEFORE}, q @ k.T * 0.5 + {PLACES}, -INF)) @ v"),
    "causal, biased heads": (HEADS, f"softmax(where({BEFORE}, q @ k.T + k[..., 0][:, :, None], -INF)) @ v"),
    "masked heads and biased": (HEADS, f"softmax(where((k[..., 0] < 1.0)[:, :, None], q @ k.T + {PLACES}, -INF)) @ v"),
}
"""Parameters, and how a program writes attention."""
KEPT = {
    "the weights are read": (HEADS, "(lambda p: p @ v + sum(p))(softmax(q @ k.T * 0.5))"),
    "read by an einsum": (ROWS, "(lambda p: einsum('qk,ke->qe', p, v) + sum(p))(softmax(q @ k.T))"),
    "another axis": (HEADS, "softmax(q @ k.T * 0.5, axis=-2) @ v"),
    "another sum": (SPREAD, "einsum('bhqk,bkhd->bqd', softmax(einsum('bqhd,bkhd->bhqk', q, k)), v)"),
    "weights are changed": (ROWS, "(softmax(q @ k.T * 0.5) * 2.0) @ v"),
    "no scores": (ROWS, "softmax(exp(q @ k.T)) @ v"),
    "a finite mask": (ROWS, f"softmax(where({BEFORE}, q @ k.T, -1e9)) @ v"),
    "few rows of many heads": (
        GROUPS,
        "einsum('bsgrt,btgd->bsgrd', softmax(einsum('bsgrd,btgd->bsgrt', q, k)), v)",
    ),
    "as it is written": (ROWS, "softmax(matmul(q, k.T, tile_shape=(32, 32, 32))) @ v"),
}
TAKEN = re.compile(r"takes kernel `(_heads_first\( ?)?attention\(")
CAUSAL = (
    *("causal", "by rows", "hidden", "to the end", "to a known end", "triangle"),
    *("causal by query", "causal and biased", "causal, biased heads"),
)


def text(params: str, body: str) -> str:
    return f"def f({params}):\n    return {body}\n"


@cache
def numbers(params: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    sizes = {"N": 3, "P": 17, "R": 23}
    shapes = [text.removesuffix(", f32").split(", ") for text in re.findall(r"\[(.*?)\]", params)]
    return [rng.standard_normal([sizes.get(dim) or int(dim) for dim in shape]).astype(np.float32) for shape in shapes]


def opaque(body: str) -> str:
    """The same for a law not to find."""
    return body.replace("softmax(", "softmax_safe(")


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", WRITTEN)
def test_attention_that_is_written_out_is_attention(name: str, tmp_path: Path) -> None:
    params, body = WRITTEN[name]
    lines = told(text(params, body), tmp_path)
    assert any(TAKEN.search(line) and ("causal=True" in line) == (name in CAUSAL) for line in lines), lines
    got = tessera.compile(text(params, body)).f(*numbers(params))
    wanted = tessera.compile(text(params, opaque(body))).f(*numbers(params))
    assert np.allclose(got, wanted, rtol=4e-6, atol=4e-6)
    assert np.array_equal(got, interpreted(text(params, body), "f", *numbers(params)))


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", KEPT)
def test_what_is_something_else_stays(name: str, tmp_path: Path) -> None:
    params, body = KEPT[name]
    assert not any(TAKEN.search(line) for line in told(text(params, body), tmp_path))


def test_a_law_costs_nothing_where_weights_meet_no_product() -> None:
    program = "def f(x: Tensor[B, 8, f32]):\n    return softmax(x @ x.T) * 2.0\n"
    session, source = Session(), SourceFile("m.tess", program)
    reached = session.check(source).result.reach(session.function(source, "f"))
    assert not any(function.law for function in reached.values())
