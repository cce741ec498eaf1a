"""Whether a target runs a tile program as such, and what that costs: it is built for it once, and thrown away.

Enters: a `form.kernel` that stands nowhere yet. Leaves: why it does not run as tiles, for people; nothing if it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.graph.passes.place_kernels import Placement, Tiles, Tuned, untuned
from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Attr, Block, Module, Op, Region, clone_op
from tesserac.ir.kernels import MOST_WHOLE
from tesserac.ir.meaning import meaning
from tesserac.ir.passes import Pass, run_passes
from tesserac.schedule.costs.estimate import estimate, loses_much
from tesserac.schedule.machine import Machine
from tesserac.tile.build import build_kernel
from tesserac.tile.cpu import tiles as cpu
from tesserac.tile.cpu.lower import lower_kernel as lower_cpu
from tesserac.tile.cpu.target import cpu_target
from tesserac.tile.no_tiles import NoTiles


def tiles_of(
    machine: Machine, forms: Sequence[Pass], launches: Sequence[Pass], tuned: Tuned = untuned
) -> Tiles:
    """A machine as it is asked: `forms` take Graph IR to forms, `launches` those to launches."""

    def cost(module: Module) -> int:
        (host,) = run_passes(module, launches, verify=False).ops
        return estimate(host, machine)

    rooms = MOST_WHOLE if machine.warps else MOST_WHOLE[-1:]  # a core goes over what there is
    return Tiles(machine.target, forms, try_program(machine, launches), cost, tuned, rooms)


def try_program(machine: Machine, passes: Sequence[Pass]) -> Callable[[Op], Placement]:
    """For one machine, with the passes that take forms to launches. Bits do not depend on the answer. The layers of a
    model have programs that do the same, of which each is tried once."""
    known: dict[str, Placement] = {}

    def tried(kernel: Op) -> Placement:
        key = meaning(kernel)
        if key not in known:
            known[key] = tried_anew(kernel)
        return known[key]

    def tried_anew(kernel: Op) -> Placement:
        from tesserac.tile.programs.build import Program

        (host,) = run_passes(_alone(kernel), passes, verify=False).ops
        (launch,) = (op for op in host.walk() if op.name == "schedule.launch")
        try:
            built, program = build_kernel(launch, "program")
            _lower(built, machine)
        except (NoTiles, cpu.LoweringError) as reason:
            return Placement(str(reason))
        assert isinstance(program, Program)
        return Placement("", tuple(program.limits.items()), estimate(host, machine), loses_much(launch, machine))

    return tried


def _lower(kernel: Op, machine: Machine) -> None:
    if machine.vectors is None:
        from tesserac.tile.gpu.lower import lower_kernel as lower_gpu  # twenty modules, of no use to a processor
        from tesserac.tile.gpu.model.errors import LoweringError

        try:
            lower_gpu(kernel, machine)
        except LoweringError as reason:
            raise NoTiles(str(reason)) from None
    else:
        lower_cpu(kernel, cpu_target(machine))


def _alone(kernel: Op) -> Module:
    """A function that does nothing but run the program."""
    block = Block([v.type for v in kernel.operands])
    builder = Builder(block, kernel.span)
    copy = builder.add(clone_op(kernel, dict(zip(kernel.operands, block.args, strict=True))))
    builder.op("func.return", copy.results)
    params = tuple(f"x{i}" for i in range(len(block.args)))
    attrs: dict[str, Attr] = {"sym_name": "program", "params": params, "guards": ()}
    return Module([Op(OPDEFS["func.func"], (), (), attrs, [Region(block)], kernel.span)])
