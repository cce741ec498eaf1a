"""merge(launch, loop): walks a loop and the next one as one index.

    before  #loop<axes=[0], size=`M`, ...>, #loop<axes=[1], size=`N`, ...>
    after   #loop<axes=[0, 1], size=`M*N`, ...>

Legal where every operand sees the two as one run in memory, or does not vary along either.
"""

from __future__ import annotations

from tesserac.ir.core import Op
from tesserac.schedule.dialect import Loop, launch_loops, launch_space
from tesserac.schedule.model.legality import IllegalSchedule
from tesserac.schedule.model.space import Reach, positions_used, reaches
from tesserac.types.dims import ONE


def merge(launch: Op, loop: int) -> None:
    if why := refusal(launch, loop, reaches(launch)):
        raise IllegalSchedule("merge", why, launch)
    loops = list(launch_loops(launch))
    outer, inner = loops[loop : loop + 2]
    loops[loop : loop + 2] = [Loop(outer.axes + inner.axes, outer.size * inner.size, 1, outer.kind)]
    launch.attrs["loops"] = tuple(loops)


def refusal(launch: Op, loop: int, found: list[Reach]) -> str | None:
    """Why two loops cannot be one; None if they can. `found` are the reaches of the launch."""
    space = launch_space(launch)
    outer, inner = launch_loops(launch)[loop : loop + 2]
    if outer.kind != inner.kind:
        return f"a {outer.kind} loop and a {inner.kind} loop are walked differently"
    if outer.block != 1 or inner.block != 1:
        return "a loop is split already"
    axes = outer.axes + inner.axes
    if len(axes) > 1 and positions_used(launch) & {a for a in axes if space[a] != ONE}:
        return "a body asks for the position along one of the axes"
    for reach in found:
        if reach.panels or reach.stride(axes, space) is None:
            return f"operand {reach.operand} does not see the axes {axes} as one run in memory"
    return None
