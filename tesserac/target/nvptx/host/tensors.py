"""Launches for several tensors, of a compiled host program.

Enters: a launch with lengths. Leaves: code that writes the table of all tensors and starts the kernel with it. The
table is the only parameter of the kernel: first the first program of each tensor, then a row for each with what the
kernel would be given for it alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from tessera.gpu_program import NO_PROGRAM, Argument, Kernel, Launch, table_firsts
from tesserac.schedule.dialect import LENGTH
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I64, Value, array, const_i64
from tesserac.target.nvptx.host.launches import Host, emit_size, start_kernel
from tesserac.tile.gpu.model.errors import LoweringError


def launch_tensors(
    b: Builder, host: Host, step: Launch, call: Value, addresses: Value, symbols: Mapping[str, Value]
) -> None:
    (number,) = step.kernels
    kernel, many = host.program.kernels[number], len(step.operands) // len(step.lengths)
    check_table(kernel)
    firsts, rows, total = list[Value](), list[Value](), const_i64(0)
    for place, length in enumerate(step.lengths):
        own = {**symbols, LENGTH: emit_size(b, length, symbols)}
        operands = step.operands[place * many : (place + 1) * many]
        rows += [b.load(I64, b.gep(I64, addresses, operand), 8) for operand in operands]
        rows += [own[name] for name in kernel.symbols]
        firsts.append(total)
        total = b.add(total, emit_size(b, kernel.programs, own))
    firsts += [const_i64(NO_PROGRAM)] * (table_firsts(len(firsts)) - len(firsts))
    table = b.alloca(array(I64, len(firsts) + len(rows)), 8)
    for place, word in enumerate([*firsts, *rows]):
        b.store(word, b.gep(I64, table, place), 8)
    start_kernel(b, host, call, number, (total, emit_size(b, kernel.shared, symbols)), table, 1)


def check_table(kernel: Kernel) -> None:
    """A table has memory of the program and sizes, and one kernel is for all of it."""
    plain = not kernel.conditions and not kernel.persistent
    if not plain or not all(isinstance(parameter, Argument) for parameter in kernel.parameters):
        raise LoweringError(f"kernel `{kernel.name}` is launched for several tensors, and needs more than their memory")
