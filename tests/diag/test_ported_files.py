"""Files of several classes of PyTorch: settings, what classes decide when they are made, and calls that make them."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.porting.files import ported_file
from tests.diag.test_growing_lists import mended, offered

GPT = """from dataclasses import dataclass
import torch
import torch.nn as nn

@dataclass
class Config:
    width: int = 8
    heads: int = 2
    layers: int = 2
    vocab: int = 11
    dropout: float = 0.1
    bias: bool = False

class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.width % config.heads == 0
        size = config.width // config.heads
        self.heads = config.heads
        self.fc = nn.Linear(config.width, config.heads * size, bias=config.bias)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x):
        return x + self.drop(self.fc(x)) * self.heads

class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.parts = nn.ModuleDict(dict(
            tok=nn.Embedding(config.vocab, config.width),
            h=nn.ModuleList([Block(config) for _ in range(config.layers)]),
        ))
        self.apply(self._init_weights)

    def _init_weights(self, module):
        torch.nn.init.normal_(module.weight)

    def forward(self, i):
        assert i.size(1) <= self.config.vocab
        x = self.parts.tok(i)
        for block in self.parts.h:
            x = block(x)
        return x

def run(i: Tensor[B, T, i64]):
    config = Config(layers=1, dropout=0.0)
    net = Net(config)
    return net(i), net
"""


@pytest.mark.one_in(4)
def test_a_file_with_settings() -> None:
    """By fixes alone, with the numbers of its layers."""
    text = mended(GPT, steps=6)
    assert "struct Config:\n    width: int = 8\n" in text and "fc: LinearNoBias[Width, Width]\n" in text
    assert "Net[config.vocab, config.width, config.layers](heads=config.heads, dropout=config.dropout)" in text
    i = np.array([[1, 4], [0, 10]])
    y, net = tessera.compile(text).run(i)
    x = np.asarray(net.parts_tok.weight)[i]
    np.testing.assert_allclose(y, x + x @ np.asarray(net.parts_h[0].fc.weight).T * 2, rtol=1e-5, atol=1e-6)


def structs(text: str) -> str:
    made = ported_file(text, text.index("class "))
    assert made is not None
    return "\n".join(change.text for change in made.changes)


CLASS = """class Net(nn.Module):
    scale = 2

    def __init__(self, d, h=4, deep=None, biased=True):
        super().__init__()
{}

