"""Gradients of random programs: forward against reverse mode, second derivatives in three ways, both against central
differences; then compiled, with the bits of the interpreter, fused or not, on one thread and on two.

Enters: programs of `gradient_gen.py`. Leaves: nothing, or the first that is wrong. Differences have several step sizes:
where two that follow each other do not agree the function has a corner nearby, or curves too much, and another point is
taken. The modes are held to each other at every point, whatever differences say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tessera.function import CompiledFunction
from tessera.threads import get_num_threads, set_num_threads
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.graph.build import build_module
from tesserac.graph.interp import run_function
from tesserac.ir.core import Module
from tesserac.ir.passes import run_passes
from tesserac.pipeline import CALL_PASSES, GRAPH_PASSES
from tesserac.target.cpu.build import host_platform
from tests.support.cpu_kernels import same_bits
from tests.support.derivative_runs import Arrays, agree
from tests.support.gradient_gen import GradientProgram
from tests.support.program_gen import Sizes
from tests.support.random_runs import nothing_fused

STEPS = (1e-4, 1e-5, 1e-6)
POINTS = 4
BOUND = 1e-5
"""Of differences, relative to the slope, or to the value where that is larger."""
MODES = 1e-9
"""Between modes, relative to how large the products could be."""

Run = Callable[[str, Arrays], list[np.ndarray]]


class Unclear(Exception):
    """Differences say nothing, at any of the points. The modes agreed at all of them."""


def check_gradients(session: Session, program: GradientProgram) -> int:
    """Raises AssertionError where a derivative is wrong. How many points it took."""
    source = SourceFile(f"gradient{program.seed}.tess", program.text)
    run = _interpreted(session, source)
    for number in range(POINTS):
        if _agrees(program, run, np.random.default_rng([program.seed, number])):
            return number + 1
    raise Unclear(f"seed {program.seed}")


def _interpreted(session: Session, source: SourceFile) -> Run:
    """Runs functions of a program by the interpreter; each is lowered once."""
    lowered: dict[str, tuple[Module, str]] = {}

    def run(name: str, args: Arrays) -> list[np.ndarray]:
        if name not in lowered:
            lowered[name] = _forms(session, source, name)
        with np.errstate(all="ignore"):
            return list(run_function(*lowered[name], list(args)))

    return run


def _forms(session: Session, source: SourceFile, name: str) -> tuple[Module, str]:
    """A function after all passes of the Graph, which is what the interpreter takes, and its symbol."""
    function = session.function(source, name)
    reached = session.check(source).result.reach(function)
    graph = build_module(list(reached.values()), {function.symbol})
    return run_passes(graph, [*CALL_PASSES, *GRAPH_PASSES], verify=session.verify), function.symbol


def sample(program: GradientProgram, sizes: Sizes, rng: np.random.Generator) -> list[np.ndarray]:
    shapes = [[dim.evaluate(sizes) for dim in ty.dims] for ty in program.parameters]
    return [np.asarray(rng.normal(size=shape)) for shape in shapes]


# ------------------------------------------------------------------------------------------- modes, and differences


def _agrees(program: GradientProgram, run: Run, rng: np.random.Generator) -> bool:
    """False where differences do not tell."""
    x, w, u = (sample(program, program.sizes[0], rng) for _ in range(3))
    one = [np.asarray(1.0)]
    y, slope, value, *back = run("first", [*x, *w])
    assert y.tobytes() == value.tobytes(), (y, value)
    agree([(one, [slope]), (back, w)], MODES)
    both, change, *by = run("second", [*x, *w, *u])
    agree([(one, [both]), (one, [change]), (by, u)], MODES)
    held = run("held", x) if program.stops else []

    def at(step: float) -> tuple[float, float]:
        """The value a step along w, and the slope along u there."""
        moved = [a + step * d for a, d in zip(x, w, strict=True)]
        if held:
            return float(run("still", [*moved, *held])[0]), float("nan")
        found = run("first", [*moved, *w])
        return float(found[0]), sum(float(np.sum(g * d)) for g, d in zip(found[3:], u, strict=True))

    ends = [(at(step), at(-step)) for step in STEPS]
    first = _matches(float(slope), [(above[0], below[0]) for above, below in ends], float(value))
    if held:
        return first
    start = sum(float(np.sum(g * d)) for g, d in zip(back, u, strict=True))
    return first and _matches(float(both), [(above[1], below[1]) for above, below in ends], start)


def _matches(exact: float, ends: Sequence[tuple[float, float]], value: float) -> bool:
    """Differences over two steps that follow each other, extrapolated to 0. They say nothing where they do not agree,
    or where the value does not lie between those at the ends: a branch taken only at the point itself."""
    slopes = [(above - below) / (2 * step) for (above, below), step in zip(ends, STEPS, strict=True)]
    for coarse, fine, (above, below) in zip(slopes, slopes[1:], ends[1:], strict=False):
        allowed = BOUND * max(abs(fine), abs(value), 1.0)
        if abs(fine - coarse) <= allowed and abs((above + below) / 2 - value) <= allowed:
            assert abs(fine + (fine - coarse) / 99 - exact) <= 2 * allowed, (exact, slopes)
            return True
    return False


# ------------------------------------------------------------------------------------------------------------- bits


def check_bits(session: Session, program: GradientProgram, *, second: bool = True, unfused: bool = True) -> None:
    """Compiled derivatives have the bits of the interpreter at both sets of sizes, on one thread and on two."""
    source = SourceFile(f"gradient{program.seed}.tess", program.text)
    run, threads = _interpreted(session, source), get_num_threads()
    rng = np.random.default_rng(program.seed)
    inputs = [[sample(program, sizes, rng) for _ in range(3)] for sizes in program.sizes]
    try:
        for name, count in (("first", 2), ("second", 3))[: 1 + second]:
            ways = _compiled(session, source, name, unfused=unfused)
            for given in inputs:
                args = [array for group in given[:count] for array in group]
                _same(ways, args, run(name, args))
    finally:
        set_num_threads(threads)
        session.forget(source.path)


def _same(ways: Sequence[CompiledFunction], args: Arrays, expected: Arrays) -> None:
    for made in ways:
        for threads in (1, 2):
            set_num_threads(threads)
            for one, other in zip(made(*args), expected, strict=True):
                same_bits(np.asarray(one), other)


def _compiled(session: Session, source: SourceFile, name: str, *, unfused: bool) -> list[CompiledFunction]:
    function, platform = session.function(source, name), host_platform()
    ways = [CompiledFunction(session.artifact(source, function, platform))]
    if unfused:
        with nothing_fused():
            ways.append(CompiledFunction(session.artifact(source, function, platform)))
    return ways
