"""Targets by name, and the steps from neutral tiles down to code that only a target knows.

Enters: a name such as `cuda:sm_80`. Leaves: a `Target` that lowers a module of Tile IR and gives its texts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from tesserac.base.dataclass import dataclass
from tesserac.commands.names import CPU_LEVELS, GPU_LEVELS, LevelName
from tesserac.ir.core import Module, Op
from tesserac.ir.passes import run_passes
from tesserac.pipeline import target_passes
from tesserac.schedule.machine import Machine
from tesserac.target.compile import emit_assembly
from tesserac.target.cpu import build as cpu
from tesserac.target.nvptx import build as gpu
from tesserac.target.nvptx.blocks import may_begin_early
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.plan import plan
from tesserac.target.nvptx.ptx import emit_ptx

DEFAULT_ARCH = "sm_90a"


class Target(Protocol):
    @property
    def levels(self) -> tuple[LevelName, ...]: ...

    @property
    def machine(self) -> Machine: ...

    def lower(self, tiles: Module, *, verify: bool) -> Module: ...

    def llvm(self, lowered: Module) -> str: ...

    def code(self, lowered: Module) -> str: ...


@dataclass(frozen=True)
class CpuTarget:
    platform: cpu.CpuPlatform

    @property
    def instructions(self) -> tuple[str, ...]:
        """The sets of instructions that its code may use: of this machine all that it has."""
        return tuple(sorted(self.machine.code.needs))

    @property
    def levels(self) -> tuple[LevelName, ...]:
        return CPU_LEVELS

    @property
    def machine(self) -> Machine:
        return self.platform.schedule

    def lower(self, tiles: Module, *, verify: bool) -> Module:
        return run_passes(tiles, target_passes(self.platform), verify=verify)

    def llvm(self, lowered: Module) -> str:
        return str(cpu.kernel_code(lowered, self.platform))

    def code(self, lowered: Module) -> str:
        """What is common to many programs comes first, made as it is for all of them."""
        module, code = cpu.kernel_code(lowered, self.platform), self.platform.code
        common = [emit_assembly(text, code, scheduled=True) for _, text, _ in module.take_common()]
        return "\n".join([*common, emit_assembly(str(module), code)])


@dataclass(frozen=True)
class GpuTarget:
    platform: gpu.GpuPlatform

    @property
    def levels(self) -> tuple[LevelName, ...]:
        return GPU_LEVELS

    @property
    def machine(self) -> Machine:
        return self.platform.schedule

    def lower(self, tiles: Module, *, verify: bool) -> Module:
        return run_passes(tiles, target_passes(self.platform), verify=verify)

    def llvm(self, lowered: Module) -> str:
        return gpu.llvm_text(lowered, self.platform.schedule.arch)

    def code(self, lowered: Module) -> str:
        """Raises LoweringError for a program that a GPU cannot run, though it has code for all of its kernels."""
        kernels = gpu.kernels_of(lowered)
        for func in (op for op in lowered.ops if op.name == "schedule.func"):
            plan(func, kernels, self.platform.schedule.arch)
        return gpu.join_ptx([kernel_ptx(op, self.platform.schedule.arch) for op in kernels])


def kernel_ptx(kernel: Op, arch: str) -> str:
    return _ptx(emit_kernel(kernel, may_begin_early(kernel, arch), arch).llvm, arch)


@lru_cache(64)
def _ptx(text: str, arch: str) -> str:
    """Remembered: the code is shown, and assembled to see what it holds."""
    return emit_ptx(text, arch)


def find_target(name: str) -> CpuTarget | GpuTarget:
    """The target that one of `TARGETS` means."""
    kind, _, variant = name.partition(":")
    if kind == "cuda":
        return GpuTarget(gpu.PLATFORMS[variant or DEFAULT_ARCH])
    return CpuTarget(cpu.platform_of(variant) if variant else cpu.host_platform())
