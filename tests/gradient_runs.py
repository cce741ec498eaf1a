"""Gradients of random programs against central differences, first and second order.

Enters: programs of `gradient_gen.py`. Leaves: nothing, or the first that is wrong. Differences have two step sizes:
where these do not agree with each other the function has a corner nearby, or curves too much, and another point is
taken.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tesserac.ir.forms import tensor_type
from tests.derivative_runs import Arrays, Derivatives, agree, moved, paired
from tests.program_gen import Program
from tests.source_support import body_of, check_text, graph_of, library

STEPS = (2e-4, 1e-4)
POINTS = 8
BOUND = 1e-5
"""Relative to the slope, or to the value where that is larger."""


class Unclear(Exception):
    """Differences say nothing, at any of the points."""


def check_gradients(program: Program, *, verify: bool = False) -> int:
    """Raises AssertionError where a derivative is wrong. How many points it took."""
    function = graph_of(check_text(program.text, "m", library()))
    of = Derivatives(body_of(function), [tensor_type(v) for v in function.body.args], verify=verify)
    for number in range(POINTS):
        rng = np.random.default_rng([program.seed, number])
        x = [rng.normal(size=[dim.evaluate(program.sizes[0]) for dim in ty.dims]) for ty in program.parameters]
        if _agrees(of, [np.asarray(array) for array in x], rng):
            return number + 1
    raise Unclear(f"seed {program.seed}")


def _agrees(of: Derivatives, x: Arrays, rng: np.random.Generator) -> bool:
    """False where differences do not tell. The first derivative is that of both modes; the second is forward over
    reverse mode, against differences of gradients."""
    w, u = ([rng.normal(size=a.shape) for a in x] for _ in range(2))
    one = [np.asarray(1.0)]
    (slope,), back = of.first(x, w, one)
    change = of.change(x, u, one)
    if not all(np.isfinite(a).all() for a in (slope, *back, *change)):
        return False
    agree([(one, [slope]), (back, w)], 1e-10)
    value, curve = float(of.value(x)[0]), paired(change, w)
    first = [_ends(lambda a: float(of.value(a)[0]), of, x, w, step) for step in STEPS]
    second = [_ends(lambda a: paired(of.first(a, w, one)[1], w), of, x, u, step) for step in STEPS]
    return _matches(float(slope), first, value) and _matches(curve, second, float(slope))


def _ends(
    function: Callable[[Arrays], float], of: Derivatives, x: Arrays, w: Arrays, step: float
) -> tuple[float, float]:
    return function(moved(of, x, w, step)), function(moved(of, x, w, -step))


def _matches(exact: float, ends: list[tuple[float, float]], value: float) -> bool:
    """Extrapolated to a step of 0, differences are right to the fourth order of the step. They say nothing where the
    value does not lie between those at the ends: a branch taken only at the point itself."""
    if not all(abs((above + below) / 2 - value) <= BOUND * max(abs(value), 1.0) for above, below in ends):
        return False  # also where one of them is not a number
    coarse, fine = ((above - below) / (2 * step) for (above, below), step in zip(ends, STEPS, strict=True))
    best = fine + (fine - coarse) / 3
    allowed = BOUND * max(abs(best), abs(value), 1.0)
    if abs(fine - coarse) > allowed:
        return False
    assert abs(best - exact) <= allowed, (exact, coarse, fine)
    return True
