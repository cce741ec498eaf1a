"""Products of words by threads that multiply by themselves: see Note [Banks of registers]."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.ir.core import Module, Op
from tesserac.schedule.costs.tiles import WIDEST_BLOCK, Block, Problem, best_block, candidates
from tesserac.schedule.machine import SM_90A
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.tile.gpu.model.banks import accesses
from tesserac.tile.gpu.model.layout import LANE_BITS
from tesserac.tile.gpu.model.matrix import FMA, MatrixUnit, accumulator_layout, is_turned, operand_layout
from tesserac.tile.gpu.model.values import fragment, kernel_threads, matrix_unit_of
from tesserac.types.dtype import BF16, F32, F64
from tests.support.gpu_kernels import emulated, tile_of, variants_of

ARCH = "sm_90a"
FORMS = {
    "plain": ("a: Tensor[M, K, {0}], b: Tensor[K, N, {0}]", "a @ b"),
    "left_turned": ("a: Tensor[K, M, {0}], b: Tensor[K, N, {0}]", "a.T @ b"),
    "right_turned": ("a: Tensor[M, K, {0}], b: Tensor[N, K, {0}]", "a @ b.T"),
    "both_turned": ("a: Tensor[K, M, {0}], b: Tensor[N, K, {0}]", "a.T @ b.T"),
}
PROGRAMS = SourceFile(
    "words.tess",
    "\n".join(f"def {name}({taken.format('f32')}):\n    return {value}" for name, (taken, value) in FORMS.items())
    + """
def long(a: Tensor[M, K, f64], b: Tensor[K, N, f64]):
    return a @ b
