"""The state of optimisers as a type: `OptimizerState[Net[D]]` has the sizes of the weights and numbers of at least f32;
a step is one kernel per tensor; the same bits on one thread and on two; Adafactor's means of rows and columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.ir.passes import run_passes
from tesserac.pipeline import schedule_passes
from tesserac.schedule.machine import AARCH64
from tests.support.checking import diagnose
from tests.support.optim_references import RULES, Reference
from tests.support.source_support import compile_to_forms

NET = """
struct Layer[D, H]:
    w: Tensor[D, H, {dtype}]
    b: Tensor[H, {dtype}]
    seen: Tensor[i32]

struct Net[D]:
    first: Layer[D, D]
    rest: (Layer[D, 3], Layer[3, D])

def loss(m: Net[D], x: Tensor[B, D, {dtype}]) -> Tensor[{dtype}]:
    y = x @ m.first.w + m.first.b
    y = y @ m.rest[0].w + m.rest[0].b
    y = y @ m.rest[1].w + m.rest[1].b
    return sum(y * y)

def start(m: Net[D]) -> {state}[Net[D]]:
    return {name}_init(m)

def step(m: Net[D], state: {state}[Net[D]], x: Tensor[B, D, {dtype}], lr: f32) -> (Net[D], {state}[Net[D]]):
    return {name}(m, grad(loss)(m, x), state, lr=lr)
"""


def program(dtype: str, name: str = "adam", state: str = "OptimizerState") -> Any:
    return tessera.compile(NET.format(dtype=dtype, name=name, state=state))


def net(module: Any, size: int, dtype: type) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(size)

    def layer(rows: int, columns: int) -> Any:
        w = rng.normal(size=(rows, columns)).astype(dtype)
        return module.Layer(w=w, b=rng.normal(size=columns).astype(dtype), seen=np.int32(5))

    model = module.Net(first=layer(size, size), rest=(layer(size, 3), layer(3, size)))
    return model, rng.normal(size=(2, size)).astype(dtype)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("size", [3, 4])
def test_sizes_that_happen_to_be_equal_stay_apart(size: int) -> None:
    module = program("f32")
    model, x = net(module, size, np.float32)
    state, before = module.start(model), module.loss(model, x)
    for _ in range(5):
        model, state = module.step(model, state, x, 0.01)
    assert module.loss(model, x) < before
    assert state.step == 5 and state.master is None and model.rest[0].seen == 5


@pytest.mark.one_in(12)
def test_a_state_of_other_weights_is_refused() -> None:
    module = program("f32")
    (model, x), (other, _) = net(module, 4, np.float32), net(module, 5, np.float32)
    with pytest.raises(tessera.TesseraError, match="state"):
        module.step(model, module.start(other), x, 0.1)


def test_a_field_needs_a_type_that_says_something() -> None:
    def codes(text: str) -> list[str]:
        return [d.code for d in diagnose(SourceFile("m.tess", text))]

    assert codes("struct S:\n    a: Trees\n") == ["E0204"]
    assert codes("struct S:\n    a: Tree\n\ndef f(s: S[Tensor[N, f32]]): return s.a\n") == []


LAUNCHES = """
struct Net[D, H]:
    w: Tensor[D, H, f32]
    b: Tensor[H, f32]
    v: Tensor[H, f32]

def step(m: Net[D, H], g: Net[D, H], mean: Net[D, H], square: Net[D, H], t: i32, lr: f32):
    return {name}(m, g, OptimizerState(step=t, mean=mean, square=square, master=None), lr=lr)
"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["sgd", "momentum", "lion", "adam", "adamw", "adam_atan2"])
def test_a_step_is_one_kernel_per_tensor(name: str) -> None:
    module = run_passes(compile_to_forms(LAUNCHES.format(name=name)), schedule_passes(AARCH64), verify=True)
    launches = [op for op in module.walk() if op.name == "schedule.launch"]
    assert len(launches) <= 3 + 1, "one per tensor, and one that counts the step, unless it is in another"


@pytest.mark.parametrize("dtype", ["f32", "bf16 @accum(f32)"])
def test_fused_adam_is_one_kernel(dtype: str) -> None:
    text = f"""
def f(w: Tensor[M, N, {dtype}], g: Tensor[M, N, {dtype}], m: Tensor[M, N, f32], v: Tensor[M, N, f32], t: i32, lr: f32):
    return fused_adam(w, g, m, v, t, lr=lr, weight_decay=0.1)
"""
    module = run_passes(compile_to_forms(text), schedule_passes(AARCH64), verify=True)
    assert [op.name for op in module.walk()].count("schedule.launch") == 1


