"""Buffers and floats of structs: no derivative is taken by them, no optimiser changes them, all else does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessera

NETS = """
struct Layer[C]:
    w: Tensor[C, f32] = 0.5 * ones(C)
    buffer table: Tensor[C, f32] = 2.0 * ones(C)
    counts: Tensor[C, i32] = zeros(C, i32)

struct Net[C]:
    first: Layer[C]
    layers: List[2, Layer[C]]
    buffer fixed: Layer[C]

    def apply(self, x: Tensor[B, C, f32]):
        y = x * self.first.w * self.first.table + self.fixed.w
        for layer in self.layers:
            y = sin(y) * layer.w + layer.table
        return y

    def as_constants(self, x: Tensor[B, C, f32], w: Tensor[C, f32]):
        y = x * w * stop_gradient(self.first.table) + stop_gradient(self.fixed.w)
        for layer in self.layers:
            y = sin(y) * stop_gradient(layer.w) + stop_gradient(layer.table)
        return y

def loss(net: Net[C], x: Tensor[B, C, f32]):
    return sum(net(x) ** 2)

def gradient(net: Net[C], x: Tensor[B, C, f32]):
    return grad(loss)(net, x)

def gradient_of_w(net: Net[C], x: Tensor[B, C, f32]):
    return grad(lambda w: sum(net.as_constants(x, w) ** 2))(net.first.w)

def forward_and_back(net: Net[C], x: Tensor[B, C, f32]):
    g = gradient(net, x)
    (y, moved), (dy, dmoved) = jvp(lambda n: (loss(n, x), n), (net,), (g,))
    same, pull = vjp(lambda n: n, net)
    (back,) = pull(dmoved)
    return dy, back

def rows(net: Net[C], x: Tensor[B, C, f32]):
    return jacrev(lambda n: n(x))(net), jacfwd(lambda n: n(x))(net)

def step(net: Net[C], x: Tensor[B, C, f32]):
    g = gradient(net, x)
    return adamw(net, g, adam_init(net), lr=0.1, weight_decay=0.5)[0], sgd(net, g, sgd_init(net), weight_decay=0.5)[0]

def others(net: Net[C], x: Tensor[B, C, f32]):
    g = gradient(net, x)
    a, state = lion(net, g, momentum_init(net), weight_decay=0.5)
    b, state = momentum(net, g, momentum_init(net), weight_decay=0.5)
    c, state = adafactor(net, g, adafactor_init(net), weight_decay=0.5)
    return a, b, c, net - 0.1 * clip_by_global_norm(g, 1.0)
"""


@pytest.fixture(scope="module")
def nets() -> Any:
    return tessera.compile(NETS)


def _x() -> np.ndarray:
    return np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def _buffers(net: Any) -> list[np.ndarray]:
    return [net.first.table, *(layer.table for layer in net.layers), net.fixed.w, net.fixed.table, net.fixed.counts]


def test_a_gradient_has_none_where_a_buffer_is(nets: Any) -> None:
    net = nets.Net(4)
    found = nets.gradient(net, _x())
    assert found.first.table is None and found.fixed is None and found.layers[1].table is None
    assert found.first.counts is None
    np.testing.assert_array_equal(found.first.w, nets.gradient_of_w(net, _x()))
    assert np.all(found.layers[0].w != 0)


def test_changes_go_forward_and_back_past_buffers(nets: Any) -> None:
    net = nets.Net(4)
    gradient = nets.gradient(net, _x())
    change, back = nets.forward_and_back(net, _x())
    square = sum(float((part.w.astype(np.float64) ** 2).sum()) for part in (gradient.first, *gradient.layers))
    np.testing.assert_allclose(change, square, rtol=1e-5)
    np.testing.assert_array_equal(back.layers[1].w, gradient.layers[1].w)
    assert back.fixed is None and back.layers[1].table is None


def test_jacobians_have_rows_of_weights_alone(nets: Any) -> None:
    reverse, forward = nets.rows(nets.Net(4), _x())
    assert reverse.fixed is None and forward.fixed is None and forward.first.table is None
    assert reverse.layers[0].w.shape == (3, 4, 4)
    np.testing.assert_allclose(reverse.layers[0].w, forward.layers[0].w, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", ["step", "others"])
def test_optimisers_leave_buffers_as_they_are(nets: Any, function: str) -> None:
    net = nets.Net(4)
    for moved in getattr(nets, function)(net, _x()):
        for own, kept in zip(_buffers(moved), _buffers(net), strict=True):
            np.testing.assert_array_equal(own, kept)
        assert np.all(moved.first.w != net.first.w)


BATCH_NORM = """
struct Net[C]:
    w: Tensor[C, C, f32] = eye(C)
    norm: BatchNorm[C]

    def train(self, x: Tensor[B, C, f32]):
        y, self.norm = self.norm.train(x @ self.w)
        return y, self

