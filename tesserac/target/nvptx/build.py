"""From neutral tiles to a program for one kind of GPU.

Enters: the Tile level of one function. Leaves, step by step: GPU tiles, LLVM text, PTX, a `GpuProgram`. Each step is a
function of its own, so that whoever wants to look at a level stops there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from tessera.artifact import Artifact
from tessera.gpu_artifact import GpuArtifact
from tessera.gpu_program import GpuProgram
from tessera.image import Image
from tessera.returned import Returned
from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Module, Op
from tesserac.ir.passes import TILE, Pass, run_passes
from tesserac.schedule.machine import GPUS
from tesserac.schedule.machine import Machine as Record
from tesserac.target.compile import AARCH64, X86_64_V3, Machine, host_machine
from tesserac.target.cpu.artifact import Locate, signature_of
from tesserac.target.entry.system import machine_of
from tesserac.target.nvptx.blocks import may_begin_early
from tesserac.target.nvptx.host.code import host_image
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.plan import plan
from tesserac.target.nvptx.ptx import emit_ptx
from tesserac.tile.gpu.lower import lower_module
from tesserac.tile.gpu.model.dialect import GPU


@dataclass(frozen=True)
class GpuPlatform:
    """One generation of GPUs as each room that must know of it sees it."""

    schedule: Record

    @property
    def lowering(self) -> Pass:
        return gpu_pass(self.schedule)


PLATFORMS = {machine.arch: GpuPlatform(machine) for machine in GPUS}
"""By what stands behind `cuda:` in the name of a target."""


def gpu_pass(machine: Record) -> Pass:
    """TILE to GPU tiles: layouts, copies, roles, barriers; each kernel in all its variants."""
    return Pass(f"lower to {machine.arch}", TILE, GPU, lambda module: lower_module(module, machine))


def kernels_of(lowered: Module) -> list[Op]:
    """The variants of all kernels; those of one neutral kernel next to each other, best first."""
    return [op for op in lowered.ops if op.name == "gpu.kernel"]


def llvm_text(lowered: Module, arch: str) -> str:
    """The LLVM text of every kernel of a module of GPU tiles, one module of text after another."""
    return "\n".join(emit_kernel(op, may_begin_early(op, arch), arch).llvm for op in kernels_of(lowered))


def ptx_text(tile: Module, gpu: GpuPlatform, *, verify: bool = False) -> str:
    """The PTX of a module of neutral tiles: what `tesserac build --emit ptx --target cuda:sm_90a` shows.

    `tile` is `Levels.tile` of a function lowered for `gpu.schedule`; `PLATFORMS` has the platforms by name. All
    variants of all kernels stand in one text, which an assembler or driver for that architecture takes as it is.
    Raises `LoweringError` for a kernel that has no rule on a GPU.
    """
    lowered = run_passes(tile, [gpu.lowering], verify=verify)
    arch = gpu.schedule.arch
    kernels = kernels_of(lowered)
    return join_ptx([emit_ptx(emit_kernel(op, may_begin_early(op, arch), arch).llvm, arch) for op in kernels])


def join_ptx(texts: list[str]) -> str:
    """Texts for one architecture as one: what each of them declares for itself stands there once."""
    said: set[str] = set()
    lines: list[str] = []
    for line in (line for text in texts for line in text.splitlines()):
        if line.startswith((".version", ".target", ".address_size", ".extern .shared")):
            if line in said:
                continue
            said.add(line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def gpu_program(
    lowered: Module, entry: str, gpu: GpuPlatform, locate: Locate, *, name: str, returns_tuple: bool
) -> GpuProgram:
    """The function with the symbol `entry` of a module of GPU tiles, ready to run. The PTX of a variant is made when it
    is first needed."""
    func = lowered.lookup(entry)
    planned = plan(func, kernels_of(lowered), gpu.schedule.arch)
    made = GpuProgram(
        signature_of(func, name, planned.sites, locate, returns_tuple),
        gpu.schedule.arch,
        planned.buffers,
        planned.kernels,
        planned.checks,
        planned.steps,
        _no_host,
        planned.tables,
    )
    return made._replace(host=cache(lambda machine: host_image(made, host_machine_of(machine))))


def _no_host(machine: str) -> Image:
    raise AssertionError(f"a program without steps has no code for {machine}")


def host_machine_of(name: str) -> Machine:
    """What the code that starts kernels is made for: this machine, or the least of another family."""
    here = host_machine()
    made = here if machine_of(here.triple) == name else HOSTS[name]
    return replace(made, level=0)  # it calls the driver, and computes next to nothing


HOSTS = {"aarch64": AARCH64, "x86_64": X86_64_V3}
"""The machines that a program kept in a file may be started from."""


def gpu_artifact(
    program: GpuProgram, returned: Returned, params: tuple[str, ...], places: tuple[int, ...]
) -> GpuArtifact:
    """A program, ready to be called; `make_code` makes it ready to be kept."""
    return GpuArtifact(program, returned, params, (), places)


def unsized_gpu_artifact(unsized: Artifact, gpu: GpuPlatform, params: tuple[str, ...]) -> GpuArtifact:
    """What a caller must know of a function that is compiled for each value of some sizes."""
    program = GpuProgram(unsized.signature, gpu.schedule.arch, (), (), (), (), _no_host)
    return GpuArtifact(program, unsized.returned, params, unsized.demands)
