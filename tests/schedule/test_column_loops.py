"""Loops over rows whose columns never meet: which loops those are, and that no bit of what they give changes."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.commands.decisions import describe_schedule
from tesserac.schedule.machine import SM_80
from tests.schedule.test_row_loops import by_rows
from tests.schedule.test_sequential import host
from tests.support.native_runs import compiled_equals_oracle

SUBSTITUTION = """
def f(d: Tensor[W, W, f32], x: Tensor[W, N, f32]) -> Tensor[W, N, f32]:
    for c in range(W):
        row = x[c : c + 1, :] - {} @ x[:c, :]
        x[c : c + 1, :] = {}
    return x
"""
PROGRAM = SUBSTITUTION.format("d[c : c + 1, :c]", "row / d[c, c]")


def test_columns_that_never_meet() -> None:
    assert len(by_rows(PROGRAM, "f")) == 1
    assert not by_rows(PROGRAM, "f", SM_80)
    assert "loop over c goes by blocks of columns: threads take some of" in describe_schedule(host(PROGRAM, "f"))


@pytest.mark.one_in(8)
def test_bits() -> None:
    run, random = compiled_equals_oracle(PROGRAM), np.random.default_rng(4)
    for rows, columns in ((9, 200), (3, 64), (5, 1), (0, 70)):
        d = (random.standard_normal((rows, rows)) + 4 * np.eye(rows)).astype("f4")
        for threads in (1, 2, 3):
            tessera.set_num_threads(threads)
            run("f", d, random.standard_normal((rows, columns)).astype("f4"))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("factors", "row"),
    [
        ("x[:c, c : c + 1].T", "row / d[c, c]"),
        ("d[c : c + 1, :c]", "row / x[c, 0]"),
        ("d[c : c + 1, :c]", "roll(row, 1, axis=1)"),
        ("d[c : c + 1, :c]", "row[:, ::-1]"),
        ("d[c : c + 1, :c]", "row / max(row)"),
    ],
)
def test_other_loops_are_left(factors: str, row: str) -> None:
    """Columns that read others: factors, a divisor, neighbours, a mirror, a fold over all."""
    assert not by_rows(SUBSTITUTION.format(factors, row), "f")
