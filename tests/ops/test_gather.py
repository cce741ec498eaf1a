"""Reading at computed places: to the bit, for any shape, and with a status where an index is out of range."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessera
from tests.support.native_runs import compiled_equals_oracle
from tests.support.sampling import examples

PROGRAM = """
def embed(table: Tensor[V, D, f32], tokens: Tensor[B, S, i32]) -> Tensor[B, S, D, f32]:
    return gather(table, tokens, axis=V)

def columns(x: Tensor[M, N, f32], picked: Tensor[K, i64]) -> Tensor[M, K, f32]:
    return exp(gather(x * 2.0, picked, axis=1)) + 1.0

def along(x: Tensor[B, N, bf16 @accum(f32)], at: Tensor[B, K, i32]) -> Tensor[B, K, bf16 @accum(f32)]:
    return take_along_axis(x, at, axis=1)

def summed(table: Tensor[V, D, f32], tokens: Tensor[B, S, i32]) -> Tensor[B, D, f32]:
    return sum(gather(table, tokens, axis=V), axis=S)

def best(x: Tensor[B, N, f32]) -> Tensor[B, 1, f32] where N >= 1:
    return take_along_axis(x, argmax(x, axis=N, keep=True), axis=N)

def twice(x: Tensor[N, f32], i: Tensor[K, i32]) -> Tensor[K, f32]:
    return gather(gather(x, i), (i + 1) % 7)

def walk(x: Tensor[N, i32], start: i32) -> (Tensor[i32], Tensor[N, i32]):
    at = start
    seen = x
    for k in range(5):
        at = x[at]
        if at > 2:
            seen = seen.at[at].set(-1)
    return at, seen

def search(x: Tensor[N, i32]) -> Tensor[i32] where N >= 1:
    at = x[0]
    while x[at] > 0:
        at = x[at]
    return at

def pairs(x: Tensor[M, N, f32], i: Tensor[K, i32], j: Tensor[K, u8]) -> (Tensor[K, f32], Tensor[M, N, f32]):
    n = 0
    for k in range(K):
        n = k
        x[j[k], n % N] += 1.0
    return x[i, j], x.at[arange(K), i].add(2.0)

def reversed_rows(x: Tensor[M, N, f32], i: Tensor[K, u8]) -> Tensor[N, K, f32]:
    return gather(flip(x, axis=0), i, axis=0).T

def of_a_copy(x: Tensor[4, 6, f32], i: Tensor[2, 1, i32]) -> Tensor[2, 1, f32]:
    return take_along_axis(reshape(x[:, 1:5], (2, 8)), i, axis=1)
