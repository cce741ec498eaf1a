"""Gradients of linear algebra that programs write naively, by every argument: what laws make of a program and of its
derivative is the derivative of the program. References are complex steps in NumPy, which lose no digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tests.graph import test_applied_inverses as inverses
from tests.graph import test_naive_spellings as spellings
from tests.support.source_support import compile_to_forms

STEP = 1e-30
STOPPED = "stop_gradient"
"""Of what no gradient flows through, a complex step knows nothing."""
Reference = Callable[..., Any]


def of_inverses(text: str) -> Reference:
    def reference(**values: Any) -> Any:
        g, h = (np.linalg.inv(values[name]) for name in "ab")
        return eval(inverses.PROGRAMS[text][0], {"np": np, "g": g, "h": h, **values})

    return reference


def known_inverses() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    found: dict[str, Any] = {name: rng.standard_normal((5, 5)) + 4 * np.eye(5) for name in "abc"}
    return found | {name: rng.standard_normal(5) for name in "vw"} | {"u": rng.standard_normal((5, 3))}


def cut(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value[:SIZE, :SIZE] if value.ndim == 2 else value[:SIZE] for name, value in values.items()}


SIZE = 5
PROGRAMS: dict[str, tuple[str, dict[str, Any], Reference]] = {
    **{
        text: (spellings.PARAMS, cut(spellings.MATRICES | spellings.VECTORS), reference)
        for text, reference in spellings.SPELLINGS.items()
        if STOPPED not in text
    },
    **{
        text: (inverses.ARGS, known_inverses(), of_inverses(text))
        for text in inverses.PROGRAMS
        if "slogdet" not in text
    },
}


def slopes(reference: Reference, values: dict[str, Any], name: str) -> Any:
    """Of the sum of the cosines of what a program gives."""
    found = np.zeros_like(values[name])
    for place in np.ndindex(found.shape):
        moved = values[name].astype("c16")
        moved[place] += STEP * 1j
        found[place] = np.sum(np.cos(reference(**values | {name: moved}))).imag / STEP
    return found


@pytest.mark.one_in(16)
@pytest.mark.parametrize("text", PROGRAMS)
def test_gradients_are_those_of_the_program(text: str) -> None:
    params, values, reference = PROGRAMS[text]
    names = ", ".join(values)
    wrt = ", ".join(f'"{name}"' for name in values)
    source = f"def g({params}): return sum(cos({text}))\ndef f({params}): return grad(g, wrt=({wrt}))({names})\n"
    found = run_function(compile_to_forms(source), "m.f", list(values.values()))
    for name, slope in zip(values, found, strict=True):
        wanted = slopes(reference, values, name)
        np.testing.assert_allclose(slope, wanted, rtol=1e-9, atol=1e-9, err_msg=f"{text} by {name}")
