"""Forms that write a result to one memory: whoever else is to hold it gets a copy, and whoever reads it reads there."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tests.schedule.test_horizontal import launches

PROGRAM = """
def transformed(x: Tensor[N, f64]): return irfft(rfft(x) * 2.0)
def twice(x: Tensor[N, f64]):
    y = transformed(x)
    return y, y, reshape(y, (2, -1))
def read_too(x: Tensor[N, f64]):
    y = transformed(x)
    return reshape(y, (2, -1)), y + 1.0, flip(y)
def carried(x: Tensor[N, f64]):
    z = transformed(x)
    w = z
    for i in range(2):
        z = transformed(z)
        w = z
    return z, w
def chosen(x: Tensor[N, f64]):
    y = transformed(x)
    if sum(y) > 0.0:
        z = transformed(y)
        w = z
    else:
        z = y
        w = y
    return z, w, y
"""
JOINED = """
def f(x: Tensor[N, c128]):
    y = concat([x, 2.0 * x])
    z = x.at[0].set(x[1])
    return y, z, y, z, reshape(y, (2, -1))
"""
FUNCTIONS = ("twice", "read_too", "carried", "chosen")


@pytest.mark.parametrize("arch", ["x86-64-v4", "sm_90a"])
@pytest.mark.parametrize("name", FUNCTIONS[:2])
def test_a_step_of_a_transform_has_one_result(name: str, arch: str) -> None:
    program = PROGRAM.replace("[N,", "[8,")
    lines = [launch for launch in launches(program, name, arch) if launch.attrs["kind"] == "lines"]
    assert lines and all(launch.attrs["outs"] == 1 for launch in lines)


@pytest.mark.one_in(12)
def test_every_result_is_written() -> None:
    module, x = tessera.compile(PROGRAM), np.arange(1, 9, dtype="f8")
    y, rows = 2 * x, (2 * x).reshape(2, -1)
    expected = {
        "twice": (y, y, rows),
        "read_too": (rows, y + 1, y[::-1]),
        "carried": (4 * y, 4 * y),
        "chosen": (2 * y, 2 * y, y),
    }
    for name in FUNCTIONS:
        for found, wanted in zip(module[name](x), expected[name], strict=True):
            assert np.allclose(found, wanted), name


def test_complex_results_that_several_launches_write_are_each_written() -> None:
    x = np.array([1 + 2j, 3 - 1j])
    y, z = np.array([1 + 2j, 3 - 1j, 2 + 4j, 6 - 2j]), np.array([3 - 1j, 3 - 1j])
    for found, wanted in zip(tessera.compile(JOINED).f(x), (y, z, y, z, y.reshape(2, 2)), strict=True):
        assert found.tolist() == wanted.tolist()
