"""Scores of attention, the left operand of another product: computed transposed, and read as they stand."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tessera
from tesserac.graph.build import build_module
from tesserac.graph.interp import run_function
from tesserac.graph.passes.place_kernels import place_kernels
from tesserac.ir.core import Op
from tesserac.ir.passes import run_passes
from tesserac.ir.types import MemRefType
from tesserac.pipeline import CALL_PASSES, GRAPH_PASSES, PROGRAM_PASSES, schedule_passes, tile_passes
from tesserac.schedule.machine import X86_64_V4
from tesserac.tile.cpu.lower import lower_kernel
from tesserac.tile.cpu.products import rows_in_place
from tesserac.tile.cpu.target import AVX512
from tesserac.tile.cpu.tiles import is_transposed
from tesserac.tile.trial import tiles_of
from tests.support.cpu_kernels import same_bits
from tests.support.kernel_programs import PROGRAMS, arguments, scheduled
from tests.support.source_support import check_text, compile_to_forms, library

NARROW = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
BLOCKS = (96, 40, 8)
NARROW_BLOCKS = (96, 64, 8)
"""Blocks that a matrix unit takes where the machine has one."""
"""Rows that are whole register blocks on every processor."""


def lowered(program: str) -> Op:
    """The kernel of `f` for AVX-512."""
    checked = check_text(program, "m", library())
    graph = run_passes(build_module(list(checked.functions.values()), {"m.f"}), CALL_PASSES, verify=True)
    place = place_kernels(tiles_of(X86_64_V4, PROGRAM_PASSES, schedule_passes(X86_64_V4)))
    passes = [place, *GRAPH_PASSES, *schedule_passes(X86_64_V4), *tile_passes(X86_64_V4)]
    [kernel] = [op for op in run_passes(graph, passes, verify=True).ops if op.name == "tile.kernel"]
    return lower_kernel(kernel, AVX512)


def transposed_scratch(kernel: Op) -> int:
    types = [op.result.type for op in kernel.walk() if op.name == "cpu.scratch"]
    return sum(isinstance(type_, MemRefType) and is_transposed(type_) for type_ in types)


@pytest.mark.one_in(8)
def test_scores_lie_transposed_unless_blocks_of_memory_are_added() -> None:
    """Scores and terms; keys are read as they lie, and packed only where they do not fill a register block."""
    kernel = lowered(scheduled(PROGRAMS["causal"], BLOCKS))
    assert transposed_scratch(kernel) == 2
    assert [op.name for op in kernel.walk()].count("cpu.part") == 1
    assert transposed_scratch(lowered(scheduled(PROGRAMS["bias"], BLOCKS))) == 0
    assert transposed_scratch(lowered(scheduled(PROGRAMS["causal"], (12, 40, 8)))) == 0


@pytest.mark.one_in(12)
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("name", ["attention", "causal"])
def test_transposed_scores_have_the_bits_of_the_meaning(
    name: str, in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows beside whole vectors, keys beside whole register blocks, rows that are all NaN or all huge."""
    monkeypatch.setattr(rows_in_place, "spreads_elements", lambda _: in_place)
    text = scheduled(PROGRAMS[name], BLOCKS).replace("0.5", "0.25" if in_place else "0.5")  # kept by its text
    compiled, meaning = tessera.compile(text), compile_to_forms(text)
    for s, keys in ((1, 7), (37, 70), (100, 45)):
        q, k, v = arguments(name, s, keys)
        q[0, 0], q[1, s // 2], k[1, 0, 0] = np.nan, 1e30, -0.0
        [wanted] = run_function(meaning, "m.f", [q, k, v])
        same_bits(np.asarray(compiled.f(q, k, v)), wanted)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_narrow_terms_are_wide_where_register_blocks_read_them(dtype: str) -> None:
    """Terms are rounded to the dtype of the values, and lie transposed in the type of the sums: read as f32 where they
    were bf16, they gave any number."""
    text = scheduled(PROGRAMS["attention"].replace("f32]", f"{dtype} @accum(f32)]"), NARROW_BLOCKS)
    q, k, v = (x.astype(NARROW[dtype]) for x in arguments("attention", 37, 70))
    [a, b, c] = (x.astype(np.float64) for x in (q, k, v))
    terms = np.exp((scores := a @ b.transpose(0, 2, 1) * 0.5) - scores.max(-1, keepdims=True))
    wanted = terms @ c / terms.sum(-1, keepdims=True)
    assert transposed_scratch(lowered(text)) == 2
    found = np.asarray(tessera.compile(text).f(q, k, v)).astype(np.float64)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=4 * 2.0**-8 * np.abs(c).max())
