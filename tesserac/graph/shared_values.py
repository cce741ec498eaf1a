"""What the body of a function computes and its caller does too: a derivative computes again what the function did.

Enters: a copy of the body, whose arguments stand for the operands of the call. Leaves: the body with such values as
arguments.

    caller    %z = x @ w, and what the slope of gelu is at %z
    body      gelu(x @ w)     ->     gelu(z)
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import count

from tesserac.graph.passes.cse import expression_key
from tesserac.ir.core import Block, Op, Value


def take_shared(body: Block, call: Op) -> bool:
    """Whether there is any such value."""
    assert call.parent is not None
    numbers = _Numbers()
    for op in call.parent.ops:
        numbers.add(op)
    for arg, value in zip(body.args, call.operands, strict=True):
        numbers.of[arg] = numbers.number(value)
    there = set(numbers.of.values())
    shared = dict.fromkeys(value for op in body.ops[:-1] if numbers.add(op) in there for value in op.results)
    given = [value for value in shared if any(not shared.keys() & set(user.results) for user, _ in value.uses)]
    for value in given:
        value.replace_all_uses(body.add_arg(value.type, value.name))
    return bool(given)


class _Numbers:
    """Values of two blocks, of which equal ones have one number."""

    def __init__(self) -> None:
        self.of: dict[Value, int] = {}
        self._known: dict[Hashable, int] = {}
        self._next = count()

    def number(self, value: Value) -> int:
        if value not in self.of:
            self.of[value] = next(self._next)
        return self.of[value]

    def add(self, op: Op) -> int:
        """The number of the first result, which tells those of the others. What has effects, bodies, or no operands is
        equal to nothing: a constant is not worth being kept."""
        operands = tuple(map(self.number, op.operands))
        is_plain = op.opdef.pure and not op.regions and operands
        for place, value in enumerate(op.results):
            key = (place, expression_key(op, operands)) if is_plain else value
            self.of[value] = self._known.setdefault(key, next(self._next))
        return self.of[op.results[0]] if op.results else -1
