"""From neutral tiles to an artifact for one kind of CPU.

Enters: the Tile level of one function. Leaves, step by step: CPU tiles, LLVM text, assembly, an artifact. Each step is
a function of its own, so that whoever wants to look at a level stops there.
"""

from __future__ import annotations

import platform
from collections.abc import Collection
from dataclasses import replace

from tessera.artifact import Artifact
from tessera.errors import WRONG_MACHINE, failure
from tesserac.base.dataclass import dataclass
from tesserac.ir.calls import reached_functions
from tesserac.ir.core import Module, Op
from tesserac.ir.passes import TILE, Level, Pass
from tesserac.schedule import machine as schedule_machine
from tesserac.schedule.dialect import CALL
from tesserac.target import compile as llvm
from tesserac.target import emit
from tesserac.target.artifact import Locate, build_artifact
from tesserac.target.cpu.kernels import emit_kernel
from tesserac.target.cpu.sequential import launched_outside_loops
from tesserac.tile.cpu import target as cpu_target
from tesserac.tile.cpu.lower import buffer_bytes, lower_kernel

CPU_TILE = Level("cpu", frozenset({"schedule", "tile", "cpu", "scalar", "index", "form"}))


@dataclass(frozen=True)
class CpuPlatform:
    """One processor as each room that must know of it sees it."""

    schedule: schedule_machine.Machine
    tiles: cpu_target.CpuTarget
    code: llvm.Machine

    @property
    def lowering(self) -> Pass:
        return cpu_pass(self.tiles)


AARCH64 = CpuPlatform(schedule_machine.AARCH64, cpu_target.NEON, llvm.AARCH64)
X86_64_V3 = CpuPlatform(schedule_machine.X86_64_V3, cpu_target.AVX2, llvm.X86_64_V3)
X86_64_V4 = CpuPlatform(schedule_machine.X86_64_V4, cpu_target.AVX512, llvm.X86_64_V4)

PLATFORMS = {"aarch64": AARCH64, "x86-64-v3": X86_64_V3}
_FAMILIES = {"aarch64": AARCH64, "arm64": AARCH64, "x86_64": X86_64_V3, "amd64": X86_64_V3}


def host_platform() -> CpuPlatform:
    """This machine: its family decides shapes, and LLVM may use all that it has."""
    family, code = _FAMILIES.get(platform.machine().lower()), llvm.host_machine()
    if family is None:
        raise failure(WRONG_MACHINE, f"no code generation for {platform.machine()}; there is x86-64-v3 and AArch64")
    features = set(code.features.split(","))
    if family is X86_64_V3 and not features >= {"+avx2", "+fma"}:
        raise failure(WRONG_MACHINE, "this processor lacks AVX2 or fma; the least that code is made for is x86-64-v3")
    known = X86_64_V4 if "+avx512f" in features else family
    return replace(known, code=code)


def platform_of(family: str) -> CpuPlatform:
    """One of `PLATFORMS`, at the level of optimisation that is asked for."""
    found = PLATFORMS[family]
    return replace(found, code=llvm.at_level(found.code))


def cpu_pass(tiles: cpu_target.CpuTarget) -> Pass:
    """TILE to CPU tiles: panels, register blocks, vectors."""

    def run(module: Module) -> Module:
        ops = list(module.ops)
        for op in ops:
            op.detach()
        return Module([lower_kernel(op, tiles) if op.name == "tile.kernel" else op for op in ops])

    return Pass(f"lower to {tiles.name}", TILE, CPU_TILE, run)


def kernels_of(lowered: Module) -> dict[str, Op]:
    return {op.symbol: op for op in lowered.ops if op.name == "cpu.kernel"}


def kernel_code(lowered: Module, cpu: CpuPlatform, names: Collection[str] | None = None) -> emit.Module:
    """The code of all kernels of a module of CPU tiles, or of those named."""
    module = emit.Module("tessera", triple=cpu.code.triple, layout=llvm.data_layout(cpu.code))
    for name, kernel in kernels_of(lowered).items():
        if names is None or name in names:
            emit_kernel(module, kernel)
    module.merge_equal()
    return module


def artifact(
    lowered: Module, entry: str, cpu: CpuPlatform, locate: Locate, *, name: str, returns_tuple: bool
) -> Artifact:
    """The function with the symbol `entry`, ready to run."""
    functions = reached_functions(lowered, entry, CALL)
    return build_artifact(
        kernel_code(lowered, cpu, {name for func in functions for name in launched_outside_loops(func)}),
        functions,
        kernels_of(lowered),
        cpu.code,
        lambda memory: buffer_bytes(memory, cpu.tiles),
        locate,
        name=name,
        returns_tuple=returns_tuple,
    )
