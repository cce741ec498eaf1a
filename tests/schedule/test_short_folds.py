"""Reductions over a few elements are maps, with the bits of reductions; rows that others read too stay one launch."""

from __future__ import annotations

import numpy as np
import pytest

from tesserac.ir.core import Module
from tesserac.ir.passes import run_passes
from tesserac.pipeline import schedule_passes
from tesserac.schedule.machine import AARCH64, SM_90A
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import compile_to_forms

COUNTS = (1, 2, 3, 13, 16, 17)
KINDS = ("sum", "prod", "max")
ROWS = "".join(
    f"""
def {kind}{count}(x: Tensor[M, {count}, f32]):
    return {kind}(x, axis=1)
def {kind}{count}_first(x: Tensor[{count}, M, f32]):
    return {kind}(x * 0.5, axis=0)
"""
    for kind in KINDS
    for count in COUNTS
)
OTHERS = """
def joint(x: Tensor[M, 3, N, 3, f32]):
    return sum(x, axis=(1, 3))
def integers(x: Tensor[M, 5, i8]):
    return sum(x, axis=1)
def narrow(x: Tensor[M, 5, f16 @accum(f32)]):
    return sum(x, axis=1)
def plain(x: Tensor[M, 5, f16]):
    return sum(x, axis=1)
def truths(x: Tensor[M, 5, f32]):
    return any(x > 2.0, axis=1), all(x > -1.0, axis=1)
def back(x: Tensor[2, 1, 9, 9, f32]):
    return grad(lambda v: sum(square(avg_pool2d(v, 3, 1))))(x)
def pool(x: Tensor[2, 3, 9, 9, f32]):
    return avg_pool2d(x, 3, 2, 1), max_pool2d(x, 3, 2, 1), grad(lambda v: sum(square(avg_pool2d(v, 2))))(x)
"""
BY_POSITION = """
def f(x: Tensor[M, 4, f32]):
    return sum(where(arange(4) < 2, x, 0.0), axis=1)
def softmax4(x: Tensor[M, 4, f32]):
    return softmax(x)
"""


def launches(forms: Module, name: str) -> list[object]:
    scheduled = run_passes(forms, schedule_passes(AARCH64), verify=True)
    return [op.attrs["kind"] for op in scheduled.lookup(f"m.{name}").walk() if op.name == "schedule.launch"]


@pytest.mark.one_in(6)
def test_few_elements_fold_in_the_order_of_a_reduction() -> None:
    run, rng = compiled_equals_oracle(ROWS), np.random.default_rng(0)
    for count in COUNTS:
        x = rng.standard_normal((37, count)).astype(np.float32)
        x[0], x[1, 0], x[2, -1] = -0.0, np.nan, np.inf
        for kind in KINDS:
            run(f"{kind}{count}", x)
            run(f"{kind}{count}_first", np.ascontiguousarray(x.T))


@pytest.mark.one_in(8)
def test_few_elements_of_any_type_and_axes() -> None:
    run, rng = compiled_equals_oracle(OTHERS + BY_POSITION), np.random.default_rng(1)
    x = rng.standard_normal((21, 5)).astype(np.float32)
    run("joint", rng.standard_normal((4, 3, 5, 3)).astype(np.float32))
    run("integers", rng.integers(-128, 127, (21, 5)).astype(np.int8))
    for name, value in (("narrow", x.astype(np.float16)), ("plain", x.astype(np.float16)), ("truths", x)):
        run(name, value)
    run("back", rng.standard_normal((2, 1, 9, 9)).astype(np.float32))
    run("pool", rng.standard_normal((2, 3, 9, 9)).astype(np.float32))
    for name in ("f", "softmax4"):
        run(name, x[:, :4].copy())


@pytest.mark.one_in(24)
def test_windows_are_read_where_they_lie() -> None:
    forms = compile_to_forms(OTHERS + BY_POSITION)
    assert set(launches(forms, "pool")) == {"map"}
    assert launches(forms, "joint") == ["map"]
    assert set(launches(forms, "back")) == {"map"} and len(launches(forms, "back")) <= 10
    on_a_gpu = run_passes(forms, schedule_passes(SM_90A), verify=True)
    kinds = {op.attrs["kind"] for op in on_a_gpu.lookup("m.pool").walk() if op.name == "schedule.launch"}
    assert kinds == {"map"}


@pytest.mark.one_in(3)
def test_rows_that_others_read_too_stay_rows() -> None:
    forms = compile_to_forms(OTHERS + BY_POSITION)
    assert launches(forms, "softmax4") == ["rows"]
    assert launches(compile_to_forms(ROWS), "sum17") == ["rows"]


def test_what_takes_longer_to_compile_than_to_run_is_not_written_out() -> None:
    body = "    return sum(x * w, axis=1)\n"
    few = "def few(x: Tensor[80, 16, f32], w: Tensor[16, f32]):\n" + body
    little = "def little(x: Tensor[80, 5, f32], w: Tensor[5, f32]):\n" + body
    many = "def many(x: Tensor[M, 16, f32], w: Tensor[16, f32]):\n" + body
    forms = compile_to_forms(few + little + many)
    found = {name: launches(forms, name) for name in ("few", "little", "many")}
    assert found == {"few": ["rows"], "little": ["map"], "many": ["map"]}
