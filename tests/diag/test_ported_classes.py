"""Classes of PyTorch: the struct that each is, by fixes alone, with the numbers that its layers have."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tessera
from tesserac.porting.files import ported_file
from tests.diag.test_growing_lists import mended, offered

NET = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim, hidden=32):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mlp(self.norm(x))


class Net(nn.Module):
    \"\"\"A small one.\"\"\"

    def __init__(self, classes: int = 10, depth: int = 2):
        super(Net, self).__init__()
        self.conv = nn.Conv2d(1, 4, kernel_size=3, stride=1, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.act = nn.ReLU(inplace=True)
        self.blocks = nn.ModuleList([Block(4 * 2 * 2, 8) for _ in range(depth)])
        self.scale = nn.Parameter(torch.ones(1) * 0.5)
        self.fc = nn.Linear(4 * 2 * 2, classes)

    def forward(self, x):
        x = self.pool(self.act(self.conv(x)))
        x = x.view(x.size(0), -1)
        for block in self.blocks:
            x = block(x)
        return F.log_softmax(self.fc(x) * self.scale, dim=1)
"""


@pytest.mark.one_in(4)
def test_a_network_by_fixes_alone() -> None:
    """Two classes, their imports, and what the methods call."""
    text = mended(NET, steps=12)
    assert '"""A small one."""' in text and "class" not in text.replace("Classes", "")
    m = tessera.compile(text)
    net = m.Net(3, 1, seed=0)
    x = np.random.default_rng(0).standard_normal((2, 1, 4, 4)).astype("f4")
    h = np.asarray(net.conv.weight), np.asarray(net.conv.bias)
    framed = np.pad(x[:, 0].astype("f8"), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(framed, (3, 3), (1, 2))
    y = np.maximum(np.einsum("nhwij,oij->nohw", windows, h[0][:, 0]) + h[1][:, None, None], 0)
    y = y.reshape(2, 4, 2, 2, 2, 2).max((3, 5)).reshape(2, 16)
    block = net.blocks[0]
    centred = (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 1e-5)
    z = _linear(block.mlp_0, centred)
    y = y + _linear(block.mlp_2, 0.5 * z * (1 + np.vectorize(math.erf)(z / np.sqrt(2))))
    y = _linear(net.fc, y) * 0.5
    np.testing.assert_allclose(np.asarray(net(x)), y - np.log(np.exp(y).sum(1, keepdims=True)), atol=2e-5)


def _linear(layer: object, x: np.ndarray) -> np.ndarray:
    return x @ np.asarray(layer.weight, "f8").T + np.asarray(layer.bias, "f8")  # type: ignore[attr-defined]


CLASS = "class Net(nn.Module):\n    def __init__(self, d):\n        super().__init__()\n        {line}\n\n{method}"
FORWARD = "    def forward(self, x):\n        return self.a(x)\n"


@pytest.mark.parametrize(
    "line",
    [
        "self.a = nn.BatchNorm2d(d, momentum=0.2)",
        "self.a = nn.Linear(d, 4, bias=biased)",
        "self.a = nn.Conv2d(d, 4, (3, 5))",
        "self.a = nn.LSTM(d, 4, bias=False, proj_size=2)",
        "self.a = nn.Linear(d, width)",
        "self.a = make(d)",
        "self.heads = make",
        "for i in range(d): self.a = nn.Linear(d, d)",
    ],
)
def test_what_has_no_counterpart_has_no_fix(line: str) -> None:
    (said,) = offered(CLASS.format(line=line, method=FORWARD))
    assert said.code == "E0107" and said.fixes == () and "struct" in " ".join(said.notes)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("self.a = nn.Linear(d, 2 * d)", "a: Linear[D, 2 * D]"),
        ("self.a = torch.nn.Conv2d(3, d, (3, 3), 2)", "a: Conv2d[3, D, 3]"),
        ("self.a = nn.Embedding(num_embeddings=d, embedding_dim=8)", "a: Embedding[D, 8]"),
        ("self.a = nn.GRU(d, 8, batch_first=True)", "a: GRU[D, 8]"),
        ("self.a = nn.Parameter(torch.randn(d, 3) * 0.02)", "a: Tensor[D, 3, f32] = normal(D, 3) * 0.02"),
    ],
)
def test_fields(line: str, field: str) -> None:
    (said,) = offered(CLASS.format(line=line, method="    def size(self):\n        return 1\n"))
    (fix,) = said.fixes
    assert fix.edits[0].replacement == f"struct Net[D]:\n    {field}\n\n    def size(self):\n        return 1"


