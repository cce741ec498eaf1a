"""One element costs one element: the bytes that a program moves grow with T as its loops do, forward and on the way
back. Bytes are counted in the host program, so that no machine disturbs them."""

from __future__ import annotations

import numpy as np
import pytest

import tesserac.tile.dialect  # noqa: F401  (register the operations)
from benchmarks.growth_cases import CASES, Case
from tesserac.ir.core import Op
from tesserac.pipeline import lower
from tesserac.schedule.machine import AARCH64
from tesserac.schedule.traffic import bytes_moved
from tests.support.native_runs import compiled_equals_oracle
from tests.support.sampling import spread
from tests.support.source_support import check_text, library

SHORT = {1: 1000, 2: 100, 3: 16}
"""T where a case is counted first, by the power of T that its loops have; then twice that."""
SLACK = 1.15


def named(case: Case) -> str:
    return f"{case.kind}: {case.name}"


def host_program(program: str, entry: str) -> Op:
    functions = check_text(program, "m", library()).functions
    return lower(functions, f"m.{entry}", AARCH64, {}, verify=True).schedule.ops[0]


def growth(host: Op, short: int) -> float:
    """How many times more bytes twice the T moves."""
    first, second = (bytes_moved(host, {"T": turns}, turns) for turns in (short, 2 * short))
    return second / first


@pytest.mark.one_in(48)
@pytest.mark.parametrize("entry", ["forward", "gradient"])
@pytest.mark.parametrize("case", spread(CASES, 30), ids=named)
def test_bytes_grow_as_the_loops_do(case: Case, entry: str) -> None:
    assert growth(host_program(case.program, entry), SHORT[case.power]) <= SLACK * 2**case.power


@pytest.mark.one_in(48)
@pytest.mark.parametrize("case", spread(CASES, 16), ids=named)
def test_bits(case: Case) -> None:
    rng, run = np.random.default_rng(len(case.name)), compiled_equals_oracle(case.program)
    x, p = rng.standard_normal((9, 8)).astype("f4"), rng.integers(0, 8, 9).astype("i4")
    w = (rng.standard_normal((8, 8)) / 3 + np.eye(8)).astype("f4")
    run("forward", x, p, w)
    run("gradient", x, p, w)


COPIED = """
def forward(x: Tensor[T, 8, f32]):
    out, old = zeros(T, 8), zeros(T, 8)
    for t in range(T):
        old = out
        out[t] = x[t]
    return out + old
"""


def test_a_copy_that_must_be_is_counted() -> None:
    """The old value lives on: each iteration writes all of it, and the count says so."""
    assert growth(host_program(COPIED, "forward"), 1000) > 3.9


WHILE = """
def forward(x: Tensor[T, f32], n: i32):
    s, i = cast(0.0, f32), cast(0, i32)
    while i < n:
        s += x[i]
        i += 1
    for t in range(T):
        for u in range(t):
            s += x[u]
    return s
"""


def test_what_is_counted() -> None:
    """A loop as often as it turns, inner ones as often as each iteration says, a `while` as often as it is told."""
    host = host_program(WHILE, "forward")
    none, more = (bytes_moved(host, {"T": 4}, turns) for turns in (0, 10))
    assert more > none and (more - none) % 10 == 0
    empty, short, long = (bytes_moved(host, {"T": turns}, 0) for turns in (0, 4, 8))
    assert (long - empty) * 6 == (short - empty) * 28, "28 iterations of the inner loop for 6"
