"""Runs kernels of neutral Tile text on this machine, for tests: lowered, emitted, compiled in memory, called by ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache

import llvmlite.binding as llvm
import numpy as np

import tesserac.ir.index
import tesserac.ops.scalar
import tesserac.tile.dialect  # noqa: F401
from tesserac.ir.core import Module as IRModule
from tesserac.ir.core import Op
from tesserac.ir.parser import parse_module
from tesserac.ir.verify import verify_module
from tesserac.target.compile import host_machine, parse, target_machine
from tesserac.target.cpu.kernels import emit_kernel
from tesserac.target.emit import Module
from tesserac.tile.cpu.lower import lower_kernel, scratch_bytes
from tesserac.tile.cpu.target import AVX2, NEON, CpuTarget
from tesserac.tile.dialect import grid

HOST = NEON if host_machine().triple.startswith(("aarch64", "arm64")) else AVX2


def lowered(text: str, target: CpuTarget = HOST) -> list[Op]:
    """The kernels of a text in the CPU dialect, verified before and after."""
    neutral = parse_module(text)
    verify_module(neutral)
    kernels = [lower_kernel(op, target) for op in neutral.ops]
    verify_module(IRModule(kernels))
    return kernels


def llvm_text(text: str, target: CpuTarget = HOST) -> str:
    module = Module("test")
    for kernel in lowered(text, target):
        emit_kernel(module, kernel)
    return str(module)


@cache
def compiled(text: str) -> tuple[object, dict[str, tuple[Op, int]]]:
    """An engine that must stay alive, and each kernel with its address."""
    kernels = lowered(text)
    module = Module("test")
    for kernel in kernels:
        emit_kernel(module, kernel)
    machine = target_machine(host_machine())
    engine = llvm.create_mcjit_compiler(parse(str(module)), machine)
    engine.finalize_object()
    return engine, {k.symbol: (k, engine.get_function_address(k.symbol)) for k in kernels}


def run(
    text: str, arrays: Sequence[np.ndarray], sizes: Mapping[str, int], *, name: str = "", ranges: int = 1
) -> None:
    """Runs all programs of a kernel on arrays, in `ranges` calls with their own scratch."""
    _, kernels = compiled(text)
    kernel, address = kernels[name] if name else next(iter(kernels.values()))
    programs = int(np.prod([g.evaluate(sizes) for g in grid(kernel)], dtype=np.int64))
    each = scratch_bytes(kernel).evaluate(sizes)
    scratch = np.full(each * ranges // 8 + 64, np.nan)
    symbols = kernel.attrs["symbols"]
    start = (scratch.ctypes.data + 63) // 64 * 64
    slots = [a.ctypes.data for a in arrays] + [sizes[s] for s in symbols] + [start, each]
    context = np.array(slots, np.int64)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)
    bounds = np.linspace(0, programs, ranges + 1).astype(int)
    for worker in range(ranges):
        call(context.ctypes.data, int(bounds[worker]), int(bounds[worker + 1]), worker)
