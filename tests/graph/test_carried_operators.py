"""Operators that loops carry and branches leave: made alike, with other values and other numbers in front."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tessera
from tesserac.base.source import NO_SPAN
from tesserac.check.model import typed
from tesserac.check.values.common_types import converted
from tesserac.types.dims import parse_dim
from tesserac.types.dtype import F32
from tesserac.types.ty import TensorType

d, x = np.array([1, 2, 3], "f4"), np.array([1, -1, 2], "f4")
m = np.arange(9, dtype="f4").reshape(3, 3) + 2 * np.eye(3, dtype="f4")
STARTS = {
    "op.diag(d)": np.diag(d),
    "op.dense(m)": m,
    "op.eye(3)": np.eye(3),
    "op.kronecker(op.dense(m), op.eye(1))": m,
    "op.low_rank(m, m)": m @ m.T,
    "(op.diag(d) + op.dense(m))": np.diag(d) + m,
    "op.circulant(d)": np.array([[1, 3, 2], [2, 1, 3], [3, 2, 1]], "f4"),
    "(x[2] * op.diag(d))": 2 * np.diag(d),
}
STEPS: dict[str, Callable[[Any, int], Any]] = {
    "A = 0.5 * A": lambda A, i: 0.5 * A,
    "A *= s": lambda A, i: 0.25 * A,
    "A = A / x[2]": lambda A, i: A / 2,
    "A = -A": lambda A, i: -A,
    "A = float(i + 1) * A": lambda A, i: (i + 1) * A,
    "A = A / trace(A)": lambda A, i: A / np.trace(A),
    "A = 0.5 * A + 0.25 * op.eye(3)": lambda A, i: 0.5 * A + 0.25 * np.eye(3),
    "A = A - op.eye(3)": lambda A, i: A - np.eye(3),
}


@pytest.mark.one_in(48)
@pytest.mark.parametrize("step", STEPS)
def test_a_loop_carries_a_number_times_an_operator(step: str) -> None:
    text = "\n".join(
        f"def f{i}(d: Tensor[3, f32], m: Tensor[3, 3, f32], x: Tensor[3, f32], s: float):\n"
        f"    A = {start}\n    for i in range(3):\n        {step}\n    return A @ x\n"
        for i, start in enumerate(STARTS)
    )
    module = tessera.compile(text)
    for number, (start, matrix) in enumerate(STARTS.items()):
        expected = matrix
        for i in range(3):
            expected = STEPS[step](expected, i)
        assert np.allclose(module[f"f{number}"](d, m, x, 0.25), expected @ x, rtol=1e-5, atol=1e-5), start


WAYS = """
def branch(d: Tensor[3, f32], x: Tensor[3, f32]):
    A = op.diag(d)
    if sum(x) > 0.0:
        A = 0.5 * A + op.eye(3)
    return A @ x
def known(d: Tensor[3, f32], x: Tensor[3, f32]):
    A = op.eye(3)
    if sum(x) > 0.0:
        A = 0.5 * A
    return A @ x
def choice(d: Tensor[3, f32], x: Tensor[3, f32]): return (op.diag(d) if sum(x) < 0.0 else 3.0 * op.diag(x)) @ x
def folded(d: Tensor[3, f32], x: Tensor[3, f32]): return reduce(lambda A, s: s * A, op.diag(d), x) @ x
def scanned(d: Tensor[3, f32], x: Tensor[3, f32]):
    A, ys = scan(lambda A, s: (s * A, A @ d), op.diag(d), x)
    return A @ x + ys[2]
def nested(d: Tensor[3, f32], x: Tensor[3, f32]):
    A = op.diag(d)
    for i in range(2):
        A = A - op.eye(3)
        for j in range(2):
            A = 0.5 * A
    return A @ x
def until(d: Tensor[3, f32], x: Tensor[3, f32]):
    A = op.diag(d)
    while trace(A) > 1.0:
        A = A / 2.0
    return A @ x
def scaled(d: Tensor[3, f32], s: Tensor[f32], x: Tensor[3, f32]):
    A = op.diag(d)
    for i in range(3):
        A = s * A
    return A @ x
def slope(d: Tensor[3, f32], x: Tensor[3, f32]):
    by_d, by_s = grad(lambda d, s: sum(scaled(d, s, x)), wrt=(0, 1))(d, x[2])
    return by_d + by_s
def each(d: Tensor[3, f32], x: Tensor[3, f32]): return vmap(scaled, in_axes=(None, 0, None))(d, x, d)
struct Layer[D]:
    A: Operator[D, D] = op.diag(ones(D))
def field(d: Tensor[3, f32], x: Tensor[3, f32]):
    layer = Layer(A=op.diag(d))
    for i in range(3):
        layer.A = 0.5 * layer.A
    return layer.A @ x
