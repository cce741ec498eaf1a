"""Adding at places that tensors say: what names one place is folded in index order, in segments of 512 through the
tree, to the bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac.ir.passes import run_passes
from tesserac.numerics.order import run_fold
from tesserac.pipeline import schedule_passes
from tesserac.schedule.dialect import launch_kind, launch_space
from tesserac.schedule.machine import AARCH64, X86_64_V4
from tesserac.schedule.model.cuts import ALL_PLACES, MANY_PLACES, PLACES_UNIT, cut_of
from tesserac.types.dims import product
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import compile_to_forms

PROGRAM = """
def rows(x: Tensor[N, D, f32], i: Tensor[K, i32], v: Tensor[K, D, f32]) -> Tensor[N, D, f32]:
    return scatter_add(x, i, v)

def numbers(x: Tensor[N, f32], i: Tensor[K, i64], v: Tensor[K, f32]) -> Tensor[N, f32]:
    x[i] += v
    return x

def columns(x: Tensor[D, N, f32], i: Tensor[A, B, i32], v: Tensor[D, A, B, f32]) -> Tensor[D, N, f32]:
    return scatter_add(x, i, v, axis=N)

def points(x: Tensor[N, M, f64], i: Tensor[K, i32], j: Tensor[K, i32], v: Tensor[K, f64]) -> Tensor[N, M, f64]:
    x[i, j] += v * 2.0
    return x

def one(x: Tensor[N, D, f32], i: i32) -> Tensor[N, D, f32]:
    x[i] += 1.0
    return x

def counts(i: Tensor[K, i32]) -> Tensor[10, i64]:
    return zeros(10, dtype=i64).at[i].add(1)

half = bf16 @accum(f32)

def narrow(x: Tensor[N, half], i: Tensor[K, i32], v: Tensor[K, half]) -> Tensor[N, half]:
    x[i] -= v
    return x

def products(x: Tensor[N, f32], i: Tensor[K, i32], v: Tensor[K, f32]) -> Tensor[N, f32]:
    x[i] *= v
    return x

def extremes(x: Tensor[N, f32], i: Tensor[K, i32], v: Tensor[K, f32]) -> (Tensor[N, f32], Tensor[N, f32]):
    return x.at[i].max(v), x.at[i].min(v)

def part(x: Tensor[N, 6, f32], i: Tensor[K, i32], v: Tensor[K, 2, f32]) -> Tensor[N, 6, f32]:
    x[i, 1:3] += v
    return x

def known(x: Tensor[N, f32], v: Tensor[N, f32]) -> Tensor[N, f32] where N >= 2:
    return x.at[0:2].mul(3.0).at[0].max(v[1]) + v

def few(i: Tensor[K, i64], v: Tensor[K, f32]) -> Tensor[70, f32]:
    return ones(70).at[i].add(v)

def grid(i: Tensor[K, i32], j: Tensor[K, i32], v: Tensor[K, f32]) -> Tensor[10, 7, f32]:
    return ones(10, 7).at[i, j].add(v)
