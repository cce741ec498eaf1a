"""Rows on a GPU of which each warp has one block at most: they stay in registers, whatever their length is."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.ir.core import Op
from tesserac.target.nvptx.blocks import block_threads, blocks_resident, programs_beside
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.ptx import emit_ptx
from tests.support.cpu_kernels import same_bits
from tests.support.fake_cuda import emulated_cuda
from tests.support.gpu_kernels import tile_of, variants_of

TEXT = """
def softmaxes(x: Tensor[M, N, f32]): return softmax(x)
def narrow(x: Tensor[M, N, bf16]): return softmax(x)
def norms(x: Tensor[M, N, f32], s: Tensor[N, f32], b: Tensor[N, f32]): return layernorm(x, s, b)
def halves(x: Tensor[M, N, bf16]): return x - sum(x, axis=-1, keep=True)
def extremes(x: Tensor[M, N, f32]): return sum(x, axis=-1) + max(x * x, axis=-1), x - sum(x, axis=-1, keep=True)
def known(x: Tensor[M, 1500, f32]): return softmax(x)
def long(x: Tensor[M, 4096, f32]): return softmax(x)
def model(x: Tensor[M, 768, bf16]): return softmax(x)
def plain(x: Tensor[M, N, f32], y: Tensor[M, N, f32]): return sum(x * y, axis=0)
def across(x: Tensor[M, N, f32], y: Tensor[M, N, f32]): return sum(exp(x) * y, axis=0)
def three(x: Tensor[M, N, f32], y: Tensor[M, N, f32], z: Tensor[M, N, f32]): return sum(exp(x) * y + z, axis=0)
"""
LOOPS = ("gpu.for", "gpu.tree", "gpu.scratch")
BF16 = ml_dtypes.bfloat16
HELD = [(16, 8), (12, 6), (10, 10), (8, 8), (6, 6), (4, 4), (3, 3), (2, 2)]


@cache
def kernels(name: str) -> list[Op]:
    return list(variants_of(tile_of(SourceFile("m.tess", TEXT), name, "sm_90a"), name, "sm_90a").values())


def short(name: str) -> list[Op]:
    return [op for op in kernels(name) if "row_blocks" in op.attrs]


def held(name: str) -> list[Op]:
    return [op for op in short(name) if "row_parts" in op.attrs]


def dealt(name: str) -> list[Op]:
    return [op for op in short(name) if "row_parts" not in op.attrs]


def counted(kernel: Op, *names: str) -> int:
    return sum(op.name in names for op in kernel.walk())


@pytest.mark.parametrize("name", ["softmaxes", "norms"])
def test_rows_of_unknown_length_have_one_warp_or_one_for_each_block(name: str) -> None:
    assert [(op.attrs["row_blocks"], op.attrs["warps"]) for op in dealt(name)] == HELD
    assert [op.attrs["row_parts"] for op in held(name)] == [(512, 256), (512,), (256,), (128,)]
    assert all(op.attrs["warps"] == 1 for op in held(name))
    longest = next(op for op in kernels(name) if "row_blocks" not in op.attrs)
    assert counted(longest, *LOOPS) > 0


@pytest.mark.one_in(4)
def test_half_a_warp_has_a_block_of_long_narrow_rows() -> None:
    """Their registers are shared out as those of known length are, and each half asks for the block of a later row."""
    longest, *others = dealt("narrow")
    assert [(op.attrs["row_blocks"], op.attrs["warps"]) for op in others][:4] == [(12, 6), (10, 5), (8, 4), (6, 3)]
    text = emit_ptx(emit_kernel(longest).llvm, "sm_90a")
    assert ".minnctapersm 3\n" in text and blocks_resident(longest) == 3 and longest.attrs["warps"] == 8
    assert blocks_resident(longest, "sm_80") == 1, "there they would spill"
    assert text.count("prefetch.global.L2") == 1 and re.search(r"and\.b32\s.*, 1920;", text), "15 lines of 128 bytes"


@pytest.mark.one_in(6)
def test_rows_across_memory_leave_registers_to_a_second_block() -> None:
    """Where there is something to compute, unless a thread has so many numbers that they would spill."""
    for name, blocks in (("plain", 1), ("across", 2), ("three", 1)):
        whole, parts, joined, *few = kernels(name)  # variants for few elements hold less
        assert [blocks_resident(kernel) for kernel in (whole, parts, joined)] == [blocks, blocks, 1]
        assert len(few) == 2 and all(blocks_resident(kernel) >= blocks for kernel in few)
        assert whole.attrs["warps"] == parts.attrs["warps"] == 8


@pytest.mark.parametrize(("name", "reads"), [("softmaxes", 1), ("norms", 3)])
def test_short_rows_are_read_once_and_stay_in_registers(name: str, reads: int) -> None:
    for kernel in short(name):
        parts = len(kernel.attrs.get("row_parts", (0,)))
        stores = [op for op in kernel.walk() if op.name == "gpu.store"]
        assert counted(kernel, "gpu.load") == reads * parts and len(stores) == parts and not counted(kernel, *LOOPS)


def test_rows_of_known_length_stay_there_too() -> None:
    (kernel,) = kernels("known")
    assert counted(kernel, "gpu.load") == 1 and counted(kernel, *LOOPS) == 0
    assert counted(kernels("long")[0], "gpu.load") == 1  # two blocks in each of four warps


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("length", "dtype", "warps"), [(5120, "bf16", 5), (2560, "bf16", 3), (2500, "f32", 5)])
def test_rows_of_known_length_have_as_many_warps_as_hold_them(length: int, dtype: str, warps: int) -> None:
    text = f"def f(x: Tensor[M, {length}, {dtype}]): return layernorm(x)\n"
    tiles = tile_of(SourceFile("m.tess", text), "f", "sm_90a")
    (kernel,) = variants_of(tiles, "f", "sm_90a").values()
    assert kernel.attrs["warps"] == warps and counted(kernel, "gpu.load") == 1 and counted(kernel, *LOOPS) == 0


def test_one_warp_holds_rows_of_one_and_a_half_blocks() -> None:
    """It asks for all of a row before it waits, and folds what it holds before lanes tell each other."""
    (kernel,) = kernels("model")
    assert (kernel.attrs["row_parts"], kernel.attrs["warps"], counted(kernel, "gpu.barrier")) == ((512, 256), 1, 0)
    names = [op.name for op in kernel.walk() if op.name in ("gpu.load", "gpu.map", "gpu.store")]
    assert names[:3] == ["gpu.load", "gpu.load", "gpu.map"] and names[-1] == "gpu.store"
    assert counted(kernel, "gpu.butterfly", "gpu.halve") == 2 * 5 + 2 * 6


def test_warps_with_a_row_of_their_own_share_a_block_of_threads() -> None:
    for one in held("softmaxes"):
        assert programs_beside(one) == 4 and block_threads(one) == 128 and counted(one, "gpu.barrier") == 0


def test_ends_of_rows_are_read_and_written_in_vectors() -> None:
    """Where the row is whole and where each pair is tested, and both where rows begin inside words."""
    text = emit_ptx(emit_kernel(held("narrow")[1]).llvm, "sm_90a")
    for kind, count in (("ld", 2 * (8 + 9)), ("st", 2 * (8 + 8))):
        assert len(re.findall(rf"\b{kind}\.global\S*(?:\.v2\.b16|\.b32)\s", text)) == count


@pytest.mark.one_in(48)
@pytest.mark.parametrize("length", [0, 1, 2, 66, 200, 511, 512, 514, 768, 1025, 1536, 2048, 2049, 4097, 5000, 8193])
def test_all_lengths_have_the_bits_of_the_cpu(length: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(length)
    x = (rng.standard_normal((3, length)) * 8).astype(np.float32)
    s, b = (rng.standard_normal(length).astype(np.float32) for _ in range(2))
    with emulated_cuda(tmp_path):
        cpu, gpu = tessera.compile(TEXT), tessera.compile(TEXT, device="cuda")
        for name, given in (("softmaxes", (x,)), ("norms", (x, s, b))):
            same_bits(gpu[name](*given), cpu[name](*given))
        same_bits(gpu["halves"](x.astype(BF16)), cpu["halves"](x.astype(BF16)))
        if length:
            for mine, theirs in zip(gpu["extremes"](x), cpu["extremes"](x), strict=True):
                same_bits(mine, theirs)


PROGRAMS = """
def rows(x: Tensor[M, N, bf16]): return softmax_rows(x)
def swapped(x: Tensor[M, N, f32]): return transpose_tiles(x)
"""


def test_a_program_has_as_many_rows_as_its_threads_hold() -> None:
    """Of up to 32, 64, 128 and 256 elements, then of more."""
    tiles = tile_of(SourceFile("p.tess", PROGRAMS), "rows", "sm_90a")
    grids = [op.attrs["grid"] for op in tiles.ops if op.name == "tile.kernel"]
    rows = ["ceil_div(M, 64)", "ceil_div(M, 16)", "ceil_div(M, 16)", "ceil_div(M, 4)", "M"]
    assert [str(grid) for (grid,) in grids[:5]] == rows


def test_neighbouring_programs_write_neighbours() -> None:
    tiles = tile_of(SourceFile("p.tess", PROGRAMS), "swapped", "sm_90a")
    (kernel,) = (op for op in tiles.ops if op.name == "tile.kernel")
    assert [str(size) for size in kernel.attrs["grid"]] == ["ceil_div(N, 64)", "ceil_div(M, 64)"]
