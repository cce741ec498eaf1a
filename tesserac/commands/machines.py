"""`tesserac machine`: what the compiler knows of machines, and what it has found of this one."""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.commands.outcome import Outcome
from tesserac.commands.targets import find_target
from tesserac.schedule.machine import KIB, MACHINES, MIB, Machine


def list_machines(target: str | None) -> Outcome:
    """The record of a target; without one, that of this machine and a line for each of the others."""
    if target is not None:
        return Outcome(describe_machine(find_target(target).machine))
    here = find_target("cpu").machine
    lines = [f"  {machine.target:20} {machine.stands_for}\n" for machine in MACHINES.values()]
    return Outcome(f"this machine, as found:\n{describe_machine(here)}\ntargets:\n{''.join(lines)}")


def describe_machine(machine: Machine) -> str:
    return "".join(f"  {name:18} {text}\n" for name, text in facts(machine))


def facts(machine: Machine) -> Iterator[tuple[str, str]]:
    """What a record says, each with its name."""
    yield "target", f"{machine.target}, described after {machine.stands_for}"
    yield from _gpu_facts(machine) if machine.vectors is None else _cpu_facts(machine)
    f32, narrow = machine.peak_flops, machine.matrix_flops
    yield "at most", f"{rate(f32)}flop/s f32, {rate(narrow)}flop/s bf16, {rate(machine.peak_bytes)}B/s of memory"


def _cpu_facts(machine: Machine) -> Iterator[tuple[str, str]]:
    vectors, (rows, columns) = machine.vectors, machine.register_block
    assert vectors is not None
    yield "cores", str(machine.cores)
    sizes = [size(machine.near_bytes), size(machine.second_bytes), size(machine.last_bytes)]
    yield "caches", "{} first, {} second, {} last".format(*sizes)
    yield "vectors", f"{vectors.registers} of {vectors.vector_bits} bits ({vectors.name})"
    yield "products", f"{rows} x {columns} f32 in registers, panels of {machine.panel_bytes} bytes a row"
    yield "code", f"{machine.code.triple}, {machine.code.cpu}"
    yield "needs", ", ".join(machine.code.needs)


def _gpu_facts(machine: Machine) -> Iterator[tuple[str, str]]:
    held = machine.residency
    assert held is not None
    yield "multiprocessors", str(machine.cores)
    yield "shared memory", f"{size(held.shared_bytes)} each, {size(machine.near_bytes)} for one program at most"
    yield "second cache", size(machine.second_bytes)
    yield "holds", f"{held.warps} warps, {held.blocks} programs, {held.registers} registers each"
    beside = "run beside the warps that feed them" if machine.has_async_matrix_unit else "are waited for by warps"
    yield "matrix units", beside
    yield "code", f"{machine.code.triple}, {machine.code.cpu} {machine.code.features}"


def size(count: int) -> str:
    """Bytes in the unit in which they are told."""
    unit, name = (1024 * MIB, "GiB") if count >= 1024 * MIB else (MIB, "MiB") if count >= MIB else (KIB, "KiB")
    return f"{count / unit:.4g} {name}"


def rate(number: float) -> str:
    """A rate with the letter of its unit."""
    for letter, unit in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if number >= unit:
            return f"{number / unit:.3g} {letter}"
    return f"{number:.3g} "
