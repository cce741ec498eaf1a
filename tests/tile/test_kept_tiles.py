"""Computed tiles that are sorted, gathered from, cut and put together: the program keeps them in its own memory. One
launch on a processor and on a GPU, with the bits of the meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.graph.interp import run_function
from tesserac.ir.passes import run_passes
from tesserac.schedule.machine import AARCH64, SM_90A
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, gpu_program, kernels_of
from tests.schedule.test_given_schedules import levels
from tests.support.cpu_kernels import same_bits
from tests.support.gpu_emulator import Emulated
from tests.support.gpu_kernels import SESSION, tile_of
from tests.support.kernel_programs import scheduled
from tests.support.source_support import compile_to_forms
from tests.tile.test_programs_gpu import emulated, lowered
from tests.tile.test_user_kernels import why

ROUTING = """
@kernel
def f(x: KTile[S, L, f32], w: KTile[L, 16, f32]):
    T = tile.context()
    acc = tile.zeros((T.m, 16), f32)
    for k in tile.range_k(x, T.k):
        acc += tile.dot(tile.load(x, None, k, rows=T.m), tile.load(w, k))
    v, i = topk(acc, 2)
    return softmax(v), i
"""
NUCLEUS = """
@kernel
def f(x: KTile[S, 48, f32]):
    T = tile.context()
    p = softmax(tile.load(x, rows=T.m))
    order = argsort(p, axis=1, descending=True)
    q = take_along_axis(p, order, axis=1)
    return where(cumsum(q, axis=1) - q < 0.8, q, 0.0), order
"""
MEDIANS = """
@kernel
def f(x: KTile[41, S, f32]):
    T = tile.context()
    return sort(tile.load(x, cols=T.n) * 2.0, axis=0)[20]
"""
PICKED = """
@kernel
def f(x: KTile[S, D, f32], at: KTile[S, 5, i32]):
    T = tile.context()
    p = softmax(tile.load(x, rows=T.m))
    return take_along_axis(p, tile.load(at, rows=T.m), axis=1)
"""
SHIFTED = """
@kernel
def f(x: KTile[S, 32, f32], w: KTile[16, 8, f32]):
    T = tile.context()
    p = softmax(tile.load(x, rows=T.m))
    y = softmax(p * roll(p, 1, axis=1))
    return y, flip(p, axis=1), tile.dot(p[:, 16:], w) + tile.dot(y[:, 0::2], w)
"""
IN_A_LOOP = """
@kernel
def f(x: KTile[S, 32, f32], at: KTile[S, 5, i32], w: KTile[32, 8, f32]) -> Tile[S, 8, f32]:
    T = tile.context()
    p, i, acc = softmax(tile.load(x, rows=T.m)), tile.load(at, rows=T.m), tile.zeros((T.m, 8), f32)
    for j in range(3):
        acc = acc + sum(take_along_axis(tile.dot(p * float(j), w), i + j, axis=1), axis=1, keep=True)
    return acc
"""
ELIMINATION = """
@kernel
def f(a: KTile[S, 6, 6, f32], b: KTile[S, 1, 6, f32]) -> Tile[S, 6, f32]:
    m, y = tile.load(a), tile.load(b)[0]
    for i in range(6):
        p, q, column = m[i] / m[i, i], y[i] / m[i, i], where(arange(6) == i, 0.0, m[:, i])
        m, y = m - column[:, None] * p[None, :], y - column * q
    return y
"""
SHORTEST_PATHS = """
@kernel
def f(d: KTile[S, 12, 12, f32]) -> Tile[S, 12, 12, f32]:
    m = tile.load(d)
    for k in range(12):
        m = minimum(m, m[:, k][:, None] + m[k][None, :])
    return m
