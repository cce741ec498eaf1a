"""In which passes over its rows a launch needs a value.

A row launch walks its folded axis once per level of reductions, and once more for the results that have that axis:
pass p computes the reductions whose operands need p earlier ones.
"""

from __future__ import annotations

from tesserac.ir.core import Op, Value
from tesserac.schedule.dialect import launch_keep, launch_places, launch_space
from tesserac.schedule.space import yielded_op


def level(value: Value) -> int:
    """How many reductions stand one behind the other before a value."""
    op = value.defining_op
    if op is None:
        return 0
    below = max((level(v) for v in op.operands), default=0)
    return below + 1 if op.name == "form.reduce" else below


def has_fold(launch: Op, op: Op) -> bool:
    """Whether a result has the folded axis."""
    return len(launch_places(launch)[launch.body.ops.index(op)]) == len(launch_space(launch))


def final_pass(launch: Op) -> int:
    """The pass that writes the results with the folded axis: behind the last reduction."""
    return 1 + max((level(op.result) for op in launch.body.ops[:-1] if op.name == "form.reduce"), default=0)


def passes_that_need(launch: Op, op: Op) -> frozenset[int]:
    """The passes in which an element of a value with the folded axis is used."""
    needed: set[int] = set()
    for user, _ in op.result.uses:
        if user.name == "form.reduce":
            needed.add(level(user.operands[0]))
        elif user.name == "form.map" and has_fold(launch, user):
            later = passes_that_need(launch, user)
            kept = launch.body.ops.index(user) in launch_keep(launch)
            needed |= {min(later)} if kept and later else later
    if any(yielded_op(v) is op for v in launch.body.terminator.operands):
        needed.add(final_pass(launch))
    return frozenset(needed)
