"""Short rows that a GPU reads once: a warp takes several, and every sum has the order that it has everywhere."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from tesserac.base.source import SourceFile
from tesserac.graph.interp import run_function
from tesserac.ir.core import Module
from tesserac.ir.passes import run_passes
from tesserac.target.nvptx.blocks import block_bytes, block_threads, blocks_resident, may_begin_early, programs_beside
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, gpu_program, kernels_of
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.ptx import emit_ptx
from tests.support.cpu_kernels import same_bits
from tests.support.gpu_emulator import Emulated
from tests.support.gpu_kernels import SESSION, tile_of
from tests.support.source_support import compile_to_forms

PRODUCTS = "def f(x: Tensor[N, {0}, {1}], y: Tensor[N, {0}, {1}]): return sum(wide(x) * wide(y), axis=-1)\n"
EXTREMES = "def f(x: Tensor[N, {0}, {1}], y: Tensor[{0}, {1}]): return max(x, axis=-1) + sum(x * y, axis=-1)\n"
ROWS = ("softmax", "log_softmax")
TWICE = "def f(x: Tensor[N, 128, f32]): return softmax(x)\n"


@cache
def lowered(text: str) -> Module:
    tiles = tile_of(SourceFile("m.tess", text), "f", "sm_90a")
    return run_passes(tiles, [gpu_pass(PLATFORMS["sm_90a"].schedule)], verify=True)


def loads(text: str) -> list[str]:
    (kernel,) = kernels_of(lowered(text))
    return [str(op.result.type) for op in kernel.walk() if op.name == "gpu.load"]


def test_a_warp_reads_eight_rows_by_vectors() -> None:
    layouts = loads(PRODUCTS.format(128, "bf16 @accum(f32)"))
    assert all("[8, 128]" in ty and "r[1:1 1:2 1:4 1:64" in ty and "l[1:8 1:16 1:32 0:1 0:2]" in ty for ty in layouts)


def test_a_warp_holds_four_rows_that_it_looks_at_twice() -> None:
    """It reads them once, by vectors; lanes have half of what is folded before each exchange."""
    (read,) = loads(TWICE)
    assert "[4, 128]" in read and "r[1:1 1:2" in read
    (kernel,) = kernels_of(lowered(TWICE))
    assert sum(op.name == "gpu.halve" for op in kernel.walk()) == 2
    assert not any(op.name in ("gpu.tree", "gpu.for", "gpu.barrier") for op in kernel.walk())


def test_programs_that_write_one_number_share_blocks_of_threads() -> None:
    """Two warps each, which wait for each other and for no one else; those that write rows are alone."""
    (sums,) = kernels_of(lowered("def f(x: Tensor[N, 1024, f32]): return sum(x, axis=-1)\n"))
    (rows,) = kernels_of(lowered("def f(x: Tensor[N, 1024, f32]): return softmax(x)\n"))
    assert (programs_beside(sums), block_threads(sums), programs_beside(rows)) == (4, 256, 1)
    assert block_bytes(sums).constant == 4 * 16
    text = emit_ptx(emit_kernel(sums).llvm, "sm_90a")
    assert re.findall(r"@mine bar\.sync (\d), (\d+)", text) == [(str(i), "64") for i in (1, 2, 3, 4)]


def test_what_a_map_rounds_last_it_rounds_two_by_two() -> None:
    (rows,) = kernels_of(lowered("def f(x: Tensor[N, 1024, bf16]): return softmax(x)\n"))
    text = emit_ptx(emit_kernel(rows).llvm, "sm_90a")
    assert text.count("cvt.rn.bf16x2.f32") == 8 and "cvt.rn.bf16.f32" not in text, "16 numbers a thread"


def test_rows_with_long_bodies_have_more_registers() -> None:
    """Those of a softmax are shared out among 40 warps; a body with a logarithm would spill some of 48."""
    made = [kernels_of(lowered(f"def f(x: Tensor[N, 1024, f32]): return {name}(x)\n")) for name in ROWS]
    assert [blocks_resident(kernel) for (kernel,) in made] == [20, 14]


def test_programs_that_write_rows_ask_for_those_of_later_ones() -> None:
    """132 multiprocessors have 36 warps each; the last program of several rows is not asked for."""
    (rows,) = kernels_of(lowered("def f(x: Tensor[N, 1024, bf16]): return softmax(x)\n"))
    (read,) = [op for op in rows.walk() if op.name == "gpu.load"]
    assert read.attrs["ahead"] == 132 * 36 // 2
    assert emit_ptx(emit_kernel(rows).llvm, "sm_90a").count("prefetch.global.L2") == 1
    others = ("sum(x, axis=-1)", "x + 1.0")
    made = [kernels_of(lowered(f"def f(x: Tensor[N, 1024, f32]): return {other}\n")) for other in others]
    assert not any("ahead" in op.attrs for (kernel,) in made for op in kernel.walk())


def test_launches_of_many_blocks_do_not_begin_early() -> None:
    """How many they have is known when they are compiled, or they are taken for many; but for maps,
    which read no slower where memory is not taken for constant."""
    text = "def f(x: Tensor[SIZE, 1024, f32]): return sum(x, axis=-1)\n"
    (many,), (open_,), (few,) = (kernels_of(lowered(text.replace("SIZE", size))) for size in ("8192", "N", "64"))
    assert [may_begin_early(kernel, "sm_90a") for kernel in (many, open_, few)] == [False, False, True]
    assert not may_begin_early(few, "sm_80")
    (map_,) = kernels_of(lowered("def f(x: Tensor[N, 1024, f32]): return x + 1.0\n"))
    assert may_begin_early(map_, "sm_90a")


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("text", "size"), [(PRODUCTS, 128), (PRODUCTS, 100), (EXTREMES, 200), (EXTREMES, 33)])
def test_short_rows_have_the_bits_of_the_meaning(text: str, size: int) -> None:
    whole = text.format(size, "f32")
    module = lowered(whole)
    symbol = SESSION.function(SourceFile("m.tess", whole), "f").symbol
    program = gpu_program(module, symbol, PLATFORMS["sm_90a"], SESSION.locate, name="f", returns_tuple=True)
    rng = np.random.default_rng(size)
    shapes = [(13, size), (13, size) if text == PRODUCTS else (size,)]
    arrays = [(rng.standard_normal(s) * np.exp2(rng.integers(-9, 9, s))).astype(np.float32) for s in shapes]
    (got,) = Emulated(program, kernels_of(module))(*arrays)
    same_bits(got, run_function(compile_to_forms(whole), "m.f", arrays)[0])
