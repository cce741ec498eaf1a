"""Random programs of loops and branches: gradients against central differences, and checkpoints that change no bit."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pytest

import tessera
from tests.graph.test_grad import numerically

PROGRAMS = 3
_STEPS = (
    "y = sin(y) * w + 0.3 * x",
    "y = tanh(y + w * x)",
    "y = y * 0.7 + x * x * 0.1",
    "y[0] = sum(y * w) * 0.2",
    "y = y + exp(-y * y) * w[1]",
)


def _block(rng: random.Random, depth: int, indent: str) -> list[str]:
    lines: list[str] = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(("step", "for", "while", "if")) if depth else "step"
        inner = _block(rng, depth - 1, indent + "    ") if kind != "step" else []
        name = f"n{len(indent)}{rng.randint(0, 99)}"
        if kind == "step":
            lines.append(indent + rng.choice(_STEPS))
        elif kind == "for":
            lines += [f"{indent}for {name} in range({rng.randint(0, 4)}):", *inner]
        elif kind == "while":
            head = [f"{indent}{name} = count * 0", f"{indent}while {name} < count:"]
            lines += [*head, *inner, f"{indent}    {name} = {name} + 1"]
        else:
            lines += [f"{indent}if sum(y) > {rng.uniform(-1, 1):.3f}:", *inner]
    return lines


def _program(number: int, said: str) -> str:
    body = "\n".join(_block(random.Random(number), 2, "        "))
    args = "x: Tensor[N, f64], w: Tensor[N, f64], count: i64"
    name = f"f{number}{'' if said.startswith('if') else '_cut'}"
    return f"""
def {name}({args}) -> Tensor[f64] where N >= 2:
    y = x * 1.0
    {said}
{body}
    return sum(y * w)

def {name}_slope({args}) -> (Tensor[N, f64], Tensor[N, f64]) where N >= 2:
    return grad({name}, wrt=(0, 1))(x, w, count)
"""


def _called(function: tessera.Function, x: np.ndarray, w: np.ndarray) -> float:
    return function(x, w, 3)


@pytest.mark.one_in(12)
def test_random_loops_and_branches() -> None:
    ways = ("if True:", "with checkpoint(every=2):")
    module = tessera.compile("".join(_program(number, said) for number in range(PROGRAMS) for said in ways))
    rng = np.random.default_rng(5)
    x, w = rng.normal(size=(2, 3)) * 0.6
    for number in range(PROGRAMS):
        function = getattr(module, f"f{number}")
        in_x, in_w = partial(_called, function, w=w), partial(_called, function, x)
        by_x, by_w = getattr(module, f"f{number}_slope")(x, w, 3)
        np.testing.assert_allclose(by_x, numerically(in_x, x), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(by_w, numerically(in_w, w), rtol=1e-5, atol=1e-7)
        again = getattr(module, f"f{number}_cut_slope")(x, w, 3)
        np.testing.assert_array_equal(again[0], by_x)
        np.testing.assert_array_equal(again[1], by_w)
