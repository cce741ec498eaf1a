"""Kernels as tile programs: every schedule has the bits of the meaning, as neutral tiles and as machine code."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessera
from tesserac.graph.build import build_module
from tesserac.graph.interp import run_function
from tesserac.graph.passes.place_kernels import PLACED, place_kernels
from tesserac.ir.core import Module, Op
from tesserac.ir.kernels import KERNEL
from tesserac.ir.passes import run_passes
from tesserac.ir.printer import print_module
from tesserac.pipeline import CALL_PASSES, GRAPH_PASSES, PROGRAM_PASSES, schedule_passes, tile_passes
from tesserac.schedule.machine import AARCH64
from tesserac.tile.dialect import grid
from tesserac.tile.trial import try_program
from tests.support import tile_eval
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import check_text, compile_to_forms, library

HEAD = """
    T = tile.context()
    acc = tile.zeros((T.m, T.d), f32)
    m = tile.full((T.m,), -INF)
    l = tile.zeros((T.m,), f32)
    Q = tile.load(q, rows=T.m, cols=T.d)
    for j in tile.range_n(k, T.n):
        s = tile.dot(Q, tile.transpose(tile.load(k, j, None, cols=T.d))) * 0.5
"""
TAIL = """
        P, mc, lc = tile.softmax_online(s)
        acc, m, l = tile.softmax_accumulate(acc, m, l, P, tile.load(v, j, None, cols=T.d), mc, lc)
    return acc / l[:, None]
"""
ARGS = 'q: KTile["B*H", S, 8, f32], k: KTile["B*H", L, 8, f32], v: KTile["B*H", L, 8, f32]'

PROGRAMS = {
    "product": """
@kernel
def f(a: KTile[S, K, f32], b: KTile[K, L, f32]) -> Tile[S, L, f32]:
    T = tile.context()
    acc = tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(a, T.k):
        acc += tile.dot(tile.load(a, None, k, rows=T.m), tile.load(b, k, None, cols=T.n))
    return acc
""",
    "attention": f"@kernel\ndef f({ARGS}):{HEAD}{TAIL}",
    "causal": f"""@kernel
def f({ARGS}):{HEAD}
        tile.mask_causal(s, tile.row_index(), tile.col_index(j)){TAIL}""",
    "window": f"""@kernel
def f({ARGS}):{HEAD}
        r, c = tile.row_index()[:, None], tile.col_index(j)[None, :]
        s = where((c <= r) & (r - c < 5), s, -INF){TAIL}""",
    "bias": f"""@kernel
def f(b: KTile[S, L, f32], {ARGS}):{HEAD}
        s = s + tile.load(b, None, j, rows=T.m){TAIL}""",
    "norm": """
@kernel
def f(x: KTile[S, 24, f32], w: KTile[24, f32]) -> Tile[S, 24, f32]:
    T = tile.context()
    t = tile.load(x, rows=T.m)
    return t * rsqrt(mean(t * t, axis=-1, keep=True) + 1e-5) * w[None, :]
""",
    "largest": """
@kernel
def f(x: KTile[S, L, f32]):
    T = tile.context()
    high = tile.full((T.m,), -INF)
    low = tile.full((T.m,), INF)
    for j in tile.range_k(x, T.k):
        t = tile.load(x, None, j, rows=T.m)
        high = maximum(high, tile.reduce_max(t, axis=1))
        low = minimum(low, tile.reduce_min(t, axis=1))
    return high, low
""",
    "any width": f"@kernel\ndef f({ARGS.replace(', 8, f32', ', D, f32')}):{HEAD}{TAIL}",
    "crossed": """
@kernel
def f(x: KTile[S, L, f32]) -> Tile[L, S, f32]:
    T = tile.context()
    return tile.transpose(tile.load(x, rows=T.m, cols=T.n)) * 2.0
