"""What the functions of `operator_cases.py` are called with. Nothing but NumPy is imported here, so that any Python can
read it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    """A usual one (`is_common`) is to be level with the peer."""

    name: str
    inputs: str
    ours: str
    theirs: str
    is_common: bool = False


ARRAYS: dict[str, tuple[tuple[int, ...], str]] = {
    "v": ((1_000_000,), "f32"),
    "w": ((1_000_000,), "f32"),
    "p": ((100_000,), "positive"),
    "q": ((100_000,), "positive"),
    "x": ((1024, 1024), "f32"),
    "y": ((1024, 1024), "f32"),
    "i": ((8, 64, 56, 56), "f32"),
    "s": ((8, 32, 64, 64), "f32"),
    "g": ((8, 64, 64, 2), "f32"),
    "c": ((64, 64, 3, 3), "f32"),
    "d": ((64, 1, 3, 3), "f32"),
    "t": ((8, 64, 1024), "f32"),
    "k": ((64, 64, 3), "f32"),
    "u": ((2, 16, 16, 28, 28), "f32"),
    "e": ((16, 16, 3, 3, 3), "f32"),
    "a": ((4, 8, 256, 64), "f32"),
    "l": ((4, 128, 64), "f32"),
    "wi": ((1, 256, 64), "f32"),
    "wh": ((1, 256, 64), "f32"),
    "gi": ((1, 192, 64), "f32"),
    "gh": ((1, 192, 64), "f32"),
    "b4": ((1, 256), "f32"),
    "b3": ((1, 192), "f32"),
    "n": ((4096, 32), "f32"),
    "m": ((4096,), "label"),
    "r": ((65536,), "f32"),
    "j": ((65536,), "index"),
    "z": ((16, 16384), "f32"),
    "o": ((512, 64), "f32"),
    "h": ((1_000_000,), "index"),
    "f": ((8, 288, 4096), "f32"),
    "c1": ((64, 64, 1, 1), "f32"),
    "ct": ((128, 8, 32), "f32"),
    "cl": ((8, 20), "label"),
    "bx": ((1000, 4), "box"),
    "sc": ((1000,), "f32"),
    "rb": ((64, 5), "roi"),
    "of": ((2, 18, 56, 56), "f32"),
    "th": ((8, 2, 3), "f32"),
    "lr": ((1, 64, 64), "f32"),
    "lb": ((1, 64), "f32"),
    "sw": ((16, 16, 12), "f32"),
    "sf": ((4, 16, 512), "f32"),
    "mc": ((16, 16), "f32"),
    "mv": ((4096, 16), "f32"),
    "ew": ((8, 64, 128), "f32"),
    "er": ((64, 8), "f32"),
    "tk": ((2048, 64), "f32"),
    "wc": ((32,), "positive"),
    "sv": ((1024,), "f32"),
    "bs": ((8, 4), "f32"),
    "bl": ((8, 4, 8192), "f32"),
    "nn": ((32, 32000), "f32"),
    "n10": ((4096, 10), "f32"),
    "n50": ((4096, 50), "f32"),
}
"""Shapes, and what is in them."""


def array(name: str) -> np.ndarray:
    shape, kind = ARRAYS[name]
    rng = np.random.default_rng(len(name) + sum(map(ord, name)))
    if kind == "label":
        return rng.integers(1, 32, shape)
    if kind in ("box", "roi"):
        corners = rng.uniform(0.0, 40.0, (*shape[:-1], 2)), rng.uniform(1.0, 15.0, (*shape[:-1], 2))
        first = [rng.integers(0, 8, (shape[0], 1))] if kind == "roi" else []
        return np.concatenate([*first, corners[0], corners[0] + corners[1]], axis=-1).astype(np.float32)
    if kind == "index":
        return rng.integers(0, 1024, shape)
    drawn = rng.standard_normal(shape).astype(np.float32)
    return np.exp(drawn) if kind == "positive" else drawn


def parameter(name: str) -> str:
    shape, kind = ARRAYS[name]
    return f"{name}: Tensor[{', '.join(map(str, shape))}, {'i64' if kind in ('label', 'index') else 'f32'}]"
