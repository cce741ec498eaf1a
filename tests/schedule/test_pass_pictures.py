"""Every pass behind Graph has a picture, as those over the Graph have in their docstrings: a program before and after
it, in `tests/cases/passes/`. Each is verified, and its text parses back."""

from __future__ import annotations

from pathlib import Path

import pytest

import tesserac.tile.dialect  # noqa: F401  (registers the operations of the texts)
from tesserac.ir.core import Module
from tesserac.ir.parser import parse_module
from tesserac.ir.passes import Pass, chosen, run_passes
from tesserac.ir.printer import print_module
from tesserac.pipeline import schedule_passes, target_passes, tile_passes
from tesserac.schedule.costs.approximate_functions import approximate_functions
from tesserac.schedule.forms.place_folds import sort_folds
from tesserac.schedule.machine import AARCH64
from tesserac.target.cpu import build as cpu
from tesserac.target.nvptx import build as gpu
from tests.conftest import Golden
from tests.support.paths import CASES
from tests.support.source_support import compile_to_forms

MAPS = """def f(x: Tensor[N, f32], y: Tensor[N, f32]) -> Tensor[N, f32]:
    return exp2(x) * y
"""
SUMS = """def f(x: Tensor[T, M, K, f32], y: Tensor[T, K, N, f32]) -> Tensor[M, N, f32]:
    total = zeros(M, N)
    for t in range(T):
        total = total + x[t] @ y[t]
    return total
"""
UPDATES = """def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
    y = zeros(N)
    for i in range(N):
        y = reshape(put(reshape(y, (N, 1)), x, i), (N,))
    return y

def put(y: Tensor[N, 1, f32], x: Tensor[N, f32], i: int) -> Tensor[N, 1, f32]:
    z = y
    z[i, 0] = x[i]
    return z
"""
CHAIN = """def f(x: Tensor[256, f32]) -> Tensor[256, f32]:
    return sort(exp2(sort(exp2(sort(x)))))
"""
RECURRENCE = """def f(x: Tensor[N, i64]) -> i64:
    a, b = 0, 1
    for i in range(N):
        a, b = b, a + x[i]
    return b
"""
FOLDS = """def f(x: Tensor[N, f32], i: Tensor[K, i64], v: Tensor[K, f32]) -> Tensor[N, f32]:
    return scatter_add(x, i, v)
"""
ORDER = """def f(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return sort(x)
"""
NARROW = """def f(x: Tensor[N, bf16]) -> Tensor[N, bf16]:
    return cast(1.0 / (1.0 + exp(cast(x, f32))), bf16)
"""
WINDOWS = """def f(x: Tensor[N, 9, f32]) -> Tensor[N, 7, f32]:
    return sum(windows(x, 3, 1), axis=-1)
"""
TENSORS = """def f(x: Tensor[N, f32], y: Tensor[M, K, f32]):
    return exp2(x), exp2(y)
"""
CHANNELS = """def f(x: Tensor[N, C, 9, f32], w: Tensor[C, 3, f32]) -> Tensor[N, C, 7, f32]:
    return einsum("ck,nclk->ncl", w, windows(x, 3, 2))
"""
POWERS = """def f(x: Tensor[400, 64, f32], w: Tensor[64, 64, f32]) -> Tensor[400, 64, f32]:
    for i in range(20):
        x = x @ w
    return x
"""
ROWS = """def f(x: Tensor[T, 8, 48, f32]) -> Tensor[8, 48, f32]:
    s = x[0]
    for t in range(T):
        s = s * 0.5 + x[t]
    return s
"""
FOLDED_ROWS = """def f(x: Tensor[T, 8, 48, f32]) -> Tensor[8, 48, f32]:
    s = x[0]
    for t in range(T):
        s = s / max(s, axis=-1, keep=True) + x[t]
    return s
"""
COLUMNS = """def f(d: Tensor[W, W, f32], x: Tensor[W, N, f32]) -> Tensor[W, N, f32]:
    for c in range(W):
        x[c : c + 1, :] -= d[c : c + 1, :c] @ x[:c, :]
    return x
"""
AHEAD = """def f(p: Tensor[K, N, f32], x: Tensor[400, 64, f32], w: Tensor[64, 64, f32]):
    for t in range(20):
        for c in range(1, K):
            p[c] = p[c] - max(p[c - 1])
        x = x @ w
    return p, x
"""
BRANCHES = """def f(x: Tensor[N, f32], y: Tensor[N, f32]) -> Tensor[N, f32]:
    size = abs(x)
    if any(size > y):
        return size / exp(y)
    return size * y
"""
HELD = """def f(x: Tensor[N, N, f32]) -> Tensor[N, N, f32]:
    for k in range(1, N):
        s = x[k, 0]
        for j in range(1, N):
            x[k, j] = s * x[k, j - 1]
    return x
"""
COMPLEX = """def f(z: Tensor[N, c64]) -> Tensor[N, c64]:
    return z * 2.0
"""
SHOWN = {
    "sum_iterations": SUMS, "sorted_elements": ORDER, "write_out_folds": WINDOWS, "write_out_products": CHANNELS,
    "branch_maps": BRANCHES, "sink_views": UPDATES, "hold_parts": HELD, "normalise": SUMS, "host": MAPS,
    "launches": MAPS,
    "invariant_packs": POWERS, "sequential": RECURRENCE, "stepped": ROWS, "row_loops": FOLDED_ROWS,
    "column_loops": COLUMNS, "ahead": AHEAD, "horizontal": TENSORS, "pairs": COMPLEX, "assign_slots": CHAIN,
    "tile for aarch64": MAPS, "lower to neon": MAPS,
}  # fmt: skip
SM_80 = gpu.PLATFORMS["sm_80"]
PASSES: tuple[Pass, ...] = (*schedule_passes(AARCH64), *tile_passes(AARCH64), *target_passes(cpu.AARCH64))


