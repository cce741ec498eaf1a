"""Vectors that all rows read are read in vectors, however long rows are; places are compared with constants."""

from __future__ import annotations

import re
from collections import Counter
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
LOSSES = "def f(x: Tensor[M, {0}, {1}], y: Tensor[M, i32]): return cross_entropy_rows(x, y)\n"
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


def test_places_are_compared_with_constants_wherever_they_are() -> None:
    """Sixteen of a thread, in two maps: no answers are kept from the first to the second."""
    compared = re.findall(r"setp\.eq\.b32 \t%p\d+, (%r\d+), \d+;", text_of(LOSSES.format("N", "bf16"), 1, 1))
    assert sorted(Counter(compared).values())[-2:] == [15, 15]


def test_one_number_of_a_row_does_not_spread_rows_over_warps() -> None:
    (kernel,) = kernels_of(lowered(LOSSES.format(512, "bf16")))
    assert not any(op.name in ("gpu.barrier", "gpu.alloc") for op in kernel.walk())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("length", [7, 130, 512, 513])
@pytest.mark.parametrize("known", [True, False])
def test_losses_have_the_bits_of_the_meaning(length: int, known: bool) -> None:
    """Labels are of all kinds: of none, of some place in each register of a thread, of no class."""
    whole = LOSSES.format(length if known else "N", "f32")
    x = np.random.default_rng(length).standard_normal((6, length)).astype(np.float32) * 9
    labels = np.array([-1, 0, 1, length // 2, length - 1, length], np.int32)
    meant = run_function(compile_to_forms(whole), "m.f", [x, labels])
    for got, value in zip(results(whole, [x, labels]), meant, strict=True):
        same_bits(got, value)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("length", [1, 2, 3, 63, 65, 129, 511, 513, 701, 1001, 1023, 1537])
@pytest.mark.parametrize("dtype", TYPES)
def test_they_have_the_bits_of_the_meaning(dtype: str, length: int) -> None:
    whole = SCALED.format(dtype)
    rng = np.random.default_rng(length)
    shapes = [(ROWS, length), (length,), (length,)]
    arrays = [(rng.standard_normal(s) * np.exp2(rng.integers(-3, 3, s))).astype(TYPES[dtype]) for s in shapes]
    same_bits(results(whole, arrays)[0], run_function(compile_to_forms(whole), "m.f", arrays)[0])
