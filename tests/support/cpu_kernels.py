"""Runs kernels of neutral Tile text on this machine, for tests: lowered, emitted, compiled, called by ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from math import prod

import llvmlite.binding as llvm
import numpy as np

import tesserac.ir.index
import tesserac.ops.scalar
import tesserac.tile.dialect  # noqa: F401
from tesserac.ir.core import Module as IRModule
from tesserac.ir.core import Op
from tesserac.ir.parser import parse_module
from tesserac.ir.verify import verify_module
from tesserac.target.compile import host_machine, parse
from tesserac.target.cpu.kernels import emit_kernel
from tesserac.target.emit import Module
from tesserac.tile.cpu.lower import lower_kernel, scratch_bytes
from tesserac.tile.cpu.target import AVX2, NEON, CpuTarget
from tesserac.tile.dialect import grid

HOST = NEON if host_machine().triple.startswith(("aarch64", "arm64")) else AVX2
GUARD = 64
"""Bytes behind the scratch of a run that must stay untouched."""

Call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def lowered(text: str, target: CpuTarget = HOST) -> list[Op]:
    """The kernels of a text in the CPU dialect, verified before and after."""
    neutral = parse_module(text)
    verify_module(neutral)
    return lower_all(neutral.ops, target)


def lower_all(kernels: Sequence[Op], target: CpuTarget = HOST) -> list[Op]:
    module = IRModule([lower_kernel(op, target) for op in kernels])
    verify_module(module)
    return module.ops


def llvm_text(kernels: Sequence[Op], triple: str = "") -> str:
    module = Module("test", triple=triple)
    for kernel in kernels:
        emit_kernel(module, kernel)
    return str(module)


class Compiled:
    """Lowered kernels in memory, ready to run. `fast` skips LLVM's optimisation, for many small programs."""

    def __init__(self, kernels: Sequence[Op], *, fast: bool = False) -> None:
        self.kernels = {k.symbol: k for k in kernels}
        self._engine = llvm.create_mcjit_compiler(parse(llvm_text(kernels)), new_machine(0 if fast else 3))
        self._engine.finalize_object()

    def run(self, arrays: Sequence[np.ndarray], sizes: Mapping[str, int], *, name: str = "", ranges: int = 1) -> None:
        """Runs all programs of a kernel on arrays, in `ranges` calls with their own scratch."""
        kernel = self.kernels[name] if name else next(iter(self.kernels.values()))
        programs = prod(g.evaluate(sizes) for g in grid(kernel))
        each = scratch_bytes(kernel).evaluate(sizes)
        scratch = np.full(each * ranges + 64 + GUARD, 0xA5, np.uint8)
        start = (scratch.ctypes.data + 63) // 64 * 64
        slots = [a.ctypes.data for a in arrays] + [sizes[s] for s in kernel.attrs["symbols"]] + [start, each]
        context = np.array(slots, np.int64)
        call = Call(self._engine.get_function_address(kernel.symbol))
        bounds = np.linspace(0, programs, ranges + 1).astype(int)
        for worker in range(ranges):
            call(context.ctypes.data, int(bounds[worker]), int(bounds[worker + 1]), worker)
        assert (scratch[start - scratch.ctypes.data + each * ranges :] == 0xA5).all(), "scratch was overrun"


def new_machine(opt: int) -> object:
    """An engine keeps its target machine for itself, so each gets a new one."""
    machine = host_machine()
    target = llvm.Target.from_triple(machine.triple)
    return target.create_target_machine(cpu=machine.cpu, features=machine.features, opt=opt, reloc="pic")


@cache
def compiled(text: str) -> Compiled:
    return Compiled(lowered(text))


def same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal to the bit, except that any NaN equals any NaN."""
    assert got.shape == expected.shape and got.dtype == expected.dtype
    if got.dtype.kind == "c":
        got, expected = (np.ascontiguousarray(x).reshape(-1).view(x.real.dtype) for x in (got, expected))
    width = f"u{expected.dtype.itemsize}"
    equal = (got.view(width) == expected.view(width)) | ((got != got) & (expected != expected))
    assert np.all(equal), f"{np.count_nonzero(~equal)} of {equal.size} elements differ"
