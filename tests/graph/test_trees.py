"""Structs and tuples leaf by leaf, and gradients of structs: what has no derivative drops out and is kept."""

from __future__ import annotations

import numpy as np
import pytest

import tessera

PROGRAM = """
struct Layer[D]:
    w: Tensor[D, f64]

struct Net[D]:
    first: Layer[D]
    rest: (Layer[D], Layer[D])
    steps: Tensor[i32]
    heads: int = 4

def loss(m: Net[D], x: Tensor[D, f64]) -> Tensor[f64]:
    return sum(m.first.w * x) * sum(m.rest[0].w) + sum(m.rest[1].w ** 2) * float(m.heads)

def step(m: Net[D], x: Tensor[D, f64], lr: f64) -> Net[D]:
    return m - lr * grad(loss)(m, x)

def moved(m: Net[D], x: Tensor[D, f64]):
    return tree_map(lambda a, b: (a + b, a * b), m, grad(loss)(m, x))

def norm(m: Net[D], x: Tensor[D, f64]) -> Tensor[f64]:
    total = cast(0.0, f64)
    for leaf in leaves(grad(loss)(m, x)):
        total = total + sum(leaf * leaf)
    return sqrt(total)

def frozen(m: Net[D], x: Tensor[D, f64]):
    return grad(lambda n: loss(Net(first=stop_gradient(n.first), rest=n.rest, steps=n.steps, heads=4), x))(m)

def all_frozen(m: Net[D], x: Tensor[D, f64]):
    return grad(lambda n: loss(stop_gradient(n), x) + sum(n.first.w))(m)

def unlike(a: Net[D], b: Layer[D]):
    return tree_map(lambda u, v: u + v, a, b)
"""


@pytest.fixture(scope="module")
def program() -> tessera.Module:
    return tessera.compile(PROGRAM.partition("def unlike")[0])


def net(program: tessera.Module, rng: np.random.Generator) -> object:
    layers = [program.Layer(w=rng.normal(size=3)) for _ in range(3)]
    return program.Net(first=layers[0], rest=(layers[1], layers[2]), steps=np.int32(7), heads=4)


def slopes(m: object, x: np.ndarray) -> list[np.ndarray]:
    return [x * np.sum(m.rest[0].w), np.full(3, np.sum(m.first.w * x)), 8 * m.rest[1].w]


@pytest.mark.one_in(2)
def test_gradients_stop_at_a_tree(program: tessera.Module) -> None:
    rng = np.random.default_rng(3)
    m, x = net(program, rng), rng.normal(size=3)
    part, none = program.frozen(m, x), program.all_frozen(m, x)
    assert not part.first.w.any()
    np.testing.assert_allclose(part.rest[0].w, slopes(m, x)[1])
    np.testing.assert_array_equal(none.first.w, np.ones(3))
    assert not none.rest[0].w.any() and not none.rest[1].w.any()


@pytest.mark.one_in(2)
def test_a_step_keeps_what_has_no_derivative(program: tessera.Module) -> None:
    rng = np.random.default_rng(0)
    m, x = net(program, rng), rng.normal(size=3)
    new = program.step(m, x, 0.1)
    expected = [w - 0.1 * g for w, g in zip((m.first.w, m.rest[0].w, m.rest[1].w), slopes(m, x), strict=True)]
    for found, wanted in zip((new.first.w, new.rest[0].w, new.rest[1].w), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)
    assert new.steps == 7


def test_tree_map_of_several_trees_and_results(program: tessera.Module) -> None:
    rng = np.random.default_rng(1)
    m, x = net(program, rng), rng.normal(size=3)
    added, multiplied = program.moved(m, x)
    np.testing.assert_allclose(added.rest[1].w, m.rest[1].w + slopes(m, x)[2], rtol=1e-14)
    np.testing.assert_allclose(multiplied.first.w, m.first.w * slopes(m, x)[0], rtol=1e-14)


def test_leaves(program: tessera.Module) -> None:
    rng = np.random.default_rng(2)
    m, x = net(program, rng), rng.normal(size=3)
    assert program.norm(m, x) == pytest.approx(np.sqrt(sum(np.sum(g * g) for g in slopes(m, x))), rel=1e-14)


def test_trees_that_differ_are_refused() -> None:
    with pytest.raises(tessera.TesseraError, match="a tree like"):
        tessera.compile(PROGRAM).step(None, None, None)
