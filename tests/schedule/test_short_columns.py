"""Rows of a GPU that lie side by side have variants for few elements, with the bits of those for many."""

from __future__ import annotations

import numpy as np
import pytest

from tesserac.base.source import SourceFile
from tesserac.graph.interp import run_function
from tesserac.ir.core import Op
from tesserac.schedule.dialect import FOLDS_MOST, launch_kind, launch_loops
from tesserac.schedule.machine import MACHINES
from tesserac.schedule.rows.long_rows import SHORT_COLUMNS
from tests.support.cpu_kernels import same_bits
from tests.support.gpu_kernels import SESSION
from tests.support.source_support import compile_to_forms
from tests.tile.test_lengths_gpu import emulated

TEXT = "def f(x: Tensor[N, 40, f32], y: Tensor[N, 40, f32]): return sum(exp(x) * y, axis=0)\n"
KNOWN = TEXT.replace("N", "96")


def blocks(text: str) -> list[tuple[object, int]]:
    file = SourceFile("m.tess", text)
    host = SESSION.levels(file, SESSION.function(file, "f"), MACHINES["sm_90a"]).schedule
    rows: list[Op] = [op for op in host.walk() if op.name == "schedule.launch" and launch_kind(op) == "rows"]
    return [(op.attrs.get(FOLDS_MOST), launch_loops(op)[-1].block) for op in rows]


def test_what_only_a_run_knows_has_variants_of_small_blocks() -> None:
    found = blocks(TEXT)
    assert {(most, most) for most in SHORT_COLUMNS} <= set(found)
    assert {block for most, block in found if most is None} == {512}
    assert all(most is None for most, _ in blocks(KNOWN))


@pytest.mark.parametrize("length", [1, 64, 65, 129])
def test_all_variants_have_the_bits_of_the_meaning(length: int) -> None:
    rng = np.random.default_rng(length)
    args = [rng.standard_normal((length, 40), "f4") for _ in range(2)]
    (wanted,) = run_function(compile_to_forms(TEXT), "m.f", args)
    (got,) = emulated(TEXT)(*args)
    same_bits(np.asarray(got), np.asarray(wanted))
