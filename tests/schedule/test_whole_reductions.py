"""A fold of whole tensors computes what it folds itself, also where maps read a value twice: no memory between them."""

from __future__ import annotations

import numpy as np
import pytest

from tesserac.ir.core import Op
from tesserac.ir.passes import run_passes
from tesserac.pipeline import schedule_passes
from tesserac.schedule.dialect import memory
from tesserac.schedule.machine import AARCH64, SM_90A, Machine
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import compile_to_forms

FOLDED = {
    "squares": "sum((x - y) * (x - y))",
    "losses": "mean(huber(x, y))",
    "spread": "var(x)",
    "length": "norm(x)",
    "twice": "sum(exp(x) + 1.0 / exp(x))",
    "both": "(sum(x - y), sum(abs(x - y)))",
}
READ_ELSEWHERE = {
    "returned": "(sum((x - y) * (x - y)), x - y)",
    "otherwise": "(sum((x - y) * (x - y)), max(x - y, axis=0))",
}
TEXT = "".join(
    f"def {name}(x: Tensor[M, N, f32], y: Tensor[M, N, f32]): return {value}\n"
    for name, value in (FOLDED | READ_ELSEWHERE).items()
)
LENGTHS = """
def length(x: Tensor[M, N, f32]): return norm(x, axis=1)
"""


def ops_of(text: str, name: str, machine: Machine) -> list[Op]:
    scheduled = run_passes(compile_to_forms(text), schedule_passes(machine), verify=True)
    return list(scheduled.lookup(f"m.{name}").walk())


@pytest.mark.parametrize("machine", [AARCH64, SM_90A], ids=["cpu", "gpu"])
@pytest.mark.parametrize("name", FOLDED)
def test_what_a_fold_of_everything_reads_twice_is_not_written(name: str, machine: Machine) -> None:
    ops = ops_of(TEXT, name, machine)
    between = [op.result for op in ops if op.name == "schedule.buffer" and op.attrs["role"] == "workspace"]
    assert all(len(memory(value).dims) < 2 for value in between)


@pytest.mark.one_in(3)
def test_folds_of_everything_have_the_bits_of_the_oracle() -> None:
    run, rng = compiled_equals_oracle(TEXT), np.random.default_rng(0)
    for shape in ((1, 1), (3, 7), (70, 33)):
        x, y = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
        for name in FOLDED | READ_ELSEWHERE:
            run(name, x, y)


def test_a_length_asks_once_for_the_largest_magnitude_and_for_no_logarithm() -> None:
    ops = ops_of(LENGTHS, "length", AARCH64)
    assert [op.attrs["kind"] for op in ops if op.name == "form.reduce"] == ["max", "sum"]
    assert not any(op.name == "scalar.log2" for op in ops)
