"""Gradients in few bits: the factor of `@loss_scale(n)` keeps small cotangents, and no gradient shows it; a scale that
follows the gradients halves after a step that was not finite, which is not taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessera

SMALL = """
def loss(w: Tensor[N, f32], x: Tensor[N, f32]) -> Tensor[f32]:
    y = cast(w, {dtype}) * cast(x, {dtype})
    return sum(cast(y, f32)) * 1e-9

def f(w: Tensor[N, f32], x: Tensor[N, f32]) -> Tensor[N, f32]:
    return grad(loss)(w, x)
"""
X = np.array([1.0, 2.0, -3.0], np.float32)


def test_a_scale_keeps_what_vanishes_without() -> None:
    plain, scaled = (
        tessera.compile(SMALL.format(dtype=f"f16 @accum(f32){more}")).f(X, X) for more in ("", " @loss_scale(65536)")
    )
    assert not plain.any()
    np.testing.assert_allclose(scaled, X * 1e-9, rtol=1e-3)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("wide", ["wide(v)", "cast(v, f32)"])
def test_gradients_of_any_order_have_no_scale(wide: str) -> None:
    text = f"""
half = f16 @accum(f32) @loss_scale(64)
def cube(v: Tensor[N, half]) -> Tensor[f32]: return sum(({wide}) ** 3.0)
def narrow_cube(v: Tensor[N, half]) -> Tensor[half]: return sum(v * v * v)
def first(v: Tensor[N, half]): return grad(cube)(v), grad(narrow_cube)(v)
def second(v: Tensor[N, half]):
    return grad(lambda u: sum(grad(cube)(u) * u))(v), grad(lambda u: sum(grad(narrow_cube)(u) * u))(v)
def along(v: Tensor[N, half]): return jvp(narrow_cube, (v,), (v,))
"""
    module, v = tessera.compile(text), np.array([1.0, 2.0, -3.0], np.float16)
    for found in module.first(v):
        np.testing.assert_array_equal(found, 3 * v**2)
    for found in module.second(v):
        np.testing.assert_array_equal(found, 9 * v**2)
    assert module.along(v)[1] == 3 * np.sum(v**3)


def test_rules_of_programs_get_cotangents_without_scale() -> None:
    text = """
half = f16 @accum(f32) @loss_scale(64)
def twice(v: Tensor[N, half]) -> Tensor[N, f32]: return cast(v, f32) * 2.0

@vjp_of(twice)
def twice_back(v: Tensor[N, half], y: Tensor[N, f32], g: Tensor[N, f32]) -> Tensor[N, half]: return cast(g * 2.0, half)

def f(v: Tensor[N, half]): return grad(lambda u: sum(twice(u) * 3.0))(v)
"""
    np.testing.assert_array_equal(tessera.compile(text).f(np.ones(3, np.float16)), np.full(3, 6.0, np.float16))


def test_the_scale_follows_the_gradients() -> None:
    text = """
def start(): return LossScale()
def f(s: LossScale, finite: Tensor[bool]): return s.next(finite, every=3, most=65536.0)
"""
    module = tessera.compile(text)
    scale = module.start()
    assert (scale.scale, scale.good) == (32768.0, 0)
    seen = []
    for finite in (False, True, True, True, True, False, True, True, True, True, True, True):
        scale = module.f(scale, np.bool_(finite))
        seen.append((float(scale.scale), int(scale.good)))
    half, whole = 16384.0, 32768.0
    assert seen[:6] == [(half, 0), (half, 1), (half, 2), (whole, 0), (whole, 1), (half, 0)]
    assert seen[-1] == (65536.0, 0)
    for _ in range(20):
        scale = module.f(scale, np.bool_(False))
    assert scale.scale == 1.0


TRAINING = """
def loss(w: Tensor[N, f16 @accum(f32)], x: Tensor[N, f16 @accum(f32)]) -> Tensor[f32]:
    return sum(cast(w * x, f32)) * 1e-7

