"""In which passes over its rows a launch needs a value.

A row launch walks its folded axis once per level of reductions, and once more for the results that have that axis:
pass p computes the reductions whose operands need p earlier ones.
"""

from __future__ import annotations

from tesserac.ir.core import Op, Value
from tesserac.schedule.dialect import launch_keep, launch_places, launch_space
from tesserac.schedule.model.space import yielded_op


class Passes:
    """The passes of a row launch."""

    def __init__(self, launch: Op) -> None:
        self.launch = launch
        self._ops = launch.body.ops[:-1]
        places, rank = launch_places(launch), len(launch_space(launch))
        self._folded = {op for op, place in zip(self._ops, places, strict=True) if len(place) == rank}
        self._levels: dict[Op, int] = {}
        for op in self._ops:
            below = max((self.level(v) for v in op.operands), default=0)
            self._levels[op] = below + 1 if op.name == "form.reduce" else below

    def level(self, value: Value) -> int:
        """How many reductions stand one behind the other before a value."""
        op = value.defining_op
        return 0 if op is None else self._levels[op]

    def has_fold(self, op: Op) -> bool:
        """Whether a result has the folded axis."""
        return op in self._folded

    @property
    def last(self) -> int:
        """The pass that writes the results with the folded axis: behind the last reduction."""
        return 1 + max((n for op, n in self._levels.items() if op.name == "form.reduce"), default=0)

    def needed(self) -> dict[Op, frozenset[int]]:
        """Per value with the folded axis, the passes that use its elements; a kept one is computed in the first."""
        kept = {self._ops[i] for i in launch_keep(self.launch)}
        written = {yielded_op(v) for v in self.launch.body.terminator.operands}
        found: dict[Op, frozenset[int]] = {}
        for op in reversed(self._ops):
            if op not in self._folded:
                continue
            passes = {self.last} if op in written else set()
            for user, _ in op.result.uses:
                if user.name == "form.reduce":
                    passes.add(self.level(op.result))
                elif user in found:
                    later = found[user]
                    passes |= {min(later)} if user in kept and later else later
            found[op] = frozenset(passes)
        return found
