"""The order of elements: stable in both directions, NaN last, of every dtype and along any axis."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import tessera
from tests.support.native_runs import compiled_equals_oracle
from tests.support.sampling import examples

DTYPES = ("f64", "f32", "bf16", "f16", "i64", "i32", "i16", "i8", "u64", "u32", "u8", "bool")
NUMPY = {"f64": "f8", "f32": "f4", "f16": "f2", "bf16": ml_dtypes.bfloat16, "bool": "?"} | {
    name: name[0] + str(int(name[1:]) // 8) for name in DTYPES if name[0] in "iu"
}
PROGRAM = "".join(
    f"def {d}_{name}(x: Tensor[N, {d}]) -> Tensor[N, i64]:\n    return argsort(x, descending={flag})\n"
    for d in DTYPES
    for name, flag in (("up", False), ("down", True))
)
LIBRARY = """
def columns(x: Tensor[A, N, B, f32]) -> Tensor[A, N, B, i64]:
    return argsort(x, axis=N)

def views(x: Tensor[M, N, f32]) -> Tensor[N, M - 1, i64] where M >= 1:
    return argsort(x[1:].T * 2.0, descending=True) + 1

def straight(x: Tensor[M, N, f32]) -> Tensor[N, M - 1, i64] where M >= 1:
    return argsort(x[1:].T)

def values(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return sort(x)

def best(x: Tensor[M, N, f32]) -> (Tensor[M, 3, f32], Tensor[M, 3, i64]) where N >= 3:
    return topk(x, 3)

def least(x: Tensor[M, N, f32]) -> (Tensor[2, N, f32], Tensor[2, N, i64]) where M >= 2:
    return topk(x, 2, axis=M, largest=False)
"""


def numbers(*shape: int) -> np.ndarray:
    """Few values, so that there are ties; zeros of both signs, infinities and NaN among them."""
    rng = np.random.default_rng(sum(shape))
    x = rng.integers(-20, 20, shape).astype(np.float32) / 4
    special = np.array([-0.0, np.inf, -np.inf, np.nan], np.float32)
    return np.where(rng.random(shape) < 0.2, special[rng.integers(0, 4, shape)], x)


def expected_order(x: np.ndarray, descending: bool) -> list[int]:
    """By the definition: NaN last, then the value, then the place."""
    sign = -1 if descending else 1
    plain = [v.item() if v.dtype.kind in "biu" else float(v) for v in x]
    keys = [(v != v, sign * v if v == v else 0) for v in plain]
    return sorted(range(len(keys)), key=keys.__getitem__)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 2, 48, 49, 1000])
def test_every_dtype_in_both_directions(dtype: str, n: int) -> None:
    rng, kind = np.random.default_rng(n), np.dtype(NUMPY[dtype])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        x = rng.integers(info.min, info.max, n, kind, endpoint=True)
        x[: n // 2] = x[n // 2 : n // 2 * 2][::-1]
    else:
        x = (numbers(n) > 0) if dtype == "bool" else numbers(n).astype(kind)
    run = compiled_equals_oracle(PROGRAM)
    for name, descending in (("up", False), ("down", True)):
        assert run(f"{dtype}_{name}", x).tolist() == expected_order(x, descending)


@given(arrays.arrays(np.float32, st.integers(0, 120), elements=st.floats(width=32)))
@examples(60)
def test_any_floats(x: np.ndarray) -> None:
    run = compiled_equals_oracle(PROGRAM)
    np.testing.assert_array_equal(run("f32_up", x), np.argsort(x, kind="stable"))
    assert run("f32_down", x).tolist() == expected_order(x, True)


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("m", "n"), [(3, 5), (7, 60), (60, 7), (200, 3)])
def test_axes_and_views(m: int, n: int) -> None:
    run, x = compiled_equals_oracle(LIBRARY), numbers(m, n)
    cube = numbers(2, n, m)
    np.testing.assert_array_equal(run("columns", cube), np.argsort(cube, axis=1, kind="stable"))
    run("views", x)
    run("straight", x)
    np.testing.assert_array_equal(run("values", x), np.sort(x, axis=-1))
    values, places = run("best", x)
    wanted = np.array([expected_order(row, True)[:3] for row in x])
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, -1))
    run("least", x)


@pytest.mark.one_in(2)
def test_a_long_row_and_many_rows_on_all_threads() -> None:
    run, rng = compiled_equals_oracle(LIBRARY), np.random.default_rng(0)
    run("values", rng.normal(size=(1, 100_000)).astype(np.float32))
    run("values", rng.normal(size=(500, 300)).astype(np.float32))


@pytest.mark.one_in(3)
def test_too_few_elements_for_topk() -> None:
    with pytest.raises(tessera.TesseraError):
        tessera.compile(LIBRARY).best(numbers(2, 2))
