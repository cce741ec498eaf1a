"""Sums of exponentials that one pass over a row gives on a GPU, whatever the row holds."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.ir.core import Op
from tesserac.ir.passes import run_passes
from tesserac.schedule.machine import SM_90A
from tesserac.target.nvptx.build import gpu_pass, kernels_of
from tests.support.cpu_kernels import same_bits
from tests.support.fake_cuda import emulated_cuda
from tests.support.gpu_kernels import tile_of

TEXT = """
def entropy(x: Tensor[M, 4501, f32], y: Tensor[M, i32]): return cross_entropy(x, y)
def open_(x: Tensor[M, N, f32]): return logsumexp(x, axis=-1)
def short(x: Tensor[M, 4000, f32]): return logsumexp(x, axis=-1)
def written(x: Tensor[M, 9000, f32]): return softmax(x)
def narrow(x: Tensor[M, 9000, bf16]): return logsumexp(x, axis=-1)
"""


@cache
def kernels(name: str) -> list[Op]:
    return [op for op in tile_of(SourceFile("m.tess", TEXT), name, "sm_90a").ops if op.name == "tile.kernel"]


def trees(name: str) -> int:
    """Those of the kernel of long rows: one that folds all, and one for rows that must be read again."""
    return sum(op.name == "tile.tree" for op in kernels(name)[0].walk())


def test_rows_that_no_program_holds_are_read_once() -> None:
    assert [trees(name) for name in ("entropy", "open_")] == [2, 2]
    for name in ("short", "written", "narrow"):
        assert trees(name) == 1 and not any(op.name == "tile.index" for op in kernels(name)[0].walk())


def test_teams_tell_of_sums_in_a_round_of_extremes_behind_the_last_and_mask_what_they_load() -> None:
    module = run_passes(tile_of(SourceFile("m.tess", TEXT), "open_", "sm_90a"), [gpu_pass(SM_90A)], verify=True)
    body = kernels_of(module)[0].body
    tree = next(op for op in body.ops if op.name == "gpu.tree")
    told, behind = ([op for op in b.ops if op.name == "gpu.publish"] for b in (tree.regions[0].block, body))
    assert len(tree.results) == 3 and len(told) == 1 and len(behind) == 2
    (load,) = (op for op in tree.regions[0].block.ops if op.name == "gpu.load")
    assert [user.name for user, _ in load.result.uses] == ["gpu.mask"], "terms are computed of what is masked"


@pytest.mark.one_in(48)
def test_hostile_rows_have_the_bits_of_the_cpu(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((12, 4501)) * 4).astype(np.float32)
    x[1, 4000:], x[3, :600], x[4, 4400:], x[5, 4200] = -np.inf, -np.inf, -1e9, 60
    x[2] *= 40  # terms that underflow
    x[6, 17], x[7, 4300] = np.nan, np.inf
    x[8] = x[8] * 1e-3 - 1e5
    x[9] = np.where(np.arange(4501) < 600, -np.inf, -500.0)  # far below what an empty block refers to
    x[10, 3000:] -= np.linspace(50, 150, 1501, dtype=np.float32)  # normal, subnormal and none
    x[11, 3000:] -= 300
    y = rng.integers(0, 4000, 12).astype(np.int32)
    with emulated_cuda(tmp_path):
        cpu, gpu = tessera.compile(TEXT), tessera.compile(TEXT, device="cuda")
        same_bits(gpu["entropy"](x, y), cpu["entropy"](x, y))
        same_bits(gpu["open_"](x), cpu["open_"](x))
