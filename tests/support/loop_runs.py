"""Runs programs with loops as they are written and as maps and sums, and compares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tesserac.graph.build import build_module
from tesserac.graph.interp import run_function
from tesserac.graph.interp_scalar import InterpreterError
from tesserac.graph.passes.inline import inline
from tesserac.graph.passes.map_loops import inline_with_maps
from tesserac.ir.core import Module
from tesserac.ir.passes import run_passes
from tesserac.pipeline import CALL_PASSES, GRAPH_PASSES
from tests.support.loop_gen import LoopProgram
from tests.support.source_support import check_text, library

SIZES = (1, 2, 3, 7)
SMALL = {"f64": 1e-9, "c128": 1e-9, "f32": 2e-4}


def both_forms(text: str, name: str) -> tuple[Module, Module]:
    """Of one function: with the pass and without it."""
    checked = list(check_text(text, "m", library()).functions.values())
    mapped, plain = (
        run_passes(
            build_module(checked, {f"m.{name}"}),
            [*(inline if step is inline_with_maps and not used else step for step in CALL_PASSES), *GRAPH_PASSES],
            verify=True,
        )
        for used in (True, False)
    )
    return mapped, plain


def check_loops(program: LoopProgram, names: Sequence[str] = ("f",)) -> None:
    for name in names:
        forms = both_forms(program.text, name)
        for size in SIZES if program.size is None else (program.size,):
            args = arguments(program, size, (2,) if name == "v" else ())
            found, wanted = (_outcome(one, name, args) for one in forms)
            assert isinstance(found, str) == isinstance(wanted, str), f"{name} of {size}: {found}, not {wanted}"
            if not isinstance(found, str):
                _same(program, found, wanted, f"{name} of {size}")


def arguments(program: LoopProgram, size: int, front: tuple[int, ...]) -> list[np.ndarray]:
    draw = np.random.default_rng(size)
    shapes = [(*front, size, size)] * 2 + [(*front, size)] * 2
    if program.dtype[0] == "i":
        return [draw.integers(-9, 9, shape).astype(f"i{int(program.dtype[1:]) // 8}") for shape in shapes]
    numbers = [draw.uniform(0.5, 1.5, shape) for shape in shapes]
    if program.dtype == "c128":
        return [one + 1j * draw.uniform(-1, 1, one.shape) for one in numbers]
    return [one.astype(f"f{int(program.dtype[1:]) // 8}") for one in numbers]


def _outcome(forms: Module, name: str, args: Sequence[np.ndarray]) -> Any:
    with np.errstate(all="ignore"):
        try:
            return run_function(forms, f"m.{name}", args)
        except InterpreterError as fault:
            return str(fault)


def _same(program: LoopProgram, found: Any, wanted: Any, told: str) -> None:
    for at, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if program.dtype[0] == "i":
            np.testing.assert_array_equal(one, other, err_msg=f"{told}, {at}")
            continue
        bound = SMALL[program.dtype]
        large = float(np.max(np.abs(other), initial=0.0, where=np.isfinite(other)))
        np.testing.assert_allclose(one, other, rtol=bound, atol=bound * large, err_msg=f"{told}, {at}")
