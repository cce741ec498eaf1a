"""Rows that are few and long are cut into parts for many programs: the bits are those of one program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.pipeline import lower
from tesserac.schedule.machine import AARCH64, SM_80, SM_90A, Machine
from tesserac.schedule.rows import long_rows
from tesserac.tile.dialect import grid
from tesserac.types.dims import ONE, Dim
from tests.support.cpu_kernels import same_bits
from tests.support.fake_cuda import emulated_cuda
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import check_text, library

PROGRAM = """
def total(x: Tensor[N, f32]) -> f32:
    return sum(x)

def norms(x: Tensor[B, N, f64]) -> (Tensor[B, f64], Tensor[B, f64]):
    return sqrt(sum(x * x, axis=1)), max(x, axis=1)

def whole(x: Tensor[M, N, f32], y: Tensor[M, N, f32]) -> f32:
    return mean((x - y) * (x - y)) + 1.0

def products(x: Tensor[N, f32]) -> f32:
    return prod(x)

def columns(x: Tensor[M, N, f32]) -> (Tensor[N, f32], Tensor[N, f32]):
    return sum(x * x, axis=0), min(x, axis=0)

def middle(x: Tensor[B, M, 3, f32]) -> Tensor[B, 3, f32]:
    return 2.0 * sum(x, axis=1)

def softened(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return x / sum(x)

def summed(x: Tensor[M, 8, f32]) -> Tensor[M, f32]:
    return sum(x, axis=1)
"""
PART = 64 * 512


def numbers(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return rng.standard_normal(shape) * 2.0 ** rng.integers(-4, 4, shape)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("n", [4 * PART - 1, 4 * PART, 5 * PART + 513])
def test_bits(n: int) -> None:
    run, x = compiled_equals_oracle(PROGRAM), numbers(n).astype("f4")
    for threads in (1, 2, 3):
        tessera.set_num_threads(threads)
        run("total", x)
    run("products", 1 + x / 4096)
    run("whole", x[None], x[None, ::-1])
    same_bits(run("norms", x[None].astype("f8"))[1], x[None].astype("f8").max(1))


@pytest.mark.one_in(24)
@pytest.mark.parametrize("shape", [(1023, 70), (1024, 70), (2563, 1030), (4000, 1)])
def test_bits_of_columns(shape: tuple[int, int]) -> None:
    run, x = compiled_equals_oracle(PROGRAM), numbers(*shape).astype("f4")
    for threads in (1, 3):
        tessera.set_num_threads(threads)
        run("columns", x)
    run("middle", numbers(2, shape[0], 3).astype("f4"))


@pytest.mark.one_in(2)
def test_bits_of_several_rows_and_of_special_values() -> None:
    run = compiled_equals_oracle(PROGRAM)
    run("norms", numbers(2, 8 * PART + 1))
    assert not np.signbit(run("total", np.full(4 * PART + 1, -0.0, "f4"))), "a zero is +0"
    run("total", np.where(np.arange(5 * PART) == 4 * PART + 3, np.nan, 1).astype("f4"))


def kernels(name: str, machine: Machine = AARCH64) -> int:
    levels = lower(check_text(PROGRAM, "m", library()).functions, f"m.{name}", machine, {}, verify=True)
    return sum(op.name == "tile.kernel" for op in levels.tile.ops)


@pytest.mark.one_in(2)
def test_what_is_cut() -> None:
    assert [kernels(name) for name in ("total", "norms", "columns")] == [3, 3, 3]
    assert kernels("softened") == 1, "the row is read again behind its sum"
    assert kernels("summed") == 1, "a row of eight is never long"
    assert kernels("total", SM_80) == 3
    assert kernels("columns", SM_80) == 5, "parts of few and long columns, those together, few elements, and all others"


WHOLE = """
def total(x: Tensor[N, f32]): return sum(x)
def loss(x: Tensor[M, N, f32], y: Tensor[M, N, f32]): return mean((x - y) ** 2), max(x)
def known(x: Tensor[9000, f32]): return sum(x * x)
def some(x: Tensor[N, f32]): return any(x > 3.5), all(x > -9.0)
def columns(x: Tensor[M, N, f32]): return sum(x, axis=0)
"""


@pytest.mark.one_in(24)
def test_all_of_a_tensor_is_work_for_all_of_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_rows, "CUT_BLOCKS", 2)
    session, source = Session(), SourceFile("whole.tess", WHOLE)
    tiles = session.levels(source, session.function(source, "known"), SM_90A).tile
    assert [grid(op) for op in tiles.ops if op.name == "tile.kernel"] == [(Dim.const(9),), (ONE,)]
    with emulated_cuda(tmp_path):
        cpu, gpu = tessera.compile(WHOLE), tessera.compile(WHOLE, device="cuda")
        for size in (0, 4095, 4096, 9000):
            x, y = numbers(size).astype("f4"), numbers(size + 1)[1:].astype("f4")
            same_bits(np.asarray(gpu.total(x)), np.asarray(cpu.total(x)))
            assert [bool(flag) for flag in gpu.some(x)] == [bool(flag) for flag in cpu.some(x)]
            if size:
                pairs = zip(gpu.loss(x[None], y[None]), cpu.loss(x[None], y[None]), strict=True)
                for mine, theirs in pairs:
                    same_bits(np.asarray(mine), np.asarray(theirs))
        same_bits(np.asarray(gpu.known(x)), np.asarray(cpu.known(x)))
        for shape in ((2047, 17), (2048, 17), (16 * 512, 2), (17 * 512 + 9, 3)):
            y = numbers(*shape).astype("f4")
            same_bits(np.asarray(gpu.columns(y)), np.asarray(cpu.columns(y)))
