"""Runs programs of `branch_gen.py` in the interpreter and compiled, and holds both to Python.

Where Python finds an index out of bounds the call fails with a status, and only there: nothing is refused on entry that
a run does not come to. A negative index is one from the end where the checker knows that it is negative, else out of
bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import tessera
from tesserac.base.source import SourceFile
from tesserac.check.infer import check_module
from tesserac.graph.interp import run_function
from tesserac.graph.interp_scalar import InterpreterError
from tesserac.syntax.parse import parse_module
from tesserac.types.dims import DimError
from tests.support.branch_gen import BranchProgram
from tests.support.source_support import compile_to_forms, library

SIZES = ((0, 0), (1, 1), (2, 1), (3, 0), (4, 2), (5, 3), (2, 4))
Arrays = Sequence[np.ndarray]


def arguments(program: BranchProgram, n: int, k: int) -> list[np.ndarray]:
    rng = np.random.default_rng(program.seed * 100 + n * 10 + k)
    return [rng.integers(-3, 4, n) * 0.25, rng.integers(-3, 4, k) * 0.5, rng.integers(0, 2, n) * 1.0]


def meaning(program: BranchProgram, args: Arrays, *, strict: bool = True) -> np.ndarray | None:
    """What Python gives; None where it fails."""
    try:
        return program.meaning(*args, strict=strict)
    except (IndexError, ZeroDivisionError):
        return None


def meanings(program: BranchProgram, args: Arrays) -> list[np.ndarray | None]:
    """What a call may give."""
    strict = meaning(program, args)
    return [strict] if strict is not None else [None, meaning(program, args, strict=False)]


def is_refused(program: BranchProgram) -> bool:
    """Whether the checker finds that an index is out of bounds wherever the program comes to it."""
    source = SourceFile("m.tess", program.text)
    codes = {d.code for d in check_module(parse_module(source).module, source, "m", library()).diagnostics}
    assert codes <= {"E0313", "W0201"}, f"{codes}\n{program.text}"
    return "E0313" in codes


def check_values(program: BranchProgram) -> int:
    """In the interpreter, and compiled; how many of the sizes fail."""
    forms, module = compile_to_forms(program.text), tessera.compile(program.text)
    failed = 0
    for n, k in SIZES:
        args = arguments(program, n, k)
        expected = meanings(program, args)
        failed += expected[0] is None
        same(program, (n, k), expected, lambda args=args: run_function(forms, "m.f", args)[0])  # type: ignore[misc]
        same(program, (n, k), expected, lambda args=args: module.f(*args))  # type: ignore[misc]
    return failed


def same(
    program: BranchProgram,
    sizes: tuple[int, int],
    expected: Sequence[np.ndarray | None],
    run: Callable[[], np.ndarray],
) -> None:
    told = f"N, K = {sizes} of\n{program.text}"
    try:
        found = run()
    except (tessera.TesseraError, InterpreterError, DimError) as error:
        assert any(one is None for one in expected), f"{error}\n{told}"
        if isinstance(error, tessera.TesseraError):
            assert error.code in ("E0925", "E0927"), f"{error}\n{told}"
            assert error.spans[0].line > 3, f"{error}\n{told}"
        return
    values = [one for one in expected if one is not None]
    assert any(np.allclose(found, one, rtol=1e-12, atol=1e-12) for one in values), f"{found}, not {expected}\n{told}"


def check_slopes(program: BranchProgram) -> None:
    """Gradients against differences, in the interpreter and compiled."""
    forms, module = compile_to_forms(program.text), tessera.compile(program.text)
    for n, k in SIZES:
        args = arguments(program, n, k)
        if meaning(program, args) is None:
            continue
        expected = [differences(program, args, place) for place in (0, 1)]
        for found in (run_function(forms, "m.slope", args), module.slope(*args)):
            for one, other in zip(found, expected, strict=True):
                told = f"N, K = {n, k} of\n{program.text}"
                np.testing.assert_allclose(one, other, rtol=2e-6, atol=2e-6, err_msg=told)


def differences(program: BranchProgram, args: Arrays, place: int) -> np.ndarray:
    """Central ones; conditions on data read `t`, or `x` at multiples of 1/4, where a step does not change them."""
    step, slope = 1e-6, np.zeros_like(args[place])
    for element in range(len(slope)):
        ends = []
        for sign in (1, -1):
            moved = [array.copy() for array in args]
            moved[place][element] += sign * step
            found = meaning(program, moved)
            assert found is not None
            ends.append((found * (np.arange(len(found)) + 1)).sum())
        slope[element] = (ends[0] - ends[1]) / (2 * step)
    return slope


def check_many(program: BranchProgram) -> None:
    """For several at once: a failure of one of them is one of all."""
    module = tessera.compile(program.text)
    for n, k in SIZES:
        rows = [arguments(program, n, k), arguments(program, n, k)]
        rows[1][0], rows[1][2] = rows[1][0][::-1] * 1.0, 1.0 - rows[1][2]
        rows[1][1] = rows[0][1]
        found = [meaning(program, row) for row in rows]
        kept = [one for one in found if one is not None]
        if len(kept) < len(rows) and any(meaning(program, row, strict=False) is not None for row in rows):
            continue  # one may count from the end
        expected = [np.stack(kept)] if len(kept) == len(rows) else [None]
        x, t = (np.stack([row[place] for row in rows]) for place in (0, 2))
        same(program, (n, k), expected, lambda x=x, t=t, z=rows[0][1]: module.many(x, z, t))  # type: ignore[misc]
