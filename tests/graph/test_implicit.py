"""What an equation defines: values, derivatives of both modes and orders against differences and against unrolled
loops, functions with captured tensors, and functions of a program that the library or another file calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tessera

PROGRAM = """
def relax(t: Tensor[N, f64], x: Tensor[N, f64]) -> Tensor[N, f64]:
    return 0.5 * tanh(t * x) + t * mean(x) * 0.2 + t

def fixed(t: Tensor[N, f64]) -> Tensor[N, f64]:
    return fixed_point(relax, t, zeros(N, dtype=f64))

def captured(t: Tensor[N, f64]) -> Tensor[N, f64]:
    return fixed_point(lambda none, x: relax(t, x), None, zeros(N, dtype=f64))

def both(t: Tensor[N, f64]) -> Tensor[N, f64]:
    x, y = fixed_point(lambda m, p: (cos(m[0] * p[1]) * 0.5, 0.3 * p[0] + m[0]), (t, arange(N)), (t, t))
    return x * y

def unrolled(t: Tensor[N, f64]) -> Tensor[N, f64]:
    x = zeros(N, dtype=f64)
    for i in range(80):
        x = relax(t, x)
    return x

def root(t: Tensor[N, f64]) -> Tensor[N, f64]:
    scale = 1.0 + t * t
    return custom_root(lambda u, x: x * exp(x) * scale - u * sum(u), newton, t, ones(N, dtype=f64))

def halves(g, x):
    low, high = x * 0.0, x
    for i in range(60):
        middle = 0.5 * (low + high)
        below = g(middle) < 0.0
        low, high = where(below, middle, low), where(below, high, middle)
    return low

def bisected(t: Tensor[N, f64]) -> Tensor[N, f64]:
    return custom_root(lambda u, x: x * x * x + x - u * u, halves, t, 4.0 * ones(N, dtype=f64))

def linear(t: Tensor[N, f64]) -> Tensor[N, f64]:
    return custom_linear_solve(lambda x: (2.0 + t * t) * x + 0.1 * sum(x), t, conjugate_gradient)

def steps(matvec, b):
    x = b * 0.0
    for i in range(60):
        x = x + 0.3 * (b - matvec(x))
    return x

def lopsided(t: Tensor[N, f64]) -> Tensor[N, f64]:
    return custom_linear_solve(lambda x: (2.0 + t * t) * x + 0.1 * t * sum(x), t + 1.0, steps)

def total(y: Tensor[N, f64]) -> Tensor[f64]:
    return sum(y * y * cast(1 + arange(N), f64))
"""
FUNCTIONS = ("fixed", "captured", "both", "root", "bisected", "linear", "lopsided")
ASKED = """
def {f}_loss(t: Tensor[N, f64]) -> Tensor[f64]:
    return total({f}(t))
def {f}_slope(t: Tensor[N, f64]) -> Tensor[N, f64]:
    return grad({f}_loss)(t)
def {f}_change(t: Tensor[N, f64], d: Tensor[N, f64]) -> Tensor[f64]:
    return jvp({f}_loss, (t,), (d,))[1]
def {f}_curve(t: Tensor[N, f64], d: Tensor[N, f64]) -> Tensor[N, f64]:
    return grad(lambda u: sum({f}_slope(u) * d))(t)
"""
T, D = np.array([0.3, 0.5, -0.4]), np.array([1.0, -0.5, 0.25])


@pytest.fixture(scope="module")
def program() -> tessera.Module:
    return tessera.compile(PROGRAM + "".join(ASKED.format(f=f) for f in (*FUNCTIONS, "unrolled")))


def along(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray, d: np.ndarray, step: float = 1e-5) -> np.ndarray:
    return (np.asarray(function(x + step * d)) - np.asarray(function(x - step * d))) / (2 * step)


@pytest.mark.one_in(24)
def test_values(program: tessera.Module) -> None:
    np.testing.assert_allclose(program.fixed(T), program.unrolled(T), rtol=1e-14)
    w = np.asarray(program.root(T))
    np.testing.assert_allclose(w * np.exp(w) * (1 + T * T), T * T.sum(), rtol=1e-13)
    matrix = np.diag(2 + T * T) + 0.1
    np.testing.assert_allclose(program.linear(T), np.linalg.solve(matrix, T), rtol=1e-13)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_both_modes(program: tessera.Module, name: str) -> None:
    loss, slope = getattr(program, f"{name}_loss"), getattr(program, f"{name}_slope")(T)
    for place in range(3):
        unit = np.eye(3)[place]
        assert slope[place] == pytest.approx(along(loss, T, unit), rel=1e-7, abs=1e-9)
    assert getattr(program, f"{name}_change")(T, D) == pytest.approx(float(slope @ D), rel=1e-11, abs=1e-13)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", ["fixed", "root", "linear"])
def test_second_derivatives(program: tessera.Module, name: str) -> None:
    curve = getattr(program, f"{name}_curve")(T, D)
    np.testing.assert_allclose(curve, along(getattr(program, f"{name}_slope"), T, D), rtol=1e-6, atol=1e-8)


@pytest.mark.one_in(12)
def test_the_derivative_is_that_of_the_unrolled_loop(program: tessera.Module) -> None:
    np.testing.assert_allclose(program.fixed_slope(T), program.unrolled_slope(T), rtol=1e-12)
    np.testing.assert_allclose(program.captured_slope(T), program.fixed_slope(T), rtol=1e-14)


@pytest.mark.one_in(4)
def test_where_it_starts_does_not_count_and_a_limit_holds() -> None:
    text = """
def f(x: Tensor[f64]) -> Tensor[f64]:
    return grad(lambda start: fixed_point(lambda t, y: 0.5 * y + t, cast(1.0, f64), start))(x)
