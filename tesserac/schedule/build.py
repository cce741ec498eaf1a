"""Forms to a host program: groups become launches, values between them become buffers.

Enters: a `func.func` in normal form. Leaves: a `schedule.func` whose launches and memory are still undecided.

    func.func @f { ^(%x): %y = form.map(%x) ...; func.return(%y) }
becomes
    schedule.func @f { ^(%x): %m = schedule.buffer() {role = "output", slot = 0}; schedule.launch(%x, %m) ... }
"""

from __future__ import annotations

from tesserac.base.source import NO_SPAN
from tesserac.ir.calls import CALLED
from tesserac.ir.core import OPDEFS, Attr, Block, Module, Op, Region
from tesserac.ir.forms import tensor_type
from tesserac.ir.func import guards
from tesserac.ir.passes import FORMS, SCHEDULE, Pass
from tesserac.schedule.control import run_block
from tesserac.schedule.host.donate import donated, settle
from tesserac.schedule.host.program import HostProgram, memory_of
from tesserac.schedule.machine import Machine

_KEPT = ("sym_name", "params", "donated", "numerics", CALLED)


def host_pass(machine: Machine) -> Pass:
    """FORMS to SCHEDULE: what is launched, in which order, and where it lies."""
    return Pass("host", FORMS, SCHEDULE, lambda module: Module([build_host(func, machine) for func in module.ops]))


def build_host(func: Op, machine: Machine) -> Op:
    """The host program of a function."""
    block = Block([memory_of(tensor_type(a)) for a in func.body.args], [a.name for a in func.body.args])
    program = HostProgram(block, machine, func.span)
    for guard in guards(func):
        with program.builder.spanned(func.span if guard.span == NO_SPAN else guard.span):
            program.builder.op("schedule.guard", (), (), {"guard": guard})
    program.memory.update(zip(func.body.args, block.args, strict=True))
    for op in func.body.ops:
        if op.name == "form.parts":
            program.memory[op.result] = program.parts(program.memory[op.operands[0]], tensor_type(op.result))
    for op in func.walk():
        if op.name == "form.table":
            program.memory[op.result] = program.table(op)
    program.take_results(func.body.terminator)
    given = donated(func) if machine.takes_arguments else {}
    for position, place in given.items():
        program.share(position, func.body.args[place], func.body.terminator)
    run_block(program, func.body, [func.body.args[place] for place in given.values()])
    settle(program, block, given)
    results = [program.results[i] for i in range(len(program.results))]
    program.builder.op("schedule.return", results)
    kept: dict[str, Attr] = {name: func.attrs[name] for name in _KEPT if name in func.attrs}
    return Op(OPDEFS["schedule.func"], (), (), kept, [Region(block)], func.span)
