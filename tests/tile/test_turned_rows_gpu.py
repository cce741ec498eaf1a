"""Rows of 16-bit numbers that begin in the middle of a word are read and written by words, with the bits of others."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import tesserac.tile.gpu.lower as lower
from tesserac.base.source import SourceFile
from tesserac.ir.core import Module, Op
from tesserac.ir.passes import run_passes
from tesserac.schedule.machine import Machine
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, gpu_program, kernels_of
from tesserac.tile.gpu.rows.words import WORDS, turn_rows
from tests.support.cpu_kernels import same_bits
from tests.support.gpu_emulator import Emulated
from tests.support.gpu_kernels import SESSION, tile_of

SOFTMAX = "def f(x: Tensor[M, {}, bf16]): return softmax(x)\n"
SUM = "def f(x: Tensor[M, {}, bf16]): return sum(x, axis=-1)\n"
SCALED = "def f(x: Tensor[M, {0}, bf16], w: Tensor[{0}, bf16]): return rmsnorm(x, w)\n"
LARGEST = "def f(x: Tensor[M, {}, bf16]): return argmax(x, axis=-1)\n"
ROWS = 4
"""The first and the last are read number by number, of the others one begins in the middle of a word."""


@cache
def neutral(text: str) -> Module:
    return tile_of(SourceFile("m.tess", text), "f", "sm_90a")


def lowered(text: str, turn: Callable[[Op, Machine], None], patch: pytest.MonkeyPatch) -> Module:
    patch.setattr(lower, "turn_rows", turn)
    return run_passes(neutral(text), [gpu_pass(PLATFORMS["sm_90a"].schedule)], verify=True)


def result(module: Module, text: str, arrays: list[np.ndarray]) -> np.ndarray:
    symbol = SESSION.function(SourceFile("m.tess", text), "f").symbol
    program = gpu_program(module, symbol, PLATFORMS["sm_90a"], SESSION.locate, name="f", returns_tuple=True)
    (got,) = Emulated(program, kernels_of(module))(*arrays)
    return got


def turned(module: Module) -> list[bool]:
    axes = [op for kernel in kernels_of(module) for op in kernel.walk() if op.name == "gpu.axis"]
    return [WORDS in axis.attrs for axis in axes]


@pytest.mark.parametrize(
    ("text", "length", "every"),
    [(SOFTMAX, 1001, True), (SUM, 701, True), (SOFTMAX, 1000, False), (LARGEST, 701, False)],
)
def test_rows_that_may_begin_inside_a_word_are_turned(
    text: str, length: int, every: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not those of an even length, nor those whose places count."""
    assert set(turned(lowered(text.format(length), turn_rows, monkeypatch))) == {every}


@pytest.mark.one_in(24)
@pytest.mark.parametrize("length", [1, 63, 65, 127, 511, 513, 701, 769, 1001, 1023, 2049, 3001])
@pytest.mark.parametrize("text", [SOFTMAX, SUM, SCALED])
@pytest.mark.parametrize("known", [True, False])
def test_turned_rows_have_the_bits_of_others(
    text: str, length: int, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = text.format(length if known else "N")
    rng = np.random.default_rng(length)
    shapes = [(ROWS, length), (length,)][: 1 + (text == SCALED)]
    arrays = [(rng.standard_normal(s) * np.exp2(rng.integers(-3, 3, s))).astype(ml_dtypes.bfloat16) for s in shapes]
    straight = result(lowered(whole, lambda kernel, machine: None, monkeypatch), whole, arrays)
    same_bits(result(lowered(whole, turn_rows, monkeypatch), whole, arrays), straight)
