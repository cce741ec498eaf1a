"""The canonical orders, against their definition spelled out element by element."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tesserac.numerics.exact import fma
from tesserac.numerics.order import (
    Blocks,
    Chain,
    binary_counter,
    block_prod,
    block_sum,
    chain_contract,
    fold_max,
    fold_min,
    tree,
)

SIZES = [0, 1, 2, 63, 64, 65, 511, 512, 513, 1024, 1537, 5000]


@given(st.integers(1, 300))
def test_tree_and_counter_agree(count: int) -> None:
    """The grouping is compared itself, as nested tuples."""
    join = lambda a, b: (a, b)  # noqa: E731
    assert tree(list(range(count)), join) == binary_counter(range(count), join)


def test_tree_shape() -> None:
    join = lambda a, b: f"({a}{b})"  # noqa: E731
    assert tree(list("abcdefg"), join) == "(((ab)(cd))((ef)g))"


@given(st.integers(1, 6), st.integers(1, 200))
def test_tree_may_be_cut_at_powers_of_two(level: int, count: int) -> None:
    """Two workers that fold aligned parts and combine them reproduce the tree of all."""
    join = lambda a, b: (a, b)  # noqa: E731
    cut = 2**level
    parts = [tree(list(range(i, min(i + cut, count))), join) for i in range(0, count, cut)]
    assert tree(parts, join) == tree(list(range(count)), join)


def sum_by_definition(x: np.ndarray) -> np.float32:
    blocks = []
    for start in range(0, len(x), 512):
        block = x[start : start + 512]
        lanes = [_ascending(block[i::64]) for i in range(64)]
        for half in (32, 16, 8, 4, 2, 1):
            lanes = [_add(lanes[i], lanes[i + half]) for i in range(half)]
        blocks.append(lanes[0])
    total = tree(blocks, _add) if blocks else np.float32(0)
    return np.float32(0) if total is None else total + np.float32(0)


def _ascending(values: np.ndarray) -> np.float32 | None:
    total = None
    for value in values:
        total = _add(total, value)
    return total


def _add(a: np.float32 | None, b: np.float32 | None) -> np.float32 | None:
    """Absent elements are skipped."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    """Widely spread magnitudes, so that every other order shows."""
    return (rng.normal(size=shape) * 10.0 ** rng.integers(-6, 6, shape)).astype(dtype)


@pytest.mark.parametrize("size", SIZES)
def test_block_sum_is_its_definition(size: int) -> None:
    x = random(np.random.default_rng(size), (size,))
    result = block_sum(x)
    assert result.dtype == np.float32 and result == sum_by_definition(x)


def test_block_sum_keeps_leading_axes() -> None:
    x = random(np.random.default_rng(0), (3, 2, 700))
    result = block_sum(x)
    assert result.shape == (3, 2)
    assert all(result[i, j] == sum_by_definition(x[i, j]) for i in range(3) for j in range(2))


@pytest.mark.parametrize("value", [-0.0, 0.0])
def test_a_zero_sum_is_plus_zero(value: float) -> None:
    assert not np.signbit(block_sum(np.full((100,), value, np.float32)))
    assert not np.signbit(chain_contract(np.full((1, 5), value, "f4"), np.ones((5, 1), "f4")))


def test_padding_never_shows() -> None:
    rng = np.random.default_rng(1)
    a, b = random(rng, (3, 77)), random(rng, (77, 4))
    padded = chain_contract(np.pad(a, ((0, 0), (0, 51))), np.pad(b, ((0, 51), (0, 0))))
    assert np.array_equal(padded, chain_contract(a, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("terms", [0, 1, 7, 20, 21])
def test_contraction_is_its_definition(terms: int, dtype: type) -> None:
    """A short segment length shows the tree."""
    rng = np.random.default_rng(terms)
    a, b = random(rng, (2, terms), dtype), random(rng, (terms, 3), dtype)
    result = chain_contract(a, b, Chain(4))
    assert result.dtype == dtype
    for i, j in np.ndindex(2, 3):
        segments = []
        for start in range(0, terms, 4):
            acc = np.zeros((), dtype)
            for k in range(start, min(start + 4, terms)):
                acc = fma(a[i, k], b[k, j], acc)
            segments.append(acc)
        assert result[i, j] == (tree(segments, np.add) if segments else 0)


def test_contraction_of_one_row_equals_that_row_of_many() -> None:
    rng = np.random.default_rng(2)
    a, b = random(rng, (5, 5000)), random(rng, (5000, 6))
    assert np.array_equal(chain_contract(a, b)[2:3, 1:4], chain_contract(a[2:3], b[:, 1:4]))


def test_contraction_broadcasts_batches() -> None:
    rng = np.random.default_rng(3)
    a, b = random(rng, (4, 1, 2, 9)), random(rng, (3, 9, 5))
    result = chain_contract(a, b)
    assert result.shape == (4, 3, 2, 5)
    assert np.array_equal(result[1, 2], chain_contract(a[1, 0], b[2]))


def test_integers_wrap() -> None:
    x = np.full((3,), 2**30, np.int32)
    assert block_sum(x) == np.int32(-(2**30)) and block_prod(x) == 0
    assert chain_contract(x[None], np.full((3, 1), 2, np.int32)) == np.int32(-(2**31))


@pytest.mark.parametrize("name", ["int4", "uint4", "int8", "uint8"])
def test_integers_of_few_bits_wrap(name: str) -> None:
    """NumPy knows those of four bits by no kind of their own."""
    rng, dtype = np.random.default_rng(0), np.dtype(getattr(ml_dtypes, name, name))
    a, b = rng.integers(-128, 128, (3, 9)), rng.integers(-128, 128, (9, 2))
    for found, wide in (
        (chain_contract(a.astype(dtype), b.astype(dtype)), a @ b),
        (block_sum(a.astype(dtype)), a.sum(axis=-1)),
        (block_prod(a.astype(dtype)), a.prod(axis=-1)),
    ):
        assert found.dtype == dtype and np.array_equal(found, wide.astype(dtype))


def test_product_order_and_identity() -> None:
    x = random(np.random.default_rng(4), (65,))
    lanes = np.concatenate([x[:1] * x[64:], x[1:64]])
    for half in (32, 16, 8, 4, 2, 1):
        lanes = lanes[:half] * lanes[half : 2 * half]
    assert block_prod(x) == lanes[0]
    assert block_prod(x[:0]) == 1


@given(st.lists(st.floats(width=32), max_size=20))
def test_extremes_have_no_order(values: list[float]) -> None:
    x = np.array(values, np.float32)
    for fold, worst in ((fold_max, -np.inf), (fold_min, np.inf)):
        forward, backward = fold(x), fold(x[::-1])
        assert np.array_equal(forward, backward, equal_nan=True)
        assert np.isnan(forward) or np.signbit(forward) == np.signbit(backward)
        if not values:
            assert forward == worst
        assert np.isnan(forward) == np.isnan(x).any()


def test_empty_extremes_of_integers() -> None:
    empty = np.zeros((2, 0), np.int32)
    assert fold_max(empty).tolist() == [-(2**31)] * 2
    assert fold_min(empty).tolist() == [2**31 - 1] * 2


def test_orders_are_values() -> None:
    assert Chain() == Chain(4096) and Blocks() == Blocks(512, 64) and hash(Chain()) == hash(Chain(4096))
