"""Register blocks of products fit the registers of every processor, whatever LLVM knows of its pipelines."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tesserac.target.compile import Machine, data_layout, emit_assembly
from tesserac.target.cpu.build import PLATFORMS
from tesserac.target.cpu.products.micro import NEAR, UNROLL, micro_kernel, packed_walk
from tesserac.target.emit import Module
from tesserac.tile.cpu.target import Micro
from tesserac.types.dtype import F32, F64, DType

STACK = re.compile(r"[yz]mm\d+.*\(%rsp\)|\(%rsp\).*[yz]mm\d|\bq\d+.*\[sp")
"""Vectors that are written to it, or read."""
PROCESSORS = {
    "x86-64-v4": ("x86-64-v4", "emeraldrapids", "znver4"),
    "x86-64-v3": ("haswell", "znver3"),
    "aarch64": ("neoverse-n1",),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize(("record", "cpu"), [(record, cpu) for record, cpus in PROCESSORS.items() for cpu in cpus])
def test_no_sum_leaves_its_register(record: str, cpu: str, dtype: DType) -> None:
    code, vectors = replace(PLATFORMS[record].code, cpu=cpu), PLATFORMS[record].schedule.vectors
    assert vectors is not None
    lanes = vectors.vector_bits // dtype.bits
    micro = Micro(vectors.micro_rows, vectors.micro_vectors * lanes, lanes)
    module = Module("block", code.triple, data_layout(code))
    frame: Any = SimpleNamespace(module=module)
    micro_kernel(frame, micro, dtype, micro.rows, False, False, packed_walk(micro))
    assembly = _assembly(module, code)
    assert assembly.count("fm") >= 4 * micro.rows * vectors.micro_vectors
    assert not STACK.findall(assembly)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_a_block_asks_for_neighbouring_lines_of_what_follows(dtype: DType) -> None:
    """A processor foresees those, not as many in as many rows; and what a block does beside takes no sum's register."""
    code, lanes = PLATFORMS["x86-64-v4"].code, 512 // dtype.bits
    micro, texts = Micro(12, 2 * lanes, lanes), {}
    for beside in ("asks", "brings"):
        module = Module("block", code.triple, data_layout(code))
        walk = replace(packed_walk(micro), near=NEAR, beside=beside)
        frame: Any = SimpleNamespace(module=module)
        micro_kernel(frame, micro, dtype, micro.rows, False, True, walk)
        texts[beside] = _assembly(module, code)
        assert not STACK.findall(texts[beside])
    asked = re.findall(r"prefetcht1\s+(\d*)\((%\w+)\)", texts["asks"])
    assert [int(offset or 0) for offset, _ in asked] == [64 * step for step in range(UNROLL)]
    assert len({place for _, place in asked}) == 1


def _assembly(module: Module, code: Machine) -> str:
    (common,) = module.take_common()
    return emit_assembly(common.text, code, scheduled=True)