"""


def values(*shape: int) -> np.ndarray:
    """Of sizes so different that the order of a sum shows."""
    rng = np.random.default_rng(sum(shape))
    return (rng.normal(size=shape) * 2.0 ** rng.integers(-12, 12, shape)).astype(np.float32)


def places(count: int, size: int, dtype: str = "i4") -> np.ndarray:
    return np.random.default_rng(count).integers(-size, size, count).astype(dtype)


def expected_fold(named: np.ndarray) -> np.ndarray:
    """By the definition, in NumPy alone: a running sum of each 512, neighbours of these, and neighbours of those."""
    sums = []
    for begin in range(0, len(named), 512):
        total = named[begin]
        for row in named[begin + 1 : begin + 512]:
            total = total + row
        sums.append(total)
    while len(sums) > 1:
        sums = [sum(sums[at + 1 : at + 2], start=sums[at]) for at in range(0, len(sums), 2)]
    return sums[0]


def expected_rows(x: np.ndarray, i: np.ndarray, v: np.ndarray) -> np.ndarray:
    result = x.copy()
    for place in range(len(x)):
        named = v[(i % len(x)) == place]
        if len(named):
            result[place] = x[place] + expected_fold(named)
    return result


FEW_PLACES = [(1, 1, 1), (5, 3, 40), (1, 2, 512), (7, 300, 200), (3, 21, 8300), (1, 37, 1025), (2, 3, 9000)]
MORE_PLACES_THAN_ROWS = [(300, 70, 100), (1000, 2, 64), (70_000, 1, 40)]
SIZES = [*FEW_PLACES, *MORE_PLACES_THAN_ROWS, (3, 0, 5), (4, 5, 0)]


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("n", "d", "k"), SIZES)
def test_the_order_is_the_one_written_down(n: int, d: int, k: int) -> None:
    run, x, i, v = compiled_equals_oracle(PROGRAM), values(n, d), places(k, n), values(k, d)
    np.testing.assert_array_equal(run("rows", x, i, v), expected_rows(x, i, v))
    one = run("numbers", values(n), i.astype("i8"), values(k))
    np.testing.assert_array_equal(one, expected_rows(values(n), i, values(k)))
    run("columns", values(d, n), i.reshape(1, k), values(d, 1, k))
    j = places(k, 9)
    run("points", values(n, 9).astype(np.float64), i, j, values(k).astype(np.float64))
    run("products", values(n), i, values(k))
    largest, smallest = run("extremes", values(n), i, values(k))
    expected = values(n)
    np.maximum.at(expected, i, values(k))
    np.testing.assert_array_equal(largest, expected)
    assert (smallest <= values(n)).all()
    run("narrow", values(n).astype(ml_dtypes.bfloat16), i, values(k).astype(ml_dtypes.bfloat16))
    run("part", values(n, 6), i, values(k, 2))


@pytest.mark.parametrize("count", [1, 2, 511, 512, 513, 1024, 1025, 1537, 5000])
def test_a_fold_of_a_run_is_of_segments_whatever_its_length(count: int) -> None:
    np.testing.assert_array_equal(run_fold(values(count, 2), "sum"), expected_fold(values(count, 2)))


@pytest.mark.one_in(2)
def test_zeros_keep_their_sign_where_nothing_is_added() -> None:
    x, i = np.array([-0.0, -0.0, 1.0], np.float32), np.array([1], "i8")
    added = compiled_equals_oracle(PROGRAM)("numbers", x, i, np.array([-0.0], np.float32))
    assert np.signbit(added).tolist() == [True, True, False]


def test_counting_and_one_place() -> None:
    run, i = compiled_equals_oracle(PROGRAM), places(5000, 10)
    np.testing.assert_array_equal(run("counts", i), np.bincount(i % 10, minlength=10))
    x = values(4, 3)
    expected = x.copy()
    expected[-2] += 1
    np.testing.assert_array_equal(run("one", x, np.array(-2, "i4")), expected)
    run("known", values(5), values(5))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("size", [4, 60, 3000])
@pytest.mark.parametrize("beyond", [0, -1])
def test_a_bad_place_ends_the_call(beyond: int, size: int) -> None:
    module, i = tessera.compile(PROGRAM), places(9, size)
    i[5] = bad = beyond - size if beyond else size
    said = f"index {bad} is out of range for a dim of size {size}"
    for name, d, kind in (("rows", (3,), "i4"), ("numbers", (), "i8")):
        with pytest.raises(tessera.TesseraError, match=said) as caught:
            getattr(module, name)(values(size, *d), i.astype(kind), values(9, *d))
        assert caught.value.code == "E0927"


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_have_ranges_of_a_few_places(threads: int) -> None:
    module, count = tessera.compile(PROGRAM), 17_000  # enough to be shared among threads
    i, v = places(count, 70, "i8"), values(count)
    before = tessera.get_num_threads()
    tessera.set_num_threads(threads)
    try:
        expected = expected_rows(np.ones(70, np.float32), i, v)
        np.testing.assert_array_equal(module.few(i, v), expected)
        row, column = ((part % size).astype("i4") - size for part, size in ((i % 70 // 7, 10), (i, 7)))
        np.testing.assert_array_equal(np.ravel(module.grid(row, column, v)), expected)
        np.testing.assert_array_equal(module.numbers(np.ones(70, np.float32), i, v), expected)
        i[-3] = 70
        with pytest.raises(tessera.TesseraError, match="index 70 is out of range for a dim of size 70"):
            module.few(i, v)
    finally:
        tessera.set_num_threads(before)


def test_folds_into_places_are_one_launch_without_a_sort() -> None:
    host = run_passes(compile_to_forms(PROGRAM), schedule_passes(AARCH64), verify=True)
    kinds = [launch_kind(op) for op in host.walk() if op.name == "schedule.launch"]
    assert "folds" in kinds and not {"sort", "runs"} & set(kinds)


def test_places_of_any_number_are_cut_into_ranges() -> None:
    """Those of elements, where a machine lists them by masks; of many the unit is beyond them all."""
    host = run_passes(compile_to_forms(PROGRAM), schedule_passes(X86_64_V4), verify=True)
    launches = [op for op in host.lookup("m.numbers").walk() if op.name == "schedule.launch"]
    [cut] = [cut for cut in map(cut_of, launches) if cut is not None]
    units = [cut.unit_rows.evaluate({"N": places}) for places in (70, MANY_PLACES, MANY_PLACES + 1)]
    assert units == [PLACES_UNIT, PLACES_UNIT, ALL_PLACES]


def test_ones_that_are_counted_are_written_once() -> None:
    host = run_passes(compile_to_forms(PROGRAM), schedule_passes(AARCH64), verify=True).lookup("m.counts")
    spaces = [launch_space(op) for op in host.walk() if op.name == "schedule.launch" and launch_kind(op) == "map"]
    assert not any("K" in product(space).symbols() for space in spaces)
