"""Collectives stand only where all devices come: the rule of `check/analysis/uniformity.py`, held against the IR.

Enters: a function of the graph. Leaves: nothing, or VerifyError where a collective is under a test that may differ from
device to device: a pass has moved it there, or moved the test.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from functools import cache

from tesserac.ir.core import Op, Value, VerifyError
from tesserac.ir.ordering import COLLECTIVE
from tesserac.ops.collective import Collective
from tesserac.ops.registry import OPERATORS


@cache
def _agreed() -> Set[str]:
    """Operations after which all devices across their axis have the same."""
    kinds = (operator for operator in OPERATORS.values() if issubclass(operator, Collective))
    return {f"graph.{operator.name}" for operator in kinds if operator.agreed}


_BRANCH, _WHILE, _LOOP = "form.cond", "form.while", "form.loop"


def verify_uniformity(function: Op) -> None:
    """Raises VerifyError at a collective that not all devices may come to."""
    meetings = [op for op in function.walk() if op.opdef.effect == COLLECTIVE]
    for axis in sorted({str(op.attrs.get("across")) for op in meetings}):
        differing = _Differing(function, axis)
        for op in meetings:
            if op.attrs.get("across") == axis and differing.decides_on(op):
                raise VerifyError(f'stands where devices along "{axis}" may disagree', op)


class _Differing:
    """The values that may differ from device to device along an axis: arguments of the function, and what is made of
    them. The set only grows, so that what loops carry is found by going on until nothing is added."""

    def __init__(self, function: Op, axis: str) -> None:
        self._axis = axis
        self._values: set[Value] = set(function.body.args)
        before = -1
        while before < len(self._values):
            before = len(self._values)
            for op in function.walk():
                if op is not function:
                    self._visit(op)

    def decides_on(self, op: Op) -> bool:
        """Whether something that may differ decides on whether the program comes to an operation."""
        around = op.parent.parent_op if op.parent is not None else None
        while around is not None:
            test = self._test(around)
            if test is not None and test in self._values:
                return True
            around = around.parent.parent_op if around.parent is not None else None
        return False

    def _test(self, op: Op) -> Value | None:
        if op.name == _BRANCH:
            return op.operands[0]
        return op.regions[0].block.terminator.operands[0] if op.name == _WHILE else None

    def _visit(self, op: Op) -> None:
        if op.name == _BRANCH:
            self._branch(op)
        elif op.name in (_LOOP, _WHILE):
            self._loop(op)
        elif op.regions:
            self._region(op)
        elif not self._is_same(op):
            self._values.update(op.results)

    def _is_same(self, op: Op) -> bool:
        """Whether all devices have the same afterwards. What a call that communicates gives is known once it is
        inlined."""
        if op.attrs.get("across") == self._axis and op.opdef.effect == COLLECTIVE:
            return op.name in _agreed()
        return (COLLECTIVE in op.attrs and not op.opdef.effect) or self._values.isdisjoint(op.operands)

    def _mark(self, values: Iterable[Value], given: Iterable[Value]) -> None:
        self._values.update(v for v, source in zip(values, given, strict=True) if source in self._values)

    def _branch(self, op: Op) -> None:
        if op.operands[0] in self._values:
            self._values.update(op.results)
        for region in op.regions:
            self._mark(op.results, region.block.terminator.operands)

    def _loop(self, op: Op) -> None:
        body, first = op.regions[-1].block, 1 if op.name == _LOOP else 0
        inits = op.operands[len(op.operands) - len(op.results) :]
        carried = body.args[first:]
        test = self._test(op)
        if test is not None and test in self._values:
            self._values.update((*op.results, *carried))
        for source in (inits, body.terminator.operands):
            self._mark(carried, source)
            self._mark(op.results, source)
        if test is not None:
            self._mark(op.regions[0].block.args, carried)

    def _region(self, op: Op) -> None:
        """A function in a region: its arguments are what it is given, and what it gives may differ where it does."""
        for region in op.regions:
            if not self._values.isdisjoint(op.operands) or op.attrs.get("across") == self._axis:
                self._values.update(region.block.args)
            if not self._values.isdisjoint(region.block.terminator.operands if region.block.ops else ()):
                self._values.update(op.results)
