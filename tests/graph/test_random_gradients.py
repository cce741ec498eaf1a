"""A sample of random gradients on every run of the tests; `python -m tests.tools.random_gradients` runs any number."""

from __future__ import annotations

import os
import textwrap
from functools import cache

import pytest

from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import Session
from tesserac.types.dims import Dim
from tesserac.types.dtype import F64
from tesserac.types.ty import TensorType
from tests.support import sampling
from tests.support.gradient_gen import GradientProgram, gradient_program, with_derivatives
from tests.support.gradient_runs import check_bits, check_gradients
from tests.support.gradient_statements import FUNCTIONS
from tests.support.program_gen import type_text
from tests.support.random_runs import shown

START = int(os.environ.get("TESSERA_TEST_SEED", "0"))
"""The first seed of the sample; that of a program stands in the name of its test."""
VERIFIED_EVERY, COMPILED_EVERY = 5, 10


@cache
def session(*, verify: bool = True) -> Session:
    return Session(verify=verify)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("seed", range(START, START + (30 if sampling.thorough else 3)))
def test_modes_agree_with_each_other_and_with_differences(seed: int) -> None:
    program, used = gradient_program(seed, 5, 6), session(verify=seed % VERIFIED_EVERY == 0)
    print(f"TESSERA_TEST_SEED={seed}")
    print(program.text)
    try:
        check_gradients(used, program)
        if seed % COMPILED_EVERY == 0:
            check_bits(used, program, second=False)
    except ProgramError as problem:
        pytest.fail(shown(problem, program))


FOUND = {
    "what a loop only compares makes no tangents": """
        v1 = p0 * 1.0
        with checkpoint(every=2):
            for turn in range(4):
                v1 = v1 + where(sum(p1) > 0.0, v1 * 0.5, 1.0)
        return sum(v1 * v1) + sum(p1 * p1)
    """,
}
"""Programs that once failed, cut down."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("body", FOUND.values(), ids=FOUND)
def test_programs_that_once_failed(body: str) -> None:
    types = tuple(TensorType((Dim.sym(a), Dim.sym(b)), F64) for a, b in ("NM", "MK"))
    lines = textwrap.indent(textwrap.dedent(body), "    ").splitlines()[1:]
    text = FUNCTIONS + with_derivatives(lines, [type_text(t) for t in types], {})
    check_gradients(session(), GradientProgram(0, text, types, ({"N": 2, "M": 3, "K": 2},), (), False))