""",
)
UNIT = MatrixUnit(FMA, 1, 8, turned=True)


@cache
def tiles(name: str) -> Module:
    return tile_of(PROGRAMS, name, ARCH)


@cache
def kernels(name: str) -> dict[str, Op]:
    return variants_of(tiles(name), name, ARCH)


def units(name: str) -> list[MatrixUnit]:
    ops = [op for kernel in kernels(name).values() for op in kernel.walk()]
    return [matrix_unit_of(op) for op in ops if op.name == "gpu.multiply"]


@pytest.mark.parametrize(
    ("warps", "shape", "held"), [(8, (128, 256), (8, 16)), (8, (128, 128), (8, 8)), (2, (64, 64), (8, 8))]
)
def test_threads_hold_vectors_of_rows_and_columns(warps: int, shape: tuple[int, int], held: tuple[int, int]) -> None:
    layout = accumulator_layout(MatrixUnit(FMA, 1, warps, turned=True), shape)
    steps = [sorted({offset.get(dim, 0) for offset in layout.offsets}) for dim in (0, 1)]
    assert tuple(map(len, steps)) == held
    assert all(step[:4] == [0, 1, 2, 3] and step[4] >= 16 for step in steps if len(step) > 4)
    places = {
        tuple(sum(move.get(dim, 0) for move in moves) for dim in (0, 1))
        for register in layout.offsets
        for lane in range(1 << LANE_BITS)
        for warp in range(warps)
        for moves in [(register, _moved(layout.lanes, lane), _moved(layout.warps, warp))]
    }
    assert len(places) == shape[0] * shape[1]


def _moved(bits: tuple[tuple[int, int] | None, ...], number: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for position, bit in enumerate(bits):
        if bit is not None and number >> position & 1:
            found[bit[0]] = found.get(bit[0], 0) + bit[1]
    return found


def test_terms_are_rows_and_rows_of_turned_blocks_are_padded() -> None:
    left, right = (operand_layout(UNIT, (128, 16), F32, 0), operand_layout(UNIT, (16, 256), F32, 1))
    assert left.offset(3, 5) == 5 * (128 + 4) * 4 + 3 * 4 and right.offset(3, 5) == (3 * 256 + 5) * 4
    across = operand_layout(UNIT, (128, 16), F32, 0, transposed=True), operand_layout(UNIT, (16, 256), F32, 1, True)
    assert [layout.pad for layout in (left, right, *across)] == [16, 0, 0, 16]
    # Eight lanes of a copy write eight terms of a row, four rows side by side: into all banks.
    banks = {left.offset(row, term) // 4 % 32 for row in range(4) for term in range(8)}
    assert len(banks) == 32


def test_only_words_and_blocks_of_enough_rows_are_turned() -> None:
    assert is_turned(MatrixUnit(FMA, 1, 8), (128, 128), F32) and is_turned(MatrixUnit(FMA, 1, 2), (64, 64), F32)
    assert not is_turned(MatrixUnit(FMA, 1, 2), (16, 32), F32)
    assert not is_turned(MatrixUnit(FMA, 1, 8), (128, 128), F64)
    assert not is_turned(MatrixUnit("mma", 16, 8), (128, 128), BF16)


@pytest.mark.parametrize("name", FORMS)
def test_copies_turn_what_memory_has_otherwise(name: str) -> None:
    """Nothing is read or written in more than one go because of banks."""
    first = kernels(name)["$0"]
    assert units(name)[0].turned
    assert all(access.passes <= 2 for access in accesses(first)), [*accesses(first)]
    text = emit_kernel(first, False, ARCH).llvm
    assert ("cp.async.ca.shared.global.4(" in text) == (name != "left_turned")


def test_numbers_of_eight_bytes_stay_as_they_are() -> None:
    assert units("long") and not any(unit.turned for unit in units("long"))


def test_the_first_factors_of_a_round_are_read_before_the_last_term_of_the_one_before_is_multiplied() -> None:
    """All reads are in order, and the sums leave their registers behind the loop."""
    kernel = kernels("plain")["$0"]
    text = emit_kernel(kernel, False, ARCH).llvm
    sums = fragment(next(op for op in kernel.walk() if op.name == "gpu.multiply").results[0]).layout.count
    (round_,) = [part for part in re.split(r"\n\w+:", text) if "load volatile" in part]
    assert "load <4 x float>, ptr addrspace(3)" not in text
    assert round_.index("load volatile") < round_.index("llvm.fma.f32")
    last_read = round_.rindex("load volatile")
    assert round_[last_read:].count("llvm.fma.f32") == sums  # those of the last term but one
    assert text.count("llvm.fma.f32(") >= round_.count("llvm.fma.f32(") + sums
    assert text.count("xor i32") >= sums


def test_a_wide_block_is_taken_where_it_leaves_no_multiprocessor_idle() -> None:
    square = [Problem(1, n, n, n, F32, F32, False, dense=True) for n in (1024, 4096)]
    assert best_block(square[1], SM_90A) == Block(*WIDEST_BLOCK)
    assert best_block(square[0], SM_90A).columns == 64
    assert Block(*WIDEST_BLOCK) not in candidates(Problem(1, 4096, 4096, 4096, F32, F32, False), SM_90A)
    assert Block(*WIDEST_BLOCK) not in candidates(Problem(1, 4096, 4096, 4096, F64, F64, False, dense=True), SM_90A)


def test_small_blocks_have_two_warps_with_many_sums_each() -> None:
    small = next(k for k in kernels("plain").values() if _block(k) == (64, 64))
    assert kernel_threads(small) == 64


def _block(kernel: Op) -> tuple[int, ...]:
    return next(fragment(op.results[0]).shape for op in kernel.walk() if op.name == "gpu.multiply")


@pytest.mark.one_in(8)
@pytest.mark.parametrize("block", [(64, 64, 16), WIDEST_BLOCK])
@pytest.mark.parametrize("dtype", ["f32", "i32"])
@pytest.mark.parametrize("name", FORMS)
def test_they_have_the_bits_of_the_cpu(name: str, dtype: str, block: tuple[int, ...]) -> None:
    """Edges, no terms, one block of them, more than a segment."""
    taken, value = FORMS[name]
    left, right = value.split(" @ ")
    head = f"def f({taken.format(dtype)}):\n"
    on_gpu = emulated(f"{head}    return op.matmul({left}, {right}, tile_shape={block})\n", ARCH)
    on_cpu = tessera.compile(f"{head}    return {value}\n").f
    rng = np.random.default_rng(3)
    small = ((5, 1, 3), (64, 32, 64), (0, 3, 4), (3, 4100, 5)) if block != WIDEST_BLOCK else ()
    for m, k, n in ((70, 37, 66), (3, 0, 4), *small):
        shapes = (k, m) if ".T" in left else (m, k), (n, k) if ".T" in right else (k, n)
        made = [rng.standard_normal(shape) * 9 for shape in shapes]
        arrays = [numbers.astype(np.float32 if dtype == "f32" else np.int32) for numbers in made]
        assert on_gpu(*arrays)[0].tobytes() == np.asarray(on_cpu(*arrays)).tobytes(), (m, k, n)
