"""Attention on a GPU: what is copied how often, who shares what out, and what a length that a run knows costs."""

from __future__ import annotations

from functools import cache

import pytest

from tesserac.base.source import SourceFile
from tesserac.ir.core import Op
from tesserac.ir.passes import run_passes
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, kernels_of
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.ptx import assemble, emit_ptx, find_ptxas
from tesserac.tile.gpu.model.values import fragment, memory
from tesserac.types.dtype import BF16
from tests.support.gpu_kernels import count, tile_of

HALF = "half = bf16 @accum(f32)\n"
DECODE = """
def f(q: Tensor[B, 8, 64, half], k: Tensor[B, 2, T, 64, half], v: Tensor[B, 2, T, 64, half], n: i32) where T % 256 == 0:
    return decode_attention(q, KVCache[B, 2, T, 64](K=k, V=v, len=n))
"""
TO_A_CACHE = """
def f(q: Tensor[B, 2, S, 64, half], k: Tensor[B, 2, T, 64, half], v: Tensor[B, 2, T, 64, half], n: i32):
    return flash_attention(q, KVCache[B, 2, T, 64](K=k, V=v, len=n))
"""
BACK = """
def f(q: Tensor[B, S, 128, half], k: Tensor[B, S, 128, half], v: Tensor[B, S, 128, half], w: Tensor[B, S, 128, half]):
    _, back = vjp(lambda q, k, v: attention(q, k, v), q, k, v)
    return back(w)
"""


@cache
def kernels(text: str) -> list[Op]:
    tiles = tile_of(SourceFile("m.tess", HALF + text), "f", "sm_90a")
    return kernels_of(run_passes(tiles, [gpu_pass(PLATFORMS["sm_90a"].schedule)], verify=True))


def with_products(text: str) -> list[Op]:
    """The best variant of each kernel that multiplies."""
    found = [kernel for kernel in kernels(text) if any("multiply" in op.name for op in kernel.walk())]
    return [kernel for kernel in found if kernel.symbol == kernel.attrs["variant_of"]]


@pytest.mark.one_in(8)
@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")
def test_few_rows_are_shared_out_by_columns() -> None:
    """Of one query for each of four heads: all warps multiply, and values come from memory as they lie."""
    (kernel,) = with_products(DECODE)
    assert kernel.attrs["warps"] == 4
    assert count(kernel, "gpu.put") == 1, "only terms are computed"
    assert not assemble(emit_ptx(emit_kernel(kernel).llvm, "sm_90a"), "sm_90a").spilled_bytes


@pytest.mark.one_in(8)
def test_values_behind_a_length_are_zeros_in_the_last_stage() -> None:
    (kernel,) = with_products(TO_A_CACHE)
    assert {op.attrs["name"] for op in kernel.walk() if op.name == "gpu.role"} == {"consumer", "producer"}
    assert count(kernel, "gpu.zero_behind") == 2, "in the loop and behind it"


@pytest.mark.one_in(12)
def test_a_block_that_is_read_in_two_ways_is_copied_once() -> None:
    _, keys, queries = with_products(BACK)
    # what a program keeps, and what each round reads
    assert (count(keys, "gpu.tensor_copy"), count(queries, "gpu.tensor_copy")) == (2 + 2, 2 + 2)
    views = [op for op in keys.walk() if op.name == "gpu.view"]
    assert len(views) == 2 and all(op.result.type != op.operands[0].type for op in views)


@pytest.mark.one_in(12)
def test_what_the_first_product_meets_is_loaded_a_round_ahead() -> None:
    _, keys, _ = with_products(BACK)
    (loop,) = [op for op in keys.walk() if op.name == "gpu.for" and any("multiply" in o.name for o in op.body.ops)]
    loaded = {op.result for op in loop.body.ops if op.name == "gpu.load"}
    ahead = loaded & set(loop.body.terminator.operands)
    assert len(ahead) == 2, "logarithms of sums, and sums of the cotangent's rows: both are one number a row"


@pytest.mark.one_in(8)
def test_products_that_need_nothing_of_each_other_are_under_way_together() -> None:
    """Those of scores and of their cotangents: terms are made of the first while the second runs."""
    for kernel in with_products(BACK)[1:]:
        (loop, *_) = (op for op in kernel.walk() if op.name == "gpu.for" and count(op, "gpu.multiply") >= 2)
        names = [op.name for op in loop.body.ops if op.name in ("gpu.multiply", "gpu.wait_mma", "gpu.map")]
        assert names[:5] == ["gpu.multiply", "gpu.multiply", "gpu.wait_mma", "gpu.map", "gpu.wait_mma"]
        pending = [op.attrs["pending"] for op in loop.body.ops if op.name == "gpu.wait_mma"]
        assert pending[:2] == [1, 0]


@pytest.mark.one_in(8)
def test_cotangents_of_keys_of_one_head_are_written_as_keys_are() -> None:
    """No sum over heads follows that would want them wide."""
    _, keys, _ = with_products(BACK)
    stored = [op for op in keys.walk() if op.name == "gpu.store" and memory(op.operands[1]).space == "global"]
    assert [fragment(op.operands[0]).dtype for op in stored] == [BF16, BF16]
