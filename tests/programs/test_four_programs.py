"""The four programs of the spine, from source to a call: against NumPy within bounds, against the interpreter to the
bit, on one thread and on two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tessera
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.graph.interp import run_function
from tesserac.ir.core import Module
from tesserac.numerics.tiles import tile_contract
from tesserac.schedule.machine import AARCH64
from tesserac.target.cpu.build import host_platform
from tesserac.types import dtype as dtypes
from tests.support.paths import ROOT

EXAMPLES = ROOT / "examples"
BF16 = ml_dtypes.bfloat16
SIZES = st.one_of(st.sampled_from([0, 1, 2, 3, 7, 8, 12, 13, 31, 64, 65, 127]), st.integers(0, 300))
LONG = st.sampled_from([511, 512, 513, 1024, 4095, 4096, 4097, 8192, 10000, 20481])
"""Sizes at the borders of reduction blocks and of contraction segments."""

Arrays = tuple[np.ndarray, ...]


@pytest.fixture(scope="module", autouse=True)
def _restore_threads() -> object:
    count = tessera.get_num_threads()
    yield
    tessera.set_num_threads(count)


@dataclass(frozen=True)
class Program:
    """One function, compiled and interpreted; both are made when a test first asks for them."""

    file: str
    name: str

    @cached_property
    def interpreted(self) -> tuple[Module, str]:
        source = SourceFile(self.file, (EXAMPLES / self.file).read_text())
        session = Session(verify=True)
        function = session.function(source, self.name)
        return session.levels(source, function, AARCH64).forms, function.symbol

    @cached_property
    def compiled(self) -> Callable[..., np.ndarray]:
        function: Callable[..., np.ndarray] = getattr(tessera.load(EXAMPLES / self.file), self.name)
        return function

    def check_bits(self, *args: np.ndarray) -> np.ndarray:
        """The result, once the interpreter and both thread counts agree on every bit."""
        (expected,) = run_function(*self.interpreted, [np.ascontiguousarray(a) for a in args])
        return self.check_as(expected, *args)

    def check_as(self, expected: np.ndarray, *args: np.ndarray) -> np.ndarray:
        """The result, once both thread counts give these bits."""
        for threads in (1, 2):
            tessera.set_num_threads(threads)
            result = self.compiled(*args)
            assert result.dtype == expected.dtype and result.shape == expected.shape
            assert_same_bits(result, expected)
        return result


def assert_same_bits(result: np.ndarray, expected: np.ndarray) -> None:
    """Equal bits; any NaN equals any other."""
    bits = np.dtype(f"u{result.itemsize}")
    same = (result.view(bits) == expected.view(bits)) | (np.isnan(result) & np.isnan(expected))
    if not same.all():
        at = tuple(int(i) for i in np.argwhere(~same)[0])
        raise AssertionError(f"{(~same).sum()} of {same.size} differ; at {at}: {result[at]!r}, not {expected[at]!r}")


ADD = Program("vector_add.tess", "add")
SOFTMAX = Program("softmax.tess", "softmax_rows")
MATMUL = Program("matmul.tess", "matmul_f32")
MATMUL_BF16 = Program("matmul.tess", "matmul_bf16")

seeds = st.integers(0, 2**32 - 1)
layouts = st.sampled_from(["C", "F", "strided", "reversed"])


def random(seed: int, *shape: int) -> np.ndarray:
    """Normal values over 24 binades, so that the order of adding shows."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * np.exp2(rng.integers(-12, 12, shape))).astype(np.float32)


def laid_out(array: np.ndarray, layout: str) -> np.ndarray:
    """The same values in another memory layout."""
    match layout:
        case "F":
            return np.asfortranarray(array)
        case "strided":
            wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
            wide[..., ::2] = array
            return wide[..., ::2]
        case "reversed":
            return np.ascontiguousarray(array[::-1])[::-1]
    return array


@given(st.one_of(SIZES, LONG, st.just(1_000_003)), seeds, layouts)
def test_vector_add(n: int, seed: int, layout: str) -> None:
    x, y = random(seed, n), random(seed + 1, n)
    result = ADD.check_bits(laid_out(x, layout), y)
    assert np.array_equal(result, x + y)


