"""Optimisers against float64 references over several steps, on a struct with structs, tuples and an integer in it;
weights of few bits have f32 masters; schedules and clipping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessera

STEPS = 6
LR = 0.05
MODEL = """
struct Layer[D]:
    w: Tensor[D, {dtype}]
    b: Tensor[{dtype}]

struct Net[D]:
    first: Layer[D]
    rest: (Layer[D], Layer[D])
    matrix: Tensor[2, D, {dtype}]
    seen: Tensor[i32]
    heads: int = 4

def miss(a: Tensor[..., {dtype}], b: Tensor[..., {dtype}]):
    return sum((a - b) * (a - b)) * 0.5

def loss(m: Net[D], at: Net[D]) -> Tensor[{dtype}]:
    matrix = miss(m.matrix, at.matrix)
    return miss(m.first.w, at.first.w) + miss(m.first.b, at.first.b) + miss(m.rest[1].w, at.rest[1].w) + matrix

def start(m: Net[D]):
    return {init}(m)

def step(m: Net[D], at: Net[D], state: OptimizerState, lr: {dtype}):
    return {call}
"""
CALL = "{name}(m, grad(loss)(m, at), state, lr=lr{more})"
INITS = {"sgd": "sgd_init", "sign_sgd": "sgd_init", "momentum": "momentum_init", "lion": "momentum_init"}

Array = np.ndarray
Reference = Callable[[Array, Array, Array, Array, int], tuple[Array, Array, Array]]
"""What a weight, its gradient, both means and the number of the step become."""


def program(name: str, more: str = "", dtype: str = "f64") -> Any:
    init = INITS.get(name, "adam_init")
    return tessera.compile(MODEL.format(dtype=dtype, init=init, call=CALL.format(name=name, more=more)))


def net(module: Any, seed: int, dtype: type = np.float64) -> Any:
    rng = np.random.default_rng(seed)
    layers = [module.Layer(w=rng.normal(size=3).astype(dtype), b=dtype(rng.normal())) for _ in range(3)]
    matrix = rng.normal(size=(2, 3)).astype(dtype)
    return module.Net(first=layers[0], rest=(layers[1], layers[2]), matrix=matrix, seen=np.int32(7), heads=4)


def weights(m: Any) -> list[Array]:
    """Those that the loss depends on."""
    return [np.asarray(w, dtype=np.float64) for w in (m.first.w, m.first.b, m.rest[1].w, m.matrix)]


def adam(w: Array, g: Array, m: Array, v: Array, t: int, decay: float = 0.0) -> tuple[Array, Array, Array]:
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    mean, square = m / (1 - 0.9**t), v / (1 - 0.99**t)
    return w - LR * (mean / (np.sqrt(square) + 1e-8) + decay * w), m, v


def atan2(w: Array, g: Array, m: Array, v: Array, t: int) -> tuple[Array, Array, Array]:
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    along = 1.27 * np.arctan2(m / (1 - 0.9**t), np.sqrt(v / (1 - 0.99**t)))
    return w - LR * (along + 0.1 * w), m, v


def pushed(w: Array, g: Array, m: Array, *, nesterov: bool = False) -> tuple[Array, Array, Array]:
    g = g + 0.1 * w
    m = 0.8 * m + g
    return w - LR * (g + 0.8 * m if nesterov else m), m, m


def lion(w: Array, g: Array, m: Array) -> tuple[Array, Array, Array]:
    along = np.sign(0.9 * m + 0.1 * g)
    return w - LR * (along + 0.1 * w), 0.99 * m + 0.01 * g, m


PUSHED = ", beta=0.8, weight_decay=0.1"
OPTIMISERS: dict[str, tuple[str, str, Reference]] = {
    "sgd": ("sgd", "", lambda w, g, m, v, t: (w - LR * g, m, v)),
    "sgd with decay": ("sgd", ", weight_decay=0.1", lambda w, g, m, v, t: (w - LR * (g + 0.1 * w), m, v)),
    "sign": ("sign_sgd", ", weight_decay=0.1", lambda w, g, m, v, t: (w - LR * (np.sign(g) + 0.1 * w), m, v)),
    "momentum": ("momentum", PUSHED, lambda w, g, m, v, t: pushed(w, g, m)),
    "nesterov": ("momentum", PUSHED + ", nesterov=True", lambda w, g, m, v, t: pushed(w, g, m, nesterov=True)),
    "lion": ("lion", ", weight_decay=0.1", lambda w, g, m, v, t: lion(w, g, m)),
    "adam": ("adam", ", beta2=0.99", adam),
    "adam with decay": ("adam", ", beta2=0.99, weight_decay=0.1", lambda w, g, m, v, t: adam(w, g + 0.1 * w, m, v, t)),
    "adamw": ("adamw", ", beta2=0.99, weight_decay=0.1", lambda w, g, m, v, t: adam(w, g, m, v, t, 0.1)),
    "atan2": ("adam_atan2", ", beta2=0.99, weight_decay=0.1", atan2),
}


@pytest.mark.parametrize("which", OPTIMISERS)
def test_steps_are_those_of_the_reference(which: str) -> None:
    name, more, reference = OPTIMISERS[which]
    module = program(name, more)
    m, at = net(module, 0), net(module, 1)
    state, expected = module.start(m), weights(m)
    means, squares = ([np.zeros_like(w) for w in expected] for _ in range(2))
    for t in range(1, STEPS + 1):
        m, state = module.step(m, at, state, LR)
        rows = zip(expected, weights(at), means, squares, strict=True)
        after = [reference(w, w - goal, mean, square, t) for w, goal, mean, square in rows]
        expected, means, squares = ([part[i] for part in after] for i in range(3))
        for found, wanted in zip(weights(m), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-15)
    assert m.seen == 7 and state.step == STEPS and m.heads == 4


def test_weights_of_few_bits_have_masters() -> None:
    """Steps too small for bf16 add up, since they are taken in f32: without masters the weight would never move."""
    text = """
