"""stage(launch, operand, layout, depth): copies blocks of a contraction's operand nearer to the computing unit, or of
what the products of a tile program read.

    before  stages = []
    after   stages = [#staging<operand=0, layout="panels", depth=3>]

On a GPU that is shared memory with `depth` copies in flight, on a CPU packed panels of the block, or one `panel` after
the other. An operand that every program reads had better be laid out once, before the grid:

stage_before_grid(contract, layout): a map of its own writes the right operand as panels.

    before  %y = form.contract(%a, %b)
    after   %p = form.map(%b) {layout = "panels"} { copy };  %y = form.contract(%a, %p)
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op
from tesserac.schedule.dialect import Staging, launch_kind, launch_stages
from tesserac.schedule.forms.views import copy_of
from tesserac.schedule.model.legality import IllegalSchedule

LAYOUTS = ("panels", "panel", "rows", "tiles", "terms")


def stage(launch: Op, operand: int, layout: str, depth: int) -> None:
    if launch_kind(launch) not in ("contract", "program"):
        raise IllegalSchedule("stage", f"a {launch_kind(launch)} launch reads each element once", launch)
    if layout not in LAYOUTS or depth < 1:
        raise IllegalSchedule("stage", f"there is no layout {layout} of depth {depth}; use {LAYOUTS}", launch)
    if any(s.operand == operand for s in launch_stages(launch)):
        raise IllegalSchedule("stage", f"operand {operand} is staged already", launch)
    launch.attrs["stages"] = (*launch_stages(launch), Staging(operand, layout, depth))


def stage_before_grid(contract: Op, layout: str) -> Op:
    """Returns the map that lays the right operand out; fusion may still put its producer into it."""
    if contract.name != "form.contract":
        raise IllegalSchedule("stage", f"{contract.name} has no operand to lay out", contract)
    packed = copy_of(Builder.before(contract), contract.operands[1])
    packed.attrs["layout"] = layout
    contract.set_operand(1, packed.result)
    return packed
