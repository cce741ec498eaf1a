"""Loops over part of a dim: `tile.range_n(x, T.n, start=, stop=)` has the bits of a mask, and passes over the same
blocks."""

from __future__ import annotations

import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tests.support import tile_eval
from tests.support.checking import check_text
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import compile_to_forms
from tests.tile.test_programs import dots, tiles

ATTEND = """
@kernel.schedule(Schedule(block=(8, 8)))
def f(q: KTile[S, 8, f32], k: KTile[L, 8, f32], end: KTile[1, i32]):
    T = tile.context()
    x = tile.load(q, rows=T.m)
    a = tile.zeros((T.m, T.d), f32)
    m, l = tile.full((T.m,), -INF), tile.zeros((T.m,), f32)
    r = tile.row_index()
    for j in tile.range_n(k, T.n{0}):
        s = tile.dot(x, tile.transpose(tile.load(k, j)))
        c = tile.col_index(j)[None, :]
        s = {1}
        p, mc, lc = tile.softmax_online(s)
        a, m, l = tile.softmax_accumulate(a, m, l, p, tile.load(k, j, cols=T.d), mc, lc)
    return a / l[:, None]
"""
FOLDS = """
@kernel
def f(y: KTile[S, L, f32], w: KTile[L, 8, f32], end: KTile[1, i32]):
    T = tile.context()
    a, s, h = tile.zeros((T.m, T.d), f32), tile.zeros((T.m,), f32), tile.full((T.m,), -INF)
    r = tile.row_index()
    for k in tile.range_k(y, T.k{0}):
        t = exp(tile.load(y, None, k, rows=T.m))
        c = tile.col_index(k)[None, :]
        a += tile.dot({1}, tile.load(w, k, None, cols=T.d))
        s += tile.reduce_sum({1}, axis=1)
        h = maximum(h, tile.reduce_max({2}, axis=1))
    return a, s, h
"""
PARTS = {
    "window": (", start=r - 5, stop=r + 1", "(r[:, None] - 5 <= c) & (c < r[:, None] + 1)"),
    "from": (", start=3", "c >= 3"),
    "length": (", stop=tile.load(end)[0]", "c < tile.load(end)[0]"),
}


def arguments(columns: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [*(rng.standard_normal(shape).astype(np.float32) for shape in ((32, columns), (32, 8))), np.array([9], "i4")]


@pytest.mark.one_in(24)
@pytest.mark.parametrize("kind", PARTS)
def test_a_part_has_the_bits_of_its_mask_and_passes_over_as_much(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds, mask = PARTS[kind]
    args = arguments(8)
    texts = [ATTEND.format(bounds, "s"), ATTEND.format("", f"where({mask}, s, -INF)")]
    (wanted,) = run_function(compile_to_forms(texts[1]), "m.f", args)
    counts = []
    for text in texts:
        module = tiles(text)
        same_bits(tile_eval.run_host(module, "m.f", args)[0], wanted)
        counts.append(dots(module, args, monkeypatch))
    assert counts[0] == counts[1] and (kind != "window" or counts[0] == 3 * 7)  # 7 of 16 blocks, three products each


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", PARTS)
def test_products_and_reductions_leave_out_the_rest(kind: str) -> None:
    bounds, mask = PARTS[kind]
    args = arguments(32)
    texts = [FOLDS.format(bounds, "t", "t"), FOLDS.format("", f"where({mask}, t, 0.0)", f"where({mask}, t, -INF)")]
    ours, wanted = (run_function(compile_to_forms(text), "m.f", args) for text in texts)
    for one, other in zip(ours, wanted, strict=True):
        same_bits(one, other)


@pytest.mark.parametrize(
    ("bound", "code"), [("stop=2.5", "E0210"), ("start=r[:, None]", "E0210"), ("until=3", "E0205"), ("stop=r", "")]
)
def test_bounds_are_positions(bound: str, code: str) -> None:
    found = [d.code for d in check_text(ATTEND.format(f", {bound}", "s")).diagnostics]
    assert found == ([code] if code else [])


WIDE = ", start=r - tile.load(end)[0] + 1, stop=r + 1"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("masked", [False, True])
def test_a_window_of_a_width_that_a_run_says_costs_its_window(masked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where row - width comes out on the other side of 0, as numbers of 32 bits do."""
    q, k, _ = arguments(8)
    mask = "where((c <= r[:, None]) & (r[:, None] - tile.load(end)[0] < c), s, -INF)"
    text = ATTEND.format("", mask) if masked else ATTEND.format(WIDE, "s")
    module, meaning = tiles(text), compile_to_forms(text)
    for width in (6, 0, 1, 40, -3, 2**31 - 1, -(2**31), -(2**31) + 20):
        args = [q, k, np.array([width], "i4")]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            same_bits(tile_eval.run_host(module, "m.f", args)[0], run_function(meaning, "m.f", args)[0])
    assert dots(module, [q, k, np.array([6], "i4")], monkeypatch) == 3 * 7
