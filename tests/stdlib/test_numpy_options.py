"""Options as NumPy and PyTorch write them: values against NumPy, or what PyTorch documents. Their gradients are in
`test_asked_names`."""

from __future__ import annotations

import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tests.support.checking import check_text
from tests.support.folding import folded
from tests.support.source_support import compile_to_forms

RNG = np.random.default_rng(5)
X, J = RNG.normal(size=(3, 5)), RNG.integers(-9, 9, (3, 5)).astype(np.int32)
RUNS = np.array([1.0, 1.0, 2.0, np.nan, np.nan, 1.0, 1.0, 1.0])
WIDTHS = ((1, 2), (3, 0))
NORMS = ("1", "-1", "2", "-2", "INF", "-INF", "'fro'", "'nuc'")
CASES = {
    "roll(x, 4)": np.roll(X, 4),
    "roll(x, -17)": np.roll(X, -17),
    "roll(x, (1, -2), axis=(0, 1))": np.roll(X, (1, -2), (0, 1)),
    "roll(x, 2, axis=(0, -1))": np.roll(X, 2, (0, 1)),
    "roll(x, 1, axis=-1)": np.roll(X, 1, -1),
    "clip(x, a_min=-0.5, a_max=0.25)": np.clip(X, -0.5, 0.25),
    "clip(x, a_max=0.25)": np.minimum(X, 0.25),
    "trace(x[:, 1:4], 1)": np.trace(X[:, 1:4], 1),
    "trace(x)": np.trace(X),
    "trace(x, -1)": np.trace(X, -1),
    "x.tile(2, 3)": np.tile(X, (2, 3)),
    "tile(x, reps=2)": np.tile(X, 2),
    "tile(x, dims=(2, 1, 2))": np.tile(X, (2, 1, 2)),
    **{
        f'correlate(x[0, :{n}], x[1, :{m}], "same")': np.correlate(X[0, :n], X[1, :m], "same")
        for n, m in ((2, 5), (3, 5), (4, 5), (5, 4), (5, 3), (4, 4))
    },
    **{
        f'meshgrid(x[0], x[:, 1], sparse=True, indexing="{order}")[{i}]': np.meshgrid(
            X[0], X[:, 1], sparse=True, indexing=order
        )[i]
        for order in ("xy", "ij")
        for i in (0, 1)
    },
    "reshape(x[:0], (0, 5, -1))": np.zeros((0, 5, 1)),
    "unfold(x[:0, :, None, None] + zeros(1, 1, 2, 3, dtype=x.dtype), (1, 2))": np.zeros((0, 10, 4)),
    "trace(x[:, 1:4], offset=-2)": np.trace(X[:, 1:4], -2),
    "pad(x, ((1, 2), (3, 0)), constant_values=2.5)": np.pad(X, WIDTHS, constant_values=2.5),
    "pad(x, ((1, 2), (3, 0)), constant_values=(1, -2.0))": np.pad(X, WIDTHS, constant_values=(1, -2)),
    "pad(x, 2, constant_values=((1.0, 2.0), (3.0, 4.0)))": np.pad(X, 2, constant_values=((1, 2), (3, 4))),
    "pad(x, 1, 2, axis=1, constant_values=(1.0, 2.0))": np.pad(X, ((0, 0), (1, 2)), constant_values=(1, 2)),
    "pad(j, 1, constant_values=(7, -7))": np.pad(J, 1, constant_values=(7, -7)),
    **{
        f'pad({name}, ((1, 2), (3, 0)), mode="{mode}")': np.pad(value, WIDTHS, mode=mode)
        for mode in ("maximum", "mean", "minimum")
        for name, value in (("x", X), ("j", J))
    },
    'pad(x, ((1, 2), (3, 0)), mode="linear_ramp")': np.pad(X, WIDTHS, mode="linear_ramp"),
    'pad(x, 3, mode="linear_ramp", end_values=(1, -2.0))': np.pad(X, 3, mode="linear_ramp", end_values=(1, -2)),
    **{
        f'pad({name}, ((1, 2), (3, 0)), mode="{mode}", stat_length={length})': np.pad(
            value, WIDTHS, mode=mode, stat_length=length
        )
        for mode, length in (("median", None), ("median", 2), ("mean", (1, 9)), ("minimum", ((2, 1), (3, 2))))
        for name, value in (("x", X), ("j", J))
    },
    "repeat(x, 2)": np.repeat(X, 2),
    "repeat(x[0], repeats=3)": np.repeat(X[0], 3),
    "repeat(x, repeats=3, axis=1)": np.repeat(X, 3, 1),
    "take_along_axis(x, array([[2], [0], [4]]), axis=1)": X[np.arange(3), [2, 0, 4]][:, None],
    "take_along_axis(x, array([[2], [0]]), axis=0)": np.take_along_axis(X, np.array([[2], [0]]), 0),
    "take_along_axis(x[:1], j % 5, axis=1)": np.take_along_axis(X[:1], J % 5, 1),
    "tril(x > 0.0)": np.tril(X > 0.0),
    "triu(x > 0.0, 1)": np.triu(X > 0.0, 1),
    **{f"norm(x, ord={o})": np.linalg.norm(X, eval(o, {"INF": np.inf})) for o in NORMS},
    **{
        f"norm(x[None], ord={o}, axis=(2, 1), keep=True)": np.linalg.norm(
            X[None], eval(o, {"INF": np.inf}), (2, 1), keepdims=True
        )
        for o in NORMS
    },
    **{
        f"norm(x, ord={o}, axis=0)": np.linalg.norm(X, eval(o, {"INF": np.inf}), 0)
        for o in ("INF", "-INF", "0", "1", "2", "3", "-1", "0.5")
    },
    "gcd(j, 12)": np.gcd(J, 12).astype(np.int32),
    "gcd(j, j[::-1])": np.gcd(J, J[::-1]),
    "lcm(j, j[::-1])": np.lcm(J, J[::-1]),
    "modf(x * 3.0)[0]": np.modf(X * 3.0)[0],
    "modf(x * 3.0)[1]": np.modf(X * 3.0)[1],
    "geomspace(1.0, 1000.0, 4, dtype=f64)": np.geomspace(1.0, 1000.0, 4),
    "geomspace(-2.0, -8.0, 7, dtype=f64)": np.geomspace(-2.0, -8.0, 7),
    "split_with_sizes(x, (1, 4), axis=1)[1]": X[:, 1:],
    "x.masked_fill(x < 0.0, 7.0)": np.where(X < 0.0, 7.0, X),
    "fill_diagonal(x, 7.0)": np.where(np.eye(3, 5, dtype=bool), 7.0, X),
    "cumulative_trapezoid(x, dx=2.0)": np.cumsum(X[:, 1:] + X[:, :-1], 1),
    "cumulative_trapezoid(x, x[:, 0], axis=0)": np.cumsum((X[1:] + X[:-1]) / 2 * np.diff(X[:, :1], axis=0), 0),
    "sort(partition(x, 2)[:, :2])": np.sort(np.partition(X, 2)[:, :2]),
    "partition(x, (1, -1), axis=0)[1]": np.partition(X, (1, -1), axis=0)[1],
    "take_along_axis(x, argpartition(x, -2), axis=1)[:, 3]": np.partition(X, -2)[:, 3],
    "unique_consecutive(r, size=5)": np.array([1.0, 2.0, np.nan, 1.0, 1.0]),
    "unique_consecutive(r, size=5, return_counts=True)[1]": np.array([2, 1, 2, 3, 0]),
    "unique_consecutive(r, size=2, return_inverse=True)[1]": np.array([0, 0, 1, 2, 2, 3, 3, 3]),
    "unique_consecutive(j[array([0, 0, 2, 2, 0])], size=3, axis=0)": J[[0, 2, 0]],
    # torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 15)
    "fake_quantize(x, 0.1, 3, quant_min=0, quant_max=15)": (np.clip(np.rint(X / 0.1) + 3, 0, 15) - 3) * 0.1,
}
SLOPE = """
def slope(x: Tensor[M, N, f64]):
    return grad(lambda y: sum(fake_quantize(y, 0.1, 3, quant_min=0, quant_max=15)))(x)
"""


