"""Every optimiser against a float64 reference over several steps, with clipping and a schedule, on a struct of structs,
tuples, lists of structs, scalars and an integer in it; weights of few bits have f32 masters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessera
from tests.support.optim_references import RULES, Reference, Weights
from tests.support.sampling import spread

STEPS = 4
LIMIT = 2.0
MODEL = """
struct Layer[D]:
    w: Tensor[D, f64]
    b: Tensor[f64]

struct Net[D]:
    first: Layer[D]
    pair: (Layer[D], Tensor[2, 3, f64])
    blocks: List[2, Layer[D]]
    matrix: Tensor[3, D, f64]
    seen: Tensor[i32]
    heads: int = 4

def miss(m: Net[D], at: Net[D]) -> Tensor[f64]:
    gap = tree_map(lambda a, b: a - b, (m.first, m.pair, m.blocks, m.matrix), (at.first, at.pair, at.blocks, at.matrix))
    return tree_dot(gap, gap) * 0.5

def start(m: Net[D]) -> {state}[Net[D]]:
    return {init}_init(m)

def step(m: Net[D], at: Net[D], state: {state}[Net[D]]) -> (Net[D], {state}[Net[D]]):
    g = clip_by_global_norm(grad(miss)(m, at), 2.0)
    lr = linear_schedule(state.step, start=0.5, end=0.25, steps=2)
    return {name}(m, g, state, lr=lr, weight_decay=0.1{more})
"""
DECAYS = {"momentum": ", beta=0.8", "nesterov": ", beta=0.8, nesterov=True"}
DECAYS |= {name: ", beta2=0.99" for name in ("adam", "adamw", "adam_atan2")}
INITS = {"sgd": "sgd", "sign_sgd": "sgd", "lion": "momentum", "nesterov": "momentum", "momentum": "momentum"}


def program(which: str) -> Any:
    name = which.replace("nesterov", "momentum")
    init = "adafactor" if which == "adafactor" else INITS.get(which, "adam")
    state = "AdafactorState" if which == "adafactor" else "OptimizerState"
    return tessera.compile(MODEL.format(state=state, init=init, name=name, more=DECAYS.get(which, "")))


def net(module: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    layers = [module.Layer(w=rng.normal(size=4), b=np.float64(rng.normal())) for _ in range(4)]
    matrix, small = rng.normal(size=(3, 4)), rng.normal(size=(2, 3))
    own = {"first": layers[0], "pair": (layers[1], small), "blocks": layers[2:], "matrix": matrix}
    return module.Net(**own, seen=np.int32(7), heads=4)


def weights(m: Any) -> Weights:
    layers = (m.first, m.pair[0], *m.blocks)
    return [np.asarray(w) for layer in layers for w in (layer.w, layer.b)] + [m.pair[1], m.matrix]


def clipped(grads: Weights) -> Weights:
    norm = np.sqrt(sum((g * g).sum() for g in grads))
    return [g * min(1.0, LIMIT / norm) for g in grads]


@pytest.mark.one_in(48)
@pytest.mark.parametrize("which", spread(RULES, 6))
def test_steps_are_those_of_the_reference(which: str) -> None:
    module = program(which)
    m, at = net(module, 0), net(module, 1)
    reference = Reference(RULES[which], lambda t: 0.5 - 0.125 * min(t, 2))
    state, expected = module.start(m), weights(m)
    for _ in range(STEPS):
        m, state = module.step(m, at, state)
        grads = [w - goal for w, goal in zip(expected, weights(at), strict=True)]
        expected = reference.step(expected, clipped(grads))
        for found, wanted in zip(weights(m), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)
    assert m.seen == 7 and state.step == STEPS and m.heads == 4


NARROW = """
half = bf16 @accum(f32)

struct Net[D]:
    w: Tensor[D, 3, half]
    v: (Tensor[D, half], Tensor[half])

