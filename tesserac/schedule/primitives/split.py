"""split(launch, loop, block): walks a loop in blocks.

    before  #loop<axes=[0], size=`N`, block=1, kind="parallel">
    after   #loop<axes=[0], size=`N`, block=4096, kind="parallel">

The last block is cut at the end of the dim. A folded loop may only be cut where its order of summation allows: a
reduction at its own blocks, or not at all where all of it is known to fit in one; a contraction at divisors of its
segments.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.ir.core import Op
from tesserac.numerics.order import Blocks, Chain
from tesserac.schedule.dialect import Loop, folded_most, launch_loops
from tesserac.schedule.model.legality import IllegalSchedule
from tesserac.schedule.model.space import computing


def split(launch: Op, loop: int, block: int) -> None:
    loops = list(launch_loops(launch))
    if why := _refusal(launch, loops[loop], block):
        raise IllegalSchedule("split", why, launch)
    loops[loop] = replace(loops[loop], block=block)
    launch.attrs["loops"] = tuple(loops)


def _refusal(launch: Op, loop: Loop, block: int) -> str | None:
    if block < 1:
        return f"a block of {block} elements"
    size = folded_most(launch, loop)
    whole = size is not None and size <= block
    for op in computing(launch) if loop.kind != "parallel" else ():
        order = op.attrs.get("order")
        if isinstance(order, Blocks) and block != order.block and not (whole and block < order.block):
            return f"the reduction sums in blocks of {order.block}; a block of {block} would change its bits"
        if isinstance(order, Chain) and order.length % block:
            return f"the chain is cut every {order.length} terms, which {block} does not divide"
    return None