STRUCT = "struct Net[D, L]:\n    {field}\n    w: Tensor[D, L, f32] = zeros(D, L)\n"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a = nn.Linear(D, L)", "a: Linear[D, L]"),
        ("a = Conv2d(3, D, 3, padding=1)", "a: Conv2d[3, D, 3]"),
        ("a: nn.Linear[D, L]", "a: Linear[D, L]"),
        ("a: nn.LayerNorm(D)", "a: LayerNorm[D]"),
        ("a: List[Linear[D, D], L]", "a: List[L, Linear[D, D]]"),
    ],
)
def test_fields_of_structs(written: str, meant: str) -> None:
    assert mended(STRUCT.format(field=written)) == STRUCT.format(field=meant)


def test_sizes_of_a_struct_stand_in_brackets() -> None:
    text = mended("def f(x: Tensor[B, 8, f32]):\n    layer = nn.Linear(8, 4, seed=1)\n    return layer(x)\n")
    assert "Linear[8, 4](seed=1)" in text
    with_key = mended("def f(k: Key):\n    return jax.random.normal(k, (2, 3))\n")
    assert with_key == "def f(k: Key):\n    return normal((2, 3), key=k)\n"


def test_a_tensor_is_taken_apart() -> None:
    text = mended("def f(edges: Tensor[2, E, i64]):\n    src, dst = edges\n    return src - dst\n")
    assert "src, dst = unbind(edges)" in text


HEADS = """class Attention(nn.Module):
    def __init__(self, dim, heads, p: float = 0.0):
        super().__init__()
        assert dim % heads == 0
        self.dim = dim
        self.heads = heads
        self.size = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        q, k, v = self.qkv(x).split(self.dim, dim=2)
        return self.drop(q.view(x.size(0), x.size(1), self.heads, self.size).sum(2))

class Layers(nn.Module):
    def __init__(self, dim, heads, depth):
        super().__init__()
        self.first = Attention(dim, 2 * heads)
        self.rest = nn.ModuleList([Attention(dim, heads, p=0.5) for _ in range(depth)])

    def forward(self, x):
        for layer in self.rest:
            x = layer(x)
        return self.first(x)
"""
OF_HEADS = """struct Layers[Dim, Depth]:
    heads: int
    first: Attention[Dim] = Attention[Dim](heads=2 * heads)
    rest: List[Depth, Attention[Dim]] = [Attention[Dim](heads=heads, p=0.5) for _ in range(Depth)]

    def apply(self, x, training: bool = True):
        for layer in self.rest:
            x = layer(x, training=training)
        return self.first(x, training=training)"""


def test_numbers_that_are_no_sizes_are_fields() -> None:
    """And are handed on to the structs within, whichever of the classes is a struct by now."""
    made = ported_file(HEADS, 0)
    assert made is not None
    attention, layers = (change.text for change in made.changes)
    lines = attention.splitlines()
    fields = ["    heads: int", "    p: float = 0.0", "    qkv: Linear[Dim, 3 * Dim]"]
    assert lines[:4] == ["struct Attention[Dim]:", *fields]
    assert "        assert Dim % self.heads == 0" in lines
    assert "        q, k, v = self.qkv(x).chunk(3, dim=2)" in lines
    assert "dropout(q.view(x.size(0), x.size(1), self.heads, Dim // self.heads).sum(2), self.p, training=" in lines[-1]
    assert layers == OF_HEADS
    rest = HEADS[HEADS.index("\n\nclass Layers") :]
    half = attention + rest.replace("2 * heads", "heads").replace("p=0.5", "p=heads")
    assert ported_file(half, half.index("class Layers")) is not None


