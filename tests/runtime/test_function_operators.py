"""Operators that are made of functions, as objects of Python: in their own program, in others, and made of functions of
a module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessera
from tessera.descriptor import TAGS

PROGRAM = """
param W: Tensor[3, f32] = ones(3)

struct Net[D]:
    w: Tensor[D, f32] = ones(D)
    def apply(self, x: Tensor[D, f32]): return self.w * x * x + sum(x)

def made(d: Tensor[N, f32]): return op.implicit(lambda v: d * v + sum(v), lambda v: d * v + sum(v), N)
def generic(d):
    s = float(d.shape[0])
    def f(v): return d * v * s
    return op.implicit(f, f, d.shape[0])
def weighted(): return op.implicit(lambda v: W * v, lambda v: W * v, 3)
def of_net(n: Net[D], x: Tensor[D, f32]): return op.jacobian(n, x)
def of_slope(x: Tensor[D, f32]): return op.jacobian(grad(lambda v: sum(v ** 3)), x)
def of_map(m: Tensor[D, E, f32], x: Tensor[D, f32]):
    return op.jacobian(lambda v: vmap(lambda r, s: r * s * s, in_axes=(1, None))(m, v).sum(axis=0), x)
def of_operator(d: Tensor[N, f32]):
    A, both = op.diag(d), {"half": d / 2.0, "twice": (d, 2.0)}
    f = lambda v: A @ v + both["half"] * v + both["twice"][0] * both["twice"][1] * v
    return op.implicit(f, f, N)
def apply(A: Operator[D, D], x: Tensor[D, f32]) -> Tensor[D, f32]: return A @ x
def residual(x: Tensor[D, f32]): return x * x - 2.0
"""
OTHER = """
def normal(A: Operator[D, D], x: Tensor[D, f32]) -> Tensor[D, f32]: return A.H @ (A @ x)
def newton(f, x): return x - solve(op.jacobian(f, x), f(x))
def slope(A: Operator[D, D], x: Tensor[D, f32]): return grad(lambda v: sum((A @ v) ** 2))(x)
"""
D, X = np.arange(4, dtype="f4"), np.array([1, -1, 2, 1], "f4")
MATRIX = np.diag(D) + 1


@pytest.fixture(scope="module")
def m() -> Any:
    return tessera.compile(PROGRAM)


@pytest.fixture(scope="module")
def other() -> Any:
    return tessera.compile(OTHER)


def test_an_implicit_operator_is_an_object(m: Any, other: Any) -> None:
    A = m.made(D)
    assert A.shape == (4, 4) and A.descriptor().tag == TAGS["Implicit"] and "lambda" in repr(A.parts[0])
    assert np.allclose(A @ X, MATRIX @ X) and np.allclose(m.apply(A, X), MATRIX @ X)
    assert np.allclose(other.normal(A, X), MATRIX.T @ (MATRIX @ X)), "another program calls its function"
    assert np.allclose((A + 2.0 * A.H).to_dense(), 3 * MATRIX) and A.H.H == A


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("made", "matrix"),
    [
        (lambda m: m.generic(D), np.diag(4 * D)),
        (lambda m: m.of_net(m.Net(w=D), X), np.diag(2 * D * X) + 1),
        (lambda m: m.of_slope(X), np.diag(6 * X)),
        (lambda m: m.of_map(np.ones((4, 2), "f4"), X), np.diag(4 * X)),
        (lambda m: m.of_operator(D), np.diag(3.5 * D)),
    ],
    ids=["a generic function", "a struct", "a gradient", "a mapped function", "an operator and a dict captured"],
)
def test_what_functions_captured_goes_along(m: Any, other: Any, made: Any, matrix: np.ndarray) -> None:
    A = made(m)
    assert np.allclose(A.to_dense(), matrix, atol=1e-5)
    assert np.allclose(other.normal(A, X), matrix.T @ (matrix @ X), atol=1e-4)


@pytest.mark.one_in(4)
def test_operators_of_two_programs_meet(m: Any) -> None:
    another = tessera.compile("def made(d: Tensor[N, f32]): return op.implicit(lambda v: d - v, lambda v: d - v, N)\n")
    A, B = m.made(D), another.made(D)
    assert np.allclose((A @ B) @ X, MATRIX @ (D - X)) and np.allclose((B + A) @ X, MATRIX @ X + D - X)


@pytest.mark.one_in(4)
def test_a_gradient_goes_through_one(m: Any, other: Any) -> None:
    assert np.allclose(other.slope(m.made(D), X), 2 * MATRIX.T @ (MATRIX @ X))


@pytest.mark.one_in(4)
def test_params_are_those_of_its_own_module(m: Any) -> None:
    twin = tessera.compile(PROGRAM)
    m.params, twin.params = {"W": D[1:]}, {"W": -D[1:]}
    A, B = m.weighted(), twin.weighted()
    assert np.allclose(A @ X[:3], D[1:] * X[:3]) and np.allclose(B @ X[:3], -D[1:] * X[:3])
    assert np.allclose((A - B).to_dense(), np.diag(2 * D[1:]))


@pytest.mark.one_in(4)
def test_python_hands_over_functions_of_a_module(m: Any, other: Any) -> None:
    assert np.allclose(tessera.op.jacobian(m.residual, X).to_dense(), np.diag(2 * X))
    assert np.allclose(tessera.op.implicit(other.newton, other.newton, 4).shape, (4, 4))
    assert np.allclose(other.newton(m.residual, np.array([1.5, 2], "f4")), [17 / 12, 1.5])


@pytest.mark.one_in(4)
def test_functions_of_files(tmp_path: Path) -> None:
    """One of an imported file, which the program that calls it does not see."""
    (tmp_path / "parts.tess").write_text(
        "def made(d: Tensor[N, f32]): return op.implicit(lambda v: d * v, lambda v: d * v, N)\n"
    )
    (tmp_path / "whole.tess").write_text("from parts import made\ndef twice(d: Tensor[N, f32]): return made(2.0 * d)\n")
    A = tessera.load(tmp_path / "whole.tess").twice(D)
    assert np.allclose(A.to_dense(), np.diag(2 * D))
    (tmp_path / "less.tess").write_text("from parts import made\ndef half(d: Tensor[N, f32]): return made(0.5 * d)\n")
    B = tessera.load(tmp_path / "less.tess").half(D)
    (tmp_path / "parts.tess").write_text("def made(d): return op.diag(d)\n")
    assert np.allclose(A.trace(), 2 * D.sum()), "what was read stays"
    with pytest.raises(tessera.TesseraError, match="changed since it was loaded"):
        B.to_dense()
