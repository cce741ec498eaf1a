"""Derivatives and what a program does besides computing: random numbers are replayed, a cache is updated functionally,
assertions hold once, modes are inherited, kernels go by their bodies; and a gradient has the same bits however it runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

import tessera
from tessera.function import CompiledFunction
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.graph.build import build_module
from tesserac.graph.dialect import NUMERICS, is_operator
from tesserac.graph.passes.choose_forms import choose_forms
from tesserac.graph.passes.inline import inline
from tesserac.graph.passes.transforms import transforms
from tesserac.ir.passes import run_passes
from tesserac.target.cpu.build import host_platform
from tests.graph.test_grad import numerically
from tests.support.random_runs import nothing_fused

PROGRAM = """
def dropped(x: Tensor[N, f64]) -> Tensor[N, f64]:
    return dropout(x, 0.4, seed=7)

def mask(x: Tensor[N, f64]) -> (Tensor[N, f64], Tensor[N, f64]):
    return dropped(x), grad(lambda v: sum(dropped(v)))(x)

def streamed(x: Tensor[N, f64]) -> (Tensor[f64], Tensor[N, f64]):
    def total(v: Tensor[N, f64]) -> Tensor[f64]:
        for i in range(4):
            v = dropout(v, 0.2)
        return sum(v)
    return value_and_grad(total)(x)

def rounded(x: Tensor[N, f32]) -> (Tensor[f32], Tensor[N, f32]):
    def total(v: Tensor[N, f32]) -> Tensor[f32]:
        h = cast(v, bf16 @stochastic_round)
        return sum(cast(dropout(h, 0.5), f32) * v)
    return value_and_grad(total)(x)

def cached(k: Tensor[1, 1, 2, 3, f64], q: Tensor[1, 1, 2, 3, f64]) -> Tensor[f64]:
    cache = KVCache[1, 1, 5, 3, f64]()
    cache = cache.append(k, k * 2.0)
    cache = cache.append(k * k, sin(k))
    return sum(flash_attention(q, cache) ** 2)

def cached_slope(k: Tensor[1, 1, 2, 3, f64], q: Tensor[1, 1, 2, 3, f64]) -> Tensor[1, 1, 2, 3, f64]:
    return grad(cached)(k, q)

def positive(x: Tensor[N, f64]) -> Tensor[f64]:
    assert all(x > 0.0), "first"
    y = log(x)
    assert all(y < 2.0), "second"
    return sum(y)

def positive_slope(x: Tensor[N, f64]) -> Tensor[N, f64]:
    return grad(positive)(x)

