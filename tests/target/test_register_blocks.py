"""Register blocks of products fit the registers of every processor, whatever LLVM knows of its pipelines."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tesserac.target.compile import data_layout, emit_assembly
from tesserac.target.cpu.build import PLATFORMS
from tesserac.target.cpu.micro import micro_kernel, packed_walk
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
    (text,) = module.take_common()
    assembly = emit_assembly(text, code, scheduled=True)
    assert assembly.count("fm") >= 4 * micro.rows * vectors.micro_vectors
    assert not STACK.findall(assembly)
