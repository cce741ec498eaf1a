"""Options of PyTorch and NumPy that came late: values by definition, and slopes by differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tests.support.folding import folded
from tests.support.source_support import compile_to_forms

Array = np.ndarray
RNG = np.random.default_rng(17)
X = RNG.normal(size=(5, 3))
K = np.cov(RNG.normal(size=(3, 9)))
SIGNATURE = "x: Tensor[5, 3, f64], k: Tensor[3, 3, f64]"
UPPER = np.linalg.cholesky(K).T


def low_rank(x: Array, share: float) -> Array:
    u, s, v = np.linalg.svd(x, full_matrices=False)
    return (v.T / np.where(s > share * s[0], s, np.inf)) @ u.T


BAGS = np.array([[0, 2, 2], [4, 1, 2]])
TOKENS = "array([[0, 2, 2], [4, 1, 2]])"
LINE = "array([0, 2, 2, 4, 1])"


def means(x: Array, bags: list[list[int]]) -> Array:
    return np.array([x[bag].mean(0) if bag else 0 * x[0] for bag in bags])


CASES: list[tuple[str, Callable[..., Any]]] = [
    ("abs(qr(x, mode=\"complete\")[0].T @ qr(x, mode=\"complete\")[0])", lambda x, k: np.eye(5)),
    ("qr(x, mode=\"complete\")[0] @ qr(x, mode=\"complete\")[1]", lambda x, k: x),
    ("qr(x, \"r\")", lambda x, k: np.linalg.qr(x, "r")),
    ("qr(x.T, mode=\"complete\")[1]", lambda x, k: np.linalg.qr(x.T, "complete")[1]),
    ("cholesky(k + triu(k, 1) * 0.0, upper=True)", lambda x, k: np.linalg.cholesky(k).T),
    ("cholesky(triu(k), upper=True)", lambda x, k: np.linalg.cholesky(k).T),
    ("cholesky_solve(cholesky(k, upper=True), x[0], upper=True)", lambda x, k: np.linalg.solve(k, x[0])),
    ("pinv(x, rcond=0.5)", lambda x, k: low_rank(x, 0.5)),
    ("matrix_rank(x, rtol=0.5) + matrix_rank(x, tol=1e9)", lambda x, k: np.linalg.matrix_rank(x, rtol=0.5)),
    ("tri(3, 4, k=1, dtype=f64) + tri(N=3, M=4, k=-1, dtype=f64)", lambda x, k: np.tri(3, 4, 1) + np.tri(3, 4, -1)),
    ("linspace(start=0.0, end=1.0, steps=5, dtype=f64)", lambda x, k: np.linspace(0.0, 1.0, 5)),
    ("reverse_sequence(x, array([1, 2, 3, 0, 2]), seq_axis=1, batch_axis=0)[2]", lambda x, k: x[2, ::-1]),
    ("rrelu(x, 0.1, 0.3)", lambda x, k: np.where(x > 0, x, 0.2 * x)),
    ("gaussian_nll(x, 0.5 * x, exp(x[:, 0]))",
     lambda x, k: 0.5 * np.mean(x[:, :1] + (0.5 * x) ** 2 / np.exp(x[:, :1]))),
    ("gaussian_nll(x, 0.5 * x, 2.0)", lambda x, k: 0.5 * np.mean(np.log(2.0) + (0.5 * x) ** 2 / 2.0)),
    ("triplet_margin_with_distance(x, 0.5 * x, -x, distance_function=lambda a, b: sum(abs(a - b), axis=-1))",
     lambda x, k: np.mean(np.maximum(1 - 1.5 * abs(x).sum(1), 0))),
    (f"embedding_bag(x, {TOKENS}, padding_idx=2)", lambda x, k: means(x, [[0], [4, 1]])),
    (f'embedding_bag(x, {TOKENS}, "max", padding_idx=-1)',
     lambda x, k: np.stack([x[[0, 2]].max(0), x[[1, 2]].max(0)])),
    (f"embedding_bag(x, {LINE}, offsets=array([0, 2, 2]))", lambda x, k: means(x, [[0, 2], [], [2, 4, 1]])),
    (f'embedding_bag(x, {LINE}, "sum", offsets=array([0, 3, 5]), include_last_offset=True, per_sample_weights=x[:, 0])',
     lambda x, k: np.stack([x[[0, 2, 2]].T @ x[:3, 0], x[[4, 1]].T @ x[3:, 0]])),
    (f'embedding_bag(x, {LINE}, "max", offsets=array([0, 2, 2]), padding_idx=4)',
     lambda x, k: np.stack([x[[0, 2]].max(0), 0 * x[0], x[[2, 1]].max(0)])),
]  # fmt: skip


def run(call: str) -> Any:
    (found,) = run_function(compile_to_forms(f"def f({SIGNATURE}):\n    return {call}\n"), "m.f", [X, K])
    return found


@pytest.mark.one_in(4)
@folded("call, peer", CASES, one_in=4)
def test_values(call: str, peer: Callable[..., Any]) -> None:
    np.testing.assert_allclose(run(call), peer(X, K), rtol=1e-12, atol=1e-12)


def test_a_slope_is_drawn_between_the_bounds() -> None:
    drawn = run("rrelu(full(400, -1.0, dtype=f64), 0.1, 0.3, training=True, seed=1)")
    assert drawn.min() < -0.29 and drawn.max() > -0.11 and drawn.min() >= -0.3 and drawn.max() <= -0.1


SLOPES = (
    'qr(x, mode="complete")[0]', "cholesky(k + x.T @ x, upper=True)", "pinv(x, rcond=1e-3)", "rrelu(x)",
    "gaussian_nll(x, 0.5 * x, exp(x[:, 0]))", f"embedding_bag(x, {TOKENS}, padding_idx=2)",
    f"embedding_bag(x, {LINE}, offsets=array([0, 2, 2]))", f'embedding_bag(x, {TOKENS}, "max", padding_idx=0)',
    "triplet_margin_with_distance(x, 0.5 * x, x * x, swap=True,"
    " distance_function=lambda a, b: sum((a - b) ** 2, axis=-1))",
)  # fmt: skip


@pytest.mark.one_in(4)
@folded("call", SLOPES, one_in=3)
def test_slopes(call: str) -> None:
    lines = [f"def g({SIGNATURE}):", f"    return sum(sin({call}))", f"def d({SIGNATURE}):", "    return grad(g)(x, k)"]
    forms, to = compile_to_forms("\n".join(lines) + "\n"), RNG.normal(size=X.shape)
    high, low = (run_function(forms, "m.g", [X + h * to, K])[0] for h in (1e-6, -1e-6))
    (slope,) = run_function(forms, "m.d", [X, K])
    np.testing.assert_allclose(np.sum(slope * to), (high - low) / 2e-6, rtol=1e-6, atol=1e-6)
