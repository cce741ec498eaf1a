"""Schedule to neutral Tile: every launch becomes a kernel, and its place in the host program a `tile.launch`.

Enters: a module of `schedule.func` with decided launches. Leaves: the kernels, then the host programs, which now
contain only guards, buffers, tile launches, checks of what kernels tell, and host control flow. A kernel's argument is
the memory of the launch operand at the same base address, under the shape and strides that its loops want
(`frame.py`).
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Module, Op
from tesserac.ir.passes import SCHEDULE, TILE, Pass
from tesserac.schedule.dialect import launch_kind, memory
from tesserac.schedule.machine import Machine
from tesserac.tile.build_contract import build_contract
from tesserac.tile.build_map import build_map
from tesserac.tile.build_rows import build_rows
from tesserac.tile.build_runs import build_runs
from tesserac.tile.build_scan import build_scan
from tesserac.tile.build_scatter import build_scatter
from tesserac.tile.build_sort import build_sort
from tesserac.tile.frame import Frame
from tesserac.tile.merge import merge_maps
from tesserac.tile.share import share_kernels
from tesserac.tile.status import add_status, check_attrs
from tesserac.types.dims import ZERO, product

BUILDERS = {
    "map": build_map,
    "pack": build_map,
    "rows": build_rows,
    "contract": build_contract,
    "scatter": build_scatter,
    "scan": build_scan,
    "sort": build_sort,
    "runs": build_runs,
}


def tile_pass(machine: Machine) -> Pass:
    """SCHEDULE to TILE. What the machine wants stands in the schedule already; its name is part of the pass's."""

    def run(module: Module) -> Module:
        kernels: list[Op] = []
        hosts = list(module.ops)
        for host in hosts:
            launches = [op for op in host.walk() if op.name == "schedule.launch"]
            for number, launch in enumerate(launches):
                kernels.append(_build(host, launch, f"{host.symbol}${number}"))
            host.detach()
        return Module([*share_kernels(kernels, hosts), *hosts])

    return Pass(f"tile for {machine.arch}", SCHEDULE, TILE, run)


def _build(host: Op, launch: Op, name: str) -> Op:
    frame = Frame(launch)
    BUILDERS[launch_kind(launch)](frame)
    kernel = frame.finish(name)
    merge_maps(kernel)
    builder = Builder.before(launch)
    told = [add_status(host, check) for check in frame.checks]
    operands, touched = frame.operands(), frame.touched()
    whole = sum((product(memory(v).dims) for v in operands), ZERO)
    attrs: dict[str, Attr] = {"kernel": name} if touched == whole else {"kernel": name, "touched": touched}
    builder.op("tile.launch", [*operands, *told], (), attrs)
    for check, status in zip(frame.checks, told, strict=True):
        with builder.spanned(check.span):
            builder.op("schedule.check", (status,), (), check_attrs(check))
    launch.erase()
    return kernel
