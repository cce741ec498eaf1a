"""Gradients through loops: `while`, loops of sizes and of the run, nested ones, and what `checkpoint` keeps of them."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from benchmarks import ad_memory
from tests.graph.test_grad import numerically

PROGRAM = """
def newton(a: Tensor[f64]) -> Tensor[f64]:
    x = a
    while abs(x * x - a) > 1e-14 * a:
        x = 0.5 * (x + a / x)
    return x

def newton_slope(a: Tensor[f64]) -> (Tensor[f64], Tensor[f64]):
    return value_and_grad(newton)(a)

def newton_change(a: Tensor[f64], da: Tensor[f64]) -> (Tensor[f64], Tensor[f64]):
    return jvp(newton, (a,), (da,))

def newton_curve(a: Tensor[f64]) -> Tensor[f64]:
    return grad(grad(newton))(a)

def bounded(a: Tensor[f64]) -> Tensor[f64]:
    x = a
    with checkpoint(max_steps=8):
        while abs(x * x - a) > 1e-14 * a:
            x = 0.5 * (x + a / x)
    return x

def bounded_slope(a: Tensor[f64]) -> (Tensor[f64], Tensor[f64]):
    return value_and_grad(bounded)(a)

def counted(x: Tensor[N, f64], w: Tensor[N, f64], n: i64) -> Tensor[f64]:
    y = x
    for i in range(n):
        y = sin(y) * w + 0.01 * cast(i, f64) * x
    return sum(y * x)

def counted_slope(x: Tensor[N, f64], w: Tensor[N, f64], n: i64) -> (Tensor[N, f64], Tensor[N, f64]):
    return grad(counted, wrt=("x", "w"))(x, w, n)

def every_third(x: Tensor[N, f64], w: Tensor[N, f64], n: i64) -> Tensor[f64]:
    y = x
    with checkpoint(every=3):
        for i in range(n):
            y = sin(y) * w + 0.01 * cast(i, f64) * x
    return sum(y * x)

def every_third_slope(x: Tensor[N, f64], w: Tensor[N, f64], n: i64) -> (Tensor[N, f64], Tensor[N, f64]):
    return grad(every_third, wrt=("x", "w"))(x, w, n)

def collatz(x: Tensor[f64], start: i64) -> Tensor[f64]:
    n = start
    y = x
    while n != 1:
        if n % 2 == 0:
            n = n // 2
            y = y * x
        else:
            n = 3 * n + 1
            y = sin(y) + x
    return y

def collatz_slope(x: Tensor[f64], start: i64) -> Tensor[f64]:
    return grad(collatz)(x, start)

def whiles_in_whiles(x: Tensor[f64]) -> Tensor[f64]:
    y = x
    while y < 30.0:
        y = y * 1.5 + x
        while y < 20.0:
            y = y * 1.25 + x
            assert y > x
            while y < 10.0:
                y = y * 1.03125 + x
                assert y > x
    return y

def whiles_slope(x: Tensor[f64]) -> (Tensor[f64], Tensor[f64]):
    return value_and_grad(whiles_in_whiles)(x)

def early(x: Tensor[N, f64], limit: Tensor[f64]) -> Tensor[f64]:
    y = 0.0 * x[0]
    for i in range(N):
        if x[i] < 0.0:
            continue
        y = y * 0.5 + x[i] * x[i]
        if y > limit:
            break
    return y * y

def early_slope(x: Tensor[N, f64], limit: Tensor[f64]) -> Tensor[N, f64]:
    return grad(early)(x, limit)

def prefix(x: Tensor[N, f64]) -> Tensor[f64]:
    y = 0.0 * x[0]
    for i in range(N):
        y = y + sin(sum(x[:i] * x[:i])) * x[i]
    return y

def prefix_slope(x: Tensor[N, f64]) -> Tensor[N, f64]:
    return grad(prefix)(x)

def triangle(x: Tensor[N, f64]) -> Tensor[f64]:
    y = x[0]
    for i in range(N):
        for j in range(i):
            y = y * cos(x[j]) + x[i] * x[j]
    return y

def triangle_slope(x: Tensor[N, f64]) -> Tensor[N, f64]:
    return grad(triangle)(x)

def in_place(x: Tensor[N, f64], a: Tensor[f64]) -> Tensor[f64]:
    y = x * 1.0
    for i in range(1, N):
        y[i] = sin(y[i - 1]) * a + y[i] * y[i]
    return sum(y * y)

def in_place_slope(x: Tensor[N, f64], a: Tensor[f64]) -> (Tensor[N, f64], Tensor[f64]):
    return grad(in_place, wrt=(0, 1))(x, a)

