"""Kernels that hypothesis writes: every schedule has the bits of the interpreter, as tiles, as machine code, on threads
of a GPU. `python -m tests.tools.random_kernels` runs any number of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.kernel_gen import RandomKernel, random_kernels
from tests.support.kernel_runs import check, schedules_of
from tests.support.sampling import examples

SIZES = st.tuples(st.integers(1, 20), st.integers(1, 40), st.integers(0, 99))


@pytest.mark.one_in(6)
@examples(40, brief=2)
@given(kernel=random_kernels(), size=SIZES)
def test_five_schedules_have_the_bits_of_the_interpreter(kernel: RandomKernel, size: tuple[int, int, int]) -> None:
    check(kernel, kernel.arguments(*size), "tiles", schedules_of(kernel))


@pytest.mark.one_in(12)
@examples(12, brief=2)
@given(kernel=random_kernels(), size=SIZES, number=st.integers(0, 4))
def test_machine_code_and_threads_have_them_too(
    kernel: RandomKernel, size: tuple[int, int, int], number: int
) -> None:
    every = schedules_of(kernel)
    for way in ("code", "gpu"):
        check(kernel, kernel.arguments(*size), way, every[number : number + 1] + every[:1] * kernel.is_narrow)


LONG = st.tuples(st.integers(1, 3), st.sampled_from([513, 1025, 1100]), st.integers(0, 99))


@pytest.mark.one_in(12)
@examples(12, brief=1)
@given(kernel=random_kernels(), size=LONG, number=st.integers(0, 4))
def test_long_rows_have_them_too(kernel: RandomKernel, size: tuple[int, int, int], number: int) -> None:
    """Over ends of a sum's blocks, and of attention's segments."""
    every = schedules_of(kernel)
    for way in ("tiles", "code"):
        check(kernel, kernel.arguments(*size), way, every[number : number + 1] + every[:1] * kernel.is_narrow)
