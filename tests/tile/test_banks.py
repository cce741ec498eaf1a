"""Bank conflicts as layouts have them, and costs that `inspect` tells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tesserac.commands.costs import occupancy
from tesserac.commands.inspection import inspect
from tesserac.commands.outcome import UsageMistake
from tesserac.driver.session import Session
from tesserac.schedule.machine import SM_80, SM_89, SM_90A
from tesserac.target.nvptx.ptx import find_ptxas
from tesserac.tile.gpu.model.banks import matrix_passes, passes
from tesserac.tile.gpu.model.shared import SharedLayout

ASSEMBLED = ("registers unknown",) if find_ptxas() is None else ("a thread, nothing spilled", "programs, ")
"""What is said of registers, with the assembler and without it."""
PROGRAM = """
def f(a: Tensor[M, K, {0}], b: Tensor[K, N, {0}]): return a @ b
def g(x: Tensor[M, N, f32]): return x + 1.0
"""


def test_passes_are_what_banks_allow() -> None:
    assert passes([4 * lane for lane in range(32)], 4) == 1, "neighbouring words"
    assert passes([0] * 32, 4) == 1, "one word for all"
    assert passes([128 * lane for lane in range(32)], 4) == 32, "one bank for all"
    assert passes([8 * lane for lane in range(32)], 4) == 2, "every other bank"
    assert passes([16 * lane for lane in range(32)], 16) == 1, "vectors side by side, eight lanes at a time"
    assert passes([128 * lane for lane in range(8)], 16) == 8, "eight rows of 128 bytes"
    assert passes([2 * lane for lane in range(32)], 2) == 1, "halves of words"


def test_the_swizzle_is_what_parts_eight_rows() -> None:
    layout = SharedLayout((128, 64), 2, 64, swizzled=True)
    assert matrix_passes(layout) == matrix_passes(replace(layout, transposed=True)) == 1
    assert matrix_passes(replace(layout, swizzled=False)) == 8, "without it"
    assert matrix_passes(replace(layout, swizzled=False, pad=16)) == 1, "or with rows moved apart"


def test_programs_of_a_multiprocessor_are_limited_by_what_is_scarce() -> None:
    a100, ada, hopper = SM_80.residency, SM_89.residency, SM_90A.residency
    assert a100 is not None and ada is not None and hopper is not None
    assert occupancy(a100, 256, 32, 0) == "8 programs, 64 of 64 warps, limited by warps, registers"
    assert occupancy(a100, 256, 228, 72 * 1024) == "1 programs, 8 of 64 warps, limited by registers"
    assert occupancy(hopper, 128, 64, 100 * 1024) == "2 programs, 8 of 64 warps, limited by shared memory"
    assert occupancy(ada, 32, 16, 0) == "24 programs, 24 of 48 warps, limited by programs"


@pytest.mark.one_in(24)
@pytest.mark.parametrize(
    ("function", "dtype", "target", "said"),
    [
        ("f", "f32", "cuda:sm_80", ("2.15 Goperations", "bound    arithmetic", "fused multiply-adds", "no conflict")),
        ("g", "f32", "cuda:sm_90a", ("8 MiB", "bound    memory", *ASSEMBLED)),
        ("f", "f32", "cpu:x86-64-v4", ("2.15 Goperations", "2.97 Tflop/s", "for other sizes")),
    ],
)
def test_costs_are_told(function: str, dtype: str, target: str, said: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "m.tess"
    path.write_text(PROGRAM.format(dtype))
    sizes = {"M": 1024, "N": 1024} | ({"K": 1024} if function == "f" else {})
    text = inspect(Session(), f"{path}:{function}", "costs", target, sizes).output
    assert all(one in text for one in said), text
    with pytest.raises(UsageMistake, match="has `M`, "):
        inspect(Session(), f"{path}:{function}", "costs", target, {"X": 1})
