"""The library's layers: what calling each computes, where its weights begin, and that a model of them is trained."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tests.support.checking import diagnose

LAYERS = {
    "Linear[3, 5]": ("x: Tensor[2, 4, 3, f32]", "layer(x)", "linear(x, layer.weight.T, layer.bias)"),
    "Embedding[7, 3]": ("x: Tensor[2, 4, i64]", "layer(x)", "embedding(layer.weight, x)"),
    "LayerNorm[3]": ("x: Tensor[2, 3, f32]", "layer(x)", "layernorm(x, layer.weight, layer.bias)"),
    "RMSNorm[3]": ("x: Tensor[2, 3, f32]", "layer(x)", "rmsnorm(x, layer.weight, eps=1.1920929e-7)"),
    "GroupNorm[4]": ("x: Tensor[2, 4, 3, f32]", "layer(x, 2)", "groupnorm(x, 2)"),
    "BatchNorm[4]": ("x: Tensor[2, 4, 3, f32]", "layer.train(x)[0]", "batchnorm_train(x, zeros(4), ones(4))[0]"),
    "Conv1d[3, 4, 3]": (
        "x: Tensor[2, 3, 9, f32]", "layer(x, stride=2)", "conv1d(x, layer.weight, layer.bias, stride=2)"),
    "Conv2d[3, 4, 3]": (
        "x: Tensor[2, 3, 9, 8, f32]", "layer(x, padding=1)", "conv2d(x, layer.weight, layer.bias, padding=1)"),
    "ConvTranspose2d[3, 4, 2]": (
        "x: Tensor[2, 3, 5, 4, f32]", "layer(x, stride=2)", "conv_transpose2d(x, layer.weight, layer.bias, stride=2)"),
    "Conv3d[2, 3, 2]": (
        "x: Tensor[2, 2, 3, 4, 3, f32]", "layer(x, padding=1)", "conv3d(x, layer.weight, layer.bias, padding=1)"),
    "Conv3dNoBias[2, 3, 2]": (
        "x: Tensor[2, 2, 3, 4, 3, f32]", "layer(x, stride=2)", "conv3d(x, layer.weight, stride=2)"),
    "ConvTranspose1d[3, 4, 2]": (
        "x: Tensor[2, 3, 5, f32]", "layer(x, stride=2)", "conv_transpose1d(x, layer.weight, layer.bias, stride=2)"),
    "ConvTranspose1dNoBias[3, 4, 2]": (
        "x: Tensor[2, 3, 5, f32]", "layer(x, padding=1)", "conv_transpose1d(x, layer.weight, padding=1)"),
    "ConvTranspose2dNoBias[3, 4, 2]": (
        "x: Tensor[2, 3, 5, 4, f32]", "layer(x, stride=2)", "conv_transpose2d(x, layer.weight, stride=2)"),
    "ConvTranspose3d[2, 3, 2]": (
        "x: Tensor[2, 2, 3, 2, 3, f32]", "layer(x)", "conv_transpose3d(x, layer.weight, layer.bias)"),
    "ConvTranspose3dNoBias[2, 3, 2]": (
        "x: Tensor[2, 2, 3, 2, 3, f32]", "layer(x, stride=2)", "conv_transpose3d(x, layer.weight, stride=2)"),
    "LSTM[3, 2]": ("x: Tensor[4, 2, 3, f32]", "layer(x)[0]",
        "lstm(x, [(layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)])[0]"),
    "GRU[3, 2]": ("x: Tensor[4, 2, 3, f32]", "layer(x)[0]",
        "gru(x, [(layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)])[0]"),
    "LSTMNoBias[3, 2]": ("x: Tensor[4, 2, 3, f32]", "layer(x)[0]",
        "lstm(x, [(layer.weight_ih_l0, layer.weight_hh_l0)])[0]"),
    "LSTMProjected[3, 4, 2]": ("x: Tensor[4, 2, 3, f32]", "layer(x)[0]",
        "lstm(x, [(layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)"
        " + (layer.weight_hr_l0,)])[0]"),
    "GRUNoBias[3, 2]": ("x: Tensor[4, 2, 3, f32]", "layer(x, lengths=array([3, 1]))[0]",
        "gru(x, [(layer.weight_ih_l0, layer.weight_hh_l0)], lengths=array([3, 1]))[0]"),
    "RNN[3, 2]": ("x: Tensor[4, 2, 3, f32]", "layer(x, nonlinearity='relu')[0]",
        "rnn(x, [(layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)],"
        " nonlinearity='relu')[0]"),
    "RNNNoBias[3, 2]": ("x: Tensor[4, 2, 3, f32]", "layer(x)[0]",
        "rnn(x, [(layer.weight_ih_l0, layer.weight_hh_l0)])[0]"),
    "LSTMCell[3, 2]": ("x: Tensor[4, 3, f32]", "layer(x, layer(x))[1]",
        "lstm(stack([x, x]), [(layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh)])[1][1][0]"),
    "GRUCell[3, 2]": ("x: Tensor[4, 3, f32]", "layer(x, layer(x))",
        "gru(stack([x, x]), [(layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh)])[1][0]"),
    "RNNCell[3, 2]": ("x: Tensor[4, 3, f32]", "layer(x, layer(x))",
        "rnn(stack([x, x]), [(layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh)])[1][0]"),
}  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_is_its_function(layer: str) -> None:
    given, call, meant = LAYERS[layer]
    text = f"def f({given}):\n    layer = {layer}(seed=3)\n    return {call}, {meant}\n"
    rng = np.random.default_rng(1)
    shape = [int(size) for size in given.split("[")[1].split(",")[:-1]]
    x = rng.integers(0, 7, shape) if "i64" in given else rng.standard_normal(shape).astype("f4")
    ours, by_function = tessera.compile(text).f(x)
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(by_function))


@pytest.mark.one_in(4)
def test_attention_of_heads() -> None:
    text = """def f(x: Tensor[2, 5, 8, f32]):
    layer = MultiheadAttention[8](seed=0)
    return layer(x, heads=2, causal=True), layer.in_proj_weight, layer.out_proj.weight, layer.out_proj.bias
