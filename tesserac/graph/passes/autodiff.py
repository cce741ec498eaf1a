"""Derivatives become what computes them: forward mode, and for reverse mode the transpose of what is linear in it.

Innermost first, so that a derivative of a derivative meets only operators. Operators say how their tangents go
(`ops/registry.py`, Note [One rule per operator]).

Before:
    graph.func @f {entry = true, guards = [], params = ["x", "c"]} {
      ^(%x: tensor<[N], f32>, %c: tensor<[N], f32>):
        %y, %g = graph.vjp(%x, %c) {wrt = [0]} : tensor<[N], f32>, tensor<[N], f32> {
          ^(%a: tensor<[N], f32>):
            %0 = graph.sin(%a) : tensor<[N], f32>
            form.yield(%0)
        }
        graph.return(%g)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["x", "c"]} {
      ^(%x: tensor<[N], f32>, %c: tensor<[N], f32>):
        %0 = graph.cos(%x) : tensor<[N], f32>
        %g = graph.mul(%c, %0) : tensor<[N], f32>
        graph.return(%g)
    }
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.graph.autodiff.backward import Backward
from tesserac.graph.autodiff.custom import Functions, dissolve
from tesserac.graph.autodiff.dialect import JVP, VJP, primal_operands, smooth
from tesserac.graph.autodiff.forward import Forward
from tesserac.graph.autodiff.linear import linear_ops, separate
from tesserac.graph.autodiff.writing import writer
from tesserac.graph.dialect import CUSTOM
from tesserac.graph.passes.inline import custom_symbols, erase_unreached
from tesserac.graph.substitute import counters
from tesserac.ir.builder import Builder
from tesserac.ir.core import Module, Op, Value
from tesserac.ir.forms import indices
from tesserac.ir.ordering import order_effects
from tesserac.ir.passes import GRAPH, pass_
from tesserac.ir.rewrite import erase_dead


@pass_(GRAPH, GRAPH, "autodiff")
def autodiff(module: Module) -> Module:
    is_new = any(op.name in (JVP, VJP, CUSTOM) for op in module.walk())
    expanded: set[Op] = set()
    for function in list(module.ops):
        _expand(module, function, expanded)
    for function in module.ops:
        if function.attrs["entry"] is True:
            dissolve(function, Functions(module, counters(function)))
    erase_unreached(module)
    while erase_dead(module):
        pass
    if is_new:
        order_effects(module)  # what a rule asserts has its place in this program, not in that of the rule
    return module


def _expand(module: Module, function: Op, expanded: set[Op]) -> None:
    """Functions that this one may be given the bodies of come first."""
    if function in expanded:
        return
    expanded.add(function)
    for op in list(function.walk()):
        for symbol in custom_symbols(op) if op.name == CUSTOM else ():
            _expand(module, module.lookup(symbol), expanded)
    functions = Functions(module, counters(function))
    for op in reversed(list(function.walk())):  # what stands inside another comes first
        if op.name == JVP:
            _replace(op, _forward(op, functions))
        elif op.name == VJP:
            _replace(op, _reverse(op, functions))


def _replace(op: Op, values: Sequence[Value]) -> None:
    for old, new in zip(op.results, values, strict=True):
        new.name = new.name or old.name
        old.replace_all_uses(new)
    op.erase()


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
        forward = Forward(builder, values, known, functions, reverse=op.name == VJP)
        outputs = forward.block(op.body)
        self._places = [place for place, v in enumerate(outputs) if v in forward.tangents]
        self._count = len(outputs)
        self._held = builder.op("graph.held", (*outputs, *(forward.tangents[outputs[p]] for p in self._places)))

    @property
    def ops(self) -> list[Op]:
        """The operations that compute values and tangents."""
        block = self._op.parent
        assert block is not None
        first = block.ops.index(self._inputs[0]) if self._inputs else 0
        return block.ops[first : block.ops.index(self._held)]

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


def _forward(op: Op, functions: Functions) -> list[Value]:
    opened = _Opened(op, op.operands[len(op.body.args) :], functions)
    write = writer(Builder.before(op), {})
    pairs = zip(opened.tangents, smooth(op.body.terminator.operands), strict=True)
    tangents = [write.given(tangent, output) for tangent, output in pairs]
    return [*opened.close(), *tangents]


def _reverse(op: Op, functions: Functions) -> list[Value]:
    builder = Builder.before(op)
    wrt = [op.body.args[place] for place in indices(op, "wrt")]
    starts = [builder.op("graph.tangent", (), (v.type,)) for v in wrt]
    opened = _Opened(op, [start.result for start in starts], functions)
    separate(opened.ops, {start.result for start in starts})
    known = {start.result for start in starts}
    linear = linear_ops(opened.ops, known)
    back = Backward(builder, known, functions)
    for tangent, cotangent in zip(opened.tangents, op.operands[len(op.body.args) :], strict=True):
        if tangent is not None:
            back.add(tangent, cotangent)
    back.run(linear)
    found = back.given([start.result for start in starts])
    outputs = opened.close()
    for made in (*reversed(linear), *starts):
        made.erase()
    return [*outputs, *found]
