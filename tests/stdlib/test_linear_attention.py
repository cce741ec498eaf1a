"""Attention with a state, its convolution and attention with functions of scores, each as its definition says, in f64:
values, states, slopes along a direction, and mapped over a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

import tessera
from tesserac.graph.interp import run_function
from tests.support.folding import folded
from tests.support.source_support import compile_to_forms, run_both

Array = np.ndarray
B, H, G, D, E = 2, 4, 2, 3, 5
TYPES = {
    "q": "B, 4, S, D", "k": "B, 2, S, D", "v": "B, 2, S, E", "state": "B, 2, D, E", "decay": "B, 2, S",
    "beta": "B, 2, S", "key_decay": "B, 2, S, D",
}  # fmt: skip


def given(size: int, names: tuple[str, ...], seed: int = 0) -> dict[str, Array]:
    rng, sizes = np.random.default_rng(seed), {"B": B, "4": H, "2": G, "S": size, "D": D, "E": E}
    drawn = {name: rng.normal(size=[sizes[d] for d in TYPES[name].split(", ")]) for name in names}
    return {name: -np.abs(x) if "decay" in name else x for name, x in drawn.items()}


def by_loop(q: Array, k: Array, v: Array, **given: Array) -> tuple[Array, Array]:
    """Position by position, as the formulas stand at the head of the library's file."""
    size, s = q.shape[2], given.get("state", np.zeros((B, G, D, E)))
    rows = []
    for t in range(size):
        kept = np.exp(given["decay"][:, :, t])[..., None, None] if "decay" in given else 1.0
        kept = kept * np.exp(given["key_decay"][:, :, t])[..., None] if "key_decay" in given else kept
        s, u = s * kept, v[:, :, t]
        if "beta" in given:
            u = given["beta"][:, :, t, None] * (u - np.einsum("bgd,bgde->bge", k[:, :, t], s))
        s = s + k[:, :, t, :, None] * u[:, :, None]
        rows.append(np.einsum("bhd,bhde->bhe", q[:, :, t], np.repeat(s, H // G, axis=1)) / np.sqrt(D))
    return np.stack(rows, axis=2), s


def slope_is_right(found: Sequence[Array], value: Callable[..., Any], args: list[Array]) -> None:
    """Beside a central difference of the sum of squares along a direction."""
    rng = np.random.default_rng(1)
    along = [rng.normal(size=a.shape) for a in args]
    ends = [value(*(a + h * d for a, d in zip(args, along, strict=True))) for h in (1e-6, -1e-6)]
    rise = np.subtract(*(sum(np.sum(np.square(part)) for part in end) for end in ends)) / 2e-6
    slope = sum(np.sum(d * g) for d, g in zip(along, found, strict=True))
    np.testing.assert_allclose(slope, rise, rtol=1e-6)


RULES = [
    tuple(name for name, there in zip(("state", "decay", "beta", "key_decay"), bits, strict=True) if there)
    for bits in product((False, True), repeat=4)
]


@folded("options", [(rule, 4) for rule in RULES] + [(rule, 1) for rule in RULES if "state" in rule], one_in=1152)
def test_linear_attention(options: tuple[tuple[str, ...], int]) -> None:
    rule, chunk = options
    args = given(7, ("q", "k", "v", *rule))
    names = list(args)
    typed = ", ".join(f"{name}: Tensor[{TYPES[name]}, f64]" for name in names)
    call = f"linear_attention({', '.join(f'{n}={n}' for n in names)}, chunk={chunk})"
    text = (
        f"def f({typed}):\n    return {call}\n"
        f"def loss({typed}):\n    y, s = {call}\n    return sum(y * y) + sum(s * s)\n"
        f"def g({typed}):\n    return grad(loss, wrt={tuple(range(len(names)))})({', '.join(names)})\n"
    )
    module = compile_to_forms(text)
    found = run_function(module, "m.f", list(args.values()))
    for one, other in zip(found, by_loop(**args), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    slopes = run_function(module, "m.g", list(args.values()))
    slope_is_right(slopes, lambda *a: by_loop(**dict(zip(names, a, strict=True))), list(args.values()))


@pytest.mark.one_in(24)
def test_a_state_that_is_forgotten_and_parts_of_a_sequence() -> None:
    """A decay of -inf starts anew; parts of a sequence are the whole, state by state; all of it also compiled."""
    text = (
        "def f(q: Tensor[B, 4, S, D, f64], k: Tensor[B, 2, S, D, f64], v: Tensor[B, 2, S, E, f64],\n"
        "      state: Tensor[B, 2, D, E, f64], decay: Tensor[B, 2, S, f64], beta: Tensor[B, 2, S, f64]):\n"
        "    return linear_attention(q, k, v, state, decay, beta, chunk=4)\n"
    )
    args = given(9, ("q", "k", "v", "state", "decay", "beta"))
    args["decay"][:, :, 5] = -np.inf
    f = tessera.compile(text).f
    y, last = f(*args.values())
    np.testing.assert_allclose(y, by_loop(**args)[0], rtol=1e-12, atol=1e-12)
    parts, state = [], args["state"]
    for at in (slice(0, 2), slice(2, 9)):
        part = {n: x if n == "state" else np.ascontiguousarray(x[:, :, at]) for n, x in args.items()} | {"state": state}
        one, state = f(*part.values())
        parts.append(one)
    np.testing.assert_allclose(np.concatenate(parts, axis=2), y, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(state, last, rtol=1e-12, atol=1e-12)


def convolved(x: Array, w: Array, bias: Array, state: Array) -> tuple[Array, Array]:
    line, width = np.concatenate([state, x], axis=2), w.shape[1]
    z = sum(line[:, :, i : i + x.shape[2]] * w[:, i, None] for i in range(width)) + bias[:, None]
    return z / (1 + np.exp(-z)), line[:, :, x.shape[2] :]


@pytest.mark.one_in(12)
@folded("sizes", [(5, 3), (1, 4), (2, 5), (3, 1)], one_in=48)
def test_causal_conv1d(sizes: tuple[int, int]) -> None:
    """Also of fewer positions than weights, and of one weight, which has no state."""
    size, width = sizes
    rng = np.random.default_rng(0)
    args = [rng.normal(size=shape) for shape in ((2, 4, size), (4, width), (4,), (2, 4, width - 1))]
    typed = "x: Tensor[B, 4, L, f64], w: Tensor[4, K, f64], b: Tensor[4, f64], s: Tensor[B, 4, K - 1, f64]"
    call = 'causal_conv1d(x, w, b, s, activation="silu")'
    text = (
        f"def f({typed}):\n    return {call}\n"
        f"def loss({typed}):\n    y, t = {call}\n    return sum(y * y) + sum(t * t)\n"
        f"def g({typed}):\n    return grad(loss, wrt=(0, 1, 2, 3))(x, w, b, s)\n"
    )
    module = compile_to_forms(text)
    for one, other in zip(run_function(module, "m.f", args), convolved(*args), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)
    slope_is_right(run_function(module, "m.g", args), convolved, args)


def with_functions(q: Array, k: Array, v: Array) -> Array:
    s = np.einsum("bhsd,bhtd->bhst", q, np.repeat(k, H // G, axis=1)) / np.sqrt(D)
    b, h, i, j = np.ogrid[: s.shape[0], : s.shape[1], : s.shape[2], : s.shape[3]]
    s = np.where((i >= j) & (i > b), np.tanh(s / 2) - 0.1 * h * np.abs(i - j), -np.inf)
    top = np.max(s, axis=-1, keepdims=True)
    p = np.exp(s - np.where(np.isfinite(top), top, 0.0))
    p = p / np.maximum(p.sum(-1, keepdims=True), 1e-300)
    return np.einsum("bhst,bhte->bhse", np.square(p), np.repeat(v, H // G, axis=1))


@pytest.mark.one_in(12)
def test_flex_attention() -> None:
    """Functions of scores, places and weights; a query that sees nothing gives 0, and has slopes of 0."""
    args = list(given(6, ("q", "k", "v")).values())
    typed = ", ".join(f"{name}: Tensor[{TYPES[name]}, f64]" for name in "qkv")
    call = (
        "flex_attention(q, k, v, lambda s, b, h, i, j: tanh(s / 2.0) - 0.1 * cast(h * abs(i - j), f64),\n"
        "        lambda b, h, i, j: (i >= j) & (i > b), weight=square)"
    )
    text = (
        f"def f({typed}):\n    return {call}\n"
        f"def g({typed}):\n    return grad(lambda q, k, v: sum(square({call})), wrt=(0, 1, 2))(q, k, v)\n"
    )
    module = compile_to_forms(text)
    (found,) = run_function(module, "m.f", args)
    np.testing.assert_allclose(found, with_functions(*args), rtol=1e-13, atol=1e-13)
    assert np.all(found[:, :, 0] == 0.0)
    slopes = run_function(module, "m.g", args)
    assert all(np.isfinite(x).all() for x in slopes)
    slope_is_right(slopes, lambda *a: [with_functions(*a)], args)


@pytest.mark.one_in(12)
def test_a_mask_alone_is_that_of_attention() -> None:
    q, k, v = (x.astype(np.float32) for x in given(6, ("q", "k", "v")).values())
    typed = ", ".join(f"{name}: Tensor[{TYPES[name]}, f32]" for name in "qkv")
    flex = run_both(f"def f({typed}):\n    return flex_attention(q, k, v, mask=lambda b, h, i, j: i >= j)\n", q, k, v)
    usual = run_both(f"def f({typed}):\n    return grouped_attention(q, k, v, causal=True)\n", q, k, v)
    np.testing.assert_array_equal(flex, usual)


@pytest.mark.one_in(24)
def test_they_are_mapped() -> None:
    """`vmap` gives what a call for each gives."""
    rng = np.random.default_rng(0)
    shapes = (3, 1, 2, 6, 4), (3, 1, 2, 6), (3, 2, 4, 5), (3, 4, 3)
    q, g, x, w = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    text = (
        "def a(q: Tensor[1, 2, S, D, f32], g: Tensor[1, 2, S, f32]):\n"
        "    return linear_attention(q, q, q, decay=-softplus(g), beta=sigmoid(g), chunk=4)\n"
        "def c(x: Tensor[B, 4, L, f32], w: Tensor[4, 3, f32]):\n    return causal_conv1d(x, w)\n"
        "def e(q: Tensor[1, 2, S, D, f32]):\n    return flex_attention(q, q, q, lambda s, b, h, i, j: s * 2.0)\n"
        "def all_a(q: Tensor[N, 1, 2, S, D, f32], g: Tensor[N, 1, 2, S, f32]):\n    return vmap(a)(q, g)\n"
        "def all_c(x: Tensor[N, B, 4, L, f32], w: Tensor[N, 4, 3, f32]):\n    return vmap(c)(x, w)\n"
        "def all_e(q: Tensor[N, 1, 2, S, D, f32]):\n    return vmap(e)(q)\n"
    )
    m = tessera.compile(text)
    for name, args in (("a", (q, g)), ("c", (x, w)), ("e", (q,))):
        mapped = getattr(m, f"all_{name}")(*args)
        each = [getattr(m, name)(*(part[i] for part in args)) for i in range(3)]
        if name == "e":
            mapped, each = (mapped,), [(one,) for one in each]
        for place, whole in enumerate(mapped):
            np.testing.assert_allclose(whole, np.stack([one[place] for one in each]), rtol=2e-5, atol=1e-6)
