"""Every example runs, from the command line and from Python, and gives what it should."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac import cli
from tesserac.commands import names
from tests.conftest import Golden
from tests.support.caches import new_cache
from tests.support.paths import CASES, ROOT

FOLDER = ROOT / "examples"
bf16 = ml_dtypes.bfloat16

EXAMPLES = sorted(FOLDER.glob("*.tess"))
OUTPUTS = CASES / "examples"
"""What `tessera run` prints, by example. The digits are part of the promise: the same bits on every machine."""

by_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


def load(name: str) -> tessera.module.Module:  # type: ignore[name-defined]
    return tessera.load(FOLDER / f"{name}.tess")


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("f4")


@pytest.mark.one_in(48)
@by_example
def test_run(path: Path, capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    assert cli.main(cli.runner, "tessera", ["run", str(path)]) == 0
    golden.check(OUTPUTS / f"{path.stem}.out", capsys.readouterr().out)


@pytest.mark.one_in(4)
@by_example
def test_head_comment_and_style(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith('"""') and f"tessera run examples/{path.name}" in text.partition('"""\n\n')[0]
    assert cli.main(cli.compiler, "tesserac", ["fmt", "--check", str(path)]) == 0


@by_example
def test_the_page_of_examples_names_it(path: Path) -> None:
    page = path.parent.parent / "docs" / "examples.md"
    assert f"(../examples/{path.name})" in page.read_text(encoding="utf-8")


@pytest.mark.one_in(48)
@pytest.mark.parametrize("path", [p for p in EXAMPLES if "\ntest " in p.read_text("utf-8")], ids=lambda path: path.stem)
def test_their_own_tests_pass(path: Path) -> None:
    assert cli.main(cli.compiler, "tesserac", ["test", str(path)]) == 0


def test_no_output_is_left_over() -> None:
    assert {path.stem for path in OUTPUTS.glob("*.out")} == {path.stem for path in EXAMPLES}


def test_vector_add() -> None:
    x, y = normal(1001), normal(1001)[::-1]
    assert np.array_equal(load("vector_add").add(x, y), x + y)


def test_softmax() -> None:
    x = normal(7, 1500) * 10
    e = np.exp(x.astype("f8") - x.max(axis=1, keepdims=True))
    assert np.allclose(load("softmax").softmax_rows(x), e / e.sum(axis=1, keepdims=True), rtol=1e-6, atol=0)


@pytest.mark.one_in(24)
def test_matmul() -> None:
    a, b = normal(33, 70), normal(70, 41)
    exact = a.astype("f8") @ b.astype("f8")
    assert np.allclose(load("matmul").matmul_f32(a, b), exact, rtol=0, atol=1e-4)
    narrow = load("matmul").matmul_bf16(a.astype(bf16), b.astype(bf16))
    assert narrow.dtype == bf16
    exact = a.astype(bf16).astype("f8") @ b.astype(bf16).astype("f8")
    assert np.allclose(narrow.astype("f8"), exact, rtol=2**-8, atol=1e-4)


@pytest.mark.one_in(16)
def test_spectral_filter() -> None:
    n = np.arange(240)
    slow, fast = np.sin(2 * np.pi * 3 * n / 240), np.cos(2 * np.pi * 60 * n / 240)
    noisy = np.stack([slow + fast, 2 * slow - fast]).astype("f4")
    low_pass = load("spectral_filter").low_pass
    assert np.allclose(low_pass(noisy, 0.05), [slow, 2 * slow], atol=2e-6)
    assert low_pass(noisy[:, :31], 0.05).shape == (2, 31)


@pytest.mark.one_in(48)
def test_the_demo_shows_what_it_promises_on_a_page_or_two(tmp_path: Path) -> None:
    """A mistake that its fix mends, every level, bits that agree, a gradient that is right, a picture."""
    variables = os.environ | {"TESSERA_CACHE_DIR": new_cache(tmp_path)}
    line = [sys.executable, str(FOLDER / "demo.py")]
    shown = subprocess.run(line, env=variables, capture_output=True, text=True, check=True).stdout
    assert "error[E0303]" in shown and "With fix 1" in shown and "\n    0 errors." in shown
    for level in names.CPU_LEVELS[1:]:
        assert re.search(rf"\n    {level.name:9} +\d+ lines .*\n +\S", shown), level.name
    assert re.search(r"bits on 1 and \d+ threads: equal", shown)
    assert float(re.search(r"largest difference (\S+)", shown)[1]) < 1e-8
    assert len({line for line in shown.splitlines() if "%" in line and "+++" in line}) > 8
    assert len(shown.splitlines()) < 100


@pytest.mark.one_in(16)
def test_mlp() -> None:
    m = load("mlp")
    net = m.MLP(
        l1=m.Linear(w=normal(5, 6) / 4, b=normal(6)), l2=m.Linear(w=normal(6, 3) / 4, b=normal(3))
    )
    x, y = normal(7, 5), normal(7, 3)
    losses = []
    for _ in range(30):
        net, loss = m.step(net, x, y, lr=0.2)
        losses.append(loss)
    h = np.maximum(x @ net.l1.w + net.l1.b, 0)
    assert np.isclose(m.loss(net, x, y), np.mean((h @ net.l2.w + net.l2.b - y) ** 2), rtol=1e-4)
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.one_in(6)
def test_mandelbrot_is_a_picture(tmp_path: Path) -> None:
    size = ["--height", "20", "--width", "30"]
    line = ["run", str(FOLDER / "mandelbrot.tess"), "--save", str(tmp_path / "m.png"), *size]
    assert cli.main(cli.runner, "tessera", line) == 0
    data = (tmp_path / "m.png").read_bytes()
    assert data.startswith(b"\x89PNG") and struct.unpack(">II", data[16:24]) == (30, 20)
    length = struct.unpack(">I", data[33:37])[0]
    rows = np.frombuffer(zlib.decompress(data[41 : 41 + length]), np.uint8).reshape(20, 1 + 90)[:, 1:]
    assert np.array_equal(rows.reshape(20, 30, 3), load("mandelbrot").picture(20, 30, 60))


@pytest.mark.one_in(3)
def test_kmeans() -> None:
    x, centres = normal(50, 3), normal(50, 3)[:4]
    found, labels = load("kmeans").kmeans(x, centres, steps=5)
    for _ in range(5):
        nearest = ((x[:, None].astype("f8") - centres) ** 2).sum(axis=2).argmin(axis=1)
        centres = np.stack([x[nearest == k].mean(axis=0, dtype="f8") for k in range(4)])
    assert np.allclose(found, centres, atol=1e-5)
    assert np.array_equal(labels, ((x[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1))


@pytest.mark.one_in(2)
def test_game_of_life() -> None:
    world = np.random.default_rng(0).integers(0, 2, (9, 13)).astype("i4")
    expected = world
    for _ in range(3):
        around = sum(np.roll(expected, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)) - expected
        expected = ((around == 3) | ((expected == 1) & (around == 2))).astype("i4")
    assert np.array_equal(load("game_of_life").evolve(world, 3), expected)


# --- GPT-2 -----------------------------------------------------------------------------------------------------------


def normalised(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) * scale + shift


def layer_in_numpy(block: object, x: np.ndarray, heads: int) -> np.ndarray:
    """One layer in float64."""
    b = {name: np.asarray(value, "f8") for name, value in vars(block).items()}
    (count, length, width), see = x.shape, np.tril(np.ones((x.shape[1], x.shape[1]), bool))
    mixed = normalised(x, b["norm1"], b["shift1"]) @ b["qkv"] + b["qkv_bias"]
    parts = np.split(mixed, 3, axis=-1)
    q, k, v = (p.reshape(count, length, heads, width // heads).transpose(0, 2, 1, 3) for p in parts)
    scores = np.where(see, q @ k.swapaxes(-1, -2) / np.sqrt(width // heads), -np.inf)
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    found = terms / terms.sum(axis=-1, keepdims=True) @ v
    x = x + found.transpose(0, 2, 1, 3).reshape(x.shape) @ b["out"] + b["out_bias"]
    h = normalised(x, b["norm2"], b["shift2"]) @ b["up"] + b["up_bias"]
    gelu = 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
    return x + gelu @ b["down"] + b["down_bias"]


@pytest.mark.one_in(48)
def test_gpt2_of_124_million_weights() -> None:
    """The logits are those of NumPy in float64 within 1e-4, relative to the largest."""
    m = load("gpt2")
    model = m.GPT2(50257, 1024, 12, 768, seed=0)
    sizes = [getattr(model, n).size for n in ("tokens", "positions", "norm", "shift")]
    sizes += [array.size for block in model.blocks for array in vars(block).values()]
    assert sum(sizes) == 124_439_808
    ids = np.random.default_rng(0).integers(0, 50257, (1, 12)).astype("i4")
    got = m.logits(model, ids)
    x = model.tokens[ids].astype("f8") + model.positions[:12]
    for block in model.blocks:
        x = layer_in_numpy(block, x, 12)
    expected = normalised(x, model.norm, model.shift) @ model.tokens.T.astype("f8")
    assert np.abs(got - expected).max() <= 1e-4 * np.abs(expected).max()
