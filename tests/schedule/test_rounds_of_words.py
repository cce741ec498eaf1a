"""Blocks of f32 products on a GPU: the larger ones where their rounds are full, whether sizes are known or open."""

from __future__ import annotations

from functools import cache

import pytest

from tessera.gpu_loading import expected_kernels
from tessera.gpu_program import GpuProgram
from tesserac.base.source import SourceFile
from tests.support.gpu_kernels import program_of

SMALL, HALF, WIDEST = (64, 64), (128, 128), (128, 256)


@cache
def program(rows: str, terms: str, columns: str) -> GpuProgram:
    text = f"def f(a: Tensor[{rows}, {terms}, f32], b: Tensor[{terms}, {columns}, f32]):\n    return a @ b\n"
    return program_of(SourceFile(f"words{rows}{columns}.tess", text), "f", "sm_90a")


def blocks(made: GpuProgram, rows: int, columns: int) -> int:
    """How many programs the kernel has that these sizes choose."""
    symbols = {"M": rows, "K": 500, "N": columns}
    (kernel,) = expected_kernels(made, symbols)
    return kernel.programs.evaluate(symbols)


def count(block: tuple[int, int], rows: int, columns: int) -> int:
    return -(-rows // block[0]) * -(-columns // block[1])


@pytest.mark.parametrize(
    ("rows", "columns", "block"),
    [
        (1536, 1536, SMALL),  # five blocks of each multiprocessor, or a round that is half full
        (2048, 2048, WIDEST),
        (3072, 3072, SMALL),  # 18, or three rounds, the last for a sixth of the multiprocessors
        (3584, 3584, WIDEST),
        (4096, 4096, WIDEST),
        (4096, 4200, HALF),  # four rounds for five
        (65536, 100, HALF),  # half of a wider block would be empty
    ],
)
def test_blocks(rows: int, columns: int, block: tuple[int, int]) -> None:
    assert blocks(program("M", "K", "N"), rows, columns) == count(block, rows, columns)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("size", "block"), [(1536, SMALL), (2048, WIDEST), (3072, SMALL), (4096, WIDEST)])
def test_known_sizes_have_the_same(size: int, block: tuple[int, int]) -> None:
    assert blocks(program(str(size), "500", str(size)), size, size) == count(block, size, size)
