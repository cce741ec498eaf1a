"""Launches to kernels: the four programs as text, and what kernels compute against the bit oracle."""

from __future__ import annotations

import numpy as np
import pytest

import tesserac.ir.func
import tesserac.ops.scalar
import tesserac.schedule.dialect
import tesserac.tile.dialect  # noqa: F401  (register the operations of the texts)
from tesserac.graph.interp import run_function
from tesserac.ir.core import Module
from tesserac.ir.parser import parse_module
from tesserac.ir.passes import run_passes
from tesserac.ir.printer import print_module
from tesserac.numerics.narrow import storage
from tesserac.pipeline import schedule_passes
from tesserac.schedule.machine import AARCH64, MACHINES, SM_80, SM_90A, Machine
from tesserac.tile.build import tile_pass
from tesserac.types.dtype import DType, lookup
from tests.support.paths import CASES as PROGRAMS
from tests.support.tile_eval import run_host

CASES = PROGRAMS / "schedule"


def lower(module: Module, machine: Machine) -> Module:
    return run_passes(module, [*schedule_passes(machine), tile_pass(machine)], verify=True)


def values(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Values spread over many binades, so that every order of summation shows."""
    rng = np.random.default_rng(seed)
    wide = rng.normal(size=shape) * 2.0 ** rng.integers(-12, 3, size=shape)
    return (wide if dtype.is_float else rng.integers(-5, 100, size=shape)).astype(storage(dtype))


def same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.shape == expected.shape and got.dtype == expected.dtype
    width = f"u{expected.dtype.itemsize}"
    equal = (got.view(width) == expected.view(width)) | ((got != got) & (expected != expected))
    assert np.all(equal), f"{np.count_nonzero(~equal)} of {equal.size} elements differ"


def check(text: str, args: list[np.ndarray], machine: Machine = AARCH64, name: str = "f") -> Module:
    module = parse_module(text)
    expected = run_function(module, name, args)
    lowered = lower(module, machine)
    for got, wanted in zip(run_host(lowered, name, args), expected, strict=True):
        same_bits(got, wanted)
    return lowered


def named(dtype: str) -> DType:
    found = lookup(dtype)
    assert found is not None
    return found


ALIKE = ("x86-64-v4-amx", "aarch64-sve", "apple", "sm_86")
"""Machines that one of the others stands for: what they have besides changes no level above code."""
SHOWN = [machine for arch, machine in MACHINES.items() if arch not in ALIKE]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("machine", SHOWN, ids=lambda m: m.arch)
@pytest.mark.parametrize("name", ["vadd", "softmax", "matmul_f32", "matmul_bf16"])
def test_schedule_and_tile_texts(name: str, machine: Machine, golden) -> None:
    """All levels of the four programs, on each machine; the texts parse back to themselves."""
    module = parse_module((CASES / f"{name}.forms").read_text())
    scheduled = run_passes(module, schedule_passes(machine), verify=True)
    tiled = run_passes(scheduled, [tile_pass(machine)], verify=True)
    text = print_module(scheduled) + "\n" + print_module(tiled)
    assert print_module(parse_module(print_module(tiled))) == print_module(tiled)
    golden.check(CASES / f"{name}.{machine.arch}.ir", text)


@pytest.mark.parametrize("machine", [AARCH64, SM_90A], ids=lambda m: m.arch)
@pytest.mark.parametrize("n", [0, 1, 5, 4096, 5000])
def test_vadd(n: int, machine: Machine) -> None:
    f32 = named("f32")
    check((CASES / "vadd.forms").read_text(), [values(f32, (n,)), values(f32, (n,), 1)], machine, "vadd")


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (1, 1), (3, 7), (2, 512), (2, 513), (2, 3000)])
def test_softmax(shape: tuple[int, int]) -> None:
    check((CASES / "softmax.forms").read_text(), [values(named("f32"), shape)], AARCH64, "softmax")


@pytest.mark.one_in(48)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("machine", [AARCH64, SM_80, SM_90A], ids=lambda m: m.arch)
@pytest.mark.parametrize(
    "size", [(0, 3, 2), (3, 0, 2), (1, 1, 1), (5, 7, 3), (50, 70, 130), (150, 20, 40), (2, 9000, 3)], ids=str
)
def test_matmul(size: tuple[int, int, int], machine: Machine, dtype: str) -> None:
    m, k, n = size
    args = [values(named(dtype), (m, k)), values(named(dtype), (k, n), 1)]
    check((CASES / f"matmul_{dtype}.forms").read_text(), args, machine, f"matmul_{dtype}")
