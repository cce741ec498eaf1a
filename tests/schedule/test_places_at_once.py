"""Rows for places that integers say: on a GPU they are sorted and written at once, on a CPU one after the other."""

from __future__ import annotations

import pytest

from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.schedule.dialect import launch_kind, launch_loops
from tesserac.schedule.machine import AARCH64, SM_90A, Machine

SESSION = Session(verify=True)
ROWS = "x: Tensor[N, D, f32], i: Tensor[K, i32], v: Tensor[K, D, f32]"
PAIRS = "x: Tensor[N, D, f32], i: Tensor[K, i32], v: Tensor[K, f32]"
FEW = "x: Tensor[N, D, f32], i: Tensor[8, i32], v: Tensor[8, D, f32]"


def written(parameters: str, expression: str, machine: Machine) -> tuple[list[str], bool]:
    """The kinds of launches, and whether one walks places in order."""
    file = SourceFile("m.tess", f"def f({parameters}):\n    return {expression}\n")
    schedule = SESSION.levels(file, SESSION.function(file, "f"), machine).schedule
    launches = [op for op in schedule.walk() if op.name == "schedule.launch"]
    scatters = [op for op in launches if launch_kind(op) == "scatter"]
    serial = any(loop.kind == "serial" for op in scatters for loop in launch_loops(op))
    return [launch_kind(op) for op in launches], serial


@pytest.mark.parametrize("change", ["x.at[i].add(v)", "x.at[i].set(v)", "x.at[i].max(v)"])
def test_rows_are_sorted_and_written_at_once(change: str) -> None:
    kinds, serial = written(ROWS, change, SM_90A)
    assert kinds.count("sort") == 1 and not serial


@pytest.mark.parametrize("change", ["x.at[i, i].add(v)", "x.at[i, i].set(v)"])
def test_places_of_several_indices_are_sorted_too(change: str) -> None:
    kinds, serial = written(PAIRS, change, SM_90A)
    assert kinds.count("sort") == 1 and not serial


def test_few_rows_keep_their_order() -> None:
    assert written(FEW, "x.at[i].set(v)", SM_90A)[1]


def test_what_folds_a_run_writes_it() -> None:
    """The fold, what stands there and the sum of both are one launch, behind the copy of all other rows."""
    kinds, _ = written(ROWS, "x.at[i].add(v)", SM_90A)
    assert kinds[-2:] == ["map", "runs"] and "scatter" not in kinds


def test_a_cpu_takes_one_row_after_the_other() -> None:
    assert "sort" not in written(ROWS, "x.at[i].add(v)", AARCH64)[0]
