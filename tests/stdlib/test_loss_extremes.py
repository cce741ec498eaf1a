"""Losses of sure answers, right and wrong, of infinite distances and of probabilities that are 0: values and slopes."""

import numpy as np
import pytest

from tests.support.native_runs import compiled_equals_oracle

PROGRAM = """
def entropy(x: Tensor[N, T], y: Tensor[N, T]):
    return bce(x, y), grad(bce, wrt=0)(x, y)
def logits(x: Tensor[N, T], y: Tensor[N, T]):
    a, b = grad(bce_with_logits, wrt=(0, 1))(x, y)
    return bce_with_logits(x, y), a, b
def distance(x: Tensor[N, T], y: Tensor[N, T]):
    return huber(x, y), grad(huber, wrt=0)(x, y)
def divergence(x: Tensor[N, T], y: Tensor[N, T]):
    a, b = grad(kl_div, wrt=(0, 1))(x, y)
    return kl_div(x, y), a, b
"""
KINDS = {"f32": np.float32, "f64": np.float64}


def run(dtype: str, name: str, x: list[float], y: list[float]) -> list[np.ndarray]:
    call, args = compiled_equals_oracle(f"T = {dtype}\n{PROGRAM}"), (np.array(v, KINDS[dtype]) for v in (x, y))
    return [np.asarray(v) for v in call(name, *args)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", KINDS)
def test_a_probability_of_0_or_1_costs_nothing_if_right_and_100_if_wrong(dtype: str) -> None:
    value, slope = run(dtype, "entropy", [0.0, 1.0], [0.0, 1.0])
    assert value == 0.0 and slope.tolist() == [0.5, -0.5]
    for probability in (0.0, 1.0):
        value, slope = run(dtype, "entropy", [probability], [1.0 - probability])
        assert value == 100.0 and slope.tolist() == [0.0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("x", "y"), [(40.0, 1.0), (-40.0, 0.0), (80.0, 1.0), (-80.0, 0.0)])
def test_a_sure_and_right_answer_costs_little_but_something(dtype: str, x: float, y: float) -> None:
    value, by_x, by_y = run(dtype, "logits", [x], [y])
    assert value == pytest.approx(np.exp(-abs(x)), rel=1e-6)
    assert by_x[0] == pytest.approx(-np.sign(x) * np.exp(-abs(x)), rel=1e-6)
    assert by_y[0] == -x


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", KINDS)
def test_logits_of_every_size(dtype: str) -> None:
    largest = float(np.finfo(KINDS[dtype]).max)
    for x, y, cost, slope in [(largest, 0.0, largest, 1.0), (-largest, 1.0, largest, -1.0), (largest, 1.0, 0.0, 0.0)]:
        value, by_x, _ = run(dtype, "logits", [x], [y])
        assert (float(value), float(by_x[0])) == (cost, slope)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", KINDS)
def test_an_infinite_distance_has_the_slope_of_a_far_one(dtype: str) -> None:
    value, slope = run(dtype, "distance", [np.inf], [0.0])
    assert value == np.inf and slope[0] == 1.0
    assert run(dtype, "distance", [-1e30], [0.0])[1][0] == -1.0


@pytest.mark.parametrize("dtype", KINDS)
def test_what_is_impossible_on_both_sides_diverges_by_nothing(dtype: str) -> None:
    value, by_q, by_p = run(dtype, "divergence", [-np.inf, 0.0], [0.0, 1.0])
    assert value == 0.0 and by_q.tolist() == [0.0, -1.0]
    assert by_p.tolist() == [0.0, 1.0]
