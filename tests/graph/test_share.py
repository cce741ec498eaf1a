"""Layers that differ in their weights alone are compiled once."""

from __future__ import annotations

import numpy as np

import tessera
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.schedule.machine import AARCH64
from tests.support.cpu_kernels import same_bits

LAYERS = """
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
    made, launches = kernels("layers")
    assert launches == 3 * made
    made, launches = kernels("scaled")
    assert made == launches


def test_each_launch_reads_its_own_weights() -> None:
    rng = np.random.default_rng(0)
    x, *weights = (rng.normal(size=s).astype("f4") for s in ((7, 5), (5, 5), (5, 5), (5, 5)))
    m = tessera.compile(LAYERS)
    layer = tessera.compile("def f(x: Tensor[B, D, f32], w: Tensor[D, D, f32]): return tanh(x @ w)").f
    expected = x
    for w in weights:
        expected = layer(expected, w)
    same_bits(m.layers(x, *weights), expected)
