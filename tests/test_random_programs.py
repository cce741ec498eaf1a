"""A sample of random programs on every run of the tests; `python -m tests.tools.random_programs` runs any number."""

from __future__ import annotations

import os
from functools import cache

import pytest

from tesserac.session import ProgramError, Session
from tests.program_gen import random_program
from tests.random_runs import run_program, shown

START = int(os.environ.get("TESSERA_TEST_SEED", "0"))
"""The first seed of the sample; that of a program stands in the name of its test."""


@cache
def session() -> Session:
    return Session(verify=True)


@pytest.mark.parametrize("seed", range(START, START + 16))
def test_interpreted_compiled_and_unfused_agree(seed: int) -> None:
    program = random_program(seed)
    print(f"TESSERA_TEST_SEED={seed}")
    print(program.text)
    try:
        run_program(session(), program)
    except ProgramError as problem:
        pytest.fail(shown(problem, program))
