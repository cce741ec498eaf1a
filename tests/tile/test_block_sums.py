"""Sums over the blocks of a loop: tile programs, with the bits of one sum over the whole dim under every schedule."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.graph.interp import run_function
from tesserac.graph.passes.place_kernels import placed_kernels
from tesserac.numerics.order import REDUCTION
from tesserac.schedule.dialect import launch_loops
from tesserac.schedule.machine import AARCH64, SM_90A
from tesserac.schedule.programs import SUMMED
from tests.schedule.test_given_schedules import levels
from tests.support import tile_eval
from tests.support.cpu_kernels import same_bits
from tests.support.kernel_programs import scheduled
from tests.support.source_support import compile_to_forms
from tests.tile.test_programs import placed, tiles
from tests.tile.test_programs_gpu import emulated

ROWS = """
@kernel
def f(x: KTile[S, L, {t}]):
    T = tile.context()
    s, z, h = tile.zeros((T.m,), {a}), tile.zeros((T.m,), {a}), tile.full((T.m,), -INF, {a})
    for j in tile.range_k(x, T.k{part}):
        t = tile.load(x, None, j, rows=T.m)
        s += tile.reduce_sum(t * t, axis=1)
        h = maximum(h, tile.reduce_max(t, axis=1))
        z = tile.reduce_sum(where(t < 0.0, t, 0.0), axis=1) + z
    return s * 0.5, h, z
"""
PROGRAMS = {
    "rows": ROWS.format(t="f32", a="f32", part=""),
    "part": ROWS.format(t="f32", a="f32", part=", start=tile.row_index() - 7, stop=tile.row_index() + 600"),
    "f64": ROWS.format(t="f64", a="f64", part=""),
    "columns": """
@kernel
def f(x: KTile[L, 3, f32]):
    T = tile.context()
    s = tile.zeros((3,), f32)
    for j in tile.range_n(x, T.n):
        s += tile.reduce_sum(tile.load(x, j), axis=0)
    return s
""",
}
MIXED = """
@kernel
def f(x: KTile[S, L, f32], w: KTile[L, 8, f32]):
    T = tile.context()
    s, a = tile.zeros((T.m,), f32), tile.zeros((T.m, T.d), f32)
    for j in tile.range_k(x, T.k):
        t = tile.load(x, None, j, rows=T.m)
        s += tile.reduce_sum(t, axis=1)
        a += tile.dot(t, tile.load(w, j, None, cols=T.d))
    return a, s
"""


def argument(name: str, length: int) -> np.ndarray:
    x = np.random.default_rng(length).standard_normal((length, 3) if name == "columns" else (7, length))
    return x.astype({"f64": "f8"}.get(name, "f4"))


def expected(name: str, x: np.ndarray) -> list[np.ndarray]:
    """By the interpreter, which knows no blocks."""
    return list(run_function(compile_to_forms(PROGRAMS[name]), "m.f", [x]))


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", ["rows", "part", "f64", "columns"])
def test_every_schedule_has_the_bits_of_the_meaning(name: str) -> None:
    for blocks in (None, (5, 3, 300)):
        text = scheduled(PROGRAMS[name], blocks)
        assert [why for _, why in placed_kernels(placed(text).lookup("m.f"))] == [""]
        native = tessera.compile(text).f
        for length in (1, 70, 4000):
            x = argument(name, length)
            found = native(x)
            others = [tile_eval.run_host(tiles(text), "m.f", [x]), found if isinstance(found, tuple) else (found,)]
            for results in others:
                for got, wanted in zip(results, expected(name, x), strict=True):
                    same_bits(np.asarray(got), wanted)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", ["rows", "part", "columns"])
def test_threads_of_a_gpu_have_them(name: str) -> None:
    run = emulated(PROGRAMS[name])
    for length in (3, 4000):
        x = argument(name, length)
        for got, wanted in zip(run(x), expected(name, x), strict=True):
            same_bits(got, wanted)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("machine", [AARCH64, SM_90A])
def test_blocks_are_those_of_the_order_and_inspect_says_so(machine: object) -> None:
    made = levels(scheduled(PROGRAMS["rows"], (8, 8, 64)), machine)  # type: ignore[arg-type]
    (launch,) = [op for op in made.schedule.walk() if op.attrs.get("kind") == "program"]
    assert [loop.block for loop in launch_loops(launch)][1:] == [REDUCTION.block, 8]
    assert f"k of its schedule is not taken: {SUMMED}" in str(launch.attrs["reason"])


def test_a_sum_beside_a_product_runs_as_its_meaning_and_says_why() -> None:
    [(_, why)] = placed_kernels(placed(scheduled(MIXED, (8, 8, 64))).lookup("m.f"))
    assert "a sum beside a product" in why and "512" in why and "4096" in why
