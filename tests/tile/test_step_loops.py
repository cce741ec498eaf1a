"""Loops of tile programs that go step by step over time: one launch on a processor and on a GPU, with the bits of the
meaning, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tesserac.graph.passes.place_kernels import placed_kernels
from tesserac.schedule.dialect import launch_loops
from tesserac.schedule.machine import SM_90A, X86_64_V4, Machine
from tesserac.target.cpu.host.runners import elements_touched
from tests.schedule.test_given_schedules import levels
from tests.support import tile_eval
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import compile_to_forms
from tests.tile.test_programs import kernels, placed, tiles
from tests.tile.test_programs_gpu import emulated, lowered

HEAD = """
@kernel{2}
def scan_(a: KTile[B, L, D], x: KTile[B, L, D]):
    T = tile.context()
    at, xt = tile.load(a, cols=T.n), tile.load(x, cols=T.n)
    h = tile.zeros((T.n,))
    y = tile.zeros((L, T.n))
    for t in range({0}):
{1}
    return y, h

def f(a: Tensor[B, L, D, f32], x: Tensor[B, L, D, f32]):
    return scan_(a, x)
"""
SELECTIVE = """
@kernel
def selective(u: KTile[B, L, D], d: KTile[B, L, D], A: KTile[D, 4], b: KTile[B, L, 4], c: KTile[B, L, 4]):
    T = tile.context()
    ut, dt = tile.load(u, cols=T.n), tile.load(d, cols=T.n)
    rates, bt, ct = tile.load(A, rows=T.n), tile.load(b), tile.load(c)
    h = tile.zeros((T.n, 4))
    y = tile.zeros((L, T.n))
    for t in range(L):
        h = exp(dt[t][:, None] * rates) * h + (dt[t] * ut[t])[:, None] * bt[t][None, :]
        y[t] = sum(h * ct[t][None, :], axis=-1)
    return y

def f(
    u: Tensor[B, L, D, f32], d: Tensor[B, L, D, f32], A: Tensor[D, 4, f32], b: Tensor[B, L, 4, f32],
    c: Tensor[B, L, 4, f32],
):
    return selective(u, d, A, b, c)
"""
STEPS = {
    "plain": ("L", "        h = at[t] * h + xt[t]\n        y[t] = h"),
    "backwards": ("L", "        h = at[L - 1 - t] * h + xt[L - 1 - t] * float(t)\n        y[L - 1 - t] = h"),
    "other value": ("L", "        h = at[t] * h + xt[t]\n        y[t] = tanh(h) * xt[t]"),
    "no row": ("1, L", "        h = maximum(at[t - 1] * h, xt[t])"),
}
REFUSED = {
    "reads rows again": ("1, L", "        y[t] = y[t - 1] * at[t]"),
    "some rows": ("1, L", "        y[t] = at[t]"),
}


def text(kind: str, schedule: str = "") -> str:
    made = HEAD.format(*(STEPS | REFUSED)[kind], schedule)
    return made.replace("return y, h", "return h") if kind == "no row" else made


def arguments(b: int, steps: int, d: int) -> list[np.ndarray]:
    rng = np.random.default_rng(d)
    return [rng.standard_normal((b, steps, d)).astype(np.float32) for _ in range(2)]


def meaning(program: str, args: list[np.ndarray]) -> list[np.ndarray]:
    return list(run_function(compile_to_forms(program), "m.f", args))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", STEPS)
def test_steps_are_one_launch_with_the_bits_of_the_meaning(kind: str) -> None:
    for schedule in ("", ".schedule(Schedule(block=(1, 16)))"):
        module = tiles(text(kind, schedule))
        assert len(kernels(module)) == 1
        for sizes in ((2, 5, 3), (1, 17, 40), (1, 0, 2)):
            args = arguments(*sizes)
            for got, wanted in zip(tile_eval.run_host(module, "m.f", args), meaning(text(kind), args), strict=True):
                same_bits(got, wanted)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("kind", STEPS)
def test_threads_of_a_gpu_give_the_same_bits(kind: str) -> None:
    run = emulated(text(kind))
    for sizes in ((2, 5, 3), (1, 17, 40)):  # fewer steps than are loaded together, and some more
        args = arguments(*sizes)
        for got, wanted in zip(run(*args), meaning(text(kind), args), strict=True):
            same_bits(got, wanted)


@pytest.mark.one_in(6)
def test_a_selective_scan_runs_as_tiles() -> None:
    assert [why for _, why in placed_kernels(placed(SELECTIVE).lookup("m.f"))] == [""]
    rng = np.random.default_rng(0)
    shapes = ((2, 9, 5), (2, 9, 5), (5, 4), (2, 9, 4), (2, 9, 4))
    args = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    (wanted,) = meaning(SELECTIVE, args)
    same_bits(tile_eval.run_host(tiles(SELECTIVE), "m.f", args)[0], wanted)
    same_bits(emulated(SELECTIVE)(*args)[0], wanted)


@pytest.mark.parametrize("kind", REFUSED)
def test_rows_that_are_no_results_run_as_the_meaning(kind: str) -> None:
    ((_, why),) = placed_kernels(placed(text(kind)).lookup("m.f"))
    assert why


def test_steps_count_as_work() -> None:
    """What a launch is divided by: of a long loop over little memory each step counts."""
    (launch,) = (op for op in tiles(text("plain")).lookup("m.f").walk() if op.name == "tile.launch")
    sizes = {"B": 2, "L": 1000, "D": 16}
    assert elements_touched(launch).evaluate(sizes) >= 3 * 2 * 1000 * 16
    assert elements_touched(launch).evaluate(sizes | {"L": 2000}) >= 1.9 * elements_touched(launch).evaluate(sizes)


STATE = """
@kernel
def f(k: KTile[H, L, 64, f32], v: KTile[H, L, 64, f32], w: KTile[H, L, 64, f32]) -> Tile[H, L, 64, f32]:
    T = tile.context()
    keys, values, fade = tile.load(k), tile.load(v, cols=T.n), tile.load(w)
    s, y = tile.zeros((64, T.n), f32), tile.zeros((L, T.n), f32)
    for t in range(L):
        s = s * fade[t][:, None] + keys[t][:, None] * values[t][None, :]
        y[t] = tile.reduce_sum(s, axis=0)
    return y