"""
NARROW_STEPS = """
def few_{which}(m: Net[D], g: Net[D]):
    state: {state}[Net[D]] @fp32_master = {init}_init(m)
    for i in range(20):
        m, state = {name}(m, g, state, lr=0.0005, weight_decay=0.1{more})
    return m, state.master

"""


def narrow_steps(which: str) -> str:
    state = "AdafactorState" if which == "adafactor" else "OptimizerState"
    init = "adafactor" if which == "adafactor" else INITS.get(which, "adam")
    name = which.replace("nesterov", "momentum")
    return NARROW_STEPS.format(which=which, state=state, init=init, name=name, more=DECAYS.get(which, ""))


@pytest.mark.one_in(6)
def test_weights_of_few_bits_have_masters() -> None:
    """Steps too small for bf16 add up, since they are taken in f32: the master is the float64 reference within 40
    roundings to f32, and the weight is the master rounded once."""
    calls = "".join(f"few_{which}(m, g), " for which in RULES)
    text = NARROW + "".join(map(narrow_steps, RULES)) + f"def all_of_them(m: Net[D], g: Net[D]): return ({calls})\n"
    module: Any = tessera.compile(text)
    rng = np.random.default_rng(0)
    leaves = [rng.normal(size=shape).astype(ml_dtypes.bfloat16) for shape in ((4, 3), (4,), (), (4, 3), (4,), ())]
    w, u, s, *grads = leaves
    made = [module.Net(w=a, v=(b, np.asarray(c))) for a, b, c in ((w, u, s), tuple(grads))]
    for which, (new, master) in zip(RULES, module.all_of_them(*made), strict=True):
        reference, expected = Reference(RULES[which], lambda t: 0.0005), [np.asarray(x, np.float64) for x in (w, u, s)]
        for _ in range(20):
            expected = reference.step(expected, [np.asarray(g, np.float64) for g in grads])
        kept, rounded = ((m.w, *m.v) for m in (master, new))
        for copy, weight, wanted in zip(kept, rounded, expected, strict=True):
            np.testing.assert_allclose(copy, wanted, rtol=40 * 2**-24, atol=1e-7, err_msg=which)
            assert np.asarray(copy).dtype == np.float32
            assert np.array_equal(np.asarray(copy).astype(ml_dtypes.bfloat16), weight), which


@pytest.mark.one_in(6)
def test_lbfgs_of_few_bits_asks_at_rounded_weights() -> None:
    text = NARROW + """
def miss(m: Net[D], at: Net[D]) -> Tensor[f32]:
    gap = tree_map(lambda a, b: cast(a, f32) - cast(b, f32), m, at)
    return tree_dot(gap, gap)

def f(m: Net[D], at: Net[D]):
    state: LBFGSState[Net[D]] @fp32_master = lbfgs_init(lambda w: miss(w, at), m, history=3)
    for i in range(4):
        m, state = lbfgs(lambda w: miss(w, at), m, state)
    return m, state.master, state.value, miss(m, at)
"""
    module: Any = tessera.compile(text)
    rng = np.random.default_rng(0)
    shapes: tuple[tuple[int, ...], ...] = ((2, 3), (2,), ())
    first, goal = ([np.asarray(rng.normal(size=s).astype(ml_dtypes.bfloat16)) for s in shapes] for _ in range(2))
    new, master, value, there = module.f(*(module.Net(w=w, v=(v, s)) for w, v, s in (first, goal)))
    assert value == there < 1e-4 and master.w.dtype == np.float32
    assert np.array_equal(master.w.astype(ml_dtypes.bfloat16), new.w)


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


@pytest.mark.one_in(2)
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


@pytest.mark.one_in(2)
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


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", REFERENCES)
def test_schedules(name: str) -> None:
    schedule = getattr(tessera.compile(SCHEDULES), name)
    for t in range(20):
        assert schedule(t) == pytest.approx(REFERENCES[name](t), rel=1e-6, abs=1e-7)
