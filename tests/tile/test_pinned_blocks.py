"""Kernels that mean their blocks: the sizes that they pin, with a ragged last one, wherever they run."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import tessera
from tesserac.graph.build import build_module
from tesserac.graph.interp import run_function
from tesserac.graph.passes.place_kernels import place_kernels, placed_kernels
from tesserac.ir.core import Module
from tesserac.ir.passes import run_passes
from tesserac.pipeline import CALL_PASSES, GRAPH_PASSES, PROGRAM_PASSES, schedule_passes, tile_passes
from tesserac.schedule.machine import AARCH64
from tesserac.tile.trial import tiles_of
from tests.support import tile_eval
from tests.support.checking import check_text as diagnose
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import check_text, compile_to_forms, library
from tests.tile.test_programs_gpu import emulated

HEAD = "@kernel.schedule(Schedule(block=(8, 16, 16)))\n"
PROGRAMS = {
    "scales": """def f(x: KTile[S, N, f32]) -> Tile[S, N, f32]:
    T = tile.context()
    t = tile.load(x, rows=T.m, cols=T.n)
    return t / max(abs(t)) + tile.reduce_sum(t, axis=1)[:, None] * float(T.n)
""",
    "total": """def f(x: KTile[S, N, f32]) -> Tile[S, N, f32]:
    T = tile.context()
    t = tile.load(x, rows=T.m, cols=T.n)
    return t - mean(t)
""",
    "fading": """def f(x: KTile[B, S, N, f32]) -> Tile[B, S, f32]:
    T = tile.context()
    s = tile.zeros((T.m,), f32)
    for k in tile.range_k(x, T.k):
        s = s * 0.5 + tile.reduce_sum(tile.load(x, None, k, rows=T.m), axis=1) + float(k * T.k)
    return s
""",
    "online softmax": """def f(x: KTile[S, N, f32], v: KTile[N, 8, f32]):
    T = tile.context()
    acc = tile.zeros((T.m, T.d), f32)
    high = tile.full((T.m,), -1e30)
    total = tile.zeros((T.m,), f32)
    for j in tile.range_k(x, T.k):
        s = tile.load(x, None, j, rows=T.m)
        new = maximum(high, tile.reduce_max(s, axis=1))
        p = exp(s - new[:, None])
        scale = exp(high - new)
        total = total * scale + tile.reduce_sum(p, axis=1)
        acc = acc * scale[:, None] + tile.dot(p, tile.load(v, j, None, cols=T.d))
        high = new
    return acc / total[:, None], high
""",
}
SIZES = [(1, 1), (8, 16), (16, 32), (19, 37), (5, 40)]


def arguments(name: str, rows: int, columns: int) -> list[np.ndarray]:
    rng = np.random.default_rng(rows)
    shapes = {"fading": [(2, rows, columns)], "online softmax": [(rows, columns), (columns, 8)]}
    return [rng.standard_normal(shape).astype("f4") for shape in shapes.get(name, [(rows, columns)])]


def block_by_block(name: str, args: list[np.ndarray]) -> list[np.ndarray]:
    """The same with NumPy, in f64."""
    x = args[0].astype("f8")
    if name == "fading":
        total = np.zeros(x.shape[:-1])
        for k in range(0, x.shape[-1], 16):
            total = total * 0.5 + x[..., k : k + 16].sum(-1) + k
        return [total]
    if name == "online softmax":
        p = np.exp(x - x.max(1, keepdims=True))
        return [p @ args[1] / p.sum(1)[:, None], x.max(1)]
    made = np.empty_like(x)
    for i in range(0, x.shape[0], 8):
        for j in range(0, x.shape[1], 16):
            t = x[i : i + 8, j : j + 16]
            scaled = t / np.abs(t).max() + t.sum(1)[:, None] * 16
            made[i : i + 8, j : j + 16] = t - t.mean() if name == "total" else scaled
    return [made]


@cache
def placed(name: str) -> Module:
    checked = check_text(HEAD + PROGRAMS[name], "m", library())
    graph = run_passes(build_module(list(checked.functions.values()), {"m.f"}), CALL_PASSES, verify=True)
    place = place_kernels(tiles_of(AARCH64, PROGRAM_PASSES, schedule_passes(AARCH64)))
    return run_passes(graph, [place, *GRAPH_PASSES], verify=True)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", PROGRAMS)
def test_pinned_blocks_are_the_meaning_everywhere(name: str) -> None:
    meaning, program = compile_to_forms(HEAD + PROGRAMS[name]), placed(name)
    [(_, why)] = placed_kernels(program.lookup("m.f"))
    assert bool(why) == (name == "total"), why
    tiles = run_passes(program, [*schedule_passes(AARCH64), *tile_passes(AARCH64)], verify=True)
    compiled = tessera.compile(HEAD + PROGRAMS[name])
    for size in SIZES:
        args = arguments(name, *size)
        wanted = run_function(meaning, "m.f", args)
        native = compiled.f(*args)
        natives = native if isinstance(native, tuple) else (native,)
        others = [run_function(program, "m.f", args), tile_eval.run_host(tiles, "m.f", args), natives]
        for position, one in enumerate(wanted):
            np.testing.assert_allclose(one, block_by_block(name, args)[position], rtol=2e-4, atol=2e-4)
            for other in others:
                same_bits(np.asarray(other[position]), one)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_of_a_gpu_give_the_same_bits(name: str) -> None:
    run, meaning = emulated(HEAD + PROGRAMS[name]), compile_to_forms(HEAD + PROGRAMS[name])
    for size in ((8, 16), (19, 37)):
        args = arguments(name, *size)
        for got, wanted in zip(run(*args), run_function(meaning, "m.f", args), strict=True):
            same_bits(got, wanted)


OF_EACH = """def f(x: KTile[S, N, f32]) -> Tile[S, N, f32]:
    T = tile.context()
    t = tile.load(x, rows=T.m, cols=T.n)
    return {}
