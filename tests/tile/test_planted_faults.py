"""Faults that are planted, to know that they would be found.

What shows that kernels are tile programs, by what would be otherwise:

- Another `Schedule.block` is another Tile IR and grid, and the same digest: `test_blocks_change_tiles_and_grid_alone`
  here; a good and an absurd block differ in what is loaded, which is counted here, and in time: step 4 of
  `benchmarks.kernel_lesson`.
- Names of the library's functions say nothing, written out they are a kernel as well: `test_real_kernels.py`.
- Without its kernels the library has the same bits: `test_real_kernels.py`. A wrong kernel fails in a debug build:
  `tests/check/test_schedules.py`. A float-rescaled online softmax without pinned blocks is E0511:
  `tests/check/test_block_free.py`.
- Random kernels, ragged edges: `test_random_kernels.py`. Lengths 0, 1 and all, more than 1024 and 4096 keys, windows,
  groups of heads, infinities behind a mask, values of 0 at the top key, f16: `test_real_kernels.py`.
- Blocks that a mask proves empty are counted, not timed: `test_programs.py`, of loops over part of a dim
  `test_part_loops.py`. A kernel is one launch without workspace: `test_programs.py`. Another process takes what
  tuning found without measuring, a planted slow default is found: `tests/tune/test_tuning.py`.
- Calls on arrays of a GPU copy nothing, replays with other arrays are right: `tests/runtime/test_gpu_host.py` and
  `test_gpu_bits.py`, where something that counts stands for the driver.
- A missing barrier is found, shared memory is NaN in each block of threads before it is written: here, and so is all
  memory that the driver's stand-in gives out. On a GPU `benchmarks.gpu_poison` fills both with NaN,
  `benchmarks.gpu_races` has NVIDIA's checker find a race first. That two programs write one element cannot be said:
  the grid follows from the result, and a tile is stored once (E0522, `test_kernels.py`).
- Backends of peers and units of our products are told by `benchmarks.library_kernels`: here.
"""

from __future__ import annotations

import sys
from argparse import Namespace

import numpy as np
import pytest

from benchmarks import library_kernels
from tesserac.graph.interp import run_function
from tesserac.ir.core import Op
from tesserac.ir.kernels import KERNEL
from tesserac.ir.printer import print_module
from tesserac.schedule.dialect import launch_loops
from tesserac.schedule.machine import AARCH64
from tesserac.target.nvptx import kernel
from tesserac.target.nvptx.products import copies
from tests.schedule.test_given_schedules import PRODUCT, levels
from tests.support import tile_eval, tile_kernel_eval
from tests.support.paths import ROOT
from tests.support.source_support import compile_to_forms
from tests.tile.test_programs import tiles
from tests.tile.test_programs_gpu import emulated

RESULTS = ROOT / "benchmarks" / "results"


def test_blocks_change_tiles_and_grid_alone() -> None:
    own = ".schedule(Schedule(block=({}, 48, 16)))"
    made = [levels(PRODUCT.format(own=own.format(rows), call="product(a, b)"), AARCH64) for rows in (32, 64)]
    digests = {op.attrs["digest"] for level in made for op in level.forms.walk() if op.name == KERNEL}
    assert len(digests) == 1
    loops = [launch_loops(op) for level in made for op in level.schedule.walk() if op.attrs.get("kind") == "program"]
    assert [loop.block for loop in loops[0]] == [1, 16, 32, 48] and [loop.block for loop in loops[1]] == [1, 16, 64, 48]
    grids = [str(op.attrs["grid"]) for level in made for op in level.tile.walk() if op.name == "tile.kernel"]
    assert len(set(grids)) == 2 and print_module(made[0].tile) != print_module(made[1].tile)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("side", "loaded"), [(1, 16 * 16 * 2 * 32), (4, 4 * 4 * 8 * 32), (16, 2 * 16 * 32)])
def test_small_blocks_load_what_large_ones_use_again(side: int, loaded: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of 16 x 32 x 16: each program reads its rows and columns, whatever others read."""
    counted = 0
    plain = tile_kernel_eval._Program.tile_load

    def load(self: tile_kernel_eval._Program, op: Op, operands: list[object]) -> list[object]:
        nonlocal counted
        found = plain(self, op, operands)
        counted += np.asarray(found[0]).size
        return found

    monkeypatch.setattr(tile_kernel_eval._Program, "tile_load", load)
    module = tiles(PRODUCT.format(own=f".schedule(Schedule(block=({side}, {side}, 16)))", call="product(a, b)"))
    tile_eval.run_host(module, "m.f", [np.ones(shape, np.float32) for shape in ((16, 32), (32, 16))])
    assert counted == loaded


def test_benchmarks_name_backends_of_peers_and_units_of_products() -> None:
    found: dict[str, dict[str, object]] = {
        "backend": {"torch": "PyTorch 2, MKL-DNN"}, "attention|forward|small|2": {"tiles": 2.0, "torch": 3.0},
        "unit attention|forward|small": {"tiles": "wgmma"},
    }  # fmt: skip
    options = Namespace(gpu=False, dtype="f32", only=["attention"], peers=["torch"], turns=1, arch="")
    text = library_kernels.report(options, found, 2)
    assert "torch: PyTorch 2, MKL-DNN" in text and "| torch | 1.50 |  | wgmma |" in text
    kept = [(RESULTS / f"kernels-{name}.md").read_text().split("| kernel")[0] for name in ("x86_64", "h200")]
    assert all("PyTorch" in head for head in kept) and "MKL" in kept[0] and "cuDNN" in kept[1]


@pytest.mark.one_in(12)
def test_a_barrier_that_is_missing_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that do not wait read shared memory before it is written, where it is NaN."""
    program = PRODUCT.format(own=".schedule(Schedule(block=(16, 16, 16), warps=2))", call="product(a, b)")
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype(np.float32) for shape in ((16, 32), (32, 16))]
    (wanted,) = run_function(compile_to_forms(program), "m.f", args)

    def is_right() -> bool:
        run = emulated(program)
        return all(np.array_equal(run(*args)[0], wanted) for _ in range(5))

    assert is_right()
    plain = copies.barrier
    for module in [m for name, m in sys.modules.items() if name.startswith("tesserac.target.nvptx")]:
        if getattr(module, "barrier", None) is plain:
            monkeypatch.setattr(module, "barrier", lambda ctx: None)
    assert not is_right()


@pytest.mark.one_in(4)
def test_what_nobody_wrote_into_shared_memory_is_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each of three blocks of threads: no number of another block, and no 0, stands for one that was not told."""
    program = "def f(x: Tensor[M, 1000, f32]): return sum(x, axis=-1)\n"
    run, x = emulated(program), np.ones((9, 1000), np.float32)
    assert (run(x)[0] == 1000).all()
    monkeypatch.setitem(kernel._EMIT, "gpu.publish", lambda ctx, op: None)
    assert np.isnan(emulated(program)(x)[0]).all()
