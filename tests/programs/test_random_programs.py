"""A sample of random programs on every run of the tests; `python -m tests.tools.random_programs` runs any number."""

from __future__ import annotations

import os
from functools import cache

import pytest

from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import Session
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32
from tesserac.types.ty import TensorType
from tests.support import sampling
from tests.support.edge_statements import random_program
from tests.support.program_gen import Program
from tests.support.random_runs import run_program, shown

START = int(os.environ.get("TESSERA_TEST_SEED", "0"))
"""The first seed of the sample; that of a program stands in the name of its test."""


@cache
def session() -> Session:
    return Session(verify=True)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("seed", range(START, START + (16 if sampling.thorough else 4)))
def test_interpreted_compiled_and_unfused_agree(seed: int) -> None:
    program = random_program(seed)
    print(f"TESSERA_TEST_SEED={seed}")
    print(program.text)
    try:
        run_program(session(), program)
    except ProgramError as problem:
        pytest.fail(shown(problem, program))


FOUND = {
    "a reduction of what has no elements keeps nothing in scratch": """
def f(p0: Tensor[N, M, f32]):
    v1 = min(min(p0, axis=0, keep=True), axis=(0, 1), keep=True)[0][1:]
    v2 = log(mish(v1))
    return gelu(v2), count_nonzero(v2, axis=0, keep=True)
""",
    "a unit dim that no value fixes does not follow the axis that is folded": """
def f(p0: Tensor[N, M, f32]):
    v1 = isfinite(min(p0, axis=(0, 1), keep=True))
    v2 = min(p0, axis=(0, 1), keep=True)
    for i in range(2):
        v3 = cast(count_nonzero(any(v1, axis=0, keep=False)), f32)
        v2 = v2 * 0.5 + where(isfinite(v3), v3, 1.0)
    return v2 + 0.25
""",
    "what is assembled of parts that are older than a loop is in no launch behind it": """
def f(p0: Tensor[N, M, f32]):
    v1 = ceil(p0)
    v2 = sum(p0)
    for i in range(2):
        v2 = sigmoid(v2)
    return erf(concat([v1], axis=0)) + v2
""",
}
"""Programs that once failed, cut down."""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", FOUND.values(), ids=FOUND)
def test_programs_that_once_failed(text: str) -> None:
    matrix = TensorType((Dim.sym("N"), Dim.sym("M")), F32)
    run_program(session(), Program(0, text, (matrix,), ({"N": 3, "M": 2}, {"N": 1, "M": 600}), ()))
