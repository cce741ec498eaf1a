"""What a function costs on a target: the section `costs` of `tesserac inspect`.

Enters: the levels of a function. Leaves: per launch the bytes it moves, the operations it computes, which of the two
bounds it, and the least time that leaves; on a GPU per kernel what became of its products, registers, spills, shared
memory, programs that a multiprocessor holds at once, and bank conflicts. Sizes that only a run knows are nominal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import floor

from tesserac.commands.levels import FunctionLevels
from tesserac.commands.machines import rate, size
from tesserac.commands.outcome import UsageMistake
from tesserac.commands.targets import GpuTarget, kernel_ptx
from tesserac.ir.core import Module, Op
from tesserac.ir.forms import tensor_type
from tesserac.schedule.costs.estimate import launch_work
from tesserac.schedule.dialect import KEPT, LENGTH, launch_kind
from tesserac.schedule.machine import Machine, Residency
from tesserac.schedule.traffic import chosen_region, launch_bytes
from tesserac.target.nvptx.blocks import block_bytes, block_threads
from tesserac.target.nvptx.build import kernels_of
from tesserac.target.nvptx.ptx import Assembled, AssemblerError, assemble, find_ptxas
from tesserac.tile.gpu.model.banks import accesses
from tesserac.tile.gpu.model.types import FALLS, RISES, VARIES, WORK, StagesType
from tesserac.tile.gpu.model.values import is_persistent, kernel_conditions, kernel_threads, matrix_unit_of
from tesserac.types.dims import Dim

MULTIPLY = ("gpu.multiply", "gpu.multiply_held", "gpu.sum_rows")
WARP = 32
REGISTER_UNIT, WARP_UNIT = 256, 4
"""Registers are handed out to warps in this unit, and warps to schedulers in fours."""
UNITS = {"fma": "fused multiply-adds of threads", "mma": "mma.sync of warps", "wgmma": "wgmma of warp groups"}


def describe_costs(levels: FunctionLevels, at: Mapping[str, int]) -> str:
    """Raises ProgramError, UsageMistake."""
    unknown = [name for name in at if name not in levels.function.symbols]
    if unknown:
        has = ", ".join(f"`{name}`" for name in levels.function.symbols) or "no sizes"
        raise UsageMistake(f"--sizes {unknown[0]}=...: `{levels.function.name}` has {has}")
    machine, host = levels.target.machine, levels.shared.schedule
    sizes = {**{name: machine.nominal for name in _symbols(host)}, **at}
    lines = [f"at {', '.join(f'{name} = {number}' for name, number in sorted(sizes.items()))}"] if sizes else []
    lines += [line for number, op in enumerate(_launches(host), 1) for line in _launch(op, number, sizes, machine)]
    if isinstance(levels.target, GpuTarget):
        for kernel in kernels_of(levels.lowered):
            lines += kernel_facts(kernel, machine, sizes)
    return "".join(f"{line}\n" for line in lines)


def _launches(host: Module) -> list[Op]:
    return [op for op in host.walk() if op.name == "schedule.launch"]


def _symbols(host: Module) -> set[str]:
    """The sizes that only a run knows; counters of loops among them."""
    found: set[str] = set()
    for op in host.walk():
        dims = [dim for value in op.results for dim in getattr(value.type, "dims", ())]
        dims += [dim for region in op.regions for arg in region.block.args for dim in getattr(arg.type, "dims", ())]
        found |= {name for dim in dims if isinstance(dim, Dim) for name in dim.symbols()}
    blocks = {name for name in found if name.startswith("T_") or name == LENGTH}
    return found - blocks


# ---------------------------------------------------------------------------------------------------------- launches


def _launch(launch: Op, number: int, sizes: Mapping[str, int], machine: Machine) -> Iterator[str]:
    if not is_taken(launch, sizes):
        yield f"launch {number}: {launch_kind(launch)}, for {'frozen operands' if _is_kept(launch) else 'other sizes'}"
        return
    moved, work = launch_bytes(launch, sizes), launch_work(launch, sizes, machine)
    peak = machine.matrix_flops if _is_narrow(launch) else machine.peak_flops
    memory, compute = moved / machine.peak_bytes, work / peak
    bound = "memory" if memory >= compute else "arithmetic"
    intensity = f"{work / moved:.1f} operations a byte" if moved else "nothing in memory"
    yield f"launch {number}: {launch_kind(launch)}"
    yield f"  moves    {_bytes(moved)}, at most {rate(machine.peak_bytes)}B/s: {_time(memory)}"
    yield f"  computes {rate(work)}operations, at most {rate(peak)}flop/s: {_time(compute)}"
    yield f"  bound    {bound} ({intensity}): at least {_time(max(memory, compute))}"


def is_taken(launch: Op, sizes: Mapping[str, int]) -> bool:
    """Whether the variants that it belongs to, one inside the other, run at these sizes."""
    block = launch.parent
    while block is not None and (around := block.parent_op) is not None:
        if around.name == "schedule.select" and around.regions[chosen_region(around, sizes)].block is not block:
            return False
        if around.name == KEPT and around.regions[-1].block is not block:
            return False
        block = around.parent
    return True


def _is_kept(launch: Op) -> bool:
    """Whether it fills a pack that is kept, or reads one."""
    makers = [value.defining_op for value in launch.operands]
    return any(made is not None and made.attrs.get("role") == "kept" for made in makers)


def _is_narrow(launch: Op) -> bool:
    """Whether all its products are of numbers that matrix units take."""
    products = [op for op in launch.walk() if op.name == "form.contract"]
    return bool(products) and all(tensor_type(op.operands[0]).dtype.bits == 16 for op in products)


def _bytes(count: float) -> str:
    return size(int(count)) if count >= 1024 else f"{count:.0f} bytes"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


# ----------------------------------------------------------------------------------------------------------- kernels


def kernel_facts(kernel: Op, machine: Machine, sizes: Mapping[str, int]) -> Iterator[str]:
    """What one kernel of a GPU is, has and holds."""
    held = machine.residency
    assert held is not None
    conditions = "; ".join(dict.fromkeys(guard.text for guard in kernel_conditions(kernel)))
    yield f"kernel {kernel.symbol}" + (f", where {conditions}" if conditions else "")
    for text in dict.fromkeys(_products(kernel)):
        yield f"  product  {text}"
    yield f"  threads  {_threads(kernel)}"
    needed = block_bytes(kernel)
    shared = needed.evaluate(dict(sizes)) if needed.symbols() <= sizes.keys() else None
    yield f"  shared   {'of a size that the run knows' if shared is None else _bytes(shared)}{_staged(kernel)}"
    assembled = _assembled(kernel, machine)
    if isinstance(assembled, str):
        yield f"  registers unknown: {assembled}"
    else:
        spilled = f"{assembled.spilled_bytes} bytes spilled" if assembled.spilled_bytes else "nothing spilled"
        yield f"  registers {assembled.registers} a thread, {spilled}, {assembled.stack_bytes} bytes of stack"
        yield f"  holds    {occupancy(held, block_threads(kernel), assembled.registers, shared or 0)}"
    found = list(dict.fromkeys((access.what, access.passes) for access in accesses(kernel)))
    for what, passes in found:
        yield f"  banks    {what}: {'no conflict' if passes == 1 else f'{passes} passes where one would do'}"


def _products(kernel: Op) -> Iterator[str]:
    for op in kernel.walk():
        if op.name in MULTIPLY:
            unit, held = matrix_unit_of(op).name, op.name == "gpu.multiply_held"
            what = "sums of rows" if op.name == "gpu.sum_rows" else str(getattr(op.results[0].type, "shape", ""))
            yield f"{what}: {UNITS[unit]}" + (", its left operand in registers" if held else "")


FIRST = dict.fromkeys((RISES, FALLS), ", those with most to do first") | {VARIES: ", the last programs first"}


def _threads(kernel: Op) -> str:
    roles = [op for op in kernel.walk() if op.name == "gpu.role"]
    parts = [f"{op.attrs['warps']} warps as {op.attrs['name']}{_role_registers(op)}" for op in roles]
    order = "one program after the other" if is_persistent(kernel) else "one program each"
    first = FIRST[str(kernel.attrs[WORK])] if WORK in kernel.attrs else ""
    return f"{kernel_threads(kernel)} ({', '.join(parts) or 'all warps alike'}), {order}{first}"


def _role_registers(role: Op) -> str:
    return f" of {role.attrs['registers']} registers" if role.attrs["registers"] else ""


def _staged(kernel: Op) -> str:
    rings = [op.result.type for op in kernel.walk() if op.name == "gpu.alloc"]
    texts = [f"{ty.depth} x {_bytes(ty.layout.bytes)}{' swizzled' * ty.layout.swizzled}"
             for ty in rings if isinstance(ty, StagesType)]  # fmt: skip
    return f" (stages: {', '.join(texts)})" if texts else ""


def _assembled(kernel: Op, machine: Machine) -> Assembled | str:
    if find_ptxas() is None:
        return "ptxas is not installed; it comes with the package nvidia-cuda-nvcc"
    try:
        return assemble(kernel_ptx(kernel, machine.arch), machine.arch)
    except AssemblerError as problem:
        return str(problem).strip().splitlines()[-1]


def occupancy(held: Residency, threads: int, registers: int, shared: int) -> str:
    """How many programs a multiprocessor has at once, and what limits them."""
    warps = threads // WARP
    per_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    limits = {
        "warps": held.warps // warps,
        "programs": held.blocks,
        "registers": floor(held.registers / per_warp) // WARP_UNIT * WARP_UNIT // warps,
        "shared memory": held.shared_bytes // (shared + held.reserved_bytes),
    }
    count = min(limits.values())
    why = ", ".join(name for name, limit in limits.items() if limit == count)
    return f"{count} programs, {count * warps} of {held.warps} warps, limited by {why}"
