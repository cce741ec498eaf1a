"""Layers that differ in their weights alone are compiled once."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.ir.passes import run_passes
from tesserac.schedule.machine import AARCH64
from tesserac.target.cpu.build import PLATFORMS, host_platform, kernel_code
from tests.support.cpu_kernels import same_bits
from tests.support.sampling import spread

LAYERS = """
def layer(x: Tensor[B, D, f32], w: Tensor[D, D, f32]) -> Tensor[B, D, f32]: return tanh(x @ w)

def layers(x: Tensor[B, D, f32], w: Tensor[D, D, f32], v: Tensor[D, D, f32], u: Tensor[D, D, f32]) -> Tensor[B, D, f32]:
    x = tanh(x @ w)
    x = tanh(x @ v)
    return tanh(x @ u)

def scaled(x: Tensor[B, D, f32]) -> (Tensor[B, D, f32], Tensor[B, D, f32]):
    y = sum(x, axis=1, keep=True)
    return x * y * 2.0, sum(x * y * 2.0, axis=0, keep=True) + x * 3.0
"""


def kernels(function: str) -> tuple[int, int]:
    """How many kernels a function has, and how many launches."""
    session, source = Session(verify=True), SourceFile("layers.tess", LAYERS)
    tiles = session.levels(source, session.function(source, function), AARCH64).tile
    return sum(op.name == "tile.kernel" for op in tiles.ops), sum(op.name == "tile.launch" for op in tiles.walk())


def test_equal_layers_share_their_kernels() -> None:
    made, launches = kernels("layer")
    assert kernels("layers") == (made, 3 * launches), "the kernels of one layer, launched for each of three"
    made, launches = kernels("scaled")
    assert made == launches


@pytest.mark.one_in(8)
def test_each_launch_reads_its_own_weights() -> None:
    rng = np.random.default_rng(0)
    x, *weights = (rng.normal(size=s).astype("f4") for s in ((7, 5), (5, 5), (5, 5), (5, 5)))
    m = tessera.compile(LAYERS)
    layer = tessera.compile("def f(x: Tensor[B, D, f32], w: Tensor[D, D, f32]): return tanh(x @ w)").f
    expected = x
    for w in weights:
        expected = layer(expected, w)
    same_bits(m.layers(x, *weights), expected)


TWO_SIZES = """
def both(x: Tensor[A, D, f32], y: Tensor[B, D, f32], w: Tensor[D, D, f32]) -> (Tensor[A, D, f32], Tensor[B, D, f32]):
    return tanh(x @ w), tanh(y @ w)
"""


@pytest.mark.one_in(4)
def test_each_of_them_has_its_own_size() -> None:
    rng = np.random.default_rng(0)
    x, y, w = (rng.normal(size=s).astype("f4") for s in ((7, 5), (70, 5), (5, 5)))
    both = tessera.compile(TWO_SIZES).both
    layer = tessera.compile("def f(x: Tensor[B, D, f32], w: Tensor[D, D, f32]): return tanh(x @ w)").f
    for given, got in zip((x, y), both(x, y, w), strict=True):
        same_bits(got, layer(given, w))


def test_random_bits_are_called_not_written_in_each_kernel() -> None:
    text = "def f(n: Tensor[N, f32]) -> (Tensor[N, f32], Tensor[N, f32]): return n + uniform(N), n * uniform(N)"
    session, source = Session(), SourceFile("draws.tess", text)
    cpu = host_platform()
    tiles = session.levels(source, session.function(source, "f"), cpu.schedule).tile
    code = str(kernel_code(run_passes(tiles, [cpu.lowering], verify=True), cpu))
    defined = re.findall(r"define internal .*@(long\.philox\S*?)\(", code)
    assert defined and len(defined) == len(set(defined)) <= 4  # of four vectors, one, one element, and of keys
    assert code.count("@long.philox") >= 2 * len(defined)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("arch", spread(PLATFORMS, 2))
def test_the_ways_of_a_product_share_what_is_done_with_it(arch: str) -> None:
    """Panels and blocks leave their sums in the same way, rows in another; what vectors leave over is one function. On
    some machines a block has as many rows as columns, which makes it no part of its own."""
    session, source = Session(), SourceFile("layers.tess", LAYERS)
    cpu = PLATFORMS[arch]
    tiles = session.levels(source, session.function(source, "layers"), cpu.schedule).tile
    functions = str(kernel_code(run_passes(tiles, [cpu.lowering], verify=True), cpu)).split("define ")[1:]
    assert sum("@main.layers" in text.split("(")[0] for text in functions) >= 3
    computing = [text.split("(")[0] for text in functions if " fdiv " in text]
    assert len([name for name in computing if "@part" in name]) <= 2
    assert {name.split("@")[1].split(".")[0] for name in computing if "@part" not in name} == {"rest"}
