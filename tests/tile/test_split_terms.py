"""Products whose segments of terms are programs of their own: when, the same bits, and machine code."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tesserac.base.source import SourceFile
from tesserac.ir.core import Module
from tesserac.schedule.costs.tiles import SPLIT_TERMS, Problem, best_block, best_split
from tesserac.schedule.machine import SM_80, SM_90A
from tesserac.target.nvptx.blocks import block_count
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.ptx import assemble, emit_ptx, find_ptxas
from tesserac.tile.dialect import grid
from tesserac.tile.gpu.kernels.split_terms import split_terms
from tesserac.tile.gpu.model.matrix import WGMMA, MatrixUnit, accumulator_layout
from tesserac.tile.gpu.model.values import fragment, is_persistent
from tesserac.types.dims import Dim
from tesserac.types.dtype import BF16, F32
from tests.support.gpu_kernels import tile_of, variants_of
from tests.support.tile_eval import run_host

PROGRAMS = SourceFile(
    "terms.tess",
    """
half = bf16 @accum(f32)

def three(a: Tensor[8, 9000, half], b: Tensor[9000, 44, half], c: Tensor[44, half]):
    return relu(a @ b + c)

def biased(a: Tensor[64, 8000, half], b: Tensor[8000, 48, half], c: Tensor[48, half]):
    return relu(a @ b + c)

def gradient(x: Tensor[8192, 768, half], y: Tensor[8192, 768, half]):
    return x.T @ y

def unknown(a: Tensor[M, 9000, half], b: Tensor[9000, 48, half]):
    return a @ b
""",
)


def tiles(name: str) -> Module:
    return tile_of(PROGRAMS, name, "sm_90a")


def kernel_grids(module: Module) -> dict[str, list[int | None]]:
    kernels = [op for op in module.ops if op.name == "tile.kernel"]
    return {op.symbol.partition(".")[2]: [dim.constant for dim in grid(op)] for op in kernels}


def test_segments_become_programs() -> None:
    assert kernel_grids(split_terms(tiles("three"), SM_90A)) == {"three$0.segments": [3, 1, 1], "three$0.sums": [1, 1]}


def test_segments_of_whole_blocks_are_a_cluster() -> None:
    """Two blocks of threads have 16 of 32 columns each."""
    module = split_terms(tiles("biased"), SM_90A)
    assert kernel_grids(module) == {"biased$0": [1, 2]} and not any(SPLIT_TERMS in op.attrs for op in module.ops)
    (kernel,) = variants_of(tiles("biased"), "biased", "sm_90a").values()
    (exchange,) = (op for op in kernel.walk() if op.name == "gpu.exchange")
    assert [fragment(v).shape for v in exchange.results] == [(64, 16)] * 2
    assert block_count(kernel) == Dim.const(4) and not is_persistent(kernel)
    loads = [fragment(op.result) for op in kernel.walk() if op.name == "gpu.load"]
    assert [ty.shape for ty in loads] == [(16,)], "the bias of its own columns"


def test_a_cluster_hands_on_each_sum_once() -> None:
    whole, own = (accumulator_layout(MatrixUnit(WGMMA, 16, 12), (192, n)) for n in (192, 32))
    handed = [
        whole.register_at({**at, 1: at.get(1, 0) + other * 32})
        for other in range(8) for at in own.offsets if at.get(1, 0) + other * 32 < 192
    ]  # fmt: skip
    assert sorted(handed) == list(range(whole.count))


def test_what_is_not_to_be_split_stays() -> None:
    module = tiles("unknown")
    assert not any(SPLIT_TERMS in op.attrs for op in module.ops)
    assert split_terms(module, SM_90A) is module


@pytest.mark.one_in(12)
def test_bits_are_the_same() -> None:
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((8, 9000), (9000, 44), (44,))]
    module = tiles("three")
    (whole,), (split,) = (run_host(m, "main.three", list(args)) for m in (module, split_terms(module, SM_90A)))
    assert whole.tobytes() == split.tobytes() and np.any(whole)


@pytest.mark.parametrize(
    ("sizes", "block"),
    [
        ((768, 768, 8192), "128x128x64"),  # 36 blocks, or 72 programs
        ((768, 2304, 8192), "128x256x64"),  # 54 blocks, or 108 programs
        ((768, 768, 32768), "128x128x64"),
        ((64, 4096, 16384), "64x128x64"),
        ((64, 4096, 4096), None),  # one segment, which nothing cuts
        ((4096, 4096, 8192), None),
    ],
)
def test_when_it_pays(sizes: tuple[int, int, int], block: str | None) -> None:
    found = best_split(Problem(1, *sizes, BF16, F32, False), SM_90A)
    assert (str(found) if found else None) == block
    assert best_split(Problem(1, *sizes, BF16, F32, False), SM_80) is None


@pytest.mark.parametrize(
    ("sizes", "block"),
    [
        ((8192, 8192, 8192), "128x192x64"),
        ((8192, 8192, 4096), "128x256x64"),  # one segment
        ((4096, 4096, 8192), "128x256x64"),  # six waves for four
        ((256, 4096, 4096), "128x64x64"),
        ((64, 16384, 4096), "64x128x64"),
    ],
)
def test_blocks_where_all_sizes_are_known(sizes: tuple[int, int, int], block: str) -> None:
    """Of two segments those whose sums have registers, where they cost hardly more."""
    assert str(best_block(Problem(1, *sizes, BF16, F32, False, known=True), SM_90A)) == block


@pytest.mark.one_in(24)
def test_sums_of_the_first_of_two_segments_stay_in_registers() -> None:
    square = "Tensor[8192, 8192, bf16 @accum(f32)]"
    text = f"def f(a: {square}, b: {square}):\n    return a @ b\n"
    (kernel, *_) = variants_of(tile_of(SourceFile("m.tess", text), "f", "sm_90a"), "f", "sm_90a").values()
    code = emit_kernel(kernel).llvm
    assert "alloca [2 x float]" not in code and "alloca [8 x float]" not in code and code.count("m64n192k16") == 8


@pytest.mark.one_in(12)
@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas")
def test_a_cluster_assembles() -> None:
    (kernel,) = variants_of(tiles("gradient"), "gradient", "sm_90a").values()
    text = emit_ptx(emit_kernel(kernel).llvm, "sm_90a")
    assert ".reqnctapercluster 2, 1, 1" in text and text.count("barrier.cluster.arrive") == 2
    assert "wgmma.mma_async" in text and "st.shared::cluster.v4.f32" in text
    assemble(text, "sm_90a")


@pytest.mark.one_in(12)
@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas")
def test_both_kernels_assemble() -> None:
    kernels = variants_of(tiles("three"), "three", "sm_90a")
    texts = {name: emit_ptx(emit_kernel(op).llvm, "sm_90a") for name, op in kernels.items()}
    assert sum("segments" in name for name in texts) and sum("sums" in name for name in texts) == 1
    for text in texts.values():
        assemble(text, "sm_90a")
