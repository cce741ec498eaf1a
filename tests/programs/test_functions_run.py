"""Lambdas, inner functions, comprehensions and early exits, run against Python."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import tessera
from tessera.module import TesseraWarning

PROGRAM = """
def twice(f, x):
    return f(f(x))

def lambdas(x: Tensor[M, N, f32], s: f32):
    g = lambda a: a + float(N)
    return twice(g, twice(lambda a: a * s, x)), twice(relu, x)

def inner(x: Tensor[N, f32], k: int):
    t = x * 2.0
    def scaled(row: Tensor[N, f32], by: f32) -> Tensor[N, f32]:
        return row * by + t
    fs = [lambda v: scaled(v, float(i)) for i in range(3)]
    for f in fs:
        x = f(x)
    return x

def parts(x: Tensor[4, N, f32]):
    rows = [x[i] * float(i) for i in range(4) if i != 2]
    return [a + b for a in rows for b in (rows[0], rows[1])]

def stops(x: Tensor[N, f32]):
    total, count = cast(0.0, f32), cast(0, i32)
    for i in range(N):
        if x[i] < -1.0:
            break
        if x[i] > 1.0:
            continue
        total = total + x[i]
        count = count + 1
    return total, count

def halves(x: f32):
    n = cast(0, i32)
    while True:
        x = x * 0.5
        n += 1
        if x < 1.0:
            break
    return n

def nested(x: Tensor[N, M, f32]):
    found = cast(0.0, f32)
    for i in range(N):
        for j in range(M):
            if x[i, j] > 1.0:
                break
            found = found + 1.0
        if found > 5.0:
            break
    return found

def written_out(x: Tensor[N, f32], c: f32, last: int):
    for k in (1, 2, 3, 4):
        if k == last:
            break
        if c < float(k):
            break
        x = x * float(k)
    return x
"""

FLOATS = st.floats(-3, 3, width=32)


@pytest.fixture(scope="module")
def m() -> object:
    return tessera.compile(PROGRAM)


def test_functions_as_values(m: object) -> None:
    x = np.linspace(-2, 2, 6, dtype="f4").reshape(2, 3)
    first, second = m.lambdas(x, 3.0)  # type: ignore[attr-defined]
    assert np.allclose(first, x * 9 + 6, rtol=1e-6) and np.array_equal(second, np.maximum(x, 0))


def test_what_a_function_captures_is_what_it_saw(m: object) -> None:
    x = np.linspace(1, 2, 5, dtype="f4")
    expected = x
    for i in range(3):
        expected = expected * np.float32(i) + x * 2
    assert np.allclose(m.inner(x, 3), expected, rtol=1e-6)  # type: ignore[attr-defined]


def test_comprehensions(m: object) -> None:
    x = np.arange(12, dtype="f4").reshape(4, 3)
    rows = [x[i] * i for i in range(4) if i != 2]
    found = m.parts(x)  # type: ignore[attr-defined]
    assert np.array_equal(found, [a + b for a in rows for b in rows[:2]])


@given(arrays("f4", st.integers(0, 12), elements=FLOATS))
def test_break_and_continue(m: object, x: np.ndarray) -> None:
    total, count = np.float32(0), 0
    for value in x:
        if value < -1:
            break
        if value > 1:
            continue
        total, count = np.float32(total + value), count + 1
    assert m.stops(x) == (total, count)  # type: ignore[attr-defined]


@given(arrays("f4", st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=FLOATS))
def test_nested_breaks(m: object, x: np.ndarray) -> None:
    found = 0
    for row in x:
        for value in row:
            if value > 1:
                break
            found += 1
        if found > 5:
            break
    assert m.nested(x) == found  # type: ignore[attr-defined]


def test_a_loop_that_only_break_ends(m: object) -> None:
    assert [m.halves(x) for x in (0.5, 3.0, 100.0)] == [1, 2, 7]  # type: ignore[attr-defined]


@pytest.mark.parametrize("last", [1, 3, 9])
@pytest.mark.parametrize("c", [0.0, 2.5, 9.0])
def test_break_where_the_loop_is_written_out(m: object, last: int, c: float) -> None:
    x = expected = np.linspace(1, 2, 5, dtype="f4")
    for k in (1, 2, 3, 4):
        if k == last or c < k:
            break
        expected = expected * np.float32(k)
    assert np.array_equal(m.written_out(x, c, last), expected)  # type: ignore[attr-defined]


@pytest.mark.one_in(2)
def test_many_values_of_a_static_parameter_are_a_warning() -> None:
    f = tessera.compile("def f(x: Tensor[N, f32], n: int): return x * float(n)").f
    x = np.ones(2, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(8):
            f(x, n)
    with pytest.warns(TesseraWarning, match="W0901.*`f` is compiled for the 9th"):
        f(x, 8)
