"""What the fake driver computes for a kernel, said in NumPy, and how its mistakes are read."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tessera import TesseraError
from tests.support.fake_cuda import FakeCuda

X = np.arange(6, dtype=np.float32)


def floats(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


def computes(fake: FakeCuda, function: str, compute) -> None:  # type: ignore[no-untyped-def]
    """Has the one kernel of an elementwise function work: its inputs, then its outputs, then N."""

    def run(values: list[int], programs: int, threads: int) -> None:
        addresses = [value for value in values if value > 1 << 20]
        count = values[-1] if values[-1] <= 1 << 20 else X.size
        arrays = [floats(address, count) for address in addresses]
        compute(*arrays)

    fake.kernels[f"main_{function}$0"] = run


def add_to(x: np.ndarray, out: np.ndarray) -> None:
    out[:] = x + x


def code_of(run) -> str:  # type: ignore[no-untyped-def]
    with pytest.raises(TesseraError) as error:
        run()
    return error.value.code