"""
    x = np.random.default_rng(0).standard_normal((2, 5, 8)).astype("f4")
    y, w, out, bias = (np.asarray(part, "f8") for part in tessera.compile(text).f(x))
    q, k, v = ((x @ part.T).reshape(2, 5, 2, 4).transpose(0, 2, 1, 3) for part in np.split(w, 3))
    scores = np.where(np.tri(5, dtype=bool), q @ k.swapaxes(2, 3) / 2.0, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    assert not bias.any()
    found = (p / p.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(2, 5, 8)
    np.testing.assert_allclose(y, found @ out.T + bias, atol=1e-6)


def test_where_weights_begin() -> None:
    """Within one over the root of what is added up, and not all in one place."""
    layer = tessera.compile("def f():\n    return Linear[64, 100](seed=0)\n").f()
    weight = np.asarray(layer.weight)
    assert weight.shape == (100, 64) and np.abs(weight).max() <= 0.125 < 1.01 * np.abs(weight).max()
    assert abs(weight.mean()) < 0.005 and np.abs(np.asarray(layer.bias)).max() <= 0.125


@pytest.mark.one_in(4)
def test_a_model_of_layers_is_trained() -> None:
    m = tessera.compile("""struct Net[D, H]:
    up: Linear[D, H]
    norm: LayerNorm[H]
    down: Linear[H, 1]

    def apply(self, x: Tensor[B, D, f32]) -> Tensor[B, f32]:
        return self.down(gelu(self.norm(self.up(x))))[:, 0]

def loss(m: Net[D, H], x: Tensor[B, D, f32], y: Tensor[B, f32]) -> Tensor[f32]:
    return mean((m(x) - y) ** 2)

def step(m: Net[D, H], x: Tensor[B, D, f32], y: Tensor[B, f32]):
    value, slope = value_and_grad(loss)(m, x, y)
    return m - 0.1 * slope, value
""")
    x = np.random.default_rng(0).standard_normal((64, 3)).astype("f4")
    net, losses = m.Net(3, 16, seed=0), []
    for _ in range(40):
        net, value = m.step(net, x, np.sin(x[:, 0]))
        losses.append(float(value))
    assert losses[-1] < 0.2 * losses[0]


def test_a_program_has_its_own_layers() -> None:
    text = """struct Linear[N]:
    w: Tensor[N, f32] = ones(N)

    def apply(self, x: Tensor[N, f32]) -> Tensor[N, f32]:
        return x * self.w

def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return Linear[N]()(x)
"""
    np.testing.assert_array_equal(np.asarray(tessera.compile(text).f(np.arange(3, dtype="f4"))), [0.0, 1.0, 2.0])


def test_numbers_of_a_field_of_a_field_are_known_by_a_call() -> None:
    """A method that needs the value of an int is checked further when a struct that has it is there."""
    text = """struct Step:
    w: Tensor[2, 1, 3, f32] = ones(2, 1, 3)
    stride: int = 1

    def apply(self, x: Tensor[B, 1, N, f32]):
        return conv1d(x, self.w, stride=self.stride)

struct Net:
    step: Step = Step(stride=2)

    def apply(self, x: Tensor[B, 1, N, f32]):
        return relu(self.step(x))

def f(x: Tensor[B, 1, 9, f32]):
    return Net()(x)
"""
    assert np.asarray(tessera.compile(text).f(np.ones((1, 1, 9), "f4"))).shape == (1, 2, 4)


@pytest.mark.parametrize(
    ("given", "call", "title", "note"),
    [
        ("x: Tensor[B, T, f32]", "layer(x)", '"I" is 3 and "T" in one call', ""),
        (
            "x: Tensor[B, T, 3, f32], h: Tensor[1, B, 2, f32]",
            "layer(x, (h, h))",
            "`T == B` does not",
            "batch_first=True",
        ),
        ("x: Tensor[T, B, 3, f32], h: Tensor[1, B, 2, f32]", "layer(x, h)", "`LSTM.apply` does not work", "(h, c)"),
    ],
)
def test_what_a_recurrent_layer_takes_is_said_where_it_is_called(given: str, call: str, title: str, note: str) -> None:
    source = SourceFile("a.tess", f"def f(layer: LSTM[3, 2], {given}):\n    return {call}\n")
    (said,) = diagnose(source)
    assert title in said.title and note in " ".join([said.primary.text, *said.notes])
    assert not any("needs `D" in step.text for step in said.because)
