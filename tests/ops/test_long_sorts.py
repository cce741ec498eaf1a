"""Rows that several threads sort: the order that NumPy finds, on any number of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

import tessera
from tests.ops.test_sort import numbers

LONG = """
def up(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return sort(x)

def down(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return sort(x, descending=True)

def small(x: Tensor[N, i16]) -> Tensor[N, i16]:
    return sort(x[::-1])

def places(x: Tensor[N, f32]) -> Tensor[N, i64]:
    return argsort(x)

def wide(x: Tensor[N, i64]) -> Tensor[N, i64]:
    return argsort(x, descending=True)
"""


@cache
def programs(text: str) -> tessera.Module:
    return tessera.compile(text)


@pytest.fixture(params=[1, 2, 5, 16])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = tessera.get_num_threads()
    tessera.set_num_threads(request.param)
    yield request.param
    tessera.set_num_threads(before)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("n", [1 << 16, 100_003])
def test_parts_of_a_row_on_any_number_of_threads(threads: int, n: int) -> None:
    module, x = programs(LONG), numbers(n)
    many = np.random.default_rng(threads).integers(-(1 << 40), 1 << 40, n)
    many[: n // 2] = many[3]
    np.testing.assert_array_equal(module.places(x), np.argsort(x, kind="stable"))
    made, wanted = module.up(x), x[np.argsort(x, kind="stable")]
    np.testing.assert_array_equal(made, wanted)
    np.testing.assert_array_equal(np.signbit(made[made == 0]), np.signbit(wanted[wanted == 0]))
    np.testing.assert_array_equal(module.wide(many), np.argsort(-many, kind="stable"))
    few = (many >> 26).astype(np.int16)
    np.testing.assert_array_equal(module.small(few), np.sort(few))


@pytest.mark.one_in(4)
def test_parts_of_two_rows(threads: int) -> None:
    x = np.random.default_rng(threads).normal(size=(2, 70_001)).astype(np.float32)
    x[1, 60_000:] = np.nan
    np.testing.assert_array_equal(programs(LONG).down(x), -np.sort(-x, axis=-1))


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_parts_of_a_row_of_one_value(threads: int, value: float) -> None:
    x = np.full(1 << 16, value, np.float32)
    np.testing.assert_array_equal(programs(LONG).up(x), x)