"""
BAGS = """
@kernel
def f(table: KTile[V, {D}, f32], at: KTile[B, L, i32]) -> Tile[B, {D}, f32]:
    T = tile.context()
    rows, acc = tile.load(at, rows=T.m), tile.zeros((T.m, {D}), f32)
    for i in range(L):
        acc += tile.load(table, rows[:, i])
    return acc
"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("program", "machine", "columns"),
    [
        (STATE, SM_90A, [16]),
        (STATE, X86_64_V4, [32]),
        (BAGS.format(D=128), SM_90A, [8] * 4),
        (BAGS.format(D="D"), SM_90A, [32, 16, 8, 4]),
        (BAGS.format(D="D"), X86_64_V4, [32]),
        (SELECTIVE, SM_90A, [128]),
    ],
)
def test_what_is_carried_fits_registers(program: str, machine: Machine, columns: list[int]) -> None:
    """A dim behind the columns that only a run knows is held whole: 128 rows of up to 256 elements spilled 59 KB a
    thread, and took eight minutes to compile. One before them is written step by step."""
    launches = [op for op in levels(program, machine).schedule.walk() if op.attrs.get("kind") == "program"]
    assert [launch_loops(launch)[-1].block for launch in launches] == columns


GROUPS = """
@kernel
def f(x: KTile[S, L, f32], w: Tensor[E, L, 24, f32], of: KTile[S, i32]) -> Tile[S, 24, f32]:
    T = tile.context()
    y, mine = tile.zeros((T.m, T.n), f32), tile.load(of, rows=T.m)
    for e in range(E):
        acc = tile.zeros((T.m, T.n), f32)
        for k in tile.range_k(x, T.k):
            acc += tile.dot(tile.load(x, None, k, rows=T.m), tile.load(w[e], k, None, cols=T.n))
        y = {0}
    return y
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("count", ["E", "8"])  # one that is known is not written out
@pytest.mark.parametrize(
    ("change", "passed"),
    [("where((mine == e)[:, None], acc, y)", True), ("where((mine == e)[:, None], acc, y + 1.0)", False)],
)
def test_steps_that_count_for_no_row_of_a_program_are_passed_over(change: str, passed: bool, count: str) -> None:
    text = GROUPS.format(change).replace("[E,", f"[{count},").replace("(E)", f"({count})")
    loops = [op for op in levels(text, X86_64_V4).tile.walk() if op.name == "tile.for"]
    asked = [op for op in loops if op.operands[1].defining_op.name == "tile.index"]  # type: ignore[union-attr]
    assert [any(inner.name == "tile.dot" for inner in op.walk()) for op in asked] == [True] * passed


@pytest.mark.one_in(2)
def test_steps_that_have_loops_are_not_written_out() -> None:
    """Their loads are copied ahead in any case, and eight products of blocks in a round have eight stages."""
    tile = levels(GROUPS.format("maximum(y, acc)"), SM_90A).tile
    assert len([op for op in tile.walk() if op.name == "tile.dot"]) == 1


@pytest.mark.one_in(2)
def test_a_loop_that_may_have_no_iteration_orders_nothing_behind_it() -> None:
    """What warps tell each other of a step is read by all before the next step tells: its products may be passed over,
    and their barriers with them."""
    kernel = next(
        op for op in lowered(GROUPS.format("where((mine == e)[:, None], acc, y)")).walk() if op.name == "gpu.kernel"
    )
    (outer, *_) = [op for op in kernel.walk() if op.name == "gpu.for"]
    assert [op.name for op in outer.body.ops if op.name in ("gpu.barrier", "gpu.for")] == ["gpu.barrier"] * 2 + [
        "gpu.for"
    ]
