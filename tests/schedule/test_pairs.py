"""Parts of complex numbers beside each other: one memory for both, and the bits of the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from tesserac.ir.core import Op
from tesserac.pipeline import lower
from tesserac.schedule.machine import AARCH64, SM_80, Machine
from tesserac.schedule.maps.pairs import PAIRS
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import check_text, library

PROGRAM = """
def scaled(z: Tensor[M, N, c64], w: Tensor[M, N, c64]) -> Tensor[M, N, c64]:
    return z * w + 1.0

def turned(z: Tensor[M, N, c64], w: Tensor[M, N, c64]) -> Tensor[N, M, c64]:
    return z.T * w[0, 0]

def from_planes(z: Tensor[M, N, c64], w: Tensor[M, N, c64]) -> Tensor[N, M, c64]:
    return complex(imag(z), real(w)).T * 2.0

def one_part(z: Tensor[M, N, c64], w: Tensor[M, N, c64]) -> Tensor[M, N, f32]:
    return imag(z) - real(w)

def every_second(z: Tensor[M, 2 * K, c64], w: Tensor[M, 2 * K, c64]) -> Tensor[M, K, c64]:
    return conj(z[:, ::2]) + w[:, 1::2]
"""
NAMES = ("scaled", "turned", "from_planes", "one_part", "every_second")


def launch(name: str, machine: Machine = AARCH64) -> Op:
    module = lower(check_text(PROGRAM, "m", library()).functions, f"m.{name}", machine, {}, verify=True).schedule
    (found,) = [op for op in module.walk() if op.name == "schedule.launch"]
    return found


def test_what_is_read_and_written_in_pairs_is_said() -> None:
    assert launch("scaled").attrs[PAIRS] == ((0, 0), (1, 1), (2, 3))
    assert PAIRS not in launch("one_part").attrs and PAIRS not in launch("scaled", SM_80).attrs


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", NAMES)
def test_bits_are_those_of_the_oracle(name: str) -> None:
    run, rng = compiled_equals_oracle(PROGRAM), np.random.default_rng(3)
    for m, n in ((1, 2), (3, 38), (70, 66), (0, 4)):
        z, w = (rng.standard_normal((m, n, 2)).astype(np.float32).view(np.complex64)[..., 0] for _ in range(2))
        if m or name != "turned":
            run(name, z, w)