def g(x: Tensor[f64]) -> Tensor[f64]:
    return fixed_point(lambda t, y: 0.5 * y + t, cast(1.0, f64), x, max_steps=3, must_converge=False)
"""
    module = tessera.compile(text)
    assert module.f(5.0) == 0.0
    assert module.g(0.0) == 1.75


@pytest.mark.one_in(4)
def test_single_precision_ends_where_it_can_tell_no_more() -> None:
    text = """
def f(a: Tensor[f32]) -> Tensor[f32]:
    return fixed_point(lambda t, x: 0.5 * (x + t / x), a, cast(1.0, f32))
def g(a: Tensor[f32]) -> Tensor[f32]:
    return grad(f)(a)
"""
    module = tessera.compile(text)
    assert module.f(2.0) == pytest.approx(np.sqrt(2), rel=3e-7)
    assert module.g(2.0) == pytest.approx(0.5 / np.sqrt(2), rel=3e-6)


def test_a_step_gives_what_it_takes() -> None:
    text = "def f(a: Tensor[N, f64]):\n    return fixed_point(lambda t, x: sum(x), a, a)\n"
    with pytest.raises(tessera.TesseraError, match="`fixed_point` does not work with these arguments"):
        tessera.compile(text)


def test_a_function_that_has_no_derivative_is_reported_at_the_call() -> None:
    text = "def f(a: Tensor[f64]):\n    return fixed_point(lambda t, x: cast(x > t, i64), a, cast(1, i64))\n"
    with pytest.raises(tessera.TesseraError) as caught:
        tessera.compile(text).f(1.0)
    assert "`fixed_point` does not work with these arguments" in str(caught.value)
    assert "<text>:2:12" in str(caught.value)


NESTED = """
def root(a: Tensor[f64]) -> Tensor[f64]:
    return fixed_point(lambda t, x: 0.5 * (x + t / x), a, cast(1.0, f64))

def fourth(a: Tensor[f64]) -> Tensor[f64]:
    return fixed_point(lambda t, x: 0.5 * (x + root(t) / x), a, cast(1.0, f64))

def orders(a: Tensor[f64]):
    return grad(root)(a), grad(grad(root))(a), fourth(a), grad(fourth)(a)
"""


@pytest.mark.one_in(12)
def test_fixed_points_of_fixed_points_have_the_derivatives_of_closed_forms() -> None:
    a = 3.0
    closed = [0.5 * a**-0.5, -0.25 * a**-1.5, a**0.25, 0.25 * a**-0.75]
    np.testing.assert_allclose(tessera.compile(NESTED).orders(a), closed, rtol=1e-13)


ENDLESS = """
def away(t: Tensor[f64]): return fixed_point(lambda u, x: 2.0 * x + u, t, cast(1.0, f64), max_steps=20)
def slow(t: Tensor[f64]): return fixed_point(lambda u, x: 0.99 * x + u, t, t, max_steps=20)
def slope(t: Tensor[f64]): return grad(lambda u: fixed_point(lambda v, x: 0.9 * x + v, u, 10.0 * u, max_steps=20))(t)
def missing(t: Tensor[f64]): return newton(lambda x: x * x + t, 0.3 * t)
def short(t: Tensor[N, f64]): return conjugate_gradient(lambda x: x * t, t * t, max_steps=1)
def allowed(t: Tensor[f64]): return fixed_point(lambda u, x: 2.0 * x, t, t, max_steps=3, must_converge=False)
"""


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", ["away", "slow", "slope", "missing", "short"])
def test_an_iteration_that_does_not_converge_ends_with_an_error(name: str) -> None:
    module = tessera.compile(ENDLESS)
    with pytest.raises(tessera.TesseraError, match="no convergence in `max_steps`"):
        getattr(module, name)(np.array([0.5, 2.0, 3.0]) if name == "short" else 1.0)
    assert module.allowed(1.0) == 8.0


# -------------------------------------------------------------------- functions given to a module beneath


@pytest.mark.one_in(4)
def test_two_programs_with_functions_of_one_name_do_not_meet() -> None:
    text = (
        "def step(t: Tensor[f64], x: Tensor[f64]) -> Tensor[f64]:\n    return 0.5 * x + {}\n"
        "def f(t: Tensor[f64]) -> Tensor[f64]:\n    return fixed_point(step, t, t)\n"
    )
    assert tessera.compile(text.format("t")).f(1.0) == pytest.approx(2.0, rel=1e-14)
    assert tessera.compile(text.format("3.0 * t")).f(1.0) == pytest.approx(6.0, rel=1e-14)


def test_another_file_calls_a_function_of_the_program(tmp_path: Path) -> None:
    tools = "def twice(f, x):\n    return f(f(x))\n\ndef inc(x: Tensor[f64]) -> Tensor[f64]:\n    return x + 1.0\n"
    (tmp_path / "tools.tess").write_text(tools)
    main = """
import tools

def inc(x: Tensor[f64]) -> Tensor[f64]:
    return x + 10.0

def f(x: Tensor[f64]) -> (Tensor[f64], Tensor[f64]):
    return tools.twice(inc, x), tools.twice(tools.inc, x)

def g(x: Tensor[f64]) -> (Tensor[f64], Tensor[f64]):
    h = lambda a, b: a * a * b
    by_a, by_b = grad(h, wrt="a"), grad(h, wrt="b")
    return tools.twice(lambda v: by_a(v, x), x), tools.twice(lambda v: by_b(v, x), x)
"""
    (tmp_path / "main.tess").write_text(main)
    module = tessera.load(str(tmp_path / "main.tess"))
    assert tuple(map(float, module.f(0.0))) == (20.0, 2.0)
    assert tuple(map(float, module.g(3.0))) == (108.0, 81.0)
