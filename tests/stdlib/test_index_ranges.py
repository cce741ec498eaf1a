"""Integers that name no place: which functions count negative ones from the end, which leave them out, and that all
others end the call, as PyTorch and SciPy do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessera

FROM_END = {
    "gather": "gather(x, i)",
    "index": "x[i]",
    "take": "take(x, i)",
    "take_along_axis": "take_along_axis(x, i, axis=0)",
    "scatter_add": "scatter_add(x, i, x)",
    "at": "x.at[i].add(1.0)",
}
FROM_START = {
    "embedding": "embedding(x[:, None], i)",
    "embedding_bag": "embedding_bag(x[:, None], i[None, :])",
    "cross_entropy": "cross_entropy(x[:, None] * ones(1, 4), i)",
    "nll": "nll(x[:, None] * ones(1, 4), i)",
    "multi_margin": "multi_margin(x[:, None] * ones(1, 4), i)",
    "max_unpool1d": "max_unpool1d(x[None, None, :], i[None, None, :], 2)[..., :4]",
    "ctc_loss": "ctc_loss(log_softmax(ones(9, 1, 4)), i[None, 1:], array([9]), array([3]))",
    "spmm_coo": "spmm_coo(i, array([0, 1, 2, 3]), x, ones(4, 1), 4)",
    "spmm_coo by columns": "spmm_coo(array([0, 1, 2, 3]), i, x, ones(4, 1), 4)",
    "sddmm": "sddmm(x[:, None], x[None, :], (i, i))",
    "roi_align": "roi_align(x[:, None, None, None], ones(4, 4), (1, 1), batch_indices=i)",
}
LEFT_OUT = {
    "segment_sum": ("segment_sum(x, i, 4)", 0.0),
    "segment_max": ("segment_max(x, i, 4)", -np.inf),
    "segment_prod": ("segment_prod(x, i, 4)", 1.0),
    "segment_softmax": ("segment_softmax(x, i, 4)", 0.0),
    "bincount": ("bincount(i, 4)", 0.0),
    "one_hot": ("sum(one_hot(i, 4), axis=0)", 0.0),
}
X, PLACES = np.array([1.0, 2.0, 3.0, 4.0], np.float32), np.array([0, 1, 2, 3])
BAD = (4, -5, 2**40, -(2**63))


def function(text: str) -> Any:
    return tessera.compile(f"def f(x: Tensor[4, f32], i: Tensor[4, i64]):\n    return {text}\n").f


def with_second(place: int) -> np.ndarray:
    return np.where(PLACES == 1, place, PLACES)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", FROM_END)
def test_what_counts_from_the_end(name: str) -> None:
    f = function(FROM_END[name])
    np.testing.assert_array_equal(f(X, with_second(-3)), f(X, PLACES))
    for place in BAD:
        with pytest.raises(tessera.TesseraError, match="E0927"):
            f(X, with_second(place))


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", FROM_START)
def test_what_names_a_class_or_a_place_counts_from_the_start(name: str) -> None:
    f = function(FROM_START[name])
    f(X, PLACES)
    for place in (-1, -3, *BAD):
        with pytest.raises(tessera.TesseraError, match=r"E0927.*index (-|\d)"):
            f(X, with_second(16 if name == "max_unpool1d" and place == 4 else place))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_in_no_segment_counts_nowhere(name: str) -> None:
    text, none = LEFT_OUT[name]
    f = function(text)
    usual = np.asarray(f(X, PLACES)).astype(np.float64)
    for place in (-1, *BAD):
        np.testing.assert_array_equal(f(X, with_second(place)), np.where(PLACES == 1, none, usual))


@pytest.mark.one_in(24)
def test_what_stands_behind_a_target_is_not_looked_at() -> None:
    text = "ctc_loss(log_softmax(ones(9, 1, 4)), i[None, :], array([9]), array([2]))"
    f = function(text)
    for behind in ((-1, -1), (-100, 7)):
        assert f(X, np.array([1, 2, *behind])) == f(X, np.array([1, 2, 3, 3]))
