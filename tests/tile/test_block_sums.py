"""Sums over the blocks of a loop: tile programs, with the bits of one sum over the whole dim under every schedule."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.graph.interp import run_function
from tesserac.graph.passes.place_kernels import placed_kernels
from tesserac.ir.kernels import MOST_WHOLE
from tesserac.numerics.order import REDUCTION
from tesserac.schedule.dialect import launch_loops
from tesserac.schedule.machine import AARCH64, SM_90A
from tesserac.schedule.programs.grid import BESIDE as LANES
from tesserac.schedule.programs.grid import SUMMED
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
def f(x: KTile[S, L, {t}], w: KTile[L, E, {t}]):
    T = tile.context()
    s, z, a = tile.zeros((T.m,), {t}), tile.zeros((T.m,), {t}), tile.zeros((T.m, T.d), {t})
    h = tile.full((T.m,), -INF, {t})
    for j in tile.range_k(x, T.k{part}):
        t = tile.load(x, None, j, rows=T.m)
        s += tile.reduce_sum(t, axis=1)
        a += tile.dot(t, tile.load(w, j, None, cols=T.d))
        z += tile.reduce_sum(exp(t), axis=1)
        h = maximum(h, tile.reduce_max(t, axis=1))
    return a / z[:, None], s, h
"""
LINEAR_ATTENTION = """
@kernel
def f(q: KTile[S, 16, f32], k: KTile[L, 16, f32], v: KTile[L, 8, f32]):
    T = tile.context()
    x = exp(tile.load(q, rows=T.m))
    acc, z = tile.zeros((T.m, 8), f32), tile.zeros((T.m,), f32)
    for j in tile.range_n(k, T.n):
        s = tile.dot(x, tile.transpose(exp(tile.load(k, j))))
        s = where(tile.col_index(j)[None, :] <= tile.row_index()[:, None] * 99, s, 0.0)
        acc += tile.dot(s, tile.load(v, j))
        z += tile.reduce_sum(s, axis=1)
    return acc / z[:, None]
"""
ONLY_SUMS = """
@kernel
def f(q: KTile[S, 16, f32], k: KTile[L, 16, f32], v: KTile[L, 8, f32]):
    T = tile.context()
    z = tile.zeros((T.m,), f32)
    for j in tile.range_n(k, T.n):
        z += tile.reduce_sum(tile.dot(tile.load(q, rows=T.m), tile.transpose(tile.load(k, j))), axis=1)
    return z
"""
FORCES = """
@kernel
def f(p: KTile[L, 3, f32], m: KTile[L, f32]):
    T = tile.context()
    x, acc = tile.load(p, rows=T.m), tile.zeros((T.m, 3), f32)
    for j in tile.range_n(p, T.n):
        d = tile.load(p, j)[None, :, :] - x[:, None, :]
        r = rsqrt(sum(d * d, axis=2) + 1e-3)
        acc += tile.reduce_sum((tile.load(m, j)[None, :] * r * r * r)[:, :, None] * d, axis=1)
    return acc
"""
BESIDE = {
    "mixed": MIXED.format(t="f32", part=""),
    "part": MIXED.format(t="f32", part=", start=tile.row_index() * 200 - 7, stop=tile.row_index() * 300 + 600"),
    "f64": MIXED.format(t="f64", part=""),
    "attention": LINEAR_ATTENTION,
    "sums": ONLY_SUMS,
    "forces": FORCES,
}


def factors(name: str, length: int) -> list[np.ndarray]:
    rng = np.random.default_rng(length)
    if name == "forces":
        return [rng.standard_normal(shape).astype("f4") for shape in ((length, 3), (length,))]
    shapes = [(7, 16), (length, 16), (length, 8)] if name in ("attention", "sums") else [(7, length), (length, 5)]
    return [rng.standard_normal(shape).astype("f8" if name == "f64" else "f4") for shape in shapes]


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


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", sorted(BESIDE))
def test_sums_beside_products_have_the_bits_of_the_meaning(name: str) -> None:
    text = scheduled(BESIDE[name], (5, 3, 300))
    assert [why for _, why in placed_kernels(placed(text).lookup("m.f"))] == [""]
    meaning, native = compile_to_forms(BESIDE[name]), tessera.compile(text).f
    for length in (1, 70, 1200, 9000)[: 2 if name == "forces" else 4]:
        given = factors(name, length)
        wanted, found = list(run_function(meaning, "m.f", given)), native(*given)
        others = [tile_eval.run_host(tiles(text), "m.f", given), found if isinstance(found, tuple) else (found,)]
        for results in others:
            for got, expected_ in zip(results, wanted, strict=True):
                same_bits(np.asarray(got), expected_)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", sorted(BESIDE))
def test_threads_of_a_gpu_have_sums_beside_products(name: str) -> None:
    run = emulated(BESIDE[name])
    for length in (70, 4700)[: 1 if name == "forces" else 2]:
        given = factors(name, length)
        for got, wanted in zip(run(*given), run_function(compile_to_forms(BESIDE[name]), "m.f", given), strict=True):
            same_bits(got, wanted)


@pytest.mark.one_in(4)
def test_threads_take_blocks_beside_products_as_wide_as_the_order_has_lanes() -> None:
    made = levels(scheduled(BESIDE["mixed"], (8, 8, 128)), SM_90A)
    launches = [op for op in made.schedule.walk() if op.attrs.get("kind") == "program"]
    assert len(launches) == len(MOST_WHOLE), "one for each room of a dim that only a run knows"
    for launch in launches:
        assert REDUCTION.lanes in [loop.block for loop in launch_loops(launch)]
        assert f"k of its schedule is not taken: {LANES}" in str(launch.attrs["reason"])


COLUMNS = """
@kernel
def f(x: KTile[M, N, f32], y: KTile[M, N, f32], c: KTile[M, f32]):
    T = tile.context()
    s, z = tile.zeros((T.n,), f32), tile.full((T.n,), -INF)
    for i in tile.range_n(x, T.m):
        t = tile.load(x, i, None, cols=T.n)
        s += tile.reduce_sum((t - tile.load(c, i)[:, None]) * tile.load(y, i, None, cols=T.n), axis=0)
        z = maximum(z, tile.reduce_max(t, axis=0))
    return s, z
"""


@pytest.mark.one_in(8)
def test_programs_that_fold_columns_walk_rows_in_memory() -> None:
    """Four columns of 512 rows, as of rows that are folded, were forty times as slow as all columns at once."""
    [launch] = [op for op in levels(COLUMNS, AARCH64).schedule.walk() if op.name == "schedule.launch"]
    assert [loop.block for loop in launch_loops(launch)] == [1, REDUCTION.block, 1024]
    rng = np.random.default_rng(0)
    for rows, columns in ((1, 1), (700, 130), (3, 2500)):
        x, y, c = (rng.standard_normal(shape, "f4") for shape in ((rows, columns), (rows, columns), (rows,)))
        wanted = run_function(compile_to_forms(COLUMNS), "m.f", [x, y, c])
        for results in (tessera.compile(COLUMNS).f(x, y, c), tile_eval.run_host(tiles(COLUMNS), "m.f", [x, y, c])):
            for got, expected in zip(results, wanted, strict=True):
                same_bits(np.asarray(got), np.asarray(expected))