""",
}
BLOCKS = [None, (1, 1, 1), (8, 16, 7), (5, 3, 300), (64, 128, 64)]


def scheduled(program: str, blocks: tuple[int, ...] | None) -> str:
    return program if blocks is None else program.replace("@kernel", f"@kernel.schedule(Schedule(block={blocks}))")


def arguments(name: str, s: int, other: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {
        "product": [(s, other), (other, s + 3)],
        "bias": [(s, other), (2, s, 8), (2, other, 8), (2, other, 8)],
        "norm": [(s, 24), (24,)],
        "largest": [(s, other)],
        "crossed": [(s, other)],
    }.get(name, [(2, s, 8), (2, other, 8), (2, other, 8)])
    return [(rng.standard_normal(shape) * 4).astype(np.float32) for shape in shapes]


@cache
def placed(program: str) -> Module:
    """The forms of `f` with its kernel in it."""
    checked = check_text(program, "m", library())
    graph = run_passes(build_module(list(checked.functions.values()), {"m.f"}), CALL_PASSES, verify=True)
    place = place_kernels(PROGRAM_PASSES, try_program(AARCH64, schedule_passes(AARCH64)))
    return run_passes(graph, [place, *GRAPH_PASSES], verify=True)


@cache
def tiles(program: str) -> Module:
    return run_passes(placed(program), [*schedule_passes(AARCH64), *tile_passes(AARCH64)], verify=True)


def kernels(module: Module) -> list[Op]:
    return [op for op in module.ops if op.name == "tile.kernel"]


def dots(module: Module, args: list[np.ndarray], monkeypatch: pytest.MonkeyPatch) -> int:
    """How many products of blocks a run makes."""
    count = 0
    plain = tile_eval._Program.tile_dot

    def counted(self: tile_eval._Program, op: Op, operands: list[object]) -> list[object]:
        nonlocal count
        count += 1
        return plain(self, op, operands)

    monkeypatch.setattr(tile_eval._Program, "tile_dot", counted)
    tile_eval.run_host(module, "m.f", args)
    return count


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "any width"])  # which has its meaning beside it
def test_a_kernel_is_one_launch_without_workspace(name: str) -> None:
    module = tiles(PROGRAMS[name])
    assert len(kernels(module)) == 1, print_module(module)
    host = module.lookup("m.f")
    assert not [op for op in host.walk() if op.name == "schedule.buffer" and op.attrs["role"] == "workspace"]


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_every_schedule_has_the_bits_of_the_meaning(name: str, data: st.DataObject) -> None:
    blocks = data.draw(st.sampled_from(BLOCKS[1:]))
    program = scheduled(PROGRAMS[name], blocks)
    s, other = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 20))
    args = arguments(name, s, other, data.draw(st.integers(0, 99)))
    meaning = run_function(compile_to_forms(PROGRAMS[name]), "m.f", args)
    spanning = run_function(placed(program), "m.f", args)
    for got, other_form, wanted in zip(tile_eval.run_host(tiles(program), "m.f", args), spanning, meaning, strict=True):
        same_bits(other_form, wanted)
        same_bits(got, wanted)


@pytest.mark.parametrize("blocks", [None, (8, 16, 7), (33, 100, 50)])
@pytest.mark.parametrize("name", ["product", "causal", "bias", "largest"])
def test_machine_code_has_the_bits_of_the_meaning(name: str, blocks: tuple[int, ...] | None) -> None:
    compiled = tessera.compile(scheduled(PROGRAMS[name], blocks))
    for s, other in ((1, 1), (37, 70), (5, 4100)):
        args = arguments(name, s, other)
        meaning = run_function(compile_to_forms(PROGRAMS[name]), "m.f", args)
        got = compiled.f(*args)
        for one, wanted in zip(got if isinstance(got, tuple) else (got,), meaning, strict=True):
            same_bits(np.asarray(one), wanted)


def test_a_schedule_changes_the_grid_and_not_the_bits() -> None:
    grids = {blocks: grid(kernels(tiles(scheduled(PROGRAMS["causal"], blocks)))[0]) for blocks in BLOCKS[1:]}
    assert len(set(map(str, grids.values()))) == len(grids)


def test_masked_blocks_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {}
    for name in ("attention", "causal", "window"):
        module = tiles(scheduled(PROGRAMS[name], (8, 8, 8)))
        counts[name] = dots(module, arguments(name, 32, 32), monkeypatch)
        monkeypatch.undo()
    blocks = 32 // 8
    per_block = counts["attention"] // (2 * blocks * blocks)
    assert counts["causal"] == per_block * 2 * blocks * (blocks + 1) // 2
    assert counts["window"] == per_block * 2 * (2 * blocks - 1)


def test_what_tiles_cannot_say_runs_as_its_meaning_and_says_why() -> None:
    program = """
@kernel
def f(x: KTile[S, K, f32]) -> Tile[S, K, f32]:
    T = tile.context()
    return cumsum(tile.load(x, rows=T.m), axis=1)
"""
    module = placed(program)
    function = module.lookup("m.f")
    assert not [op for op in function.walk() if op.name == KERNEL]
    ((_, why),) = function.attrs[PLACED]  # type: ignore[misc]
    assert "form.scan" in str(why)
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    same_bits(np.asarray(tessera.compile(program).f(x)), run_function(compile_to_forms(program), "m.f", [x])[0])
