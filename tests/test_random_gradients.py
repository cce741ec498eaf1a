"""A sample of random gradients on every run of the tests; `python -m tests.tools.random_gradients` runs any number."""

from __future__ import annotations

import os

import pytest

from tests.gradient_gen import gradient_program
from tests.gradient_runs import check_gradients

START = int(os.environ.get("TESSERA_TEST_SEED", "0"))
"""The first seed of the sample; that of a program stands in the name of its test."""


@pytest.mark.parametrize("seed", range(START, START + 30))
def test_gradients_agree_with_differences(seed: int) -> None:
    program = gradient_program(seed, 5, 14)
    print(f"TESSERA_TEST_SEED={seed}")
    print(program.text)
    check_gradients(program, verify=True)
