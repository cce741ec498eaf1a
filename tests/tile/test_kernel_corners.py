"""Corners that random kernels seldom reach: lengths of 0, 1 and all, more keys than a chain has, heads that share keys,
windows, values that a mask hides, f16. Every schedule has the bits of the interpreter; of f16 those of another."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import tessera
from tesserac.graph.interp import run_function
from tesserac.ir.core import Module
from tests.support import tile_eval
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import compile_to_forms
from tests.tile.test_programs import tiles

KERNEL = """
@kernel
def f(q: KTile[2, R, S, 8, {0}], k: KTile[2, 1, N, 8, {0}], v: KTile[2, 1, N, 4, {0}], end: KTile[1, i32]):
    T = tile.context()
    x = tile.load(q, rows=T.m)
    a = tile.zeros((T.m, 4), f32)
    m, l = tile.full((T.m,), -INF), tile.zeros((T.m,), f32)
    for j in tile.range_n(k, T.n):
        s = tile.dot(x, tile.transpose(tile.load(k, j)))
        r, c = tile.row_index()[:, None], tile.col_index(j)[None, :]
        s = where({1}(c < tile.load(end)), s, -INF)
        p, mc, lc = tile.softmax_online(s)
        a, m, l = tile.softmax_accumulate(a, m, l, p, tile.load(v, j), mc, lc)
    return a / l[:, None]
"""
BLOCKS = [(4, 64), (3, 7), (16, 4096)]
MASKS = ["", "(c > r - 5) & (c <= r + 2) & "]


@cache
def forms(mask: str) -> Module:
    return compile_to_forms(KERNEL.format("f32", mask))


def arguments(keys: int, end: int, hidden: float, dtype: str = "f4") -> list[np.ndarray]:
    """The values behind the end are hidden from all rows; the value of the highest score is 0."""
    rng = np.random.default_rng(keys + end)
    q, k, v = (rng.standard_normal(shape) for shape in ((2, 2, 5, 8), (2, 1, keys, 8), (2, 1, keys, 4)))
    v[..., min(2, keys - 1), :] = 0.0
    k[..., min(2, keys - 1), :] = 3 * q[:, :1, 0]
    k[..., end:, :], v[..., end:, :] = 1.0, hidden
    return [*(array.astype(dtype) for array in (q, k, v)), np.array([end], "i4")]


def scheduled(mask: str, blocks: tuple[int, int], dtype: str = "f32") -> str:
    return KERNEL.format(dtype, mask).replace("@kernel", f"@kernel.schedule(Schedule(block={blocks}))")


@pytest.mark.one_in(6)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("end", [0, 1, 9])
def test_lengths_have_the_bits_of_the_interpreter(mask: str, end: int) -> None:
    wanted = run_function(forms(mask), "m.f", arguments(9, end, 0.0))
    for blocks in BLOCKS:
        (got,) = tile_eval.run_host(tiles(scheduled(mask, blocks)), "m.f", arguments(9, end, np.inf))
        same_bits(got, wanted[0])
    assert np.isnan(wanted[0]).all() == (end == 0)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("keys", "end"), [(1100, 1025), (4300, 4299)])
def test_many_keys_have_them_in_machine_code(mask: str, keys: int, end: int) -> None:
    wanted = run_function(forms(mask), "m.f", arguments(keys, end, 0.0))
    for blocks in BLOCKS[1:]:
        same_bits(tessera.compile(scheduled(mask, blocks)).f(*arguments(keys, end, np.inf)), wanted[0])


@pytest.mark.one_in(12)
def test_schedules_of_f16_have_the_bits_of_each_other() -> None:
    args = arguments(70, 66, np.inf, "f2")
    got = [tile_eval.run_host(tiles(scheduled("", blocks, "f16 @accum(f32)")), "m.f", args)[0] for blocks in BLOCKS]
    same_bits(got[0], got[1])
    same_bits(got[0], got[2])


ASSERTS = """
@kernel
def f(x: KTile[M, 4, f32], most: KTile[1, f32]):
    T = tile.context()
    t = tile.load(x, rows=T.m)
    {}
    return t * 2.0
"""
ASSERTED = ("assert max(t) <= tile.load(most)[0]", 'assert tile.load(most)[0] > 2.0, f"{tile.load(most)[0]} is low"')


@pytest.mark.one_in(3)
@pytest.mark.parametrize("asserted", ASSERTED)
def test_what_a_kernel_asserts_is_asked(asserted: str) -> None:
    """Tiles have no way to say so: it runs as what it means. A release asks nothing, and runs as tiles."""
    text, x = ASSERTS.format(asserted), np.ones((9, 4), "f4") * 3
    checked, release = tessera.compile(text), tessera.compile(text, release=True)
    same_bits(checked.f(x, np.array([3], "f4")), x * 2)
    same_bits(release.f(x, np.array([1], "f4")), x * 2)
    with pytest.raises(tessera.TesseraError, match="E0933"):
        checked.f(x, np.array([1], "f4"))
