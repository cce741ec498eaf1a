"""Random programs, each compiled twice and interpreted once: three results that agree to the bit.

Enters: programs of `program_gen.py`. Leaves: nothing, or the first difference. The interpreter runs one form after the
other in NumPy; compiled code is what a user gets; the third is compiled with every form in a launch of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO

import numpy as np

from tessera.function import CompiledFunction
from tesserac.base.source import SourceFile
from tesserac.diag.render import render
from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import Session
from tesserac.graph.interp import run_function
from tesserac.numerics.narrow import convert, storage
from tesserac.schedule.fusion import fuse, launches
from tesserac.target.cpu.build import host_platform
from tesserac.types.dtype import BOOL, F32, F64
from tesserac.types.ty import TensorType
from tests.support.cpu_kernels import same_bits
from tests.support.program_gen import Program, Sizes


@contextmanager
def nothing_fused() -> Iterator[None]:
    """Inside, no map is taken into another and no launch holds more than one form."""
    usual = fuse.MAX_BODY, launches.MAX_GROUP
    fuse.MAX_BODY, launches.MAX_GROUP = 0, 1
    try:
        yield
    finally:
        fuse.MAX_BODY, launches.MAX_GROUP = usual


def run_program(session: Session, program: Program, *, unfused: bool = True) -> None:
    """Raises AssertionError where results differ, ProgramError where the checker says no. The third way is left out
    without `unfused`."""
    source = SourceFile(f"random{program.seed}.tess", program.text)
    function = session.function(source, "f")
    platform = host_platform()
    levels = session.levels(source, function, platform.schedule)
    ways = [CompiledFunction(session.artifact_of(levels, function, platform))]
    if unfused:
        with nothing_fused():
            ways.append(CompiledFunction(session.artifact(source, function, platform)))
    session.forget(source.path)
    for number, sizes in enumerate(program.sizes):
        args = arguments(program, sizes, number)
        expected = run_function(levels.forms, function.symbol, args)
        printed: set[str] = set()
        for made in ways:
            with redirect_stdout(StringIO()) as out:
                got = made(*args)
            printed.add(out.getvalue())
            assert len(printed) == 1, "what is printed differs"
            for one, other in zip(got if isinstance(got, tuple) else (got,), expected, strict=True):
                same_bits(_as_reals(np.asarray(one)), _as_reals(other))


def _as_reals(array: np.ndarray) -> np.ndarray:
    """Complex numbers as pairs, since their bits are compared part by part."""
    return np.stack([array.real, array.imag]) if array.dtype.kind == "c" else array


def arguments(program: Program, sizes: Sizes, number: int) -> list[np.ndarray]:
    rng = np.random.default_rng([program.seed, number])
    extreme = program.seed % EXTREME_EVERY == 1 and number == 0
    return [_array(type_, sizes, rng, extreme and rng.random() < 0.5) for type_ in program.parameters]


EXTREME_EVERY = 4
"""Of one program in four, half of the arguments have numbers of all sizes."""


def _array(type_: TensorType, sizes: Sizes, rng: np.random.Generator, extreme: bool) -> np.ndarray:
    shape = tuple(dim.evaluate(sizes) for dim in type_.dims)
    if type_.dtype is BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if type_.dtype.is_integer:
        return rng.integers(-9, 10, shape).astype(storage(type_.dtype))
    if extreme and type_.dtype in (F32, F64):
        return convert(_of_all_sizes(shape, rng, 126 if type_.dtype is F32 else 1021), type_.dtype)
    return convert(rng.normal(size=shape) * 2.0, type_.dtype)


def _of_all_sizes(shape: tuple[int, ...], rng: np.random.Generator, most: int) -> np.ndarray:
    """Near 2^-most to the largest number, most of them neither."""
    exponents = np.where(rng.random(shape) < 0.5, rng.integers(-most, most + 1, shape), rng.integers(-4, 5, shape))
    return np.ldexp(rng.uniform(-1.99, 1.99, shape), exponents)


def shown(problem: ProgramError, program: Program) -> str:
    source = SourceFile(f"random{program.seed}.tess", program.text)
    return "\n".join(render(d, {source.path: source}) for d in problem.diagnostics)