struct State[N]:
    place: Tensor[N, f64]
    speed: Tensor[N, f64]
    turns: i64

def swing(k: Tensor[N, f64], steps: i64) -> Tensor[f64]:
    s = State(place=k * 0.0 + 1.0, speed=k * 0.0, turns=steps * 0)
    while s.turns < steps:
        speed = s.speed - 0.1 * k * sin(s.place)
        s = State(place=s.place + 0.1 * speed, speed=speed, turns=s.turns + 1)
    return sum(s.place)

def swing_slope(k: Tensor[N, f64], steps: i64) -> Tensor[N, f64]:
    return grad(swing)(k, steps)

def plain(w: Tensor[N, f64], x: Tensor[T, N, f64]) -> Tensor[f64]:
    h = zeros(N, dtype=f64)
    for t in range(T):
        h = tanh(h * w + x[t])
    return sum(h * w)

def plain_slope(w: Tensor[N, f64], x: Tensor[T, N, f64]) -> (Tensor[N, f64], Tensor[T, N, f64]):
    return grad(plain, wrt=(0, 1))(w, x)

def cut(w: Tensor[N, f64], x: Tensor[T, N, f64]) -> Tensor[f64]:
    h = zeros(N, dtype=f64)
    with checkpoint(every=4):
        for t in range(T):
            h = tanh(h * w + x[t])
    return sum(h * w)

def cut_slope(w: Tensor[N, f64], x: Tensor[T, N, f64]) -> (Tensor[N, f64], Tensor[T, N, f64]):
    return grad(cut, wrt=(0, 1))(w, x)

def tree(w: Tensor[N, f64], x: Tensor[T, N, f64]) -> Tensor[f64]:
    h = zeros(N, dtype=f64)
    with checkpoint(slots=8):
        for t in range(T):
            h = tanh(h * w + x[t])
    return sum(h * w)

def tree_slope(w: Tensor[N, f64], x: Tensor[T, N, f64]) -> (Tensor[N, f64], Tensor[T, N, f64]):
    return grad(tree, wrt=(0, 1))(w, x)

def layer(x: Tensor[N, f64], w: Tensor[N, f64]) -> Tensor[N, f64]:
    return tanh(x * w) * exp(x)

def deep(w: Tensor[N, f64], x: Tensor[N, f64]) -> Tensor[f64]:
    return sum(layer(layer(layer(x, w), w), w))

def deep_slope(w: Tensor[N, f64], x: Tensor[N, f64]) -> Tensor[N, f64]:
    return grad(deep)(w, x)

def deep_again(w: Tensor[N, f64], x: Tensor[N, f64]) -> Tensor[f64]:
    step = checkpoint(layer)
    return sum(step(step(remat(layer)(x, w), w), w))

def deep_again_slope(w: Tensor[N, f64], x: Tensor[N, f64]) -> Tensor[N, f64]:
    return grad(deep_again)(w, x)

def deep_again_curve(w: Tensor[N, f64], x: Tensor[N, f64]) -> Tensor[N, f64]:
    return grad(lambda v: sum(grad(deep_again)(v, x)))(w)

def deep_curve(w: Tensor[N, f64], x: Tensor[N, f64]) -> Tensor[N, f64]:
    return grad(lambda v: sum(grad(deep)(v, x)))(w)
