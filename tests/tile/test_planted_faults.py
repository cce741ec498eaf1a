"""Faults that are planted, to know that they would be found.

What shows that kernels are tile programs, by what would be otherwise:

- Another `Schedule.block` is another Tile IR and grid, and the same digest: `test_blocks_change_tiles_and_grid_alone`
  here; a good and an absurd block differ in time: step 4 of `benchmarks.kernel_lesson`.
- Names of the library's functions say nothing, written out they are a kernel as well: `test_real_kernels.py`.
- Without its kernels the library has the same bits: `test_real_kernels.py`. A wrong kernel fails in a debug build:
  `tests/check/test_schedules.py`. A float-rescaled online softmax without pinned blocks is E0511:
  `tests/check/test_block_free.py`.
- Random kernels, ragged edges: `test_random_kernels.py`. Lengths 0, 1 and all, more than 1024 and 4096 keys, windows,
  groups of heads, infinities behind a mask, values of 0 at the top key, f16: `test_real_kernels.py`.
- Blocks that a mask proves empty are counted, not timed: `test_programs.py`. Another process takes what tuning found
  without measuring, a planted slow default is found: `tests/tune/test_tuning.py`.
- Calls on arrays of a GPU copy nothing, replays with other arrays are right: `tests/runtime/test_gpu_host.py` and
  `test_gpu_bits.py`, where something that counts stands for the driver.
- A missing barrier is found, shared memory is NaN before it is written: here; `benchmarks.gpu_races` has NVIDIA's
  checker find it first. That two programs write one element cannot be said: the grid follows from the result, and a
  tile is stored once (E0522, `test_kernels.py`).
- Backends of peers and units of our products are columns of `benchmarks.library_kernels`.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tesserac.ir.kernels import KERNEL
from tesserac.ir.printer import print_module
from tesserac.schedule.dialect import launch_loops
from tesserac.schedule.machine import AARCH64
from tesserac.target.nvptx import copies
from tests.schedule.test_given_schedules import PRODUCT, levels
from tests.support.source_support import compile_to_forms
from tests.tile.test_programs_gpu import emulated


def test_blocks_change_tiles_and_grid_alone() -> None:
    own = ".schedule(Schedule(block=({}, 48, 16)))"
    made = [levels(PRODUCT.format(own=own.format(rows), call="product(a, b)"), AARCH64) for rows in (32, 64)]
    digests = {op.attrs["digest"] for level in made for op in level.forms.walk() if op.name == KERNEL}
    assert len(digests) == 1
    loops = [launch_loops(op) for level in made for op in level.schedule.walk() if op.attrs.get("kind") == "program"]
    assert [loop.block for loop in loops[0]] == [1, 16, 32, 48] and [loop.block for loop in loops[1]] == [1, 16, 64, 48]
    grids = [str(op.attrs["grid"]) for level in made for op in level.tile.walk() if op.name == "tile.kernel"]
    assert len(set(grids)) == 2 and print_module(made[0].tile) != print_module(made[1].tile)


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
