"""Products of a few rows read the right operand as it lies: which products those are, and their bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac.pipeline import lower
from tesserac.schedule.dialect import launch_stages
from tesserac.schedule.machine import AARCH64
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import check_text, library

PROGRAM = """
def f32s(a: Tensor[M, K, f32], b: Tensor[K, N, f32]) -> Tensor[M, N, f32]:
    return a @ b

def f64s(a: Tensor[M, K, f64], b: Tensor[K, N, f64]) -> Tensor[M, N, f64]:
    return relu(a @ b)

def narrow(a: Tensor[M, K, bf16 @accum(f32)], b: Tensor[K, N, bf16 @accum(f32)]) -> Tensor[M, N, bf16 @accum(f32)]:
    return a @ b

def halves(a: Tensor[M, K, f16 @accum(f32)], b: Tensor[K, N, f16 @accum(f32)]) -> Tensor[M, N, f16 @accum(f32)]:
    return a @ b

def vector(a: Tensor[K, f32], b: Tensor[K, N, f32]) -> Tensor[N, f32]:
    return a @ b

def across(a: Tensor[K, M, f32], b: Tensor[K, 2, N, f32]) -> Tensor[M, N, f32]:
    return transpose(a) @ b[:, 1]

def transposed(a: Tensor[M, K, f32], b: Tensor[N, K, f32]) -> Tensor[M, N, f32]:
    return a @ transpose(b)

def applied(a: Tensor[N, K, f64], x: Tensor[K, f64]) -> Tensor[N, f64]:
    return a @ x

def apart(a: Tensor[N, 2, K, 2, f32], x: Tensor[K, f32]) -> Tensor[N, f32]:
    return a[:, 1, :, 1] @ x

def f32s_by_columns(a: Tensor[M, K, f32], b: Tensor[N, K, f32]) -> Tensor[M, N, f32]:
    return a @ b.T

def f64s_by_columns(a: Tensor[M, K, f64], b: Tensor[N, K, f64]) -> Tensor[M, N, f64]:
    return relu(a @ b.T)

def halves_by_columns(a: Tensor[M, K, f16 @accum(f32)], b: Tensor[N, K, f16 @accum(f32)]):
    return a @ b.T
"""
DTYPES = {
    "f32s": "f4", "f64s": "f8", "narrow": ml_dtypes.bfloat16, "halves": "f2", "f32s_by_columns": "f4",
    "f64s_by_columns": "f8", "halves_by_columns": "f2",
}  # fmt: skip


def numbers(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return rng.standard_normal(shape) * 2.0 ** rng.integers(-4, 4, shape)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", DTYPES)
def test_bits_of_every_edge(name: str) -> None:
    run, dtype = compiled_equals_oracle(PROGRAM), DTYPES[name]
    for m, k, n in ((1, 1, 1), (1, 7, 521), (3, 4, 16), (8, 515, 19), (2, 0, 5), (5, 6, 0), (9, 5, 33), (1, 4101, 18)):
        for threads in (1, 3):
            tessera.set_num_threads(threads)
            matrix = numbers(n, k) if name.endswith("columns") else numbers(k, n)
            run(name, numbers(m, k).astype(dtype), matrix.astype(dtype))


@pytest.mark.one_in(12)
def test_bits_of_other_shapes() -> None:
    run = compiled_equals_oracle(PROGRAM)
    run("vector", numbers(70).astype("f4"), numbers(70, 37).astype("f4"))
    run("across", numbers(70, 3).astype("f4"), numbers(70, 2, 37).astype("f4"))
    run("transposed", numbers(3, 70).astype("f4"), numbers(37, 70).astype("f4"))
    zeros = np.full((1, 3), -0.0, "f4")
    assert not np.signbit(run("f32s", zeros, np.abs(numbers(3, 4)).astype("f4"))).any(), "a chain begins at +0"


@pytest.mark.one_in(12)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_bits_wherever_columns_begin(dtype: str) -> None:
    """Terms before the first line of the cache are taken in quarters of a vector, if all columns have as many; what is
    left of columns and of terms is taken by four and one by one."""
    run = compiled_equals_oracle(PROGRAM)
    name, memory = ("f32s_by_columns" if dtype == "f4" else "f64s_by_columns"), np.empty(23 * 70 + 16, dtype)
    for k in (8, 64, 70):
        for start in (0, 1, 2, 4, 6, 12):
            matrix = memory[start : start + 23 * k].reshape(23, k)
            matrix[...] = numbers(23, k)
            run(name, numbers(1, k).astype(dtype), matrix)


def layouts(name: str) -> set[str]:
    """How the products of a function read their right operands."""
    module = lower(check_text(PROGRAM, "m", library()).functions, f"m.{name}", AARCH64, {}, verify=True).schedule
    launches = [op for op in module.walk() if op.name == "schedule.launch" and op.attrs["kind"] == "contract"]
    return {stage.layout for launch in launches for stage in launch_stages(launch) if stage.operand == 1}


@pytest.mark.one_in(2)
def test_which_products_read_rows() -> None:
    assert layouts("f32s") == {"panels", "rows"}, "the number of rows is known at run time only"
    assert layouts("vector") == {"rows"}
    assert layouts("transposed") == {"panels", "rows"}, "its columns are contiguous"
    assert layouts("applied") == {"rows"}
    assert layouts("apart") == {"panels"}, "neither are"