"""


@pytest.fixture(scope="module")
def program() -> tessera.Module:
    return tessera.compile(PROGRAM)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("a", [0.3, 2.0, 1e6])
def test_newton_iterations(program: tessera.Module, a: float) -> None:
    value, slope = program.newton_slope(a)
    assert value == program.newton(a)
    np.testing.assert_allclose([value, slope], [np.sqrt(a), 0.5 / np.sqrt(a)], rtol=1e-12)
    np.testing.assert_allclose(program.newton_change(a, 2.0), [np.sqrt(a), 1.0 / np.sqrt(a)], rtol=1e-12)
    np.testing.assert_allclose(program.newton_curve(a), -0.25 * a**-1.5, rtol=1e-9)


@pytest.mark.one_in(3)
def test_a_bound_on_turns_is_checked(program: tessera.Module) -> None:
    np.testing.assert_array_equal(program.bounded_slope(2.0), program.newton_slope(2.0))
    assert program.bounded(1e8) == program.newton(1e8)
    with pytest.raises(tessera.TesseraError, match="more iterations than `max_steps`"):
        program.bounded_slope(1e8)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("turns", [0, 1, 7, 128, 129, 1000])
def test_turns_that_the_run_counts(program: tessera.Module, turns: int) -> None:
    """More than the rows of the stacks goes by segments."""
    x, w = np.array([0.5, -1.2, 0.3]), np.array([0.9, 1.05, -0.7])
    by_x, by_w = program.counted_slope(x, w, turns)
    np.testing.assert_allclose(by_x, numerically(lambda v: program.counted(v, w, turns), x), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(by_w, numerically(lambda v: program.counted(x, v, turns), w), rtol=1e-5, atol=1e-7)
    again = program.every_third_slope(x, w, turns)
    np.testing.assert_array_equal(again[0], by_x)
    np.testing.assert_array_equal(again[1], by_w)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("start", [1, 2, 7, 27])
def test_branches_in_a_while(program: tessera.Module, start: int) -> None:
    slope = program.collatz_slope(0.7, start)
    np.testing.assert_allclose(slope, numerically(lambda v: program.collatz(v, start), np.array(0.7)), rtol=1e-6)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("x", [1.0, 2.0**-9])
def test_a_while_in_a_while_in_a_while(program: tessera.Module, x: float) -> None:
    """What they compute is x times a number while x changes little. From the small x on turns outnumber the rows."""
    value, slope = program.whiles_slope(x)
    assert slope == pytest.approx(value / x, rel=1e-12)


@pytest.mark.parametrize("limit", [0.5, 100.0])
def test_break_and_continue(program: tessera.Module, limit: float) -> None:
    x = np.array([0.6, -0.3, 0.9, 0.4, -0.1, 1.3])
    slope = program.early_slope(x, limit)
    np.testing.assert_allclose(slope, numerically(lambda v: program.early(v, limit), x), rtol=1e-6, atol=1e-8)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["prefix", "triangle"])
@pytest.mark.parametrize("size", [1, 2, 6])
def test_shapes_and_bounds_that_change_with_the_turn(program: tessera.Module, name: str, size: int) -> None:
    x = np.random.default_rng(size).normal(size=size)
    slope = getattr(program, f"{name}_slope")(x)
    np.testing.assert_allclose(slope, numerically(getattr(program, name), x), rtol=1e-6, atol=1e-8)


@pytest.mark.one_in(2)
def test_updates_in_place(program: tessera.Module) -> None:
    x, a = np.random.default_rng(1).normal(size=7), 0.8
    by_x, by_a = program.in_place_slope(x, a)
    np.testing.assert_allclose(by_x, numerically(lambda v: program.in_place(v, a), x), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(by_a, numerically(lambda v: program.in_place(x, v), np.array(a)), rtol=1e-6)


@pytest.mark.one_in(6)
def test_a_struct_is_carried(program: tessera.Module) -> None:
    k = np.array([1.0, 2.5])
    slope = program.swing_slope(k, 20)
    np.testing.assert_allclose(slope, numerically(lambda v: program.swing(v, 20), k), rtol=1e-6)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 16, 17, 70])
def test_segments_change_no_bit(program: tessera.Module, length: int) -> None:
    rng = np.random.default_rng(length)
    w, x = rng.normal(size=3), rng.normal(size=(length, 3))
    plain = program.plain_slope(w, x)
    for name in ("cut_slope", "tree_slope"):
        for found, wanted in zip(getattr(program, name)(w, x), plain, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.one_in(12)
def test_a_checkpointed_function(program: tessera.Module) -> None:
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=4), rng.normal(size=4) * 0.3
    assert program.deep_again(w, x) == program.deep(w, x)
    np.testing.assert_array_equal(program.deep_again_slope(w, x), program.deep_slope(w, x))
    np.testing.assert_allclose(program.deep_again_curve(w, x), program.deep_curve(w, x), rtol=1e-12)


@pytest.mark.one_in(2)
def test_a_checkpoint_is_mapped() -> None:
    program = tessera.compile(
        PROGRAM
        + """
def each(w: Tensor[B, N, f64], x: Tensor[B, N, f64]) -> Tensor[B, N, f64]:
    return vmap(grad(deep_again))(w, x)
"""
    )
    w, x = np.random.default_rng(3).normal(size=(2, 4, 3)) * 0.5
    rows = [program.deep_slope(*pair) for pair in zip(w, x, strict=True)]
    np.testing.assert_allclose(program.each(w, x), rows, rtol=1e-14)


@pytest.mark.one_in(2)
def test_memory_is_what_is_said() -> None:
    """Rows of workspace for 256 turns: all of them, two roots, a few slots."""
    rows = []
    for _, said in ad_memory.ways(256):
        text = ad_memory.PROGRAM.format(length=256, said=said)
        rows.append(ad_memory.workspace(text, {"N": 1024}) / 4096)
    assert 256 <= rows[0] < 270
    assert rows[1] < 48
    assert rows[2] < 32
