"""From neutral tiles to an artifact for one kind of CPU.

Enters: the Tile level of one function. Leaves, step by step: CPU tiles, LLVM text, assembly, an artifact. Each step is
a function of its own, so that whoever wants to look at a level stops there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cache, partial

from tessera.artifact import Artifact
from tessera.errors import WRONG_MACHINE, failure
from tessera.processor import available_cores, caches, instructions
from tesserac.base.dataclass import dataclass
from tesserac.ir.calls import reached_functions
from tesserac.ir.core import Module, Op
from tesserac.ir.passes import TILE, Level, Pass
from tesserac.schedule.dialect import CALL
from tesserac.schedule.machine import APPLE, CPUS, Code, Machine, as_found
from tesserac.target import compile as llvm
from tesserac.target import emit
from tesserac.target.common_code import shared_object
from tesserac.target.cpu.artifact import Begin, Locate, build_artifact
from tesserac.target.cpu.host.runners import code_of
from tesserac.target.cpu.host.sequential import launched_outside_loops
from tesserac.target.cpu.kernels import emit_kernel
from tesserac.target.cpu.size_generic import without_sizes
from tesserac.target.entry.system import HOST_ATTRIBUTES, machine_of
from tesserac.tile.build import Holds
from tesserac.tile.cpu.lower import buffer_bytes, lower_kernel
from tesserac.tile.cpu.target import CpuTarget, cpu_target
from tesserac.tile.dialect import CODE

CPU_TILE = Level("cpu", frozenset({"schedule", "tile", "cpu", "scalar", "index", "form"}))


@dataclass(frozen=True)
class CpuPlatform:
    """One processor: its record, and what LLVM may use of it."""

    schedule: Machine
    code: llvm.Machine

    @property
    def tiles(self) -> CpuTarget:
        return cpu_target(self.schedule)

    @property
    def lowering(self) -> Pass:
        return cpu_pass(self.tiles)


PLATFORMS = {machine.arch: CpuPlatform(machine, llvm.described(machine)) for machine in CPUS}
AARCH64 = PLATFORMS["aarch64"]


def host_platform() -> CpuPlatform:
    """This machine: LLVM may use all that it has."""
    return CpuPlatform(_host_record(), llvm.host_machine())


@cache
def _host_record() -> Machine:
    """The record that says the most of this machine, with the cores and caches that it has."""
    code, found = llvm.host_machine(), instructions()
    family = machine_of(code.triple)
    known = [machine for machine in CPUS if machine_of(machine.code.triple) == family]
    if not known:
        raise failure(WRONG_MACHINE, f"no code generation for {family}; there is x86-64-v3 and AArch64")
    least, lacking = known[0], set(known[0].code.needs).difference(found or known[0].code.needs)
    if lacking:
        lacks = ", ".join(sorted(lacking))
        raise failure(WRONG_MACHINE, f"this processor lacks {lacks}; the least that code is made for is {least.arch}")
    named = next((machine for name, machine in BY_NAME.items() if code.cpu.startswith(name)), None)
    others = [machine for machine in known if machine not in BY_NAME.values()]
    fitting = [machine for machine in others if found is not None and found.issuperset(machine.code.needs)]
    taken = named or [least, *fitting][-1]
    needs = taken.code.needs if found is None else tuple(sorted(found))
    return as_found(taken, Code(code.triple, code.cpu, code.features, needs), available_cores(), caches())


BY_NAME = {"apple-": APPLE}
"""Records of processors that are known by how LLVM calls them, not by what instructions they have."""


def platform_of(family: str) -> CpuPlatform:
    """One of `PLATFORMS`, at the level of optimisation that is asked for."""
    found = PLATFORMS[family]
    return replace(found, code=llvm.at_level(found.code))


def cpu_pass(tiles: CpuTarget) -> Pass:
    """TILE to CPU tiles: panels, register blocks, vectors."""

    def run(module: Module) -> Module:
        ops = list(module.ops)
        for op in ops:
            op.detach()
        return without_sizes(Module([lower_kernel(op, tiles) if op.name == "tile.kernel" else op for op in ops]))

    return Pass(f"lower to {tiles.name}", TILE, CPU_TILE, run)


def kernels_of(lowered: Module) -> dict[str, Op]:
    return {op.symbol: op for op in lowered.ops if op.name == "cpu.kernel"}


def _whole(module: emit.Module) -> None:
    """Leaves all that is written where it is."""


def kernel_code(
    lowered: Module,
    cpu: CpuPlatform,
    names: Collection[str] | None = None,
    begin: Begin = _whole,
    find_held: emit.FindHeld = emit.nothing_held,
) -> emit.Module:
    """The code of all kernels of a module of CPU tiles, or of those named and what they have theirs from; `begin` may
    take out what is complete, and what is held is not written."""
    module = emit.Module("tessera", cpu.code.triple, llvm.data_layout(cpu.code), find_held)
    kernels = kernels_of(lowered)
    wanted = dict.fromkeys(code_of(kernels[name]) for name in (kernels if names is None else names))
    apart = {code_of(kernel) for kernel in kernels.values() if CODE in kernel.attrs}
    for name, kernel in kernels.items():
        if name in wanted and code_of(kernel) == name:
            emit_kernel(module, kernel)
            begin(module)
    module.tell_control(HOST_ATTRIBUTES)
    module.merge_equal(apart)
    return module


def artifact(
    lowered: Module, entry: str, cpu: CpuPlatform, locate: Locate, *, name: str, returns_tuple: bool
) -> Artifact:
    """The function with the symbol `entry`, ready to run."""
    functions, kernels = reached_functions(lowered, entry, CALL), kernels_of(lowered)
    launched = {name for func in functions for name in launched_outside_loops(func)}
    find_held = partial(shared_object, machine=cpu.code)
    return build_artifact(
        lambda begin: kernel_code(lowered, cpu, launched, begin, find_held),
        functions,
        kernels,
        cpu.code,
        lambda memory: buffer_bytes(memory, cpu.tiles),
        locate,
        sorted({code_of(kernels[name]) for name in launched if CODE in kernels[name].attrs}),
        name=name,
        returns_tuple=returns_tuple,
    )


def holds_code(cpu: CpuPlatform) -> Holds:
    """Whether the code of a kernel that many programs have was made before."""
    return lambda name: shared_object(name, cpu.code) is not None
