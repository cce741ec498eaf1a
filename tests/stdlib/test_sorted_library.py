"""What the library makes of the order of elements: where they are, which there are, what lies in the middle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import tessera
from tests.support.native_runs import compiled_equals_oracle
from tests.support.sampling import examples

PROGRAM = """
def places(x: Tensor[N, f32]) -> Tensor[6, i64]:
    return nonzero(x, size=6, fill=-7)

def holds(x: Tensor[N, bool]) -> Tensor[3, i64]:
    return nonzero(x, size=3)

def kinds(x: Tensor[N, i32]) -> Tensor[5, i32] where N >= 1:
    return unique(x, size=5)

def counts(x: Tensor[N, f32]) -> (Tensor[5, f32], Tensor[5, i64]) where N >= 1:
    return unique_counts(x, size=5)

def inverse(x: Tensor[N, f32]) -> (Tensor[5, f32], Tensor[N, i64]) where N >= 1:
    return unique_inverse(x, size=5)

def before(x: Tensor[N, f32], v: Tensor[A, B, f32]) -> Tensor[A, B, i64]:
    return searchsorted(x, v)

def behind(x: Tensor[N, f32], v: Tensor[A, B, f32]) -> Tensor[A, B, i64]:
    return searchsorted(x, v, right=True)

def tenth(x: Tensor[B, N, f64]) -> Tensor[B, f64] where N >= 1:
    return quantile(x, 0.1, axis=1)

def middle(x: Tensor[B, N, f64]) -> Tensor[B, f64] where N >= 1:
    return median(x, axis=-1)
"""

FEW = st.sampled_from([-2.0, -0.0, 0.0, 1.0, 3.0, 7.0, np.nan])
SMALL = arrays.arrays(np.float32, st.integers(1, 40), elements=FEW)


@pytest.mark.one_in(16)
@given(SMALL)
@examples(40)
def test_places_and_kinds(x: np.ndarray) -> None:
    run = compiled_equals_oracle(PROGRAM)
    found = np.flatnonzero(x)[:6]
    np.testing.assert_array_equal(run("places", x), np.pad(found, (0, 6 - found.size), constant_values=-7))
    values, counts = np.unique(x, return_counts=True)
    short, extra = slice(5), max(0, 5 - values.size)
    got, times = run("counts", x)
    np.testing.assert_array_equal(got, np.pad(values[short], (0, extra), mode="edge"))
    np.testing.assert_array_equal(times, np.pad(counts[short], (0, extra)))
    _, inverse = run("inverse", x)
    np.testing.assert_array_equal(values[inverse], x)


@pytest.mark.one_in(8)
@given(st.lists(st.integers(-3, 12), min_size=1, max_size=30))
@examples(20)
def test_kinds_of_integers(numbers: list[int]) -> None:
    kinds = sorted(set(numbers))
    expected = (kinds + [kinds[-1]] * 5)[:5]
    assert compiled_equals_oracle(PROGRAM)("kinds", np.array(numbers, np.int32)).tolist() == expected


@pytest.mark.one_in(6)
def test_nothing_is_found_in_nothing() -> None:
    run = compiled_equals_oracle(PROGRAM)
    assert run("places", np.zeros(0, np.float32)).tolist() == [-7] * 6
    assert run("holds", np.array([False, True])).tolist() == [1, 0, 0]
    assert not run("before", np.zeros(0, np.float32), np.ones((2, 3), np.float32)).any()
    with pytest.raises(tessera.TesseraError):
        tessera.compile(PROGRAM).kinds(np.zeros(0, np.int32))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("n", [1, 2, 3, 64, 1000])
def test_searching(n: int) -> None:
    rng = np.random.default_rng(n)
    x, v = np.sort(rng.integers(0, 50, n)).astype(np.float32), rng.integers(-2, 53, (7, 9)).astype(np.float32)
    run = compiled_equals_oracle(PROGRAM)
    np.testing.assert_array_equal(run("before", x, v), np.searchsorted(x, v))
    np.testing.assert_array_equal(run("behind", x, v), np.searchsorted(x, v, side="right"))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("n", [1, 2, 5, 10, 333])
def test_quantiles(n: int) -> None:
    x = np.random.default_rng(n).normal(size=(4, n))
    x[2, n // 2] = np.nan
    x[3] = np.inf
    run = compiled_equals_oracle(PROGRAM)
    np.testing.assert_allclose(run("middle", x)[:3], np.median(x[:3], axis=1), rtol=1e-15)
    np.testing.assert_allclose(run("tenth", x)[:3], np.quantile(x[:3], 0.1, axis=1), rtol=1e-14, atol=1e-15)
    assert run("middle", x)[3] == np.inf