def start(w: Tensor[N, bf16 @accum(f32)]): return adam_init(w)

def step(w: Tensor[N, bf16 @accum(f32)], g: Tensor[N, bf16 @accum(f32)], state: OptimizerState, lr: f32):
    return adam(w, g, state, lr=lr)
"""
    import ml_dtypes

    module = tessera.compile(text)
    w = np.full(4, 1.0, ml_dtypes.bfloat16)
    state = module.start(w)
    assert {x.dtype for x in (state.master, state.mean, state.square)} == {np.dtype(np.float32)}
    g = np.full(4, 0.5, ml_dtypes.bfloat16)
    for _ in range(20):
        w, state = module.step(w, g, state, 0.0005)
    np.testing.assert_allclose(state.master, 0.99, rtol=1e-6)
    assert w.dtype == ml_dtypes.bfloat16 and np.array_equal(w, state.master.astype(ml_dtypes.bfloat16))


def test_complex_weights_are_refused() -> None:
    with pytest.raises(tessera.TesseraError, match="real weights"):
        tessera.compile("def f(w: Tensor[N, c64]): return adam_init(w)").f(np.ones(2, np.complex64))


CLIPPING = """
def values(a: Tensor[N, f32], b: Tensor[M, f64], limit: float): return clip_by_value((a, b), limit)
def norms(a: Tensor[N, f32], b: Tensor[M, f64], limit: float): return clip_by_global_norm((a, b), limit)
def norm(a: Tensor[N, f32], b: Tensor[M, f64]): return global_norm((a, b))
def halves(a: Tensor[N, f16]): return global_norm(a), clip_by_global_norm(a, 1.0)
def finite(a: Tensor[N, f32], b: Tensor[M, f64]): return all_finite((a, b))
"""


def test_clipping() -> None:
    module = tessera.compile(CLIPPING)
    a, b = np.array([3.0, -0.25], np.float32), np.array([-4.0, 0.0, np.nan])
    low, high = module.values(a, b, 0.5)
    np.testing.assert_array_equal(low, np.array([0.5, -0.25], np.float32))
    np.testing.assert_array_equal(high, [-0.5, 0.0, np.nan])
    b[2] = 0.0
    length = np.sqrt(9 + 0.0625 + 16)
    assert module.norm(a, b) == pytest.approx(length, rel=1e-14)
    for limit, factor in ((1.0, 1 / length), (100.0, 1.0)):
        found = module.norms(a, b, limit)
        np.testing.assert_allclose(found[0], a * factor, rtol=1e-7)
        np.testing.assert_allclose(found[1], b * factor, rtol=1e-14)


def test_norms_of_halves_do_not_overflow() -> None:
    length, clipped = tessera.compile(CLIPPING).halves(np.full(4, 60000.0, np.float16))
    assert length == 120000.0 and np.array_equal(clipped, np.full(4, 0.5, np.float16))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_all_finite(wrong: float) -> None:
    module, b = tessera.compile(CLIPPING), np.zeros(3)
    assert module.finite(np.ones(2, np.float32), b)
    b[1] = wrong
    assert not module.finite(np.ones(2, np.float32), b)


SCHEDULES = """
def linear(t: i32): return linear_schedule(t, start=1.0, end=0.5, steps=10)
def cosine(t: i32): return cosine_schedule(t, peak=1.0, steps=10, end=0.2)
def warmup(t: i32): return warmup_schedule(t, peak=2.0, warmup=4)
def both(t: i32): return warmup_cosine_schedule(t, peak=1.0, warmup=4, steps=14)
def stairs(t: i32): return step_schedule(t, start=1.0, every=5, factor=0.5)
"""


def half_cosine(part: float, end: float = 0.0) -> float:
    return end + (1 - end) * (0.5 + 0.5 * float(np.cos(np.pi * min(max(part, 0.0), 1.0))))


REFERENCES: dict[str, Callable[[int], float]] = {
    "linear": lambda t: 1.0 - 0.05 * min(t, 10),
    "cosine": lambda t: half_cosine(t / 10, 0.2),
    "warmup": lambda t: 0.5 * min(t + 1, 4),
    "both": lambda t: (t + 1) / 4 if t < 4 else half_cosine((t - 4) / 10),
    "stairs": lambda t: 0.5 ** (t // 5),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_schedules(name: str) -> None:
    schedule = getattr(tessera.compile(SCHEDULES), name)
    for t in range(20):
        assert schedule(t) == pytest.approx(REFERENCES[name](t), rel=1e-6, abs=1e-7)
