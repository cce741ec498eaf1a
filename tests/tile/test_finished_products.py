"""Products of few terms that are stored as they are: register blocks write the result, whole or cut."""

from __future__ import annotations

import numpy as np
import pytest

from tesserac.ir.passes import run_passes
from tesserac.pipeline import schedule_passes
from tesserac.schedule.machine import AARCH64, X86_64_V4, Machine
from tesserac.schedule.products.contract import STRIP
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import compile_to_forms

PROGRAM = """
def plain(x: Tensor[B, M, 20, f32], y: Tensor[B, 20, N, f32]): return x @ y
def turned(x: Tensor[M, 20, f64], y: Tensor[N, 20, f64]): return x @ y.T
def more(x: Tensor[M, 20, f32], y: Tensor[20, N, f32]): return relu(x @ y)
def long(x: Tensor[M, 5000, f32], y: Tensor[5000, N, f32]): return x @ y
def narrow(x: Tensor[10, 600, f32], y: Tensor[600, 3, f32]): return x @ y
def known(x: Tensor[22, 12, f32], y: Tensor[12, 53, f32]): return x @ y
"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("m", "n"), [(13, 65), (24, 96), (70, 7)])
def test_blocks_of_registers_have_the_bits_of_sums(m: int, n: int) -> None:
    """A row of zeros of one sign ends as +0."""
    run, rng = compiled_equals_oracle(PROGRAM), np.random.default_rng(m)
    x, y = rng.standard_normal((2, m, 20)).astype(np.float32), rng.standard_normal((2, 20, n)).astype(np.float32)
    x[0, 3], y[0] = -0.0, abs(y[0])
    assert not np.signbit(run("plain", x, y)[0, 3]).any()
    run("turned", rng.standard_normal((m, 20)), rng.standard_normal((n, 20)))
    run("more", x[1], y[1])


@pytest.mark.one_in(3)
def test_rows_and_columns_that_are_known_have_blocks_of_their_own() -> None:
    """A block of 10 rows, a panel of one vector with twice as many terms, columns in fours behind the last panel."""
    run, rng = compiled_equals_oracle(PROGRAM), np.random.default_rng(0)
    for name, (m, k, n) in {"narrow": (10, 600, 3), "known": (22, 12, 53)}.items():
        run(name, rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("machine", [AARCH64, X86_64_V4])
def test_sums_that_go_on_elsewhere_wait_in_scratch(machine: Machine) -> None:
    host, found = run_passes(compile_to_forms(PROGRAM), schedule_passes(machine), verify=True), {}
    for name in ("plain", "turned", "more", "long", "narrow"):
        launches = [op for op in host.lookup(f"m.{name}").walk() if op.name == "schedule.launch"]
        found[name] = any(STRIP in op.attrs for op in launches)
    assert found == {"plain": True, "turned": True, "more": False, "long": False, "narrow": machine is AARCH64}