"""
FORWARD = "    def forward(self, x):\n        return self.a(x)\n"


@pytest.mark.parametrize(
    ("lines", "written"),
    [
        ("n = d // h\nself.a = nn.Linear(d, 3 * (n + 1))", "struct Net[D, N]:\n    a: Linear[D, 3 * (N + 1)]"),
        ("self.a = nn.Linear(d, self.scale * d)", "a: Linear[D, 2 * D]"),
        ("self.a = nn.Linear(d, h, bias=biased)", "a: Linear[D, H]"),
        ("if deep is None:\n    deep = h\nself.a = nn.Linear(d, deep)", "a: Linear[D, H]"),
        ("self.a = nn.Linear(d, int(h * 4.0))", "a: Linear[D, H * 4]"),
        ("self.a = nn.Conv2d(d, d, 3, groups=d, padding=1)", "return self.a(x, padding=1, groups=D)"),
        ("self.b = nn.Linear(d, d)\nself.a = nn.Conv2d(d, h, 3, groups=2)", "a: Conv2d[D // 2, H, 3]"),
        ("self.a = nn.Conv2d(d, h, 3, groups=1)", "return self.a(x)"),
        ("self.a = nn.Sequential(nn.Linear(d, h), nn.Dropout(0.5))", "dropout(self.a_0(x), 0.5, training=training)"),
        ("self.a = nn.ConvTranspose2d(d, h, 3, output_padding=1)", "return self.a(x, output_padding=1)"),
        ("self.a = nn.LSTM(d, h, 2)", "a_more: List[2 - 1, LSTM[H, H]]"),
        ("self.a = nn.GRU(d, h, bidirectional=True)", "gru(x, [self.a.weights(), self.a_reverse.weights()], None"),
        ("self.a = nn.LSTM(d, h, bias=False)", "return lstm(x, [self.a.weights()], None)"),
        ("self.a = nn.LSTM(d, h, bias=False)", "a: LSTMNoBias[D, H]"),
        ("self.a = nn.LSTM(d, h, 2, proj_size=3)", "a_more: List[2 - 1, LSTMProjected[3, H, 3]]"),
        ("self.a = nn.GRU(d, h, 2, dropout=0.3)", "self.a_more], None, dropout=0.3, training=training)"),
        ("self.a = nn.GRU(d, h, dropout=0.3)", "return gru(x, [self.a.weights()], None)"),
        ("self.a = nn.RNN(d, h, nonlinearity='relu')", "rnn(x, [self.a.weights()], None, nonlinearity='relu')"),
        ("self.a = nn.RNN(d, h, batch_first=True)", "return self.a(x, batch_first=True)"),
        ("self.a = nn.GRUCell(d, h)", "a: GRUCell[D, H]"),
        ("self.a = nn.Linear(d, h)\nnn.init.zeros_(self.a.bias)", "a: Linear[D, H]"),
    ],
)  # fmt: skip
def test_what_a_class_decides(lines: str, written: str) -> None:
    indented = "\n".join(f"        {line}" for line in lines.splitlines())
    assert written in structs(CLASS.format(indented) + FORWARD)


@pytest.mark.parametrize(
    "line",
    [
        "if d > 3:\n            self.a = nn.Linear(d, d)",
        "self.a = nn.Linear(d, d ** h)",
        "self.a = nn.Linear(d, d, bias=d)",
    ],
)
def test_what_depends_on_sizes_has_no_struct(line: str) -> None:
    text = CLASS.format(f"        {line}") + FORWARD
    assert ported_file(text, 0) is None


def test_a_row_of_layers_is_called_one_by_one() -> None:
    lines = "        self.a = nn.Sequential(*[nn.Linear(d, d) for _ in range(h)])"
    text = structs(CLASS.format(lines) + FORWARD.replace("return self.a(x)", "y = self.a(x)\n        return y"))
    assert "a: List[H, Linear[D, D]]" in text
    assert "        y = x\n        for layer in self.a:\n            y = layer(y)\n        return y" in text


def test_calls_outside_of_classes() -> None:
    """Sizes in brackets, what is not given as it is there, and numbers by name."""
    made = CLASS.format("        self.k = h\n        self.a = nn.Linear(d, d)") + FORWARD.replace("(x)", "(x) * self.k")
    text = structs(made + "\ndef f():\n    return Net(8), Net(8, h=2)\n")
    assert "    h: int = 4\n" in text and text.endswith("Net[8]()\nNet[8](h=2)")


@pytest.mark.one_in(4)
def test_layers_in_groups_and_levels() -> None:
    """A convolution of each channel by itself, and two levels in both directions, as they are written out."""
    lines = "        self.c = nn.Conv1d(d, d, 3, groups=d, padding=1)\n"
    lines += "        self.a = nn.LSTM(d, h, 2, batch_first=True, bidirectional=True)"
    forward = "    def forward(self, x):\n        y, _ = self.a(self.c(x).transpose(1, 2))\n        return y\n"
    run = "\ndef run(x: Tensor[B, 3, T, f32]):\n    net = Net(3, h=2)\n    return net(x), net\n"
    m = tessera.compile(mended(CLASS.format(lines) + forward + run))
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("f4")
    y, net = m.run(x)
    w, framed = np.asarray(net.c.weight)[:, 0], np.pad(x, ((0, 0), (0, 0), (1, 1)))
    z = sum(framed[:, :, k : k + 4] * w[:, k, None] for k in range(3)) + np.asarray(net.c.bias)[:, None]
    z = z.transpose(2, 0, 1).astype("f8")
    for there, back in ((net.a, net.a_reverse), (net.a_more[0], net.a_more_reverse[0])):
        z = np.concatenate([_lstm(there, z), _lstm(back, z[::-1])[::-1]], -1)
    np.testing.assert_allclose(np.asarray(y).transpose(1, 0, 2), z, atol=2e-6)


def _lstm(layer: object, x: np.ndarray) -> np.ndarray:
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    w, u, b, c = (np.asarray(getattr(layer, name), "f8") for name in names)
    h, cell, rows = np.zeros((x.shape[1], u.shape[1])), 0.0, []
    for row in x:
        i, f, g, o = np.split(row @ w.T + b + h @ u.T + c, 4, axis=1)
        cell = cell / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(cell) / (1 + np.exp(-o))
        rows.append(h)
    return np.stack(rows)


def test_a_class_with_a_mistake_is_a_struct_all_the_same() -> None:
    """What is wrong in it is told next, where it stands."""
    layers = "        self.b = nn.Linear(d, 5)\n        self.a = nn.Linear(6, h)"
    text = CLASS.format(layers) + FORWARD.replace("(x)", "(self.b(x))")
    text += "\ndef f(x: Tensor[B, 3, f32]):\n    return Net(3)(x)\n"
    (said,) = offered(text)
    assert said.code == "E0107" and said.fixes[0].edits
    assert "a: Linear[5, H]" in mended(text)


def test_a_decorator_before_a_class_is_told_with_it() -> None:
    assert [said.code for said in offered(GPT[GPT.index("@dataclass") : GPT.index("class Block")])] == ["E0107"]


