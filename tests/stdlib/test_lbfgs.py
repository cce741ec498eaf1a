"""L-BFGS: Rosenbrock's function is minimised, as a tree, in few steps; steps are those of a reference in NumPy; none
goes up; where there is nothing lower the weights stay."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import tessera
from tests.support.optim_references import Lbfgs

ROSENBROCK = """
struct Point[N]:
    x: Tensor[N, f64]
    y: Tensor[N, f64]

def rosenbrock(p: Point[N]) -> Tensor[f64]:
    return sum((1.0 - p.x) ** 2.0 + 100.0 * (p.y - p.x * p.x) ** 2.0)

def start(p: Point[N]): return lbfgs_init(rosenbrock, p, history=5)

def step(p: Point[N], state: LBFGSState): return lbfgs(rosenbrock, p, state)

def minimised(p: Point[N], *, steps: int = 40):
    state = lbfgs_init(rosenbrock, p, history=5)
    for i in range(steps):
        p, state = lbfgs(rosenbrock, p, state)
    return p, state.value
"""


@pytest.fixture(scope="module")
def program() -> tessera.Module:
    return tessera.compile(ROSENBROCK)


@pytest.mark.one_in(4)
def test_rosenbrock(program: tessera.Module) -> None:
    found, value = program.minimised(program.Point(x=np.array([-1.2]), y=np.array([1.0])))
    assert value < 1e-20
    np.testing.assert_allclose([found.x, found.y], 1.0, rtol=1e-9)


@pytest.mark.one_in(16)
def test_every_step_goes_down(program: tessera.Module) -> None:
    point = program.Point(x=np.array([-1.2, 3.0, 0.0]), y=np.array([1.0, -2.0, -1.0]))
    state = program.start(point)
    values = [float(state.value)]
    for _ in range(15):
        point, state = program.step(point, state)
        assert state.value == program.rosenbrock(point)
        values.append(float(state.value))
    assert all(after < before for before, after in pairwise(values))
    assert values[-1] < 0.1 * values[0] and state.step == 15


@pytest.mark.one_in(4)
def test_at_the_minimum_the_weights_stay(program: tessera.Module) -> None:
    point = program.Point(x=np.ones(2), y=np.ones(2))
    same, state = program.step(point, program.start(point))
    assert np.array_equal(same.x, point.x) and np.array_equal(same.y, point.y) and state.value == 0.0
    assert not state.inverse.any(), "a step that did not move tells nothing"


QUADRATIC = """
struct Part[N]:
    v: Tensor[N, f64]
    seen: Tensor[i32]

def value(p: List[2, Part[N]], a: Tensor[2*N, 2*N, f64], b: Tensor[2*N, f64]) -> Tensor[f64]:
    x = concat([part.v for part in p])
    return 0.5 * sum(x * (a @ x)) - sum(b * x)

def start(p: List[2, Part[N]], a: Tensor[2*N, 2*N, f64], b: Tensor[2*N, f64]) -> LBFGSState[List[2, Part[N]]]:
    return lbfgs_init(lambda w: value(w, a, b), p, history=3)

def step(
    p: List[2, Part[N]], state: LBFGSState[List[2, Part[N]]], a: Tensor[2*N, 2*N, f64], b: Tensor[2*N, f64]
):
    return lbfgs(lambda w: value(w, a, b), p, state)
"""


@pytest.mark.one_in(16)
def test_steps_on_a_list_of_structs_are_those_of_the_reference() -> None:
    module = tessera.compile(QUADRATIC)
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    a, b, x = root @ root.T + np.eye(6), rng.normal(size=6), rng.normal(size=6)
    parts = [module.Part(v=half, seen=np.int32(7)) for half in np.split(x, 2)]
    state, reference = module.start(parts, a, b), Lbfgs(a, b, 3)
    for _ in range(6):
        parts, state = module.step(parts, state, a, b)
        x = reference.step(x)
        np.testing.assert_allclose(np.concatenate([part.v for part in parts]), x, rtol=1e-9, atol=1e-10)
    assert state.step == 6 and parts[0].seen == 7
