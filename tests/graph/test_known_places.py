"""Gathers whose indices are in range by construction: which are left unchecked, and which must not be."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tests.support.source_support import compile_to_forms

HEAD = "def f(x: Tensor[8, f32], m: Tensor[M, f32], i: Tensor[N, i64], p: Tensor[N, f32]):\n    return {}\n"
INSIDE = (
    "x[clip(i, 0, 7)]",
    "x[minimum(maximum(cast(p, i64), 0), 7)]",
    "x[arange(8)]",
    "x[clip(i, 0, 1) * 4 + clip(cast(p, i64), 0, 3)]",
    "x[where(p > 0.0, clip(i, 0, 2), 7)]",
    "x[i % 8]",
    "x[clip(i, 0, 15) // 2]",
    "x[7 - clip(i, 0, 7)]",
    "x[argsort(x)]",
)
OUTSIDE = (
    "x[i]",
    "x[clip(i, -1, 7)]",
    "x[clip(i, 0, 8)]",
    "x[maximum(i, 0)]",
    "m[clip(i, 0, 7)]",
    "x[clip(i, 0, 1) * 4 + clip(cast(p, i64), 0, 4)]",
    "x[clip(i, 1, 4) * clip(i, 4611686018427387904, 4611686018427387907)]",
    "x[where(p > 0.0, clip(i, 0, 2), i)]",
    "x[i % 9]",
    "x[clip(i, 0, 16) // 2]",
    "x[clip(i, 0, 7) % clip(i, 0, 8)]",
    "x[6 - clip(i, 0, 7)]",
    "x[argsort(p)]",
)


def bounds(body: str) -> str:
    (gather,) = [op for op in compile_to_forms(HEAD.format(body)).walk() if op.name == "form.gather"]
    return str(gather.attrs["bounds"])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("body", INSIDE)
def test_indices_that_are_in_range_are_not_checked(body: str) -> None:
    assert bounds(body) == "known"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("body", OUTSIDE)
def test_all_others_are(body: str) -> None:
    """One may be below, above, of a size that is not known, or the product of two that wraps around."""
    assert bounds(body) == "wrap"


@pytest.mark.one_in(4)
def test_a_bad_index_still_ends_the_call() -> None:
    module = tessera.compile("def f(x: Tensor[8, f32], i: Tensor[N, i64]):\n    return x[minimum(i, 7)]\n")
    assert np.array_equal(module.f(np.arange(8, dtype="f4"), np.array([9, -1])), [7.0, 7.0])
    with pytest.raises(tessera.TesseraError, match="-9"):
        module.f(np.zeros(8, "f4"), np.array([1, -9]))
