"""The neutral kernels of tests/cases/tile lowered and compiled for GPUs, each once per test run."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import tesserac.ops.scalar  # noqa: F401  (registers the operations of the texts)
from tesserac.ir.core import Module, Op
from tesserac.ir.parser import parse_module
from tesserac.ir.verify import verify_module
from tesserac.target.nvptx.kernel import KernelText, emit_kernel
from tesserac.target.nvptx.ptx import Assembled, assemble, emit_ptx
from tesserac.tile.gpu.lower import lower_kernel
from tesserac.tile.gpu.variants import ARCHES

CASES = Path(__file__).parent / "cases" / "tile"
KERNELS = [
    ("vadd", "sm_80"),
    ("vadd", "sm_90a"),
    ("softmax", "sm_80"),
    ("softmax", "sm_90a"),
    ("matmul_f32_gpu", "sm_80"),
    ("matmul_f32_gpu", "sm_90a"),
    ("matmul_bf16_sm80", "sm_80"),
    ("matmul_bf16_sm90", "sm_90a"),
]


def neutral(name: str) -> Module:
    module = parse_module((CASES / f"{name}.tile").read_text())
    verify_module(module)
    return module


@cache
def lowered(name: str, arch: str) -> dict[str, Op]:
    """The variants of a kernel by name; verified."""
    kernels = lower_kernel(neutral(name).ops[0], ARCHES[arch])
    module = Module(kernels)
    verify_module(module)
    return {op.symbol: op for op in module.ops}


@cache
def text(name: str, arch: str, variant: str) -> KernelText:
    return emit_kernel(lowered(name, arch)[variant])


@cache
def ptx(name: str, arch: str, variant: str) -> str:
    return emit_ptx(text(name, arch, variant).llvm, arch)


@cache
def assembled(name: str, arch: str, variant: str) -> Assembled:
    return assemble(ptx(name, arch, variant), arch)


def count(kernel: Op, name: str) -> int:
    return sum(op.name == name for op in kernel.walk())