"""
SIZES = st.sampled_from([1, 2, 3, 7, 16, 33])
MAYBE_EMPTY = st.sampled_from([0, 1, 2, 5, 19])


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def indices(shape: tuple[int, ...], size: int, dtype: str = "i4", low: int | None = None) -> np.ndarray:
    return np.random.default_rng(1).integers(-size if low is None else low, size, shape).astype(dtype)


@pytest.mark.one_in(4)
@given(SIZES, MAYBE_EMPTY, MAYBE_EMPTY, MAYBE_EMPTY)
@examples(12)
def test_shapes(n: int, a: int, b: int, c: int) -> None:
    import ml_dtypes

    table, tokens = numbers((n, a)), indices((b, c), n)
    run = compiled_equals_oracle(PROGRAM)
    np.testing.assert_array_equal(run("embed", table, tokens), table[tokens])
    run("columns", numbers((a, n)), indices((b,), n, "i8"))
    narrow = numbers((a, n)).astype(ml_dtypes.bfloat16)
    run("along", narrow, indices((a, b), n))
    run("summed", table, tokens)
    run("best", numbers((a, n)))
    run("reversed_rows", numbers((n, a)), indices((b,), n, "u1", low=0))


@pytest.mark.one_in(2)
def test_places_of_several_integer_types() -> None:
    """Positions are numbers, whatever holds them: a counter, `arange` and labels of 8 bits go together."""
    x, i, j = numbers((7, 7)), indices((5,), 7), indices((5,), 7, "u1", low=0)
    found, added = compiled_equals_oracle(PROGRAM)("pairs", x, i, j)
    y = x.copy()
    np.add.at(y, (j, np.arange(5)), np.float32(1))
    np.testing.assert_array_equal(found, y[i, j])
    np.add.at(y, (np.arange(5), i), np.float32(2))
    np.testing.assert_array_equal(added, y)


def test_a_gather_of_a_gather() -> None:
    x = numbers((12,))
    i = indices((9,), 12)
    run = compiled_equals_oracle(PROGRAM)
    np.testing.assert_array_equal(run("twice", x, i), x[i][(i + 1) % 7])


def test_a_gather_of_a_view_that_needs_a_copy() -> None:
    x, i = numbers((4, 6)), indices((2, 1), 8)
    found = compiled_equals_oracle(PROGRAM)("of_a_copy", x, i)
    np.testing.assert_array_equal(found, np.take_along_axis(x[:, 1:5].reshape(2, 8), i % 8, 1))


@pytest.mark.parametrize("bad", [10, -11, 2**31 - 1, -(2**31)])
def test_a_bad_index_ends_the_call(bad: int) -> None:
    module = tessera.compile(PROGRAM)
    tokens = indices((4, 50), 10)
    tokens[2, 31] = bad
    with pytest.raises(tessera.TesseraError) as caught:
        module.embed(numbers((10, 64)), tokens)
    text = str(caught.value)
    assert caught.value.code == "E0927"
    assert f"`gather` in `embed`: index {bad} is out of range for a dim of size 10" in text
    assert "<text>:3:12" in text
    tokens[2, 31] = 0
    np.testing.assert_array_equal(module.embed(numbers((10, 64)), tokens), numbers((10, 64))[tokens])


def test_nothing_can_be_read_from_an_empty_table() -> None:
    module = tessera.compile(PROGRAM)
    with pytest.raises(tessera.TesseraError, match="index 0 is out of range for a dim of size 0"):
        module.embed(numbers((0, 64)), np.zeros((3, 200), np.int32))
    assert module.embed(numbers((0, 64)), np.zeros((3, 0), np.int32)).shape == (3, 0, 64)


def test_the_smallest_integer_is_a_bad_index_too() -> None:
    module = tessera.compile(PROGRAM)
    with pytest.raises(tessera.TesseraError, match="E0927"):
        module.columns(numbers((2, 5)), np.array([-(2**63)]))


def test_reading_in_loops_and_branches() -> None:
    run = compiled_equals_oracle(PROGRAM)
    at, seen = run("walk", np.array([3, 0, 1, 4, 2], "i4"), np.array(1, "i4"))
    assert (at, seen.tolist()) == (1, [3, 0, 1, -1, -1])
    assert run("search", np.array([2, 0, 3, 1], "i4")) == 1


def test_a_bad_index_ends_loops_and_branches() -> None:
    module = tessera.compile(PROGRAM)
    with pytest.raises(tessera.TesseraError, match="index 9 is out of range for a dim of size 3"):
        module.walk(np.array([1, 2, 9], "i4"), np.array(0, "i4"))
    with pytest.raises(tessera.TesseraError, match="index 7 is out of range for a dim of size 2"):
        module.search(np.array([1, 7], "i4"))


def test_any_thread_may_find_the_bad_index() -> None:
    module = tessera.compile(PROGRAM)
    tokens = indices((64, 512), 100)
    tokens[63, 511] = 100
    for _ in range(20):
        with pytest.raises(tessera.TesseraError, match="index 100 is out of range"):
            module.embed(numbers((100, 32)), tokens)


def test_places_that_are_none_whatever_the_sizes() -> None:
    """All memory beside arguments and results is empty, and known to be."""
    m = tessera.compile("def f(x: Tensor[N, M, f32]) where N >= 1:\n    return x[arange(N, N, 3, dtype=i32) % N]\n")
    assert m.f(numbers((2, 3))).shape == (0, 3)


TELLING = """
def at(x: Tensor[N, f32], i: Tensor[K, I]) -> Tensor[K, f32]:
    return x[i]

def start(x: Tensor[N, f32], i: I) -> Tensor[2, f32] where N >= 2:
    return slice(x, i, 2)

def put(x: Tensor[N, f32], i: Tensor[K, I]) -> Tensor[N, f32]:
    return x.at[i].set(1.0)
"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "u32", "i64", "u64"])
def test_an_index_that_is_out_of_range_is_told_as_it_was_given(dtype: str) -> None:
    """No index of any dtype counts from the end because it wrapped, and messages name what the caller gave."""
    m = tessera.compile(TELLING.replace("I]", f"{dtype}]").replace("i: I)", f"i: {dtype})"))
    x, kind = np.arange(5, dtype=np.float32), np.dtype(dtype.replace("i", "int").replace("u", "uint"))
    limits = np.iinfo(kind)
    for wrong in {5, 100, limits.max, *((-6, limits.min) if limits.min else ())}:
        end = {limits.max: " or more"} if limits.max >= 2**63 - 1 else {}
        told = min(max(wrong, 1 - 2**63), 2**63 - 1)
        least = " or less" if wrong == -(2**63) else ""
        for call in (m.at, m.put):
            with pytest.raises(tessera.TesseraError, match=f"index {told}{end.get(wrong, least)} is out of range"):
                call(x, np.array([wrong], kind))
        with pytest.raises(tessera.TesseraError, match="E0927"):
            m.start(x, kind.type(wrong))
    if limits.min:
        with pytest.raises(tessera.TesseraError, match="index -6 is out of range"):
            m.start(x, kind.type(-6))
        assert m.at(x, np.array([-1], kind)).tolist() == [4]
