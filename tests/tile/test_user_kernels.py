"""Kernels as people write them who know other tile languages: they run as tiles on a CPU and on a GPU, with the bits of
their meaning under every schedule.
"""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.graph.interp import run_function
from tesserac.graph.passes.place_kernels import placed_kernels
from tesserac.schedule.machine import AARCH64, SM_90A, Machine
from tests.schedule.test_given_schedules import levels
from tests.support.cpu_kernels import same_bits
from tests.support.kernel_programs import scheduled
from tests.support.source_support import compile_to_forms
from tests.tile.test_programs_gpu import emulated

VARIANCE = """
@kernel
def f(x: KTile[S, L, f32]):
    T = tile.context()
    s, h = tile.zeros((T.m, 1), f32), tile.full((T.m, 1), -INF)
    for j in tile.range_k(x, T.k):
        t = tile.load(x, None, j, rows=T.m)
        s = tile.reduce_sum(t * t, axis=1, keep=True) + s
        h = maximum(h, tile.reduce_max(t, axis=1, keep=True))
    return s / L, h[:, 0]
"""
NORMED_PRODUCT = """
@kernel
def f(x: KTile[S, L, f32], w: KTile[L, 8, f32]):
    T = tile.context()
    s, a = tile.zeros((T.m, 1), f32), tile.zeros((T.m, 8), f32)
    for j in tile.range_k(x, T.k):
        t = tile.load(x, None, j, rows=T.m)
        s += tile.reduce_sum(t * t, axis=1, keep=True)
        a += tile.dot(t, tile.load(w, j))
    return a * rsqrt(s / L + 1e-5)
"""
SINKS_THEN_WINDOW = """
@kernel
def f(q: KTile[S, 16, f32], k: KTile[S, 16, f32], v: KTile[S, 16, f32]) -> Tile[S, 16, f32]:
    T = tile.context()
    x = tile.load(q, rows=T.m)
    acc, m, l = tile.zeros((T.m, T.d), f32), tile.full((T.m,), -INF), tile.zeros((T.m,), f32)
    for j in tile.range_n(k, T.n, stop=4):
        s = tile.dot(x, tile.transpose(tile.load(k, j)))
        tile.mask_causal(s, tile.row_index(), tile.col_index(j))
        p, mc, lc = tile.softmax_online(s)
        acc, m, l = tile.softmax_accumulate(acc, m, l, p, tile.load(v, j, cols=T.d), mc, lc)
    for j in tile.range_n(k, T.n, start=maximum(4, tile.row_index() - 23), stop=tile.row_index() + 1):
        p, mc, lc = tile.softmax_online(tile.dot(x, tile.transpose(tile.load(k, j))))
        acc, m, l = tile.softmax_accumulate(acc, m, l, p, tile.load(v, j, cols=T.d), mc, lc)
    return acc / l[:, None]
"""
ADDED_TO = """
@kernel
def f(x: KTile[S, L, f32], z: KTile[S, f32]):
    T = tile.context()
    s, h = tile.load(z, rows=T.m), tile.load(z, rows=T.m)
    for j in tile.range_k(x, T.k):
        t = tile.load(x, None, j, rows=T.m)
        s += tile.reduce_sum(t, axis=1)
        h = minimum(h, tile.reduce_min(t, axis=1))
    return s, h
"""
PRODUCT_ADDED_TO = """
@kernel
def f(x: KTile[S, L, f32], w: KTile[L, 8, f32], b: KTile[S, 8, f32]):
    T = tile.context()
    a = tile.load(b, rows=T.m)
    for j in tile.range_k(x, T.k):
        a += tile.dot(tile.load(x, None, j, rows=T.m), tile.load(w, j))
    return a
"""
SOFTMAX_OF_PRODUCT = """
@kernel
def f(x: KTile[S, L, f32], w: KTile[L, 8, f32]):
    T = tile.context()
    acc = tile.zeros((T.m, 8), f32)
    for j in tile.range_k(x, T.k):
        acc += tile.dot(tile.load(x, None, j, rows=T.m), tile.load(w, j))
    p = softmax(acc)
    return p, max(p, axis=1)
"""
HISTOGRAM = """
@kernel
def f(x: KTile[L, i32], bins: KTile[S, i32]):
    T = tile.context()
    c, b = tile.zeros((T.m,), i64), tile.load(bins, rows=T.m)
    for j in tile.range_n(x, T.n):
        c += tile.reduce_sum(cast(tile.load(x, j)[None, :] == b[:, None], i32), axis=1)
    return c
"""
SHORT_LOOPS = """
@kernel
def f(x: KTile[S, 16, f32], w: KTile[4, 16, f32]):
    T = tile.context()
    t, weights = tile.load(x, rows=T.m), tile.load(w)
    y = t
    for i in range(4):
        y = y * 0.5 + t * weights[i][None, :]
        for k in range(2):
            y = y - (y * y * y - t) / (3.0 * y * y + 1.0)
    return y
"""
KERNELS = {
    "variance": (VARIANCE, "SL"),
    "normed product": (NORMED_PRODUCT, "SL L8"),
    "sinks, then a window": (SINKS_THEN_WINDOW, "Sd Sd Sd"),
    "added to": (ADDED_TO, "SL S"),
    "product added to": (PRODUCT_ADDED_TO, "SL L8 S8"),
    "softmax of a product": (SOFTMAX_OF_PRODUCT, "SL L8"),
    "histogram": (HISTOGRAM, "iL iS"),
    "short loops": (SHORT_LOOPS, "Sd 4d"),
}
MEANT = {
    "cumsum(t, axis=1)": "`form.scan` in a program",
    "sort(t, axis=1)": "`form.gather` in a program",
}


def arguments(name: str, rows: int, length: int) -> list[np.ndarray]:
    sizes, rng = {"S": rows, "L": length, "d": 16, "8": 8, "4": 4}, np.random.default_rng(length)
    made = []
    for letters in KERNELS[name][1].split():
        shape = [sizes[letter] for letter in letters if letter != "i"]
        made.append(rng.integers(0, 9, shape).astype("i4") if "i" in letters else rng.standard_normal(shape, "f4"))
    return made


def why(text: str, machine: Machine) -> list[str]:
    return [reason for _, reason in placed_kernels(levels(text, machine).forms.lookup("main.f"))]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("machine", [AARCH64, SM_90A], ids=lambda machine: machine.arch)
@pytest.mark.parametrize("name", KERNELS)
def test_they_run_as_tiles(name: str, machine: Machine) -> None:
    assert why(KERNELS[name][0], machine) == [""]


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", KERNELS)
def test_they_have_the_bits_of_their_meaning(name: str) -> None:
    text, args = KERNELS[name][0], arguments(name, 9, 1100)
    wanted = run_function(compile_to_forms(text), "m.f", args)
    found = [tessera.compile(scheduled(text, blocks)).f(*args) for blocks in (None, (5, 3, 300))]
    ways = [*(one if isinstance(one, tuple) else (one,) for one in found), emulated(text)(*args)]
    for results in ways:
        for got, expected in zip(results, wanted, strict=True):
            same_bits(np.asarray(got), np.asarray(expected))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("body", MEANT)
def test_what_is_no_tile_program_is_told_with_its_reason(body: str) -> None:
    text = f"""
@kernel
def f(x: KTile[S, 16, f32]):
    t = tile.load(x, rows=tile.context().m)
    return {body}
"""
    assert why(text, AARCH64) == [MEANT[body]]
