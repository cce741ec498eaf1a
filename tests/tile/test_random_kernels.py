"""Kernels that hypothesis writes: every schedule has the bits of the interpreter, as tiles, as machine code, on threads
of a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessera
from tesserac.graph.interp import run_function
from tests.support import tile_eval
from tests.support.cpu_kernels import same_bits
from tests.support.kernel_gen import RandomKernel, random_kernels
from tests.support.sampling import examples
from tests.support.source_support import compile_to_forms
from tests.tile.test_programs import tiles
from tests.tile.test_programs_gpu import emulated

SCHEDULES = [None, (1, 1, 1), (8, 16, 7), (5, 3, 300), (64, 128, 64)]
SIZES = st.tuples(st.integers(1, 20), st.integers(1, 40), st.integers(0, 99))


def results(value: object) -> list[np.ndarray]:
    return [np.asarray(one) for one in (value if isinstance(value, list | tuple) else (value,))]


@pytest.mark.one_in(6)
@examples(40, brief=2)
@given(kernel=random_kernels(), size=SIZES)
def test_five_schedules_have_the_bits_of_the_interpreter(kernel: RandomKernel, size: tuple[int, int, int]) -> None:
    args = kernel.arguments(*size)
    wanted = run_function(compile_to_forms(kernel.text), "m.f", args)
    for blocks in SCHEDULES:
        got = tile_eval.run_host(tiles(kernel.scheduled(blocks)), "m.f", args)
        for one, other in zip(got, wanted, strict=True):
            same_bits(one, other)


@pytest.mark.one_in(12)
@examples(12, brief=2)
@given(kernel=random_kernels(), size=SIZES, blocks=st.sampled_from(SCHEDULES))
def test_machine_code_and_threads_have_them_too(
    kernel: RandomKernel, size: tuple[int, int, int], blocks: tuple[int, ...] | None
) -> None:
    args = kernel.arguments(*size)
    wanted = run_function(compile_to_forms(kernel.text), "m.f", args)
    text = kernel.scheduled(blocks)
    for got in (results(tessera.compile(text).f(*args)), emulated(text)(*args)):
        for one, other in zip(got, wanted, strict=True):
            same_bits(one, other)
