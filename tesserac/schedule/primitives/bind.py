"""bind(launch, warps, roles): says what runs one program.

    before  units = #units<warps=1, roles="uniform">
    after   units = #units<warps=12, roles="producer_consumer">
"""

from __future__ import annotations

from tesserac.ir.core import Op
from tesserac.schedule.dialect import Units, launch_stages
from tesserac.schedule.model.legality import IllegalSchedule

ROLES = ("uniform", "producer_consumer")


def bind(launch: Op, warps: int, roles: str) -> None:
    if roles not in ROLES or warps < 1:
        raise IllegalSchedule("bind", f"there are no {warps} warps with roles {roles}; use {ROLES}", launch)
    if roles == "producer_consumer" and not any(s.depth > 1 for s in launch_stages(launch)):
        raise IllegalSchedule("bind", "a producer needs an operand staged with a depth of at least 2", launch)
    launch.attrs["units"] = Units(warps, roles)
