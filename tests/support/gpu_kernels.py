"""The four programs from source, lowered and compiled for GPUs, each once per test run."""

from __future__ import annotations

from functools import cache

from tessera.gpu_program import GpuProgram
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.ir.core import Module, Op
from tesserac.ir.passes import run_passes
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, gpu_program, kernels_of
from tesserac.target.nvptx.kernel import KernelText, emit_kernel
from tesserac.target.nvptx.ptx import Assembled, assemble, emit_ptx
from tests.support.gpu_emulator import Emulated
from tests.support.paths import ROOT

FILES = {"add": "vector_add", "softmax_rows": "softmax", "matmul_f32": "matmul", "matmul_bf16": "matmul"}
ARCHES = ("sm_80", "sm_90a")
"""One without tensor copies and one with; the others are lowered as one of these is."""
KERNELS = [(name, arch) for name in FILES for arch in ARCHES]
SESSION = Session(verify=True)


def source(path: str) -> SourceFile:
    return SourceFile(path, (ROOT / path).read_text())


def tile_of(file: SourceFile, name: str, arch: str) -> Module:
    return SESSION.levels(file, SESSION.function(file, name), PLATFORMS[arch].schedule).tile


def variants_of(module: Module, name: str, arch: str) -> dict[str, Op]:
    """The variants of a program's kernels by what follows its name; verified."""
    module = run_passes(module, [gpu_pass(PLATFORMS[arch].schedule)], verify=True)
    return {op.symbol.removeprefix(f"main.{name}"): op for op in kernels_of(module)}


@cache
def tile(name: str, arch: str) -> Module:
    """One of the four programs at the Tile level."""
    return tile_of(source(f"examples/{FILES[name]}.tess"), name, arch)


@cache
def lowered(name: str, arch: str) -> dict[str, Op]:
    return variants_of(tile(name, arch), name, arch)


@cache
def text(name: str, arch: str, variant: str) -> KernelText:
    return emit_kernel(lowered(name, arch)[variant])


@cache
def ptx(name: str, arch: str, variant: str) -> str:
    return emit_ptx(text(name, arch, variant).llvm, arch)


@cache
def assembled(name: str, arch: str, variant: str) -> Assembled:
    return assemble(ptx(name, arch, variant), arch)


def program_of(file: SourceFile, name: str, arch: str) -> GpuProgram:
    return SESSION.gpu_program(file, SESSION.function(file, name), PLATFORMS[arch])


@cache
def program(name: str, arch: str) -> GpuProgram:
    return program_of(source(f"examples/{FILES[name]}.tess"), name, arch)


def emulated(text: str, arch: str) -> Emulated:
    """The function `f` of a program, run by the emulator."""
    file = SourceFile("m.tess", text)
    module = run_passes(tile_of(file, "f", arch), [gpu_pass(PLATFORMS[arch].schedule)], verify=True)
    symbol = SESSION.function(file, "f").symbol
    program = gpu_program(module, symbol, PLATFORMS[arch], SESSION.locate, name="f", returns_tuple=True)
    return Emulated(program, kernels_of(module))


def count(kernel: Op, name: str) -> int:
    return sum(op.name == name for op in kernel.walk())