"""
OF_BLOCKS = (
    "mean(t, axis=1, keep=True) + t", "layernorm(t)", "t * float(t.shape[1]) + var(t, axis=0)", "sort(t, axis=1)",
)  # fmt: skip
"""What depends on how many elements a block has."""


@pytest.mark.one_in(24)
@pytest.mark.parametrize("text", [*map(OF_EACH.format, OF_BLOCKS), "loop"])
def test_the_last_block_has_as_many_elements_as_there_are(text: str) -> None:
    if text == "loop":
        text = PROGRAMS["fading"].replace("tile.reduce_sum", "mean")
    text, args = HEAD + text, arguments("fading" if "KTile[B" in text else "scales", 19, 37)
    [wanted] = run_function(compile_to_forms(text), "m.f", args)
    for got in (tessera.compile(text).f(*args), emulated(text)(*args)[0]):
        same_bits(np.asarray(got), wanted)


def test_a_mapped_kernel_has_its_blocks() -> None:
    text = HEAD + PROGRAMS["scales"] + "\ndef mapped(x: Tensor[B, S, N, f32]):\n    return vmap(f)(x)\n"
    module, (x,) = tessera.compile(text), arguments("scales", 9, 18)
    both = np.stack([x, -2 * x])
    np.testing.assert_array_equal(module.mapped(both)[1], module.f(both[1]))


def test_a_schedule_cannot_change_blocks_that_are_meant() -> None:
    text = HEAD + PROGRAMS["scales"] + (
        "\ndef g(x: Tensor[S, N, f32]):\n    return f.with_schedule(Schedule(block=(8, 32)))(x)\n"
    )
    [found] = diagnose(text).diagnostics
    assert found.code == "E0516" and "T.n of 32" in found.title
    assert not diagnose(text.replace("block=(8, 32)", "warps=2")).diagnostics
    [found] = diagnose(text.replace("Schedule(block=(8, 32))", "Schedule().on('cuda', BN=32)")).diagnostics
    assert found.code == "E0516" and "T.n of 32 on cuda" in found.title


def test_blocks_that_are_meant_are_the_same_on_every_target() -> None:
    text = HEAD + PROGRAMS["scales"]
    assert text.count("))\ndef f") == 1
    assert not diagnose(text.replace("))\ndef f", ").on('cuda', warps=2))\ndef f")).diagnostics
    [found] = diagnose(text.replace("))\ndef f", ").on('cuda', BN=32))\ndef f")).diagnostics
    assert found.code == "E0516" and "T.n of 32 on cuda" in found.title


def test_a_block_that_is_meant_has_no_size_outside_its_loop() -> None:
    text = PROGRAMS["fading"].replace("x: KTile[B, S, N, f32]) -> Tile[B, S, f32]", "x: KTile[S, N, f32])")
    text = text.replace("    s = tile", "    w = tile.zeros((T.m, T.k), f32)\n    s = tile")
    text = text.replace("rows=T.m), axis", "rows=T.m) + w, axis")
    [found] = diagnose(HEAD + text).diagnostics
    assert found.code == "E0515" and "T.k" in found.title


def test_every_block_that_is_meant_is_pinned() -> None:
    [found] = diagnose(HEAD.replace("8, 16, 16", "8,") + PROGRAMS["scales"]).diagnostics
    assert found.code == "E0511" and "T.n" in found.title


def test_an_online_softmax_that_rescales_floats_is_told_which_block_to_pin() -> None:
    """With that one block it is accepted: others may still be any."""
    [found] = diagnose("@kernel\n" + PROGRAMS["online softmax"]).diagnostics
    assert found.code == "E0511" and "T.k" in found.title
    assert any("@kernel.schedule(Schedule(k=64))" in note for note in found.notes), found.notes
    assert not diagnose("@kernel.schedule(Schedule(k=64))\n" + PROGRAMS["online softmax"]).diagnostics
