"""The order of effects, as data that passes keep and the verifier checks.

Enters: functions as they were built. Leaves: the same with a place for every operation that has an effect, and for
every call of a function that has one; and what each function does, for those that call it.

    graph.func @loud {effects = ["io"], ...} { ... form.print(%x) {io = [0], ...} ... }
    graph.func @f {effects = ["io"], ...} {
      ... graph.call(%x) {callee = "loud", io = [0], ...} ... form.assert(%ok) {io = [1], ...}

    graph.func @g {effects = ["collective"], ...} {
      ... graph.all_reduce_sum(%x) {collective = [0], ...} ... graph.all_gather(%y) {collective = [1], ...}

Places ascend through the text of a function, loops and branches included. What is copied to where a call stood goes
behind the place of that call: `[0]` in @loud becomes `[0, 0]` in @f. See Note [What has no place].
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from tesserac.ir.core import Module, Op, VerifyError

IO, COLLECTIVE = "io", "collective"
ORDERED = (IO, COLLECTIVE)
"""The effects that operations have."""
Place = tuple[int, ...]


class _Effects:
    """What the functions of a module do besides computing, each looked at once."""

    def __init__(self, module: Module) -> None:
        self._functions = {function.symbol: function for function in module.ops}
        self._known: dict[str, frozenset[str]] = {}

    def of_op(self, op: Op) -> frozenset[str]:
        """What an operation does itself, or what it calls; of a callee that nobody knows, everything."""
        if op.opdef.effect:
            return frozenset((op.opdef.effect,))
        callee = op.attrs.get("callee")
        return self.of_function(callee) if isinstance(callee, str) else frozenset()

    def of_function(self, symbol: str) -> frozenset[str]:
        if symbol not in self._functions:
            return frozenset(ORDERED)
        if symbol not in self._known:
            self._known[symbol] = frozenset()  # one that calls itself adds nothing by that
            found = [self.of_op(op) for op in self._functions[symbol].walk()]
            self._known[symbol] = frozenset().union(*found)
        return self._known[symbol]

    def having(self, function: Op) -> Iterator[tuple[Op, str]]:
        """The operations with an effect, and which, in the order of the program."""
        for op in function.walk():
            if op.opdef.effect or "callee" in op.attrs:  # almost none
                found = self.of_op(op)
                yield from ((op, effect) for effect in ORDERED if effect in found)


def has_place(op: Op) -> bool:
    """Whether an operation has an effect, or calls what has one: such a place was given to it."""
    return any(effect in op.attrs for effect in ORDERED)


def forget_places(op: Op) -> None:
    """From here on a call computes what its function does, and does nothing else."""
    for effect in ORDERED:
        op.attrs.pop(effect, None)


def order_effects(module: Module) -> None:
    """Gives every operation that has an effect its place: that of the program."""
    effects = _Effects(module)
    for function in module.ops:
        numbers = {effect: count() for effect in ORDERED}
        for op, effect in effects.having(function):
            op.attrs[effect] = (next(numbers[effect]),)
        found = tuple(effect for effect in ORDERED if effect in effects.of_function(function.symbol))
        if found:
            function.attrs["effects"] = found
        else:
            function.attrs.pop("effects", None)


def behind(op: Op, call: Op) -> None:
    """Places of what is copied to where a call stands."""
    for effect in ORDERED:
        first = call.attrs.get(effect)
        for inner in op.walk():
            own = inner.attrs.get(effect)
            if isinstance(own, tuple) and isinstance(first, tuple):
                inner.attrs[effect] = (*first, *own)


def verify_order(module: Module) -> None:
    """Raises VerifyError where an effect has no place, or stands before what the program does first."""
    effects = _Effects(module)
    for function in module.ops:
        last: dict[str, Place] = {}
        for op, effect in effects.having(function):
            place, before = _place(op, effect), last.get(effect, ())
            if place <= before:
                raise VerifyError(f"has the place {list(place)} of {effect}, after {list(before)}", op)
            last[effect] = place


def verify_effects(function: Op) -> None:
    """Raises VerifyError where a function does not say what is done inside."""
    said = function.attrs.get("effects", ())
    for op in function.walk():
        for effect in ORDERED:
            if effect in op.attrs and not (isinstance(said, tuple) and effect in said):
                raise VerifyError(f"does not say that it has the effect {effect}", function)


def _place(op: Op, effect: str) -> Place:
    attr = op.attrs.get(effect)
    numbers = tuple(number for number in attr if isinstance(number, int)) if isinstance(attr, tuple) else ()
    if not numbers:
        raise VerifyError(f"has the effect {effect} and no place", op)
    return numbers


# Note [What has no place]
# Only operations that act on the world beside the results are ordered. Random numbers and state are values: a stream's
# key and a cache are operands and results, so that their order is that of the data, which no pass can break unseen. An
# assertion has its place among the `io`, since what is printed before it must be seen, and what is printed after must
# not.

# Note [Collectives]
# Devices that compute together wait for each other, so all must come to the same collectives in one order. What has a
# place is never dropped, even if nobody reads it; two are never exchanged, since places ascend, and never merged, since
# their places differ. None is under a condition on which devices may differ: the checker refuses such a program, and
# `graph/uniformity.py` such IR. As operators they are `pure`: what a rule of differentiation writes has no place yet,
# and goes if it is not needed. A place ends with the collective: where `pmap` takes all devices, or one device is all
# there are, it becomes operators that compute.
