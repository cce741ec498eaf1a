"""Short rows with costly numbers of their own: a program has several, with the bits of rows one by one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tesserac.ir.core import Module
from tesserac.ir.passes import run_passes
from tesserac.pipeline import schedule_passes
from tesserac.schedule.dialect import launch_loops
from tesserac.schedule.machine import AARCH64, X86_64_V4, Machine
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import compile_to_forms

COUNTS = (1, 3, 7, 8, 10, 15, 17, 31, 33, 50, 64, 65, 100, 127, 256, 257)
DTYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16}
ROWS = """
def soft(x: Tensor[B, {n}, {t}]):
    return softmax(x)
def mass(x: Tensor[B, {n}, {t}]):
    return logsumexp(x, axis=1), log_softmax(x)
def normed(x: Tensor[B, {n}, {t}]):
    return layernorm(x), norm(x, axis=1)
def tanh_of_means(x: Tensor[B, {n}, {t}], w: Tensor[{n}, {t}]):
    m = tanh(mean(x, axis=1, keep=True)) * log(1.0 + abs(max(x, axis=1, keep=True)))
    return m * x * w, exp(min(x * w, axis=1))
def nested(x: Tensor[B, 3, {n}, {t}]):
    return log(sum(exp(x - max(x, axis=2, keep=True)), axis=2)), softmax(x, axis=2)
"""


@pytest.mark.one_in(6)
@pytest.mark.parametrize("count", COUNTS)
def test_rows_together_have_the_bits_of_rows_alone(count: int) -> None:
    dtype = ("f32", "f64", "bf16")[COUNTS.index(count) % 3 if count in (8, 50, 65, 100, 127) else 0]
    run, rng = compiled_equals_oracle(ROWS.format(n=count, t=dtype)), np.random.default_rng(count)
    for rows in (37, 16, 1):
        x = rng.standard_normal((rows, count)).astype(DTYPES[dtype])
        x[-1, 0] = 0.0
        for row, special in zip(range(0, rows - 1, 3), (np.nan, np.inf, -np.inf, -0.0), strict=False):
            x[row, row % count] = special
        for name in ("soft", "mass", "normed"):
            run(name, x)
        run("tanh_of_means", x, np.linspace(-1, 1, count).astype(DTYPES[dtype]))
    run("nested", rng.standard_normal((7, 3, count)).astype(DTYPES[dtype]))


def blocks_of_rows(forms: Module, name: str, machine: Machine) -> list[int]:
    """How many rows a program of each launch has."""
    scheduled = run_passes(forms, schedule_passes(machine), verify=True)
    launches = [op for op in scheduled.lookup(f"m.{name}").walk() if op.name == "schedule.launch"]
    return [launch_loops(launch)[0].block for launch in launches]


@pytest.mark.parametrize("machine", [X86_64_V4, AARCH64], ids=lambda machine: machine.arch)
def test_which_rows_are_together(machine: Machine) -> None:
    text = """
def short(x: Tensor[B, 50, f32]):
    return softmax(x)
def long(x: Tensor[B, 257, f32]):
    return softmax(x)
def any_length(x: Tensor[B, C, f32]):
    return softmax(x)
def few(x: Tensor[8, 50, f32]):
    return softmax(x)
def cheap(x: Tensor[B, 50, f32]):
    return sum(x, axis=1)
"""
    forms = compile_to_forms(text)
    assert blocks_of_rows(forms, "short", machine) == [16]
    for name in ("long", "any_length", "few", "cheap"):
        assert blocks_of_rows(forms, name, machine) == [1]


def test_a_maximum_that_keeps_its_axis_and_one_that_does_not_are_one() -> None:
    forms = compile_to_forms("def f(x: Tensor[B, 64, f32]):\n    return logsumexp(x, axis=1)")
    reduces = [op.attrs["kind"] for op in forms.lookup("m.f").walk() if op.name == "form.reduce"]
    assert sorted(map(str, reduces)) == ["max", "sum"]
