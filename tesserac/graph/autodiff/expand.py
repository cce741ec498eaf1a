"""`graph.jvp` and `graph.vjp` become what computes them: forward mode, and for reverse mode the transpose of what is
linear in it.

Enters: one of these operations, whose region has only operators and control flow in it, and the functions of the
module. Leaves: values for its results, computed before where it stands. Operators say how their tangents go
(`ops/registry.py`, Note [One rule per operator]).
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.graph.autodiff.custom import Functions
from tesserac.graph.autodiff.dialect import ABSENT, TANGENT, VJP, begun_places, primal_operands, smooth
from tesserac.graph.autodiff.jvp import Jvp
from tesserac.graph.autodiff.linear import linear_ops
from tesserac.graph.autodiff.loss_scale import scale_of, scaled
from tesserac.graph.autodiff.partial_evaluation import PartialEvaluator
from tesserac.graph.autodiff.transpose import Transpose
from tesserac.graph.autodiff.writing import writer
from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import indices


class _Opened:
    """A derivative taken apart before where it stands. Until it is closed an operation holds what the function gives
    and the tangents of that, since both change hands while tangents are transposed."""

    def __init__(self, op: Op, tangents: Sequence[Value], functions: Functions) -> None:
        self._op = op
        builder = Builder.before(op)
        self._inputs = [builder.op("graph.input", (v,), (v.type,)) for v in primal_operands(op)]
        values = dict(zip(op.body.args, (made.result for made in self._inputs), strict=True))
        wrt = [self._inputs[place].result for place in indices(op, "wrt")]
        known = dict(zip(wrt, tangents, strict=True))
        forward = Jvp(builder, values, known, functions, reverse=op.name == VJP)
        outputs = forward.block(op.body)
        self._places = [place for place, v in enumerate(outputs) if v in forward.tangents]
        self._count = len(outputs)
        self._held = builder.op("graph.held", (*outputs, *(forward.tangents[outputs[p]] for p in self._places)))

    @property
    def ops(self) -> list[Op]:
        """The operations that compute values and tangents."""
        block = self._op.parent
        assert block is not None
        first = block.place(self._inputs[0]) if self._inputs else 0
        return block.ops[first : block.place(self._held)]

    @property
    def tangents(self) -> list[Value | None]:
        """One for each result that can have one; None where it is zero."""
        known = dict(zip(self._places, self._held.operands[self._count :], strict=True))
        outputs = self._op.body.terminator.operands
        return [known.get(place) for place, v in enumerate(outputs) if smooth([v])]

    def close(self) -> list[Value]:
        """What the function gives; its arguments are the values that it was called with."""
        for made in self._inputs:
            made.result.replace_all_uses(made.operands[0])
        outputs = self._held.operands[: self._count]
        self._held.erase()
        for made in self._inputs:
            made.erase()
        return list(outputs)


def expand_jvp(op: Op, functions: Functions) -> list[Value]:
    opened = _Opened(op, op.operands[len(op.body.args) :], functions)
    write = writer(Builder.before(op), {})
    pairs = zip(opened.tangents, smooth(op.body.terminator.operands), strict=True)
    tangents = [write.given(tangent, output) for tangent, output in pairs]
    return [*opened.close(), *tangents]


def expand_vjp(op: Op, functions: Functions) -> list[Value]:
    builder = Builder.before(op)
    wrt = [op.body.args[place] for place in indices(op, "wrt")]
    starts = [builder.op(TANGENT, (), (v.type,)) for v in wrt]
    opened = _Opened(op, [start.result for start in starts], functions)
    PartialEvaluator(functions).run(opened.ops, {start.result for start in starts})
    known = {start.result for start in starts}
    linear = linear_ops(opened.ops, known)
    back, write = Transpose(builder, known, functions), writer(builder, {})
    besides = op.operands[len(op.body.args) :]
    begun = begun_places(op)
    cotangents = besides[: len(besides) - len(begun)]  # results that are besides come last, and have none
    back.cotangents.update(zip((starts[place].result for place in begun), besides[len(cotangents) :], strict=True))
    absent = indices(op, ABSENT) if ABSENT in op.attrs else ()
    pairs = zip(opened.tangents[: len(cotangents)], cotangents, strict=True)
    for place, (tangent, cotangent) in enumerate(pairs):
        if tangent is not None and place not in absent:
            back.add(tangent, scaled(write, cotangent, scale_of(cotangent)))
    back.run(linear)
    found = [scaled(write, v, 1 / scale_of(v)) for v in back.given([start.result for start in starts])]
    outputs = opened.close()
    for made in (*reversed(linear), *starts):
        made.erase()
    return [*outputs, *found]