def trained(net: Net[C], xs: Tensor[K, B, C, f32]):
    state = adam_init(net)
    for i in range(K):
        def loss_of(net):
            y, moved = net.train(xs[i])
            return sum(y ** 3), moved
        (loss, moved), grads = value_and_grad(loss_of, has_aux=True)(net)
        net, state = adamw(moved, grads, state, lr=0.0, weight_decay=100.0)
    return net
"""


def test_a_batch_norm_keeps_what_it_saw() -> None:
    """The weights stay (the rate is 0), so that the running statistics are those of the inputs."""
    module: Any = tessera.compile(BATCH_NORM)
    xs = np.random.default_rng(0).normal(size=(5, 16, 3)).astype(np.float32)
    net = module.trained(module.Net(3), xs)
    mean, var = np.zeros(3), np.ones(3)
    for x in xs.astype(np.float64):
        mean, var = 0.9 * mean + 0.1 * x.mean(0), 0.9 * var + 0.1 * x.var(0, ddof=1)
    np.testing.assert_allclose(net.norm.running_mean, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(net.norm.running_var, var, rtol=1e-5)


SETTINGS = """
struct Layer[D]:
    w: Tensor[D, f32]
    gain: f32
    scale: float = 0.5

struct Net[D]:
    first: Layer[D]
    second: Layer[D]
    eps: float

def loss(m: Net[D], x: Tensor[D, f32]) -> Tensor[f32]:
    y = m.first.w * x * m.first.scale * m.first.gain
    return sum(tanh(y * m.second.w * m.second.scale) * m.second.gain) + m.eps

def gradient(m: Net[D], x: Tensor[D, f32]):
    return grad(loss)(m, x)

def by_loop(m: Net[D], x: Tensor[D, f32]):
    for _ in range(3):
        m = m - 0.1 * grad(loss)(m, x)
    return m

def by_others(m: Net[D], x: Tensor[D, f32]):
    g = clip_by_global_norm(grad(loss)(m, x), 1.0)
    a, _ = adamw(m, g, adam_init(m), lr=0.1, weight_decay=0.5)
    b, _ = lion(m, g, momentum_init(m), lr=0.1, weight_decay=0.5)
    c, _ = sgd(m, g, sgd_init(m), lr=0.1, weight_decay=0.5)
    d, _ = adafactor(m, g, adafactor_init(m), lr=0.1, weight_decay=0.5)
    return a, b, c, d, tree_map(lambda w: 0.0 * w, m), 0.5 * m, m + m

def numbers(m: Net[D]) -> Tensor[f32]:
    return tree_dot(m, m)

def chosen(m: Net[D], n: Net[D], first: Tensor[bool]) -> Net[D]:
    return tree_where(first, m, n)
"""


@pytest.fixture(scope="module")
def settings() -> Any:
    return tessera.compile(SETTINGS)


def _net(settings: Any, scale: float = 0.25) -> Any:
    layer = settings.Layer(w=np.ones(3, np.float32), gain=np.float32(2), scale=scale)
    return settings.Net(first=layer, second=layer, eps=0.125)


def test_no_derivative_is_taken_by_a_float(settings: Any) -> None:
    found = settings.gradient(_net(settings), np.ones(3, np.float32))
    assert found.eps is None and found.first.scale is None and found.second.scale is None
    assert np.all(found.first.w != 0) and found.first.gain != 0


@pytest.mark.parametrize("function", ["by_loop", "by_others"])
def test_steps_leave_floats_as_they_are(settings: Any, function: str) -> None:
    net = _net(settings)
    moved = getattr(settings, function)(net, np.ones(3, np.float32))
    for one in moved if isinstance(moved, tuple) else [moved]:
        assert (one.eps, one.first.scale, one.second.scale) == (0.125, 0.25, 0.25)
        assert np.all(one.first.w != 1) and one.second.gain != 2


def test_questions_are_of_tensors_alone(settings: Any) -> None:
    assert settings.numbers(_net(settings)) == 2 * (3 + 4)


def test_a_choice_is_of_floats_too(settings: Any) -> None:
    first, second = _net(settings, 0.25), _net(settings, 0.75)
    assert settings.chosen(first, second, np.True_).first.scale == 0.25
    assert settings.chosen(first, second, np.False_).second.scale == 0.75


def test_a_struct_of_floats_alone_is_told_what_learns() -> None:
    text = "struct P:\n    k: float = 1.0\n    c: float\n\ndef f(p: P) -> Tensor[f32]: return p.k * ones(2)[0]\n"
    with pytest.raises(tessera.TesseraError) as raised:
        tessera.compile(text + "def g(p: P): return grad(f)(p)\n")
    assert "k: f32 = 1.0" in str(raised.value) and "c: f32" in str(raised.value)