def test_every_pass_has_a_picture() -> None:
    assert [step.name for step in PASSES] == list(SHOWN)
    on_a_gpu = [step.name for step in (*schedule_passes(SM_80.schedule), *target_passes(SM_80))]
    of_a_cpu = ("invariant_packs", "sequential", "stepped", "row_loops", "column_loops", "ahead", "pairs")
    shared = [name for name in list(SHOWN)[1:19] if name not in of_a_cpu]
    own = ["write_out_calls", "approximate_functions", "sort_folds", "fold_views"]
    assert on_a_gpu == [*own, *shared, "lower to sm_80"], "of what a GPU adds, tests/tile has the pictures"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SHOWN)
def test_pictures(name: str, golden: Golden) -> None:
    before = compile_to_forms(SHOWN[name])
    for step in PASSES:
        after = run_passes(before, [step], verify=True)
        if step.name == name:
            break
        before = after
    check_picture(name, SHOWN[name], before, after, golden)


def test_the_picture_of_a_fold_into_places_on_a_gpu(golden: Golden) -> None:
    before = compile_to_forms(FOLDS)
    after = run_passes(before, chosen(schedule_passes(SM_80.schedule), sort_folds), verify=True)
    check_picture("sort_folds", FOLDS, before, after, golden)


def test_the_picture_of_functions_of_narrow_numbers_on_a_gpu(golden: Golden) -> None:
    before = compile_to_forms(NARROW)
    earlier = print_module(before)
    after = run_passes(before, chosen(schedule_passes(SM_80.schedule), approximate_functions), verify=True)
    check_picture("approximate_functions", NARROW, parse_module(earlier), after, golden)


def check_picture(name: str, program: str, before: Module, after: Module, golden: Golden) -> None:
    assert text(before) != text(after)
    picture = f"{program}\nbefore {name}:\n{text(before)}\nafter {name}:\n{text(after)}"
    golden.check(Path(CASES / "passes" / f"{name.replace(' ', '_')}.txt"), picture)


def text(module: Module) -> str:
    printed = print_module(module)
    assert print_module(parse_module(printed)) == printed
    return printed