@pytest.mark.one_in(24)
@folded("call", CASES, one_in=12)
def test_values_are_those_of_numpy(call: str) -> None:
    head = "def f(x: Tensor[3, 5, f64], j: Tensor[3, 5, i32], r: Tensor[8, f64])"
    (found,) = run_function(compile_to_forms(f"{head}:\n    return {call}\n"), "m.f", [X, J, RUNS])
    assert found.dtype == CASES[call].dtype
    np.testing.assert_allclose(found, CASES[call], rtol=1e-14, atol=1e-15)


@pytest.mark.one_in(12)
def test_the_slope_of_a_range() -> None:
    (slope,) = run_function(compile_to_forms(SLOPE), "m.slope", [X])
    place = np.rint(X / 0.1) + 3
    np.testing.assert_array_equal(slope, ((place >= 0) & (place <= 15)).astype(np.float64))


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("roll(x, (1, 2))", "shifts of several axes"),
        ("roll(x, (1, 2, 3), axis=(0, 1))", "one shift for each axis"),
        ("clip(x, 0.0, a_min=1.0)", "two of its names"),
        ("partition(x, 5)", "behind the last element"),
        ("partition(x, (0, -6))", "before the first element"),
        ('pad(x, 1, mode="edge", constant_values=1.0)', "has a `value`"),
        ("pad(x, 1, end_values=1.0)", "`end_values` are of mode"),
        ("pad(x, 1, value=1.0, constant_values=1.0)", "are the same"),
        ('pad(x, 1, mode="middle")', "mode is constant, edge"),
        ("fake_quantize(x, 0.1, quant_max=128)", "the dtype holds the range"),
        ("fake_quantize(x, 0.1, dtype=fp8_e4m3, quant_max=12)", "are of integers"),
    ],
)
def test_what_does_not_fit_is_told(call: str, reason: str) -> None:
    (error,) = check_text(f"def f(x: Tensor[3, 5, f32]):\n    return {call}\n").diagnostics
    assert reason in error.primary.text
