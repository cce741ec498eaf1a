"""The way back through attention: tiles with the bits of what they mean, no score in memory, both modes agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tessera
from tesserac.commands.inspection import inspect
from tesserac.driver.session import Session
from tesserac.graph.interp import run_function
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import compile_to_forms, normal

Array = np.ndarray

HEAD = "def f(q: Tensor[B, S, D, f32], k: Tensor[B, T, D, f32], v: Tensor[B, T, E, f32], w: Tensor[B, S, E, f32]):\n"
BACK = (
    HEAD
    + """    y, back = vjp(lambda q, k, v: attention(q, k, v, causal={causal}), q, k, v)
    return back(w)
"""
)


def run(program: str, *args: Array) -> list[Array]:
    """What `f` gives as machine code, once the interpreter agrees."""
    results = [np.asarray(result) for result in tessera.compile(program).f(*args)]
    for found, wanted in zip(results, run_function(compile_to_forms(program), "m.f", list(args)), strict=True):
        same_bits(found, np.asarray(wanted))
    return results


def exact(q: Array, k: Array, v: Array, w: Array, seen: Array | None) -> list[Array]:
    q, k, v, w = (x.astype(np.float64) for x in (q, k, v, w))
    factor = 1 / np.sqrt(q.shape[-1])
    s = q @ k.swapaxes(-1, -2) * factor
    s = s if seen is None else np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    ds = p * (w @ v.swapaxes(-1, -2) - (w * (p @ v)).sum(-1, keepdims=True)) * factor
    return [ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ w]


@pytest.mark.one_in(48)
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_have_the_bits_of_their_meaning_at_any_size(causal: bool) -> None:
    program = BACK.format(causal=causal)
    for s, t, d in [(1, 1, 4), (3, 9, 8), (130, 130, 16), (65, 400, 8)]:
        q, k, v, w = normal(0, 2, s, d), normal(1, 2, t, d), normal(2, 2, t, d + 1), normal(3, 2, s, d + 1)
        seen = np.arange(t)[None, :] <= np.arange(s)[:, None] + t - s if causal else None
        for found, wanted in zip(run(program, q, k, v, w), exact(q, k, v, w, seen), strict=True):
            assert np.abs(found - wanted).max() < 2e-5


def told(text: str, tmp_path: Path, name: str = "f", target: str | None = None) -> str:
    path = tmp_path / "main.tess"
    path.write_text(text, encoding="utf-8")
    return inspect(Session(), f"{path}:{name}", "schedule", target).output


@pytest.mark.one_in(16)
@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90a"])
def test_no_score_is_in_memory_on_the_way_back(tmp_path: Path, target: str) -> None:
    fixed = BACK.format(causal=True).replace("D, f32", "64, f32").replace("E, f32", "64, f32")
    schedule = told(fixed, tmp_path, target=target)
    assert "program" in schedule
    assert "S, T]" not in schedule and "T, S]" not in schedule and "S*T" not in schedule


@pytest.mark.one_in(24)
def test_a_query_without_keys_gives_nothing_back() -> None:
    q, k, v, w = normal(0, 1, 4, 8), normal(1, 1, 2, 8), normal(2, 1, 2, 8), normal(3, 1, 4, 8)
    dq, dk, dv = run(BACK.format(causal=True), q, k, v, w)
    alone = run(BACK.format(causal=True), q[:, 2:].copy(), k, v, w[:, 2:].copy())
    assert np.all(dq[:, :2] == 0)
    for found, wanted in zip((dq[:, 2:].copy(), dk, dv), alone, strict=True):
        same_bits(found, wanted)


@pytest.mark.one_in(16)
def test_a_score_that_is_no_number_shows_in_its_row_alone() -> None:
    q, k, v, w = normal(0, 1, 5, 8), normal(1, 1, 5, 8), normal(2, 1, 5, 8), normal(3, 1, 5, 8)
    q[0, 2, 0] = np.nan
    dq, _, dv = run(BACK.format(causal=True), q, k, v, w)
    assert np.isnan(dq[0, 2]).all() and np.isfinite(np.delete(dq[0], 2, 0)).all()
    assert np.isnan(dv[0, :3]).all() and np.isfinite(dv[0, 3:]).all()


MODES = """
def g(q: Tensor[B, S, 4, f64], k: Tensor[B, T, 4, f64], v: Tensor[B, T, 4, f64], t: Tensor[f64]):
    return attention(q, k, v, causal=True, scale=t)