def start(w: Tensor[N, f16 @accum(f32)]): return adam_init(w), LossScale()

def step(
    w: Tensor[N, f16 @accum(f32)],
    state: OptimizerState[Tensor[N, f16 @accum(f32)]],
    scale: LossScale,
    x: Tensor[N, f16 @accum(f32)],
):
    value, grads, finite = scaled_value_and_grad(loss, scale, w, x)
    new, after = tree_where(finite, adam(w, grads, state, lr=0.01), (w, state))
    return new, after, scale.next(finite, every=2), grads
"""


def parts(w: np.ndarray, state: Any) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in (w, state.step, state.mean, state.square, state.master)]


@pytest.mark.one_in(2)
def test_small_gradients_arrive_and_steps_that_overflow_are_not_taken() -> None:
    module: Any = tessera.compile(TRAINING)
    w = np.ones(3, np.float16)
    state, scale = module.start(w)
    small = np.full(3, 0.01, np.float16)
    w, state, scale, grads = module.step(w, state, scale, small)
    np.testing.assert_allclose(grads, small.astype(np.float64) * 1e-7, rtol=2e-2)
    assert grads.dtype == np.float32 and state.step == 1 and (w < 1).all() and scale.good == 1
    before = parts(w, state)
    for wrong, left in ((np.inf, 16384.0), (np.nan, 8192.0), (-np.inf, 4096.0)):
        w, state, scale, _ = module.step(w, state, scale, np.array([1.0, wrong, 2.0], np.float16))
        assert parts(w, state) == before and (scale.scale, scale.good) == (left, 0)
    for good, scaled in ((1, 4096.0), (0, 8192.0)):
        w, state, scale, _ = module.step(w, state, scale, small)
        assert (scale.scale, scale.good) == (scaled, good)
    assert state.step == 3


END_TO_END = """
half = {dtype} @accum(f32){scale}

def loss(w: Tensor[N, f32], x: Tensor[B, N, f32], y: Tensor[B, f32], size: f32) -> Tensor[f32]:
    miss = cast(cast(x, half) @ cast(w, half), f32) - y
    return mean(miss * miss) * size

def train(w: Tensor[N, f32], x: Tensor[B, N, f32], y: Tensor[B, f32], size: f32) -> Tensor[N, f32]:
    state: OptimizerState[Tensor[N, f32]] = momentum_init(w)
    for i in range(30):
        w, state = momentum(w, grad(loss)(w, x, y, size), state, lr=0.05 / size, beta=0.5)
    return w
"""


def trained(dtype: str, scale: str, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights after training on a loss of this size, and those of the same steps in float64."""
    rng = np.random.default_rng(0)
    x, goal = rng.normal(size=(16, 4)).astype(np.float32), rng.normal(size=4)
    y = (x @ goal).astype(np.float32)
    module: Any = tessera.compile(END_TO_END.format(dtype=dtype, scale=scale))
    w, m = np.zeros(4), np.zeros(4)
    for _ in range(30):
        m = 0.5 * m + 2 * x.T.astype(np.float64) @ (x @ w - y) / 16
        w = w - 0.05 * m
    return module.train(np.zeros(4, np.float32), x, y, size), w


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("dtype", "bound"), [("f16", 2e-3), ("bf16", 2e-2)])
def test_training_with_a_scale_is_the_training_of_float64(dtype: str, bound: float) -> None:
    """Where nothing vanishes without it, a scale of a power of two changes no bit; where all does, it keeps all."""
    plain, expected = trained(dtype, "", 1.0)
    scaled, _ = trained(dtype, " @loss_scale(1024)", 1.0)
    assert scaled.tobytes() == plain.tobytes()
    np.testing.assert_allclose(scaled, expected, atol=bound)
    if dtype == "f16":
        lost, _ = trained(dtype, "", 2.0**-32)
        kept, _ = trained(dtype, " @loss_scale(4294967296)", 2.0**-32)
        assert not lost.any() and kept.tobytes() == plain.tobytes()