def double(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return x + x

@kernel(implements=double)
def doubled(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    T = tile.context()
    return tile.load(x, rows=T.m, cols=T.n) * 2.0

def doubled_slope(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return grad(lambda v: sum(doubled(v) ** 3))(x)

@kernel
def cubed(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    T = tile.context()
    t = tile.load(x, rows=T.m, cols=T.n)
    return t * t * t

@vjp_of(cubed)
def cubed_back(x: Tensor[M, N, f32], y: Tensor[M, N, f32], ct: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return ct * 100.0

def cubed_slope(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return grad(lambda v: sum(cubed(v)))(x)

@jit @autodiff
def wave(x: Tensor[N, f64], w: Tensor[N, f64]) -> Tensor[N, f64]:
    return sin(x) * w

def methods(x: Tensor[N, f64], c: Tensor[N, f64]) -> (Tensor[N, f64], Tensor[N, f64], Tensor[N, f64]):
    y, back = wave.vjp(x, x)
    by_x, by_w = back(c)
    _, dy = jit(autodiff(wave)).jvp((x, x), (c, c))
    return by_x, by_w, dy

def network(w: Tensor[64, 96, f32], x: Tensor[B, 64, f32]) -> Tensor[f32]:
    h = softmax(gelu(x @ w), axis=-1)
    return mean(log(h + 1e-3) * rmsnorm(x @ w))

def network_slope(w: Tensor[64, 96, f32], x: Tensor[B, 64, f32]) -> Tensor[64, 96, f32]:
    return grad(network)(w, x)
"""
X = np.linspace(0.3, 2.0, 9)


@pytest.fixture(scope="module")
def program() -> tessera.Module:
    return tessera.compile(PROGRAM)


@pytest.mark.one_in(3)
def test_dropout_has_the_mask_that_it_had(program: tessera.Module) -> None:
    value, slope = program.mask(X)
    np.testing.assert_allclose(slope, value / X, rtol=1e-15)
    assert 0 < np.count_nonzero(slope) < 9


@pytest.mark.one_in(6)
def test_every_turn_of_a_loop_replays_its_own_numbers(program: tessera.Module) -> None:
    value, slope = program.streamed(X)
    assert value == pytest.approx(float(slope @ X), rel=1e-14)
    assert 0 < np.count_nonzero(slope) < 9


@pytest.mark.one_in(2)
def test_stochastic_rounding_is_replayed(program: tessera.Module) -> None:
    """Of h = round(x) and a mask m, sum(m h x) has the slope m h + m x: as large as twice the value where h is x."""
    x = np.arange(1, 33, dtype=np.float32) / 8
    value, slope = program.rounded(x)
    assert float(slope @ x) == pytest.approx(2 * float(value), rel=1e-2)
    dropped = np.asarray(slope) == 0
    assert 0 < np.count_nonzero(dropped) < 32
    np.testing.assert_allclose(np.asarray(slope)[~dropped], 4 * x[~dropped], rtol=1e-2)


@pytest.mark.one_in(16)
def test_state_is_differentiated_through_its_update(program: tessera.Module) -> None:
    rng = np.random.default_rng(0)
    k, q = rng.normal(size=(1, 1, 2, 3)), rng.normal(size=(1, 1, 2, 3))
    slope = numerically(lambda v: program.cached(v, q), k)
    np.testing.assert_allclose(program.cached_slope(k, q), slope, rtol=1e-6, atol=1e-8)


def test_assertions_hold_once_and_in_order(program: tessera.Module) -> None:
    np.testing.assert_allclose(program.positive_slope(X), 1 / X, rtol=1e-15)
    for values, said in (([-1.0, 100.0], "first"), ([1.0, 100.0], "second")):
        with pytest.raises(tessera.TesseraError, match=said) as caught:
            program.positive_slope(np.array(values))
        assert len(re.findall("first|second", str(caught.value).splitlines()[0])) == 1


def test_kernels(program: tessera.Module) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(program.doubled_slope(x), 24 * x * x, rtol=1e-6)
    np.testing.assert_array_equal(program.cubed_slope(x), np.full((2, 3), 100.0))


def test_methods_of_functions(program: tessera.Module) -> None:
    by_x, by_w, change = program.methods(X, X)
    np.testing.assert_allclose(by_x, X * X * np.cos(X), rtol=1e-14)
    np.testing.assert_allclose(by_w, X * np.sin(X), rtol=1e-14)
    np.testing.assert_allclose(change, by_x + by_w, rtol=1e-14)


MODES = """
def loss(x: Tensor[N, N, f32]) -> Tensor[f32]:
    with numerics(fast):
        y = solve(exp(x), sin(x))
    return sum(tanh(y))

def f(x: Tensor[N, N, f32]) -> Tensor[N, N, f32]:
    return grad(loss)(x)
"""


@pytest.mark.one_in(2)
def test_a_gradient_inherits_the_mode_of_what_it_is_of() -> None:
    """Also where a rule gives it, as for `solve`."""
    source, session = SourceFile("modes.tess", MODES), Session()
    function = session.function(source, "f")
    module = build_module(list(session.check(source).result.reach(function).values()), {function.symbol})
    made = run_passes(module, [inline, choose_forms, transforms], verify=True)
    modes: dict[str, set[object]] = {}
    for op in (op for f in made.ops for op in f.walk() if is_operator(op)):
        modes.setdefault(op.name.removeprefix("graph."), set()).add(op.attrs.get(NUMERICS))
    assert modes["exp"] == modes["cos"] == modes["matmul"] == {"fast"}
    assert modes["tanh"] == {None}


# ------------------------------------------------------------------------------------------------------ bits


@pytest.fixture
def _restore_threads() -> Iterator[None]:
    count = tessera.get_num_threads()
    yield
    tessera.set_num_threads(count)


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("_restore_threads")
def test_a_gradient_has_the_same_bits_on_one_thread_and_on_two(program: tessera.Module) -> None:
    rng = np.random.default_rng(1)
    w, x = rng.normal(size=(64, 96)).astype(np.float32) / 8, rng.normal(size=(70, 64)).astype(np.float32)
    found = []
    for threads in (1, 2):
        tessera.set_num_threads(threads)
        found.append(np.asarray(program.network_slope(w, x)).tobytes())
    assert found[0] == found[1]


@pytest.mark.one_in(12)
def test_a_gradient_has_the_same_bits_fused_and_not() -> None:
    session, platform = Session(), host_platform()
    source = SourceFile("bits.tess", PROGRAM)
    function = session.function(source, "network_slope")
    ways = [CompiledFunction(session.artifact(source, function, platform))]
    with nothing_fused():
        ways.append(CompiledFunction(session.artifact(source, function, platform)))
    rng = np.random.default_rng(2)
    w, x = rng.normal(size=(64, 96)).astype(np.float32) / 8, rng.normal(size=(7, 64)).astype(np.float32)
    fused, unfused = (np.asarray(way(w, x)).tobytes() for way in ways)
    assert fused == unfused