def both(q: Tensor[B, S, 4, f64], k: Tensor[B, T, 4, f64], v: Tensor[B, T, 4, f64], t: Tensor[f64],
         w: Tensor[B, S, 4, f64], a: Tensor[B, S, 4, f64], b: Tensor[B, T, 4, f64], c: Tensor[B, T, 4, f64]):
    y, dy = jvp(g, (q, k, v, t), (a, b, c, cast(0.3, f64)))
    _, back = vjp(g, q, k, v, t)
    dq, dk, dv, dt = back(w)
    return sum(dy * w), sum(dq * a) + sum(dk * b) + sum(dv * c) + dt * 0.3

def twice(q: Tensor[B, S, 4, f64], k: Tensor[B, T, 4, f64], v: Tensor[B, T, 4, f64], a: Tensor[B, S, 4, f64]):
    slope = lambda q: grad(lambda z: sum(sin(attention(z, k, v, causal=True))))(q)
    _, change = jvp(slope, (q,), (a,))
    _, back = vjp(slope, q)
    return sum(change * a), sum(back(a)[0] * a)
"""


@pytest.mark.one_in(12)
def test_both_modes_and_second_derivatives_agree() -> None:
    rng = np.random.default_rng(0)
    q, k, v, w = (rng.standard_normal((2, n, 4)) for n in (5, 7, 7, 5))
    a, b, c = (rng.standard_normal((2, n, 4)) for n in (5, 7, 7))
    module = tessera.compile(MODES)
    forward, back = module.both(q, k, v, np.float64(0.4), w, a, b, c)
    assert abs(forward - back) < 1e-12 * max(1, abs(forward))
    forward, back = module.twice(q, k, v, a)
    assert abs(forward - back) < 1e-10 * max(1, abs(forward))


OPTIONS = """
def f(q: Tensor[B, H, S, 8, f32], k: Tensor[B, G, T, 8, f32], v: Tensor[B, G, T, 8, f32], w: Tensor[B, H, S, 8, f32],
      b: Tensor[H, S, T, f32], m: Tensor[B, 1, 1, T, bool], n: Tensor[B, i32], z: Tensor[H, f32]) where H % G == 0:
    y, back = vjp(lambda q, k, v, b, z: grouped_attention(
        q, k, v, m, True, bias=b, softcap=5.0, window=(40, 0), lengths=n, sinks=z), q, k, v, b, z)
    dq, dk, dv, db, dz = back(w)
    return y, dq, dk, dv, db, dz
"""


def with_options(x: dict[str, Array]) -> Array:
    """grouped_attention with all options, in f64."""
    heads, (s, t) = x["q"].shape[1] // x["k"].shape[1], (x["q"].shape[2], x["k"].shape[2])
    k, v = np.repeat(x["k"], heads, 1), np.repeat(x["v"], heads, 1)
    scores = 5 * np.tanh(x["q"] @ k.swapaxes(-1, -2) / np.sqrt(8) / 5) + x["b"]
    ends = x["n"][:, None, None, None]
    keys, places = np.arange(t), np.arange(s)[:, None] + ends - s
    seen = x["m"] & (keys < ends) & (keys <= places) & (keys >= places - 40)
    scores = np.where(seen, scores, -np.inf)
    sinks = np.broadcast_to(x["z"][:, None, None], (*scores.shape[:3], 1))
    p = np.exp(np.concatenate([scores, sinks], -1))
    return (p / p.sum(-1, keepdims=True))[..., :-1] @ v


@pytest.mark.one_in(12)
def test_all_options_go_by_blocks_forward_and_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = {"q": (2, 4, 50, 8), "k": (2, 2, 230, 8), "v": (2, 2, 230, 8), "w": (2, 4, 50, 8), "b": (4, 50, 230)}
    x = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    x["m"], x["n"] = rng.random((2, 1, 1, 230)) < 0.8, np.array([230, 117], np.int32)
    x["z"] = rng.standard_normal(4).astype(np.float32)
    y, *slopes = run(OPTIONS, *x.values())
    exact_x = {name: value.astype(np.float64) if value.dtype == np.float32 else value for name, value in x.items()}
    assert np.abs(y - with_options(exact_x)).max() < 1e-5
    for name, slope in zip("qkvbz", slopes, strict=True):
        way = rng.standard_normal(x[name].shape)
        ends = [with_options(exact_x | {name: exact_x[name] + step * way}) for step in (1e-6, -1e-6)]
        assert abs(((ends[0] - ends[1]) / 2e-6 * exact_x["w"]).sum() - (slope * way).sum()) < 2e-3, name
    back = OPTIONS.replace("return y, dq, dk, dv, db, dz", "return y, dq, dk, dv, dz")
    workspaces = [line for line in told(back, tmp_path).splitlines() if line.startswith("workspace")]
    assert workspaces and not any("S, T], f32" in line for line in workspaces), workspaces
