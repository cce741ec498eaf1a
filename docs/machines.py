"""The page of machines, made of the records that the compiler reads."""

from __future__ import annotations

from tesserac.commands.machines import describe_machine
from tesserac.schedule.machine import CPUS, GPUS, Machine

PAGE = """\
# Machines

The compiler knows one record of each kind of machine. Scheduling, tiles and code all read it: how many cores there
are, what stays near them, how wide their registers are, what a program may hold. `--target` names a record; `cpu` is
the machine at hand: the record that says the most of it, with the cores, caches and instructions that it has (cores
are those that the process may use: it may be bound to some, or its control group may pay for fewer). `tesserac
machine` shows what was found, and `tesserac machine --target cuda:sm_90a` one record.

A bundle says what it was built for, and its code for a CPU needs the instructions that its record lists: a machine
that lacks one refuses it before any of it runs. Of the same program, a record decides blocks, copies and registers,
and so time; no bit of a result depends on it. Rates are those of data sheets; `tesserac inspect` names bounds by
them.
"""


def machines_page() -> str:
    return "\n".join([PAGE, "## CPUs\n", *map(_record, CPUS), "## GPUs\n", *map(_record, GPUS)])


def _record(machine: Machine) -> str:
    return f"```text\n{describe_machine(machine)}```\n"