def test_masters_are_changed_in_the_kernels_that_round_them() -> None:
    text = """
struct Net[D]:
    w: Tensor[D, 3, bf16 @accum(f32)]
    b: Tensor[3, bf16 @accum(f32)]

def step(m: Net[D], g: Net[D], state: OptimizerState[Net[D]] @fp32_master, lr: f32):
    return adam(m, g, state, lr=lr)
"""
    module = run_passes(compile_to_forms(text), schedule_passes(AARCH64), verify=True)
    assert [op.name for op in module.walk()].count("schedule.launch") <= 2 + 1


MASTERS = """
half = bf16 @accum(f32)

def step(w: Tensor[N, half], state: OptimizerState[Tensor[N, half]] @fp32_master @paged @checkpointable):
    return sgd(w, w, state)

def good(w: Tensor[N, half]): return step(w, sgd_init(w))
def bad(w: Tensor[N, half]): return step(w, OptimizerState(step=0, mean=None, square=None, master=None))
def other(w: Tensor[N, M, f32]) -> OptimizerState[Tensor[M, N, f32]]: return adam_init(w)
def nothing(w: Tensor[N, f32] @fp32_master): return w
def bare(state: OptimizerState @fp32_master): return state.step
def unfit(w: Tensor[N, half]): return adam(w, w, sgd_init(w))
State = OptimizerState[Tensor[8, half]] @fp32_master
def named(w: Tensor[8, half], state: State) -> (Tensor[8, half], State): return sgd(w, w, state)
"""


def test_a_type_that_says_masters_refuses_a_state_without() -> None:
    source = SourceFile("m.tess", MASTERS)
    found = [(d.code, source.position(d.primary.span.start)[0]) for d in diagnose(source)]
    assert found == [("E0210", 8), ("E0308", 9), ("E0204", 10), ("E0204", 11), ("E0217", 12)]


@pytest.fixture
def _threads() -> Iterator[None]:
    count = tessera.get_num_threads()
    yield
    tessera.set_num_threads(count)


@pytest.mark.one_in(6)
@pytest.mark.usefixtures("_threads")
def test_one_thread_or_two_give_the_same_bits() -> None:
    text = """
def f(w: Tensor[N, M, f32], g: Tensor[N, M, f32]):
    new, state = adamw(w, clip_by_global_norm(g, 1.0), adam_init(w), lr=0.1)
    more, factored = adafactor(new, g, adafactor_init(w))
    return new, state.mean, more, factored.rows
"""
    module = tessera.compile(text)
    rng = np.random.default_rng(0)
    w, g = (rng.normal(size=(300, 500)).astype(np.float32) for _ in range(2))
    found = []
    for count in (1, 2):
        tessera.set_num_threads(count)
        found.append([x.tobytes() for x in module.f(w, g)])
    assert found[0] == found[1]


# -------------------------------------------------------------------------------------------------------- Adafactor


@pytest.mark.one_in(24)
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 4)])
def test_adafactor(shape: tuple[int, ...]) -> None:
    dims = "".join(f"{size}, " for size in "BMN"[3 - len(shape) :])
    text = f"""
def start(w: Tensor[{dims}f64]): return adafactor_init(w)
def step(w: Tensor[{dims}f64], g: Tensor[{dims}f64], s: AdafactorState):
    return adafactor(w, g, s, lr=0.1, weight_decay=0.1)
"""
    module = tessera.compile(text)
    rng = np.random.default_rng(1)
    w = expected = rng.normal(size=shape)
    state = module.start(w)
    reference = Reference(RULES["adafactor"], lambda t: 0.1)
    for _ in range(4):
        g = rng.normal(size=shape)
        w, state = module.step(w, g, state)
        (expected,) = reference.step([expected], [g])
        np.testing.assert_allclose(w, expected, rtol=1e-12)
    assert state.step == 4 and state.rows.shape == (*shape[:-1], 1)


@pytest.mark.one_in(3)
def test_adafactor_of_few_bits() -> None:
    text = "def f(w: Tensor[M, N, bf16], g: Tensor[M, N, bf16]): return adafactor(w, g, adafactor_init(w))"
    w, g = np.ones((2, 3), ml_dtypes.bfloat16), np.ones((2, 3), ml_dtypes.bfloat16)
    new, state = tessera.compile(text).f(w, g)
    assert new.dtype == ml_dtypes.bfloat16 and state.master.dtype == state.columns.dtype == np.float32
    np.testing.assert_allclose(state.master, 0.99, rtol=1e-6)