def two(d: Tensor[3, f32], x: Tensor[3, f32]):
    A, B = op.diag(d), op.eye(3)
    for i in range(2):
        A, B = 2.0 * A, B + op.eye(3)
    return A @ x + B @ x
def systems(d: Tensor[3, f32], x: Tensor[3, f32]):
    A = op.diag(d) + op.low_rank(d[:, None], d[:, None])
    for i in range(3):
        A = 0.5 * A
    return solve(A, x)
def made(d: Tensor[3, f32], x: Tensor[3, f32]):
    A = op.diag(d)
    for i in range(3):
        A = 0.5 * A + op.eye(3)
    return A
def returned(d: Tensor[3, f32], x: Tensor[3, f32]):
    if x[0] > 5.0:
        return op.diag(d), 1.0
    if sum(x) > 0.0:
        return 2.0 * op.diag(d), 2.0
    return op.diag(d) ∘ op.diag(d), 3.0
def of_returned(d: Tensor[3, f32], x: Tensor[3, f32]):
    A, c = returned(d, x)
    B, _ = returned(d, -x)
    return c * (A @ x) + B @ x
def turned(d: Tensor[3, f32], x: Tensor[3, f32]):
    A = op.dense(outer(d, x))
    for i in range(3):
        A = A.H
    return A @ x
def turned_slope(d: Tensor[3, f32], x: Tensor[3, f32]): return grad(lambda d: sum(turned(d, x)))(d)
def squared(d: Tensor[3, f32], x: Tensor[3, f32]):
    A = 0.5 * op.dense(outer(d, x))
    for i in range(2):
        A = A ∘ A + op.eye(3)
    return A @ x
def inverted(d: Tensor[3, f32], x: Tensor[3, f32]):
    A = op.diag(d)
    for i in range(2):
        A = inverse(A) ∘ op.diag(x)
    return A @ x
def grown(d: Tensor[3, f32], x: Tensor[3, f32]):
    A, B = op.zero(3), op.eye(3)
    for i in range(3):
        A, B = A + op.dense(outer(d, x)), B ∘ op.diag(d)
    return A @ x + B @ x
def none_left(d: Tensor[3, f32], x: Tensor[3, f32]):
    A = op.zero(3)
    if x[0] > 0.0:
        A = op.diag(d) - op.diag(d)
    return A @ x
def as_it_started(d: Tensor[3, f32], x: Tensor[3, f32]):
    A, B, y = op.diag(d), op.diag(d), x
    for i in range(3):
        y = y + (A - op.diag(d)) @ x + (1.0 if A == B else 0.0)
        A = op.diag(d * float(i + 2))
    return y
"""
EXPECTED = {
    "branch": 0.5 * d * x + x,
    "known": 0.5 * x,
    "choice": 3 * x * x,
    "folded": -2 * d * x,
    "scanned": -2 * d * x - d * d,
    "nested": ((d - 1) / 4 - 1) / 4 * x,
    "until": d / 8 * x,
    "slope": 8 * x + 12 * np.sum(d * x),
    "each": (x**3)[:, None] * (d * d)[None],
    "field": d * x / 8,
    "two": 4 * d * x + 3 * x,
    "systems": np.linalg.solve((np.diag(d) + np.outer(d, d)) / 8, x),
    "of_returned": 4 * d * x + d * d * x,
    "turned": x * np.dot(d, x),
    "turned_slope": np.sum(x) * x,
    "squared": np.linalg.matrix_power(0.25 * np.linalg.matrix_power(np.outer(d, x), 2) + np.eye(3), 2) @ x + x,
    "inverted": d * x,
    "grown": 3 * d * np.dot(x, x) + d**3 * x,
    "none_left": 0 * x,
    "as_it_started": x + 3 * d * x + 1,
}


@pytest.mark.one_in(24)
def test_ways_that_meet_leave_one_operator() -> None:
    module = tessera.compile(WAYS)
    for name, expected in EXPECTED.items():
        assert np.allclose(module[name](d, x), expected, rtol=1e-5), name
    A = module.made(d, x)
    assert np.allclose(A @ x, (d / 8 + 1.75) * x) and np.isclose((2.0 * A).trace(), 12)


def test_a_value_is_never_taken_for_one_of_another_size() -> None:
    """Whoever asks for that has joined types that have nothing in common: a fault of the compiler."""
    value = typed.Local(TensorType((parse_dim("N"),), F32), NO_SPAN, "x")
    equal, other = (SimpleNamespace(facts=SimpleNamespace(same=lambda a, b, s=s: s)) for s in (True, False))
    wanted = TensorType((parse_dim("M"),), F32)
    assert converted(equal, value, wanted).type == wanted  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="does not hold"):
        converted(other, value, wanted)  # type: ignore[arg-type]
