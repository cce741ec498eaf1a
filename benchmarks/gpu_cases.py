"""What the four programs must compute on a GPU: inputs of awkward sizes and values, and the expected bits.

Enters: nothing but seeds. Leaves: cases, each with inputs and an expectation by the canonical orders of `numerics/`.
f32 results are compared to the bit (NaN equals NaN); bf16 products within the bound of one rounding and K additions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tesserac.numerics.elementary import program
from tesserac.numerics.order import block_sum, chain_contract, fold_max
from tesserac.numerics.program import evaluate
from tesserac.types.dtype import F32

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """`check` gives None, or what is wrong with the result."""

    name: str
    inputs: tuple[Array, ...]
    check: Callable[[Array], str | None]


def same_bits(expected: Array) -> Callable[[Array], str | None]:
    """Equal to the bit, except that any NaN equals any other."""

    def check(result: Array) -> str | None:
        if result.shape != expected.shape:
            return f"shape {result.shape} instead of {expected.shape}"
        word = np.uint32 if expected.dtype.itemsize == 4 else np.uint16
        differs = (result.view(word) != expected.view(word)) & ~(np.isnan(result) & np.isnan(expected))
        return describe(result, expected, differs) if differs.any() else None

    return check


def within(expected: Array, bound: Array) -> Callable[[Array], str | None]:
    """Within an absolute bound per element."""

    def check(result: Array) -> str | None:
        if result.shape != expected.shape:
            return f"shape {result.shape} instead of {expected.shape}"
        wide = result.astype(np.float64)
        differs = ~(np.abs(wide - expected) <= bound)
        return describe(wide, expected, differs) if differs.any() else None

    return check


def describe(result: Array, expected: Array, differs: Array) -> str:
    """The number of wrong elements, the first of them, the largest distance in units in the last place."""
    places = np.argwhere(differs)
    shown = [
        f"{tuple(int(i) for i in p)}: got {result[tuple(p)]!r} expected {expected[tuple(p)]!r}" for p in places[:4]
    ]
    count = f"{len(places)} of {differs.size} elements differ"
    rows = f"rows {places[:, 0].min()}..{places[:, 0].max()}" if places.size else ""
    columns = f"last dim {places[:, -1].min()}..{places[:, -1].max()}" if places.size else ""
    return "; ".join([count, f"max ulp {_ulp(result, expected, differs)}", rows, columns, *shown])


def _ulp(result: Array, expected: Array, differs: Array) -> str:
    if result.dtype != np.float32:
        return "n/a"
    both = [
        np.where(v >= 0, v, np.int64(-(2**31)) - v)
        for v in (x.view(np.int32).astype(np.int64) for x in (result, expected))
    ]
    finite = differs & np.isfinite(result) & np.isfinite(expected)
    return str(int(np.abs(both[0] - both[1])[finite].max())) if finite.any() else "not finite"


# --- inputs -------------------------------------------------------------------------------------------------------


def numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Values whose exponents are spread over twelve binades, so that the order of additions shows."""
    spread = np.exp2(rng.integers(-6, 7, shape))
    return np.asarray(rng.standard_normal(shape) * spread, np.float32)


SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3.4e38, -3.4e38, 1.0, -1.0, 2.0**-126, 104.0], np.float32
)


def vadd_cases() -> Iterator[Case]:
    rng = np.random.default_rng(1)
    for n in (0, 1, 3, 4, 127, 4095, 4096, 4097, 12345, 1 << 20, (1 << 20) + 1):
        x, y = numbers(rng, (n,)), numbers(rng, (n,))
        yield Case(f"N={n}", (x, y), same_bits(x + y))
    pairs = [a.reshape(-1).copy() for a in np.meshgrid(SPECIAL, SPECIAL)]
    with np.errstate(all="ignore"):
        yield Case("special values", (pairs[0], pairs[1]), same_bits(pairs[0] + pairs[1]))


def softmax_reference(x: Array) -> Array:
    with np.errstate(all="ignore"):
        whole = evaluate(program("exp_int", F32), x)
        top = fold_max(whole)[..., None]
        scaled = evaluate(program("ldexp", F32), evaluate(program("exp_frac", F32), x), whole - top)
        terms = np.where(whole == -np.inf, np.float32(0), scaled)
        rows = terms / block_sum(terms)[..., None]
        return np.asarray(np.where(np.isposinf(x).any(axis=-1, keepdims=True), np.float32(np.nan), rows))


def softmax_cases() -> Iterator[Case]:
    rng = np.random.default_rng(2)
    shapes = [(1, 1), (3, 5), (4, 0), (0, 7), (7, 64), (7, 511), (7, 512), (5, 513), (3, 1000), (3, 4096), (3, 4097)]
    shapes += [(2, 5000), (2, 8191), (2, 40000), (2, 57088), (2, 57089), (1, 100000), (300, 96)]
    for m, n in shapes:
        x = np.asarray(numbers(rng, (m, n)) * 4, np.float32)
        yield Case(f"M={m} N={n}", (x,), same_bits(softmax_reference(x)))
    rows = np.asarray(rng.standard_normal((10, 700)) * 50, np.float32)
    rows[0] = -np.inf
    rows[1, 5] = np.nan
    rows[2, 600] = np.inf
    rows[3, ::3] = -np.inf
    rows[4] *= 1e30
    rows[5] = -1e38
    rows[6] = 3e38
    rows[7, : len(SPECIAL)] = SPECIAL
    rows[8] = 0
    yield Case("special rows", (rows,), same_bits(softmax_reference(rows)))


def matmul_f32_cases() -> Iterator[Case]:
    rng = np.random.default_rng(3)
    shapes = [(1, 1, 1), (0, 5, 3), (3, 0, 5), (5, 7, 3), (128, 16, 128), (128, 32, 128), (129, 17, 131)]
    shapes += [(130, 515, 70), (132, 516, 72), (33, 4096, 40), (20, 4097, 36), (17, 9000, 33), (16, 12293, 16)]
    shapes += [(12, 20480, 20), (256, 1024, 256), (1, 300, 1000), (1000, 300, 1)]
    for m, k, n in shapes:
        a, b = numbers(rng, (m, k)), numbers(rng, (k, n))
        yield Case(f"M={m} K={k} N={n}", (a, b), same_bits(chain_contract(a, b)))


BF16_HALF_ULP = 2.0**-8
"""A relative bound that covers half a unit in the last place of bf16."""


def matmul_bf16_cases() -> Iterator[Case]:
    rng = np.random.default_rng(4)
    shapes = [(128, 64, 256), (128, 128, 256), (256, 512, 512), (1, 8, 8), (129, 72, 264), (100, 4104, 136)]
    shapes += [(3, 5, 7), (3, 0, 8), (0, 8, 8), (64, 8200, 128), (130, 515, 71), (72, 1000, 1000), (300, 20480, 40)]
    shapes += [(300, 1001, 301), (1031, 515, 1032), (264, 1000, 1001)]
    for m, k, n in shapes:
        a = numbers(rng, (m, k)).astype(ml_dtypes.bfloat16)
        b = numbers(rng, (k, n)).astype(ml_dtypes.bfloat16)
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        exact = wide_a @ wide_b
        error = np.abs(wide_a) @ np.abs(wide_b) * (2.0**-22 * (1 + np.sqrt(k)))
        yield Case(f"M={m} K={k} N={n}", (a, b), within(exact, BF16_HALF_ULP * np.abs(exact) + error + 1e-38))
