"""Kernels that hold much of it at once fit the registers of a thread: blocks, warps and questions are chosen so."""

from __future__ import annotations

import pytest

from tesserac.base.source import SourceFile
from tesserac.ir.passes import run_passes
from tesserac.schedule.dialect import launch_loops
from tesserac.schedule.machine import MACHINES
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, kernels_of
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.ptx import assemble, emit_ptx, find_ptxas
from tests.schedule.test_given_schedules import levels
from tests.support.gpu_kernels import tile_of
from tests.tile.test_more_user_kernels import WINDOW_OF_IMAGE

HALF = "half = bf16 @accum(f32)\n"
TWO_SUMS = """
@kernel
def f(x: KTile[M, K, half], g: KTile[K, N, half], u: KTile[K, N, half]) -> Tile[M, N, half]:
    T = tile.context()
    a, b = tile.zeros((T.m, T.n), f32), tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(x, T.k):
        t = tile.load(x, None, k, rows=T.m)
        a += tile.dot(t, tile.load(g, k, None, cols=T.n))
        b += tile.dot(t, tile.load(u, k, None, cols=T.n))
    return silu(a) * b
"""
WIDE_HEADS = """
@kernel
def f(q: KTile[S, 128, half], k: KTile[L, 128, half], v: KTile[L, 128, half]) -> Tile[S, 128, half]:
    T = tile.context()
    x, acc = tile.load(q, rows=T.m), tile.zeros((T.m, T.d), f32)
    m, l = tile.full((T.m,), -INF), tile.zeros((T.m,), f32)
    for j in tile.range_n(k, T.n):
        p, mc, lc = tile.softmax_online(tile.dot(x, tile.load(k, j).T) * 0.125)
        acc, m, l = tile.softmax_accumulate(acc, m, l, p, tile.load(v, j), mc, lc)
    return cast(acc / l[:, None], half)
"""
LIBRARY = """
def f(q: Tensor[B, S, 128, half], k: Tensor[B, T, 128, half], v: Tensor[B, T, 128, half]):
    return attention(q, k, v)
"""
GROUPS = """
@kernel
def f(x: KTile[S, L, half], w: Tensor[E, L, N, half], of: KTile[S, i32]) -> Tile[S, N, half]:
    T = tile.context()
    y, mine = tile.zeros((T.m, T.n), f32), tile.load(of, rows=T.m)
    for e in range(E):
        acc = tile.zeros((T.m, T.n), f32)
        for k in tile.range_k(x, T.k):
            acc += tile.dot(tile.load(x, None, k, rows=T.m), tile.load(w[e], k, None, cols=T.n))
        y = where((mine == e)[:, None], acc, y)
    return y
"""
ROOM = 128
"""Bytes of addresses and counters that a thread may keep in its memory over a loop of products."""


def spilled(text: str, arch: str) -> list[int]:
    module = run_passes(
        tile_of(SourceFile("m.tess", HALF + text), "f", arch), [gpu_pass(PLATFORMS[arch].schedule)], verify=False
    )
    best = [kernel for kernel in kernels_of(module) if kernel.symbol == kernel.attrs["variant_of"]]
    return [assemble(emit_ptx(emit_kernel(kernel).llvm, arch), arch).spilled_bytes for kernel in best]


@pytest.mark.one_in(8)
@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "text",
    [TWO_SUMS, WIDE_HEADS, LIBRARY, GROUPS, WINDOW_OF_IMAGE],
    ids=["swiglu", "user", "library", "groups", "stencil"],
)
def test_large_kernels_fit_registers(text: str, arch: str) -> None:
    """They spilled 216 to 3476 bytes a thread: what a question about rare elements computes was kept for the answer, of
    all elements at once; blocks were counted as if a thread held them alone, and tiles that are read at computed places
    not at all."""
    assert max(spilled(text, arch)) <= (0 if arch == "sm_80" or text not in (TWO_SUMS, GROUPS) else ROOM)


@pytest.mark.one_in(2)
def test_what_steps_carry_beside_products_counts() -> None:
    """Sums of one step and what all carry are held at once: no block of a product alone."""
    (launch,) = (op for op in levels(HALF + GROUPS, MACHINES["sm_90a"]).schedule.walk() if op.name == "schedule.launch")
    assert [loop.block for loop in launch_loops(launch)][2:] == [128, 128]
