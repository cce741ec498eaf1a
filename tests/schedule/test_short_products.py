"""Products over a few terms in which no operand is used again are maps, with the bits of contractions."""

from __future__ import annotations

import numpy as np
import pytest

from tesserac.ir.core import Module
from tesserac.ir.passes import run_passes
from tesserac.pipeline import schedule_passes
from tesserac.schedule.machine import AARCH64, SM_90A, Machine
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import compile_to_forms

PROGRAM = """
def plane(x: Tensor[N, 6, H, 9, f32], w: Tensor[6, 1, 3, 3, f32]):
    return conv2d(x, w, padding=1, groups=6)
def doubled(x: Tensor[N, 6, H, 9, f32], w: Tensor[12, 1, 3, 2, f32]):
    return conv2d(x, w, stride=2, dilation=(1, 2), groups=6)
def line(x: Tensor[N, 6, L, f64], w: Tensor[6, 1, 4, f64]):
    return conv1d(x, w, groups=6)
def back(x: Tensor[N, 6, L, f64], w: Tensor[6, 1, 4, f64]):
    return grad(lambda x, w: sum(square(conv1d(x, w, groups=6))), wrt=(0, 1))(x, w)
def dense(x: Tensor[N, 6, H, 9, f32], w: Tensor[16, 6, 3, 3, f32]):
    return conv2d(x, w)
def long(x: Tensor[N, 6, L, f32], w: Tensor[6, 1, 65, f32]):
    return conv1d(x, w, groups=6)
def narrow(x: Tensor[N, 6, L, bf16 @accum(f32)], w: Tensor[6, 1, 4, bf16 @accum(f32)]):
    return conv1d(x, w, groups=6)
"""


def kinds(forms: Module, name: str, machine: Machine = AARCH64) -> set[object]:
    scheduled = run_passes(forms, schedule_passes(machine), verify=True)
    return {op.attrs["kind"] for op in scheduled.lookup(f"m.{name}").walk() if op.name == "schedule.launch"}


@pytest.mark.one_in(4)
def test_single_channels_are_read_where_they_lie() -> None:
    forms = compile_to_forms(PROGRAM)
    for name in ("plane", "doubled", "line", "narrow"):
        assert kinds(forms, name) == {"map"}, name
    assert kinds(forms, "plane", SM_90A) == {"map"}
    assert "contract" in kinds(forms, "dense") and "contract" in kinds(forms, "long")


@pytest.mark.one_in(3)
def test_a_chain_that_is_written_out_has_the_bits_of_a_contraction() -> None:
    """The terms of one output are tiny, zeros of both signs, infinite and not numbers."""
    run, rng = compiled_equals_oracle(PROGRAM), np.random.default_rng(0)
    x = rng.standard_normal((2, 6, 7, 9)).astype(np.float32)
    x[0, 0], x[0, 1], x[1, 2, 3, 4], x[1, 3, 2, 2] = -0.0, 1e-30, np.inf, np.nan
    w = rng.standard_normal((12, 1, 3, 3)).astype(np.float32)
    w[0], w[1] = -1e-30, -w[1]
    run("plane", x, w[:6].copy())
    run("doubled", x, w[:, :, :, :2].copy())
    line, taps = rng.standard_normal((3, 6, 11)), rng.standard_normal((6, 1, 4))
    run("line", line, taps)
    run("back", line, taps)