ENCODING = """class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=512, dropout=0.1):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        scale = torch.ones(3)
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len, dtype=torch.float).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        pe = pe.unsqueeze(0)
        self.register_buffer("pe", pe, persistent=False)
        self.register_buffer("mask", torch.tril(torch.ones(max_len, max_len)).view(1, max_len, max_len) == 0)

    def forward(self, x):
        return self.dropout(x + self.pe[:, :x.size(1)]), self.mask
"""
BUFFERS = """def positional_encoding_pe(d_model: int, max_len: int):
    pe = zeros(max_len, d_model)
    position = arange(0, max_len, dtype=f32).unsqueeze(1)
    div_term = exp(arange(0, d_model, 2).astype(f32) * (-log(10000.0) / d_model))
    pe[:, 0::2] = sin(position * div_term)
    pe[:, 1::2] = cos(position * div_term)
    pe = pe.unsqueeze(0)
    return pe

def positional_encoding_mask(max_len: int):
    return tril(ones(max_len, max_len)).view(1, max_len, max_len) == 0

struct PositionalEncoding[D_model, Max_len]:
    dropout: float = 0.1
    buffer pe: Tensor[1, Max_len, D_model, f32] = positional_encoding_pe(D_model, Max_len)
    buffer mask: Tensor[1, Max_len, Max_len, bool] = positional_encoding_mask(Max_len)

    def apply(self, x, training: bool = True):
        return (dropout(x + self.pe[:, :x.size(1)], p=self.dropout, training=training), self.mask)"""
MADE = """

def made(x: Tensor[B, S, 6, f32]):
    encoding = PositionalEncoding[6, 9]()
    return encoding(x, training=False)
"""


def test_tensors_that_are_not_trained_are_buffers() -> None:
    ported = ported_file(ENCODING, 0)
    assert ported is not None and ported.changes[0].text == BUFFERS
    for unknown in ("torch.empty(max_len)", "torch.ones(max_len, width)", "torch.ones(max_len) + torch.ones(d_model)"):
        assert ported_file(ENCODING.replace("torch.zeros(max_len, d_model)", unknown), 0) is None


@pytest.mark.one_in(4)
def test_a_table_of_positions_by_fixes_alone() -> None:
    m = tessera.compile(mended(ENCODING + MADE, steps=12))
    x = np.zeros((2, 4, 6), "f4")
    y, mask = m.made(x)
    angles = np.arange(4)[:, None] * np.exp(np.arange(0, 6, 2) * (-math.log(10000.0) / 6))
    np.testing.assert_allclose(y[0, :, 0::2], np.sin(angles), atol=1e-6)
    np.testing.assert_allclose(y[1, :, 1::2], np.cos(angles), atol=1e-6)
    np.testing.assert_array_equal(mask[0], np.tril(np.ones((9, 9))) == 0)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("self.a = nn.Sequential(nn.Linear(d, d), nn.Bilinear(d, d, d))", "`nn.Bilinear(d, d, d)`"),
        ("self.a = nn.Linear(d, d, bias=make())", "`self.a = nn.Linear(d, d, bias=make())`"),
        ("if d > 3: self.a = nn.Linear(d, d)", "`if d > 3:`"),
    ],
)
def test_what_keeps_a_class_from_being_a_struct_is_said(line: str, part: str) -> None:
    (said,) = offered(CLASS.format(line=line, method=FORWARD))
    assert said.fixes == () and part in said.notes[-1]


def test_so_is_a_base_that_is_no_module() -> None:
    (said,) = offered("class Net(Base):\n    def forward(self, x):\n        return x\n")
    assert said.fixes == () and "`Base`" in said.notes[-1]


GENERATOR = """class Generator(nn.Module):
    def __init__(self, z, c):
        super().__init__()
        self.net = nn.Sequential(
            nn.ConvTranspose2d(z, 6, 4, 1, 0, bias=False),
            nn.BatchNorm2d(6),
            nn.ReLU(True),
            nn.ConvTranspose2d(6, c, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, True),
            nn.Tanh())

    def forward(self, x):
        return self.net(x)

def made(z: Tensor[B, 5, 1, 1, f32]):
    return Generator(5, 3)(z)
"""


@pytest.mark.one_in(4)
def test_a_generator_of_images_by_fixes_alone() -> None:
    """Transposed convolutions without a bias, and activations that are told to work in place."""
    images = np.asarray(tessera.compile(mended(GENERATOR)).made(np.ones((2, 5, 1, 1), "f4")))
    assert images.shape == (2, 3, 8, 8) and (np.abs(images) < 1).all() and images.std() > 0


def test_fields_that_have_types_of_this_language_stay_as_they_are() -> None:
    fields = "    w: Tensor[D, H, f32]\n    b: Tensor[H]\n"
    (said,) = offered(f"class Layer:\n{fields}\n    def forward(self, x):\n        return x @ self.w\n")
    text = said.fixes[0].edits[0].replacement
    assert text.startswith(f"struct Layer[D, H]:\n{fields}\n    def apply(self, x):")