@given(SIZES, st.one_of(SIZES, LONG), seeds, layouts)
@example(3, 100_000, 0, "C")
@example(1000, 1000, 0, "C")
def test_softmax(m: int, n: int, seed: int, layout: str) -> None:
    x = np.clip(random(seed, m, n), -1e4, 1e4)
    result = SOFTMAX.check_bits(laid_out(x, layout))
    if n == 0:
        return
    wide = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True).astype(np.float64))
    exact = wide / wide.sum(axis=1, keepdims=True)
    # exp is within 1.1 ulp, a sum of n positive terms within 1.5 log2(n) + 8 roundings, the quotient within half an ulp
    bound = (3 + 8 + 1.5 * np.log2(n + 1)) * 2.0**-24
    assert np.all(np.abs(result - exact) <= bound * exact + 2.0**-148)


SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, -1e-38, 88.0, -104.0, 2.0**22, -(2.0**23)]


@given(st.lists(st.lists(st.sampled_from(SPECIAL), min_size=3, max_size=3), min_size=1, max_size=20))
def test_softmax_corner_cases(rows: list[list[float]]) -> None:
    x = np.array(rows, np.float32)
    result = SOFTMAX.check_bits(x)
    for row, out in zip(x, result, strict=True):
        if np.isnan(row).any() or np.isposinf(row).any() or np.isneginf(row).all():
            assert np.isnan(out).all()
        else:
            assert np.all(out[np.isneginf(row)] == 0) and not np.signbit(out).any()
            assert abs(float(out.sum(dtype=np.float64)) - 1) < 1e-6


@given(SIZES, SIZES, st.one_of(SIZES, LONG), seeds, layouts, layouts)
@example(257, 391, 513, 0, "C", "C")
@example(5, 6, 4096 * 7 + 1, 0, "C", "F")
@example(512, 768, 700, 1, "C", "C")
def test_matmul_f32(m: int, n: int, k: int, seed: int, left: str, right: str) -> None:
    a, b = random(seed, m, k), random(seed + 1, k, n)
    if m * n * k > 2**24:
        m, n = min(m, 32), min(n, 64)
        a, b = a[:m], b[:, :n]
    result = MATMUL.check_bits(laid_out(a, left), laid_out(b, right))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    # a chain of 4096 fma and a tree: at most 4096 + log2(segments) roundings of partial sums
    scale = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    assert np.all(np.abs(result - exact) <= (min(k, 4096) + 16) * 2.0**-24 * scale + 1e-44)


@given(SIZES, SIZES, st.one_of(SIZES, LONG), seeds)
def test_matmul_bf16(m: int, n: int, k: int, seed: int) -> None:
    m, n = (m, n) if m * n * k <= 2**24 else (min(m, 32), min(n, 64))
    a, b = (random(s, *shape).astype(BF16) for s, shape in ((seed, (m, k)), (seed + 1, (k, n))))
    in_tiles = host_platform().schedule.uses_tiles(dtypes.BF16, dtypes.F32)
    result = check_tiles(a, b) if in_tiles else MATMUL_BF16.check_bits(a, b)
    result = result.astype(np.float64)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    # products of bf16 are exact in f32; the sum is rounded as above, and once to 8 significant bits
    bound = (min(k, 4096) + 16) * 2.0**-24 * scale + 2.0**-8 * np.abs(exact) + 1e-38
    assert np.all(np.abs(result - exact) <= bound)


def check_tiles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where a core has a matrix unit, products of bf16 have its order, not that of the interpreter."""
    expected = tile_contract(a.astype(np.float32), b.astype(np.float32)).astype(BF16)
    return MATMUL_BF16.check_as(expected, a, b)


def test_a_row_alone_equals_the_row_in_a_batch() -> None:
    a, b = random(0, 100, 700), random(1, 700, 50)
    whole = MATMUL.check_bits(a, b)
    for row in (0, 1, 57, 99):
        assert_same_bits(MATMUL.compiled(a[row : row + 1], b), whole[row : row + 1])


def test_infinities_and_nan_stay_in_their_rows_and_columns() -> None:
    a, b = random(0, 70, 600), random(1, 600, 40)
    a[3, 5], a[50, 599], b[7, 30] = np.inf, np.nan, -np.inf
    result = MATMUL.check_bits(a, b)
    touched = np.zeros(result.shape, bool)
    touched[[3, 50], :] = touched[:, 30] = True
    assert np.isfinite(result[~touched]).all() and not np.isfinite(result[touched]).any()
