"""Both parts of complex numbers on a GPU: one memory, one access for both, and lanes that hold neighbours."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.ir.core import Op
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.ptx import emit_ptx
from tests.support.cpu_kernels import same_bits
from tests.support.fake_cuda import emulated_cuda
from tests.support.gpu_kernels import tile_of, variants_of

TEXT = """
def scaled(x: Tensor[N, c64], y: Tensor[N, c64]): return x * y + x
def turned(x: Tensor[M, N, c64]): return x.T * complex(0.0, 1.0)
def sizes(x: Tensor[M, N, c64]): return abs(x)
def angles(x: Tensor[M, N, c64]): return atan2(imag(x), real(x))
def one_part(x: Tensor[M, N, c64]): return imag(x) + 1.0
def halved(x: Tensor[M, N, c64]): return x[:, ::2] + 1.0
def spectrum(x: Tensor[B, 10, c64]): return fft(x)
def long_spectrum(x: Tensor[B, 2048, c64]): return fft(x)
def longest_spectrum(x: Tensor[B, 32768, c64]): return fft(x)
"""
WIDE = {"ld.global.nc.v2.b32", "st.global.v2.b32"}


@cache
def kernel(name: str) -> Op:
    (found,) = variants_of(tile_of(SourceFile("m.tess", TEXT), name, "sm_90a"), name, "sm_90a").values()
    return found


@cache
def accesses(name: str) -> Counter[str]:
    return Counter(re.findall(r"(?:ld|st)\.global[a-z0-9.]*", emit_ptx(emit_kernel(kernel(name)).llvm, "sm_90a")))


@pytest.mark.one_in(2)
def test_parts_are_one_memory_and_come_and_go_at_once() -> None:
    assert set(accesses("scaled")) == WIDE
    assert kernel("scaled").attrs["pairs"] == (0, 1, 2)


@pytest.mark.one_in(4)
def test_numbers_behind_a_test_come_and_go_at_once() -> None:
    """Those of short transforms, of which the last block may be short of some."""
    assert set(accesses("spectrum")) == WIDE


@pytest.mark.one_in(2)
def test_a_kernel_of_one_part_is_left_alone() -> None:
    assert "pairs" not in kernel("one_part").attrs and "ld.global.nc.v2.b32" not in accesses("one_part")


@pytest.mark.one_in(4)
def test_neighbouring_lanes_write_neighbouring_numbers() -> None:
    """No thread writes two numbers side by side, which two accesses to each line of memory would be."""
    text = emit_ptx(emit_kernel(kernel("long_spectrum")).llvm, "sm_90a")
    offsets = [int(found or 0) for found in re.findall(r"st\.global\.v2\.b32\s+\[%\w+(?:\+(\d+))?\]", text)]
    assert len(offsets) == 16 and all(offset % 256 == 0 for offset in offsets)


@pytest.mark.one_in(12)
def test_numbers_between_kernels_have_their_parts_side_by_side() -> None:
    tiles = tile_of(SourceFile("m.tess", TEXT), "longest_spectrum", "sm_90a")
    first, second = variants_of(tiles, "longest_spectrum", "sm_90a").values()
    assert [len(kernel.attrs["pairs"]) for kernel in (first, second)] == [2, 2]
    assert all("st.global.b32" not in emit_ptx(emit_kernel(kernel).llvm, "sm_90a") for kernel in (first, second))


@pytest.mark.one_in(48)
def test_numbers_between_kernels_have_the_same_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    x = (rng.normal(size=(1, 32768)) + 1j * rng.normal(size=(1, 32768))).astype(np.complex64)
    want = tessera.compile(TEXT).longest_spectrum(x)
    with emulated_cuda(tmp_path):
        same_bits(np.asarray(tessera.compile(TEXT, device="cuda").longest_spectrum(x)), np.asarray(want))


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", ["scaled", "turned", "sizes", "angles", "one_part", "halved", "spectrum"])
def test_bits_are_those_of_the_cpu(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    shapes = {"scaled": [(1100,), (1100,)], "spectrum": [(5, 10)]}.get(name, [(37, 19)])
    given = [(rng.normal(size=s) + 1j * rng.normal(size=s)).astype(np.complex64) for s in shapes]
    want = getattr(tessera.compile(TEXT), name)(*given)
    with emulated_cuda(tmp_path):
        same_bits(np.asarray(getattr(tessera.compile(TEXT, device="cuda"), name)(*given)), np.asarray(want))
