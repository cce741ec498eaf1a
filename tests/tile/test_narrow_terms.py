"""Terms of softmaxes of narrow numbers: the hardware's power of two on a GPU, the same whatever the schedule is."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.target.nvptx.build import PLATFORMS
from tests.support.cpu_kernels import same_bits
from tests.support.fake_cuda import emulated_cuda

TEXT = """
def rows(x: Tensor[M, N, bf16]): return softmax(x)
def known(x: Tensor[M, 600, bf16]): return softmax(x)
def tiles(x: Tensor[M, N, bf16]): return softmax_rows(x)
def masked(x: Tensor[M, N, bf16 @accum(f32)]): return softmax(where(x > -2.0, x, -INF))
def wide_result(x: Tensor[M, N, bf16]): return softmax(cast(x, f32))
def wide_scores(x: Tensor[M, N, f32]): return cast(softmax(x), bf16)
def both(x: Tensor[M, N, bf16]):
    p = softmax(cast(x, f32))
    return cast(p, bf16), p
def turned(x: Tensor[M, N, bf16]): return transpose_tiles(x)
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "terms"), [("rows", 1), ("masked", 1), ("wide_result", 0), ("wide_scores", 0), ("both", 0)]
)
def test_terms_are_narrow_where_they_are_read_from_such_and_end_in_such(name: str, terms: int) -> None:
    session, file = Session(), SourceFile("m.tess", TEXT)
    forms = session.levels(file, session.function(file, name), PLATFORMS["sm_90a"].schedule).forms
    marked = [op.name for op in forms.walk() if "narrow" in op.attrs and op.name.startswith("scalar.")]
    assert marked.count("scalar.exp_term") == terms and marked.count("scalar.div") == terms


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("bias", "marked"), [("", 1), (", bias=x", 0)])
def test_attention_of_narrow_numbers_divides_by_a_reciprocal(bias: str, marked: int) -> None:
    """Not where some of what its sums are made of is wide."""
    tensors = ", ".join(f"{name}: Tensor[B, N, 64, bf16 @accum(f32)]" for name in "qkv")
    text = f"def f({tensors}, x: Tensor[N, N, f32]): return attention(q, k, v{bias})\n"
    session, file = Session(), SourceFile("m.tess", text)
    forms = session.levels(file, session.function(file, "f"), PLATFORMS["sm_90a"].schedule).forms
    assert sum(op.name == "scalar.div" and "narrow" in op.attrs for op in forms.walk()) == marked


@pytest.mark.one_in(16)
def test_no_schedule_shows_in_them(tmp_path: Path) -> None:
    """Rows in registers of one warp, of several, in loops, and as tiles; huge rows and rows without numbers."""
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((5, 600)) * 6).astype(ml_dtypes.bfloat16)
    x[1] += 400
    x[2, 5], x[3] = np.inf, -np.inf
    long = np.concatenate([x, np.full((5, 1800), -np.inf)], axis=1).astype(ml_dtypes.bfloat16)
    with emulated_cuda(tmp_path):
        gpu = tessera.compile(TEXT, device="cuda")
        rows = np.asarray(gpu["rows"](x))
        same_bits(np.asarray(gpu["known"](x)), rows)
        same_bits(np.asarray(gpu["rows"](long))[:, :600], rows)
        short = x[:, :200].copy()
        same_bits(np.asarray(gpu["tiles"](short)), np.asarray(gpu["rows"](short)))
    exact = np.asarray(tessera.compile(TEXT)["rows"](x))
    assert np.array_equal(np.isnan(rows), np.isnan(exact))
    there = ~np.isnan(exact)
    np.testing.assert_allclose(rows[there].astype(float), exact[there].astype(float), rtol=2.0**-7)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("shape", [(64, 128), (70, 33)])
def test_blocks_that_are_turned_are_written_by_neighbours(shape: tuple[int, int], tmp_path: Path) -> None:
    x = np.random.default_rng(2).standard_normal(shape).astype(ml_dtypes.bfloat16)
    with emulated_cuda(tmp_path):
        same_bits(np.asarray(tessera.compile(TEXT, device="cuda")["turned"](x)), np.ascontiguousarray(x.T))
