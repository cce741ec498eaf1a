"""What a program asserts holds in its derivatives, wherever it stands: in every kind of region, in what has a rule of
its own, and where the gradient itself needs nothing of the value."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tesserac.graph.interp import AssertionFailed, run_function
from tests.support.source_support import compile_to_forms

CHECKED = 'assert all(abs({x}) < 4.0), "too large"'
BODIES = {
    "nothing of it is needed": f"y = x * 1.0\n{CHECKED.format(x='x')}",
    "branch": f"y = x * 1.0\nif sum(x) > 0.0:\n    {CHECKED.format(x='y')}\n    y = y * y",
    "for": f"y = x * 1.0\nfor i in range(3):\n    {CHECKED.format(x='y')}\n    y = sin(y) + 0.5 * x",
    "for, in segments": (
        f"y = x * 1.0\nwith checkpoint(every=2):\n    for i in range(5):\n        {CHECKED.format(x='y')}\n"
        "        y = sin(y) + 0.5 * x"
    ),
    "while": (
        f"y, n = x * 1.0, cast(0, i32)\nwhile n < 3:\n    {CHECKED.format(x='y')}\n    y = sin(y) * x\n    n = n + 1"
    ),
    "while, in segments": (
        "y, n = x * 1.0, cast(0, i32)\nwith checkpoint(every=2):\n    while n < 5:\n"
        f"        {CHECKED.format(x='y')}\n        y = sin(y) * x\n        n = n + 1"
    ),
    "function": "y = called(x)",
    "checkpointed": "y = checkpoint(called)(x)",
    "mapped": "y = vmap(lambda v: called(stack([v]))[0])(x)",
    "scanned": "y = scan(lambda c, v: (c + v, called(stack([v]))[0]), 0.0, x)[1]",
    "forward rule": "y = ruled(x)",
    "reverse rule": "y = pulled(x)",
}
FUNCTIONS = f"""
def called(x: Tensor[N, f64]) -> Tensor[N, f64]:
    {CHECKED.format(x="x")}
    return x * sin(x)

def ruled(x: Tensor[N, f64]) -> Tensor[N, f64]:
    {CHECKED.format(x="x")}
    return x * x

@jvp_of(ruled)
def ruled_forward(x: Tensor[N, f64], y: Tensor[N, f64], dx: Tensor[N, f64]) -> Tensor[N, f64]:
    return 2.0 * x * dx

def pulled(x: Tensor[N, f64]) -> Tensor[N, f64]:
    {CHECKED.format(x="x")}
    return x * x

@vjp_of(pulled)
def pulled_back(x: Tensor[N, f64], y: Tensor[N, f64], c: Tensor[N, f64]) -> Tensor[N, f64]:
    return 2.0 * x * c
"""
TRANSFORMS = {
    "reverse": "grad(f)(x)",
    "forward": "jvp(f, (x,), (x,))[1]",
    "reverse over reverse": "grad(lambda v: sum(grad(f)(v) * v))(x)",
    "mapped": "vmap(grad(f))(stack([x, x]))",
}


LEFT_OUT = {("reverse rule", "forward"), ("while, in segments", "reverse over reverse")}
"""A rule that serves one mode; and what takes as long as all others."""


@pytest.mark.one_in(48)
@pytest.mark.parametrize(
    ("kind", "transform"), [pair for pair in itertools.product(BODIES, TRANSFORMS) if pair not in LEFT_OUT]
)
def test_assertions_hold(kind: str, transform: str) -> None:
    body = "\n    ".join([*BODIES[kind].splitlines(), "return sum(y)"])
    text = f"""{FUNCTIONS}
def f(x: Tensor[N, f64]) -> Tensor[f64]:
    {body}

def derived(x: Tensor[N, f64]):
    return {TRANSFORMS[transform]}
"""
    forms = compile_to_forms(text)
    for found in run_function(forms, "m.derived", [np.array([0.5, 1.0, 1.5])]):
        assert np.isfinite(found).all()
    with pytest.raises(AssertionFailed, match="too large"):
        run_function(forms, "m.derived", [np.array([0.5, 9.0, 1.5])])
