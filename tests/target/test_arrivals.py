"""What a kernel of maps asks for before it waits: all its loads, and narrow numbers leave the ways in which they may be
read in words."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tesserac.target.nvptx.build import kernels_of
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.tile.gpu.model.values import fragment
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import compile_to_forms
from tests.tile.test_programs_gpu import emulated, lowered

TURNED = """
half = bf16 @accum(f32)

def f(x: Tensor[B, S, D, half], c: Tensor[S, D/2, half], s: Tensor[S, D/2, half]) where D % 2 == 0:
    return rotary_rows(x, c, s)
"""
SCALED = """
half = bf16 @accum(f32)

def f(x: Tensor[M, N, half], w: Tensor[N, half], b: Tensor[N, half]):
    return layernorm_rows(x, w, b)
"""


@pytest.mark.one_in(4)
def test_all_is_asked_for_before_any_of_it_is_computed() -> None:
    first = kernels_of(lowered(TURNED))[0]
    names = [op.name for op in first.body.ops if op.name in ("gpu.load", "gpu.map")]
    assert names == sorted(names) and names.count("gpu.load") == 4


@pytest.mark.one_in(4)
def test_narrow_numbers_leave_branches_in_words() -> None:
    first = kernels_of(lowered(TURNED))[0]
    words = sum(fragment(op.result).layout.count // 2 for op in first.walk() if op.name == "gpu.load")
    assert emit_kernel(first).llvm.count(" = phi i32 ") == words


@pytest.mark.one_in(12)
def test_a_warp_takes_two_rows_that_share_a_scale_and_a_bias() -> None:
    shapes = [
        [fragment(op.result).shape for op in kernel.walk() if op.name == "gpu.load"]
        for kernel in kernels_of(lowered(SCALED))
    ]
    assert [(2, 512), (512,), (512,)] in shapes  # of an even number of elements
    assert [(512,), (512,), (512,)] in shapes  # and of an odd one, which is read by words


@pytest.mark.one_in(24)
@pytest.mark.parametrize("length", [300, 301, 512])
def test_rows_two_by_two_have_the_numbers_of_rows_alone(length: int) -> None:
    rng = np.random.default_rng(length)
    shapes = ((3, length), (length,), (length,))
    args = [rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in shapes]
    (wanted,) = run_function(compile_to_forms(SCALED), "m.f", args)
    same_bits(emulated(SCALED)(*args)[0], wanted)
