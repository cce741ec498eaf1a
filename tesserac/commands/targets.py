"""Targets by name, and the steps from neutral tiles down to code that only a target knows.

Enters: a name such as `cuda:sm_80`. Leaves: a `Target` that lowers a module of Tile IR and gives its texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tesserac.commands.names import CPU_LEVELS, GPU_LEVELS, LevelName
from tesserac.ir.core import Module
from tesserac.ir.passes import run_passes
from tesserac.ir.verify import verify_module
from tesserac.schedule.machine import MACHINES, Machine
from tesserac.target.compile import emit_assembly
from tesserac.target.cpu.build import PLATFORMS, CpuPlatform, cpu_pass, host_platform, kernel_code
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.ptx import emit_ptx
from tesserac.tile.gpu.lower import lower_module
from tesserac.tile.gpu.variants import ARCHES, Arch

DEFAULT_ARCH = "sm_90a"


class Target(Protocol):
    """`texts` are compiled one by one: all kernels of a CPU together, each kernel of a GPU alone."""

    @property
    def levels(self) -> tuple[LevelName, ...]: ...

    @property
    def machine(self) -> Machine: ...

    def lower(self, tiles: Module, *, verify: bool) -> Module: ...

    def texts(self, lowered: Module) -> list[str]: ...

    def code(self, text: str) -> str: ...


@dataclass(frozen=True)
class CpuTarget:
    platform: CpuPlatform

    @property
    def levels(self) -> tuple[LevelName, ...]:
        return CPU_LEVELS

    @property
    def machine(self) -> Machine:
        return self.platform.schedule

    def lower(self, tiles: Module, *, verify: bool) -> Module:
        return run_passes(tiles, [cpu_pass(self.platform.tiles)], verify=verify)

    def texts(self, lowered: Module) -> list[str]:
        return [str(kernel_code(lowered, self.platform))]

    def code(self, text: str) -> str:
        return emit_assembly(text, self.platform.code)


@dataclass(frozen=True)
class GpuTarget:
    arch: Arch

    @property
    def levels(self) -> tuple[LevelName, ...]:
        return GPU_LEVELS

    @property
    def machine(self) -> Machine:
        return MACHINES[self.arch.name]

    def lower(self, tiles: Module, *, verify: bool) -> Module:
        lowered = lower_module(tiles, self.arch)
        if verify:
            verify_module(lowered)
        return lowered

    def texts(self, lowered: Module) -> list[str]:
        return [emit_kernel(op).llvm for op in lowered.ops if op.name == "gpu.kernel"]

    def code(self, text: str) -> str:
        return emit_ptx(text, self.arch.name)


def find_target(name: str) -> CpuTarget | GpuTarget:
    """The target that one of `names.TARGETS` means."""
    kind, _, variant = name.partition(":")
    if kind == "cuda":
        return GpuTarget(ARCHES[variant or DEFAULT_ARCH])
    return CpuTarget(PLATFORMS[variant] if variant else host_platform())
