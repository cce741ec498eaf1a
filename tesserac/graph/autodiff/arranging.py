"""Control flow of a `@jvp_of` rule in the form that forward mode gives it: tangents last, and counted.

Enters: operations of a rule where it was put, and the tangents that it was given. Leaves: the same operations. A loop
of a rule may carry values and tangents in any order,

    for i in range(n):                    form.loop(0, n, dx, x) { ... }
        dx, x = cos(x) * dx, sin(x)       becomes form.loop(0, n, x, dx) {tangents = 1} { ... }

and what is linear is then told apart from what is not, as in any other loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.graph.autodiff.dialect import CHECKPOINT, TANGENTS
from tesserac.graph.autodiff.errors import BY_TANGENTS, NotDifferentiable
from tesserac.graph.autodiff.linear import replace_results, tangent_count, used_values
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value

_FIRST = {"form.loop": (2, 1), "form.while": (0, 0), "form.cond": (1, 0), CHECKPOINT: (0, 0)}
"""Control flow: how many operands, and how many arguments of its body, stand before what it carries."""
_LOOPS = ("form.loop", "form.while")


def arrange(ops: Sequence[Op], tangents: set[Value]) -> bool:
    """Arranges operations that stand one after the other. `tangents` grows by what depends on them. Whether there is
    control flow that says what of it is linear."""
    found = False
    for op in list(ops):
        if not tangents.isdisjoint(used_values(op)):
            if op.name in _FIRST and TANGENTS not in op.attrs:
                op = _arranged(op, tangents)
            found = found or TANGENTS in op.attrs
            tangents.update(_linear_results(op, tangents))
    return found


def _arranged(op: Op, tangents: set[Value]) -> Op:
    places = _active(op, tangents)
    order = [*(place for place in range(len(op.results)) if place not in places), *places]
    new = op if order == sorted(order) else _reordered(op, order)
    inside = [_arrange_region(new, region.block, len(places), tangents) for region in new.regions]
    if any(inside) or 0 < len(places) < len(new.results):
        new.attrs[TANGENTS] = len(places)
    return new


def _arrange_region(op: Op, block: Block, count: int, tangents: set[Value]) -> bool:
    own = set(block.args[len(block.args) - count :]) if op.name in _LOOPS else set()
    return arrange(block.ops[:-1], tangents | own)


def _reordered(op: Op, order: Sequence[int]) -> Op:
    """The same with its results, and what it carries, in this order."""
    operands, args = _FIRST[op.name]
    blocks = [region.block for region in op.regions]
    for block in blocks:
        if op.name in _LOOPS:
            block.args = [*block.args[:args], *(block.args[args + place] for place in order)]
            for index, arg in enumerate(block.args):
                arg.index = index
        if op.name != "form.while" or block is blocks[-1]:
            block.terminator.set_operands([block.terminator.operands[place] for place in order])
    carried = [op.operands[operands + place] for place in order] if op.name in _LOOPS else []
    results = [op.results[place] for place in order]
    op.regions.clear()
    names, given = [v.name for v in results], (*op.operands[:operands], *carried)
    new = Builder.before(op).op(op.name, given, [v.type for v in results], op.attrs, blocks, names)
    places = [order.index(place) for place in range(len(order))]
    replace_results(op, [new.results[place] for place in places])
    return new


# ------------------------------------------------------------------------------------------- what depends on tangents


def _active(op: Op, tangents: set[Value]) -> list[int]:
    """The results of control flow that depend on tangents; which way it goes does not."""
    operands, args = _FIRST[op.name]
    if op.name not in _LOOPS:
        if not tangents.isdisjoint(op.operands):
            raise NotDifferentiable(op.span, "this", BY_TANGENTS)
        yields = [_yielded(region.block, tangents) for region in op.regions]
        return [place for place in range(len(op.results)) if any(place in found for found in yields)]
    active = {place for place, init in enumerate(op.operands[operands:]) if init in tangents}
    while True:
        *tests, body = (region.block for region in op.regions)
        for test in tests:
            if _yielded(test, tangents | {test.args[place] for place in active}):
                raise NotDifferentiable(op.span, "this", BY_TANGENTS)
        found = _yielded(body, tangents | {body.args[args + place] for place in active})
        if found <= active:
            return sorted(active)
        active |= found


def _yielded(block: Block, tangents: set[Value]) -> set[int]:
    """Which of the values that a body ends with depend on tangents."""
    known = set(tangents)
    for op in block.ops[:-1]:
        if not known.isdisjoint(used_values(op)):
            known.update(_linear_results(op, known))
    return {place for place, value in enumerate(block.terminator.operands) if value in known}


def _linear_results(op: Op, tangents: set[Value]) -> Sequence[Value]:
    if TANGENTS in op.attrs:
        return op.results[len(op.results) - tangent_count(op) :]
    return [op.results[place] for place in _active(op, tangents)] if op.name in _FIRST else op.results
