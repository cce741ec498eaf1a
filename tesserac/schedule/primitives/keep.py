"""keep(launch, position): keeps a value of a row in scratch between the passes over it, in place of computing it again.

    before  keep = []      pass 1: max(f(x))   pass 2: sum(g(x, m))            pass 3: g(x, m) / s
    after   keep = [2]     pass 1: max(f(x))   pass 2: sum(t = g(x, m)), keep t   pass 3: t / s
"""

from __future__ import annotations

from tesserac.ir.core import Op
from tesserac.schedule.dialect import launch_keep, launch_kind, launch_places, launch_space
from tesserac.schedule.model.legality import IllegalSchedule


def keep(launch: Op, position: int) -> None:
    op = launch.body.ops[position]
    if launch_kind(launch) != "rows":
        raise IllegalSchedule("keep", f"a {launch_kind(launch)} launch has one pass, nothing to keep", launch)
    if op.name != "form.map":
        raise IllegalSchedule("keep", f"{op.name} is no map over the rows", launch)
    if len(launch_places(launch)[position]) != len(launch_space(launch)):
        raise IllegalSchedule("keep", "a value without the folded axis is one per row and kept anyway", launch)
    launch.attrs["keep"] = tuple(sorted({*launch_keep(launch), position}))
