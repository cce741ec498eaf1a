"""Vectors that all rows read are read in vectors, however long rows are."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest

from tesserac.base.source import SourceFile
from tesserac.graph.interp import run_function
from tesserac.ir.core import Module
from tesserac.ir.passes import run_passes
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, gpu_program, kernels_of
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.ptx import emit_ptx
from tests.support.cpu_kernels import same_bits
from tests.support.gpu_emulator import Emulated
from tests.support.gpu_kernels import SESSION, tile_of
from tests.support.source_support import compile_to_forms

SCALED = "def f(x: Tensor[M, N, {0}], w: Tensor[N, {0}], b: Tensor[N, {0}]): return layernorm(x, w, b)\n"
ROWS = 4
TYPES = {"f32": np.float32, "bf16 @accum(f32)": ml_dtypes.bfloat16}


@cache
def lowered(text: str) -> Module:
    tiles = tile_of(SourceFile("m.tess", text), "f", "sm_90a")
    return run_passes(tiles, [gpu_pass(PLATFORMS["sm_90a"].schedule)], verify=True)


def results(text: str, arrays: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    symbol, module = SESSION.function(SourceFile("m.tess", text), "f").symbol, lowered(text)
    program = gpu_program(module, symbol, PLATFORMS["sm_90a"], SESSION.locate, name="f", returns_tuple=True)
    return tuple(Emulated(program, kernels_of(module))(*arrays))


def text_of(program: str, blocks: int, warps: int) -> str:
    """PTX of the variant for rows of at most so many blocks."""
    found = {(k.attrs.get("row_blocks"), k.attrs["warps"]): k for k in reversed(kernels_of(lowered(program)))}
    return emit_ptx(emit_kernel(found[blocks, warps], arch="sm_90a").llvm, "sm_90a")


def test_vectors_of_rows_of_any_length_are_read_in_vectors() -> None:
    """Eight of each of three; of a scale and a bias once more, for rows that end inside one."""
    assert text_of(SCALED.format("f32"), 2, 2).count("ld.global.nc.v2.b32") == 8 * (3 + 2)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("length", [1, 2, 3, 63, 65, 129, 511, 513, 701, 1001, 1023, 1537])
@pytest.mark.parametrize("dtype", TYPES)
def test_they_have_the_bits_of_the_meaning(dtype: str, length: int) -> None:
    whole = SCALED.format(dtype)
    rng = np.random.default_rng(length)
    shapes = [(ROWS, length), (length,), (length,)]
    arrays = [(rng.standard_normal(s) * np.exp2(rng.integers(-3, 3, s))).astype(TYPES[dtype]) for s in shapes]
    same_bits(results(whole, arrays)[0], run_function(compile_to_forms(whole), "m.f", arrays)[0])
