"""The operation of neutral tiles for loops that each place goes through by itself.

    tile.apart(low, high, init...) { ^(i, carried...): ... tile.yield(next...) } { ^(last...): ... tile.yield }

As tile.for in steps of one, but all that is computed, carried and stored is over one axis, and no place of it asks for
another: so a target may take each place, or a few, through all iterations before the next. The second region stores
what they leave.
"""

from __future__ import annotations

from tesserac.ir.core import Op, define_op
from tesserac.ir.verify import require


def _verify_apart(op: Op) -> None:
    inits = [v.type for v in op.operands[2:]]
    step, last = (r.block for r in op.regions)
    require([a.type for a in step.args[1:]] == inits, "its body must take the carried values", op)
    require([a.type for a in last.args] == inits and not op.results, "leaves what it carries to its last region", op)
    require([v.type for v in step.terminator.operands] == inits, "must yield what it carries", op)


define_op("tile.apart", pure=False, verify=_verify_apart)