"""
"""Each step reads parts of what the one before made: they are not made of parts of parts, without end."""
Arguments = Callable[[np.random.Generator, int], list[np.ndarray]]
KERNELS: dict[str, tuple[str, Arguments]] = {
    "routing": (ROUTING, lambda rng, s: [rng.standard_normal(shape, "f4") for shape in ((s, 70), (70, 16))]),
    "nucleus": (NUCLEUS, lambda rng, s: [rng.integers(0, 9, (s, 48)).astype("f4")]),
    "medians": (MEDIANS, lambda rng, s: [rng.standard_normal((41, s), "f4")]),
    "picked": (PICKED, lambda rng, s: [rng.standard_normal((s, 40), "f4"), rng.integers(-40, 40, (s, 5)).astype("i4")]),
    "shifted": (SHIFTED, lambda rng, s: [rng.standard_normal(shape, "f4") for shape in ((s, 32), (16, 8))]),
    "elimination": (
        ELIMINATION,
        lambda rng, s: [rng.standard_normal((s, 6, 6), "f4") + 6 * np.eye(6, dtype="f4"),
                        rng.standard_normal((s, 1, 6), "f4")],
    ),
    "shortest paths": (SHORTEST_PATHS, lambda rng, s: [rng.random((s, 12, 12), "f4")]),
    "in a loop": (
        IN_A_LOOP,
        lambda rng, s: [rng.standard_normal((s, 32), "f4"), rng.integers(0, 6, (s, 5)).astype("i4"),
                        rng.standard_normal((32, 8), "f4")],
    ),
}  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", KERNELS)
def test_they_run_as_tiles(name: str) -> None:
    """One launch for what fits, and nothing in memory but arguments and results."""
    for machine in (AARCH64, SM_90A):
        assert why(KERNELS[name][0], machine) == [""]
    if name != "picked":  # of any width, for which its meaning stands beside it
        made = levels(KERNELS[name][0], AARCH64).schedule
        assert [op.attrs["kind"] for op in made.walk() if op.name == "schedule.launch"] == ["program"]


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", KERNELS)
def test_they_have_the_bits_of_their_meaning(name: str) -> None:
    text, args = KERNELS[name][0], KERNELS[name][1](np.random.default_rng(0), 37)
    wanted = run_function(compile_to_forms(text), "m.f", args)
    found = [tessera.compile(scheduled(text, blocks)).f(*args) for blocks in (None, (5, 3, 30))]
    ways = [*(one if isinstance(one, tuple) else (one,) for one in found), emulated(text)(*args)]
    for results in ways:
        for got, expected in zip(results, wanted, strict=True):
            same_bits(np.asarray(got), np.asarray(expected))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", ["nucleus", "picked"])
def test_what_has_no_room_in_shared_memory_lies_in_a_workspace(name: str) -> None:
    """Threads wait for each other there, too."""
    text, args = KERNELS[name][0], KERNELS[name][1](np.random.default_rng(1), 37)
    small = replace(SM_90A, near_bytes=9 * 1024)
    module = run_passes(tile_of(SourceFile("m.tess", text), "f", "sm_90a"), [gpu_pass(small)], verify=True)
    symbol = SESSION.function(SourceFile("m.tess", text), "f").symbol
    program = gpu_program(module, symbol, PLATFORMS["sm_90a"], SESSION.locate, name="f", returns_tuple=True)
    assert any(op.symbol.endswith("_workspace") for op in kernels_of(module))
    for got, wanted in zip(
        Emulated(program, kernels_of(module))(*args), run_function(compile_to_forms(text), "m.f", args), strict=True
    ):
        same_bits(np.asarray(got), np.asarray(wanted))


@pytest.mark.one_in(3)
def test_threads_wait_before_they_read_what_others_kept() -> None:
    kernel = next(op for op in lowered(PICKED).walk() if op.name == "gpu.kernel")
    names = [op.name for op in kernel.body.ops]
    stored = next(i for i, op in enumerate(kernel.body.ops) if op.name == "gpu.store")
    assert "gpu.barrier" in names[stored : names.index("gpu.gather")]


@pytest.mark.one_in(3)
def test_an_index_that_a_computed_tile_has_not_is_told() -> None:
    x, at = KERNELS["picked"][1](np.random.default_rng(0), 9)
    at[3, 2] = 40
    with pytest.raises(tessera.TesseraError, match="index 40 is out of range for a dim of size 40"):
        tessera.compile(PICKED).f(x, at)
